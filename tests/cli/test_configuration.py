"""Settings: where they come from, in which order they hold, and what is said of wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dynalint.config import OPTIONS, Configuration, Overrides, Selector, SettingsLayer, parse_layer
from dynalint.config.selection import select
from dynalint.config.toml import parse_toml
from dynalint.errors import ConfigError

Run = Callable[..., Any]
KNOWN = ("DYN101", "DYN102", "DYN401", "DYN901", "DYN902")


def pyproject(text: str, folder: str = ".") -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder, "pyproject.toml").write_text(f"[project]\nname = 'x'\n\n[tool.dynalint]\n{text}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('selct = ["DYN"]', 'pyproject.toml:5: unknown key "selct" (did you mean `select`?).'),
        ("\n\nper_file_ignores = {}", 'pyproject.toml:7: unknown key "per_file_ignores" (did you mean `per-file-ignores`?).'),
        ("nonsense = 1", 'pyproject.toml:5: unknown key "nonsense"; `dynalint config show` lists them.'),
        ("select = 3", "pyproject.toml:5: `select` must be a list, not 3."),
        ('select = [\n  "DYN1",\n  4,\n]', "pyproject.toml:7: each value of `select` must be a string that is not empty, not 4."),
        (
            'ignore = [\n  "DYN4",\n  "DNY101",\n]',
            'pyproject.toml:7: no rule has the code or prefix "DNY101" (did you mean `DYN101`?).',
        ),
        (
            'per-file-ignores = {"tests/*" = ["DYN6"]}',
            'pyproject.toml:5: no rule has the code or prefix "DYN6"; `dynalint rule --all` lists them.',
        ),
        (
            '[tool.dynalint.per-file-ignores]\n"a" = []\n"tests/*" = "DYN1"',
            'pyproject.toml:7: `tests/*` in `per-file-ignores` must be a list, not "DYN1".',
        ),
        ('confirm = "allways"', 'pyproject.toml:5: `confirm` must be one of "auto", "always", "never" (did you mean `always`?), not "allways".'),
        ("force-exclude = 1", "pyproject.toml:5: `force-exclude` must be true or false, not 1."),
        ("jobs = true", "pyproject.toml:5: `jobs` must be a positive integer, not true."),
        ("jobs = 0", "pyproject.toml:5: `jobs` must be a positive integer, not 0."),
        ("timeout = 0", "pyproject.toml:5: `timeout` must be a positive number of seconds, not 0."),
        ('torch = "newest"', 'pyproject.toml:5: `torch` must be a release such as "2.13" or a range such as ">=2.6,<2.14", not "newest".'),
        ('roots = "all"', 'pyproject.toml:5: `roots` must be "modules", "explicit" or a list of names like "package.module:Name", not "all".'),
        ('[tool.dynalint.examples]\n"Model" = "x:y"', 'pyproject.toml:6: `Model` in `examples` must be a name like "package.module:Name" or "path/file.py:Name", not "Model".'),
        ("select = [", "pyproject.toml:5: not valid TOML: Invalid value"),
        ('extend = "../base.toml"', "pyproject.toml:5: `extend` refers to a file that does not exist: ../base.toml."),
        ('extend = "pyproject.toml"', "pyproject.toml:5: `extend` is circular: it leads back to pyproject.toml."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(check: Run, model: Path, text: str, message: str) -> None:
    pyproject(text)
    ran = check()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}")
    assert ran.err.count("\n") == 1


def test_other_peoples_broken_files_are_not_ours(check: Run, model: Path) -> None:
    Path("pyproject.toml").write_text("[tool.black\n")
    assert check().code == 1
    Path("pyproject.toml").write_text("[tool.black] # not dynalint\nx = 1")
    assert check().code == 1


def test_the_nearest_file_holds_and_extends(check: Run, model: Path) -> None:
    Path("src/deep").mkdir(parents=True)
    for folder in ("src", "src/deep"):
        Path(folder, "m.py").write_text(model.read_text())
    pyproject('ignore = ["DYN101"]')
    Path("src/dynalint.toml").write_text('extend = "../pyproject.toml"\nextend-ignore = ["DYN401"]')
    Path("src/deep/pyproject.toml").write_text('[tool.dynalint]\nselect = ["DYN101"]')
    Path("src/pyproject.toml").write_text("[tool.dynalint]\nselect = []")  # dynalint.toml comes first
    assert check().places == ["model.py:9 DYN401", "src/deep/m.py:7 DYN101"]
    assert check("src/deep/m.py", "--isolated").places == ["src/deep/m.py:7 DYN101", "src/deep/m.py:9 DYN401"]
    assert check("src/deep", "--config", "pyproject.toml").places == ["src/deep/m.py:9 DYN401"]


def test_include_names_the_default_paths(check: Run, model: Path) -> None:
    Path("lib").mkdir()
    Path("lib/m.py").write_text(model.read_text())
    pyproject('include = ["lib"]\nselect = ["DYN1"]')
    assert check().places == ["lib/m.py:7 DYN101"]
    assert check("model.py").places == ["model.py:7 DYN101"]


def test_per_file_ignores(check: Run, model: Path) -> None:
    for path in ("tests/a/test_m.py", "src/m.py"):
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text(model.read_text())
    pyproject('per-file-ignores = {"tests/**" = ["DYN4"], "!src/**" = ["DYN1"], "*odel.py" = ["DYN"]}')
    assert check().places == ["src/m.py:7 DYN101", "src/m.py:9 DYN401"]
    assert check("--per-file-ignores", "src/*:DYN1,src/*:DYN401,*.py:DYN101").places == [
        "model.py:9 DYN401",
        "tests/a/test_m.py:9 DYN401",
    ]
    assert check("--per-file-ignores", "DYN1").code == 2


def test_the_command_line_holds_over_the_file(check: Run, model: Path) -> None:
    pyproject('select = ["DYN4"]\nignore = ["DYN101"]')
    assert check().places == ["model.py:9 DYN401"]
    assert check("--select", "DYN1").places == ["model.py:7 DYN101"]
    assert check("--extend-select", "DYN1").places == ["model.py:7 DYN101", "model.py:9 DYN401"]
    assert check("--ignore", "DYN4").places == []
    assert check("--config", 'select = ["DYN1"]').places == ["model.py:7 DYN101"]
    assert check("--config", 'select = ["DYN1"]', "--extend-ignore", "DYN101").places == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config", "selct = 1"], "--config 'selct = 1': unknown key"),
        (["--config", "x = ["], "neither a file nor a setting in TOML"),
        (["--config", "a.toml", "--config", "b.toml"], "only one configuration file"),
        (["--select", "DYN1,NOPE"], '--select: no rule has the code or prefix "NOPE"'),
        (["--torch", "2.x"], "--torch: `torch` must be a release"),
    ],
)
def test_wrong_options_name_themselves(check: Run, model: Path, arguments: list[str], words: str) -> None:
    Path("a.toml").write_text("")
    Path("b.toml").write_text("")
    ran = check(*arguments)
    assert ran.code == 2
    assert words in ran.err


def test_environment(dynalint: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyproject('output-format = "full"\njobs = 7')
    monkeypatch.setenv("DYNALINT_OUTPUT_FORMAT", "json-lines")
    monkeypatch.setenv("DYNALINT_JOBS", "3")
    monkeypatch.setenv("DYNALINT_NO_CACHE", "1")
    monkeypatch.setenv("DYNALINT_CACHE_DIR", "/tmp/there")
    assert len(dynalint("check", "--static").out.splitlines()) == 2
    settings = dynalint("config", "show", "--output-format", "json").json["settings"]
    assert settings["jobs"] == {"value": 3, "origin": "DYNALINT_JOBS"}
    assert settings["cache"] == {"value": False, "origin": "DYNALINT_NO_CACHE"}
    assert settings["cache-dir"]["value"].endswith("/tmp/there")
    monkeypatch.setenv("DYNALINT_JOBS", "many")
    ran = dynalint("check", "--static")
    assert (ran.code, ran.err) == (2, 'error: DYNALINT_JOBS: `jobs` must be a positive integer, not "many".\n')


def test_config_show(dynalint: Run, model: Path) -> None:
    pyproject(
        'ignore = ["DYN4"]\nextend-exclude = ["old"]\npython = ".venv/bin/python"\n'
        '[tool.dynalint.per-file-ignores]\n"*.py" = ["DYN1"]\n[tool.dynalint.examples]\n"a:B" = "c:d"\n'
    )
    assert dynalint("trust").code == 0
    ran = dynalint("config", "show", "model.py", "--config", 'ignore = ["DYN902"]')
    lines = ran.out.splitlines()
    assert lines[0] == "# Settings for model.py, from pyproject.toml."
    shown = {" ".join(line.split()) for line in lines}
    assert shown >= {
        """ignore = ["DYN4", "DYN902"] # pyproject.toml:5, --config 'ignore = ["DYN902"]'""",
        'extend-exclude = ["old"] # pyproject.toml:6',
        'python = ".venv/bin/python" # pyproject.toml:7',
        'per-file-ignores = {"*.py" = ["DYN1"]} # pyproject.toml:8',
        'examples = {"a:B" = "c:d"} # pyproject.toml:10',
        'confirm = "auto"',
        "# torch is not set",
        "# Enabled rules: DYN001, DYN002, DYN012, DYN901",
    }
    values = parse_toml(ran.out, "shown").values  # what is shown is a configuration itself
    record = dynalint("config", "show", "model.py", "--output-format", "json").json
    assert record["path"] == "model.py"
    assert record["config_file"] == "pyproject.toml"
    assert record["rules"] == ["DYN001", "DYN002", "DYN012", "DYN901", "DYN902"]
    assert {key: held["value"] for key, held in record["settings"].items() if held["value"] is not None} == {
        **values,
        "ignore": ["DYN4"],
    }
    assert dynalint("config", "show", "nowhere").code == 2
    assert dynalint("config", "show").out.startswith("# Settings for ., from pyproject.toml.")


