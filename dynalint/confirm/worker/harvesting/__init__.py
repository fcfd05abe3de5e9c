"""Real calls to targets, found by running the project's tests and the code in its documentation.

* `calls` intercepts calls to targets and confirms or records each call in a fork of the process.
* `eager_calls` makes a call without the compiler first.
* `devices` makes code that asks for a GPU run on the CPU.
* `recipes` writes calls as data, which other processes can use to recreate them.
* `snippets` runs code from documentation, statement by statement.
* `suites` runs selected tests with pytest.
* `wanted` decides whether a call is worth considering.
"""
