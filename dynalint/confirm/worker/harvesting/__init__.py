"""Real calls of targets, found by running what the project has: its tests, and the code in its documentation.

calls       sees the calls of wanted targets and has each confirmed in a fork of the process
devices     has what asks for a GPU run on the CPU
snippets    runs pieces of code, statement by statement
suites      runs tests by pytest, those that are asked for
"""