def selected(*layers: dict[str, Sequence[str]]) -> set[str]:
    parsed = [{key: [Selector(text) for text in texts] for key, texts in layer.items()} for layer in layers]
    return set(select(parsed, KNOWN, [Selector("ALL")]).enabled) - {"DYN901"}


def test_the_longer_prefix_wins_in_one_layer() -> None:
    assert selected({"select": ["DYN1"], "ignore": ["DYN101"]}) == {"DYN102"}
    assert selected({"select": ["DYN101"], "ignore": ["DYN1"]}) == {"DYN101"}
    assert selected({"select": ["ALL"], "ignore": ["DYN"], "extend-select": ["DYN4"]}) == {"DYN401"}
    assert selected({"select": ["DYN1"], "ignore": ["DYN1"]}) == set()


def test_a_later_layer_starts_over_if_it_selects() -> None:
    assert selected({"ignore": ["DYN1"]}, {"select": ["DYN"]}) == {"DYN101", "DYN102", "DYN401", "DYN902"}
    assert selected({"select": ["DYN1"]}, {"ignore": ["DYN101"]}) == {"DYN102"}
    assert selected({"select": ["DYN1"]}, {"extend-select": ["DYN4"]}) == {"DYN101", "DYN102", "DYN401"}
    assert selected({"select": ["DYN1"]}, {"select": []}) == set()


