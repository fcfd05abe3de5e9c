"""Keep findings between runs so that an unchanged project does not have to be analysed again.

| module | what it does | | --- | --- | | `folders` | stores files in a cache folder, written atomically and limited in
number and size | | `stamp` | identifies the code that finds problems: dynalint, the rule packs, Python | | `basis` |
records what a result depends on, and checks whether that is unchanged | | `checks` | stores the result of a check and
reports it again |

Nothing here imports the analysis, the rules or libcst, because importing them would take longer than the rest of a run
whose findings are cached. All files are JSON. If a file is missing, damaged or was not written by dynalint, it counts
as missing.
"""
