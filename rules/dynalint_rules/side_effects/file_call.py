"""DYN410: reading and writing files and directories."""

from __future__ import annotations

from dynalint.rulekit import Call, Rule

_CALLS: dict[str, str] = {
    "builtins": "open",
    "io": "open StringIO BytesIO",
    "os": "listdir scandir walk makedirs mkdir remove rename replace rmdir unlink stat getcwd chdir system popen",
    "os.path": "exists isfile isdir islink getsize getmtime abspath realpath samefile",
    "pathlib.Path": "exists is_file is_dir read_text read_bytes write_text write_bytes open mkdir unlink rename "
    "touch stat iterdir glob rglob resolve cwd",
    "glob": "glob iglob",
    "shutil": "rmtree copy copy2 copyfile copytree move which disk_usage",
    "tempfile": "mkdtemp mkstemp TemporaryDirectory NamedTemporaryFile TemporaryFile",
    "torch": "save load",
    "torch.serialization": "save load",
    "numpy": "save savez savez_compressed savetxt load loadtxt genfromtxt fromfile",
    "json": "dump dumps load loads",
    "pickle": "dump dumps load loads",
    "csv": "reader writer",
}


class FileCall(Rule):
    code = "DYN410"
    name = "file-call"
    summary = "Accessing the file system breaks the graph"
    gb = ("GB0007", "GB0059", "GB0156", "GB0294", "GB0142")
    events = (Call,)
    calls = frozenset(f"{owner}.{name}" for owner, names in _CALLS.items() for name in names.split())
    message = "Dynamo does not trace `{callee}()`, so the graph breaks here"
    help = "move the call outside the compiled code"
    refusal = (
        "a graph cannot access files; read them before the call or in `__init__`, and return data that has to be "
        "written"
    )