def test_fixable() -> None:
    layers = [{"fixable": [Selector("DYN1"), Selector("DYN4")]}, {"unfixable": [Selector("DYN101")]}]
    assert select(layers, KNOWN, [Selector("ALL")]).fixable == {"DYN102", "DYN401"}


def test_an_example_wants_two_targets(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a name like"):
        parse_layer({"examples": {"pkg.mod:Model": "tests/examples"}}, tmp_path, str)


def test_paths_start_from_the_file_they_stand_in(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "dynalint.toml").write_text('include = ["src"]\nexclude = ["gen"]\npython = "bin/python"')
    own = tmp_path / "dynalint.toml"
    own.write_text('extend = "base/dynalint.toml"\nextend-exclude = ["old"]')
    settings = Configuration(Overrides(file=own), KNOWN, tmp_path).for_directory(tmp_path)
    assert settings.include == (tmp_path / "base" / "src",)
    assert settings.python == tmp_path / "base" / "bin" / "python"
    assert [(glob.base, glob.pattern) for glob in (*settings.exclude, *settings.extend_exclude)] == [
        (tmp_path / "base", "gen"),
        (tmp_path, "old"),
    ]
    assert settings.root == tmp_path


def test_settings_of_a_run_are_those_of_what_holds_all_paths(tmp_path: Path) -> None:
    for folder, seconds in ((".", 1), ("a", 2), ("b", 3)):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "dynalint.toml").write_text(f"timeout = {seconds}")
    (tmp_path / "a" / "x.py").write_text("")
    configuration = Configuration(Overrides((SettingsLayer({}, {}),)), KNOWN, tmp_path)
    assert configuration.for_run([]).timeout == 1
    assert configuration.for_run([tmp_path / "a" / "x.py"]).timeout == 2
    assert configuration.for_run([tmp_path / "a", tmp_path / "b"]).timeout == 1


