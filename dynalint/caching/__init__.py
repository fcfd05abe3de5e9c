"""Keep findings between runs, so that an unchanged project is not analysed again.

| module | what it does |
| --- | --- |
| `folders` | the files in a cache folder: written atomically, bounded in number and size |
| `stamp` | identifies the code that finds problems: dynalint, the rule packs, Python |
| `basis` | what a result rests on, and whether that is still so |
| `checks` | the result of a check: kept, and reported again |

Nothing here imports the analysis, the rules or libcst, which takes longer than the rest of a run whose findings are
kept. Everything is JSON, and a file that is missing, damaged or not dynalint's counts as missing.
"""