def test_lines_of_toml() -> None:
    text = (
        "# [tool.x]\n"
        "a = '''\n[b]\n''' # c\n"
        "[[list]]\n"
        'x = ["]", # ]\n  "[",\n  {k = """a " b"""},\n]\n'
        '"q.r".s = 1979-05-27T07:32:00Z\n'
        "[ tool . 'my tool' ]\n"
        "y.z = { p = [1,\n 2], q = 3 }"
    )
    document = parse_toml(text, "x")
    assert {path: document.line(path) for path in document.offsets} == {
        ("a",): 2,
        ("list",): 5,
        ("list", "x"): 6,
        ("list", "x", 0): 6,
        ("list", "x", 1): 7,
        ("list", "x", 2): 8,
        ("list", "x", 2, "k"): 8,
        ("list", "q.r"): 10,
        ("list", "q.r", "s"): 10,
        ("tool",): 11,
        ("tool", "my tool"): 11,
        ("tool", "my tool", "y"): 12,
        ("tool", "my tool", "y", "z"): 12,
        ("tool", "my tool", "y", "z", "p"): 12,
        ("tool", "my tool", "y", "z", "p", 0): 12,
        ("tool", "my tool", "y", "z", "p", 1): 13,
        ("tool", "my tool", "y", "z", "q"): 13,
    }
    assert document.line(("tool", "my tool", "unknown")) == 11


def test_options_about_files(check: Run, model: Path) -> None:
    Path("lib").mkdir()
    Path("lib/m.py").write_text(model.read_text())
    pyproject('extend-exclude = ["model.py"]\nper-file-ignores = {"lib/*" = ["DYN4"]}')
    assert check().places == ["lib/m.py:7 DYN101"]
    assert check("--extend-exclude", "lib").places == []
    assert check("--exclude", "nothing").places == ["lib/m.py:7 DYN101"]
    assert check("--extend-per-file-ignores", "*.py:DYN1").places == []


def test_a_file_to_write_to_by_the_environment(check: Run, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNALINT_OUTPUT_FILE", "out.json")
    assert check().out == ""
    assert len(json.loads(Path("out.json").read_text())) == 2


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("", True),
        ('extend = "base.toml"\nselect = ["ALL", "D", "DYN1", "DYN401"]\nignore = []', True),
        ('select = ["NOPE"]', False),
        ('select = "DYN1"', False),
        ("selct = []", False),
        ('per-file-ignores = {"!src/**" = ["DYN1"]}', True),
        ('per-file-ignores = {"src" = "DYN1"}', False),
        ('roots = "modules"', True),
        ('roots = ["model:Model", "model.py:Model"]', True),
        ('roots = ["a.b"]', False),
        ('roots = "some"', False),
        ('torch = ">=2.6,<2.14"', True),
        ('torch = "new"', False),
        ("timeout = 0.5\njobs = 1\nmemory = 100\ncache = false", True),
        ("jobs = 0", False),
        ("jobs = true", False),
        ("timeout = 0", False),
        ('cache = "no"', False),
        ('output-format = "sarif"\nbaseline = "b.json"\npython = "python3"', True),
        ('output-format = "xml"', False),
        ('[examples]\n"a:B" = "c:d"', True),
        ('[examples]\n"a:B" = "c"', False),
    ],
)
def test_the_schema_takes_what_is_read(check: Run, dynalint: Run, model: Path, text: str, right: bool) -> None:
    Path("base.toml").write_text("")
    Path("b.json").write_text('{"version": 1, "findings": []}')
    Path("dynalint.toml").write_text(text)
    assert (check().code != 2) is right
    schema = dynalint("config", "schema").json
    validator = jsonschema.Draft7Validator(schema)
    validator.check_schema(schema)
    assert validator.is_valid(parse_toml(text, "").values) is right


def test_the_schema_has_every_setting(dynalint: Run) -> None:
    schema = dynalint("config", "schema").json
    assert set(schema["properties"]) == {"extend", *OPTIONS}
    assert all(held["description"].endswith(".") for held in schema["properties"].values())
    assert schema["properties"]["select"]["default"] == ["ALL"]
