"""The documentation against the code: links, codes, options and settings exist, generated parts are current."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
import yaml

from dynalint.cli import cli
from dynalint.config.settings import OPTIONS
from dynalint.config.toml import parse_toml
from dynalint.rulebook.catalogue import catalogue, known_codes
from tests.in_process import in_process

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "https://github.com/dynalint/dynalint"
PAGES = sorted(
    page for pages in ("*.md", "docs/*.md", "editors/*/*.md", "examples/**/*.md") for page in ROOT.glob(pages)
)
WRITTEN = sorted([*PAGES, *(ROOT / "docs" / "rules").glob("*.md")])


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(text: str, language: str) -> Iterator[str]:
    """The fenced blocks of a language."""
    yield from re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(command: click.Command, prefix: str = "dynalint") -> Iterator[tuple[str, set[str]]]:
    """Every command with its options."""
    yield prefix, {text for option in command.params for text in (*option.opts, *option.secondary_opts)}
    if isinstance(command, click.Group):
        for word, inner in command.commands.items():
            yield from commands(inner, f"{prefix} {word}")


@pytest.mark.dynamo
@pytest.mark.slow
def test_generated_pages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands in the README run in this process, which has a worker server."""
    spec = spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    script: Any = module_from_spec(spec)
    spec.loader.exec_module(script)

    def run(command: Sequence[str], cwd: str, env: Mapping[str, str], **_: object) -> object:
        return in_process(command[3:], Path(cwd), env)

    monkeypatch.setattr(script, "subprocess", SimpleNamespace(run=run, DEVNULL=None))
    assert not list(script.out_of_date(script.pages())), "run scripts/generate_docs.py"


def test_rules_have_a_fix_where_an_example_has_one() -> None:
    for code, entry in catalogue().items():
        if entry.examples:
            assert entry.fix == any(example.fixed is not None for example in entry.examples), code


@pytest.mark.parametrize("path", WRITTEN, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"(?:\]\(|^\[[\w-]+\]: )([^)#\s]+)", prose, flags=re.MULTILINE):
        if here := re.match(rf"{SOURCE}/(?:blob|tree)/main/(.*)", target):
            assert (ROOT / here[1]).exists(), target
        elif not target.startswith(("http://", "https://")):
            assert path.name != "README.md" or path.parent != ROOT, f"the package index cannot follow {target}"
            assert (path.parent / target).exists(), target


def test_the_readme_names_each_link_it_uses() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    used = set(re.findall(r"\]\[([\w-]+)\]", text))
    assert used
    assert used == set(re.findall(r"^\[([\w-]+)\]: ", text, flags=re.MULTILINE))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_codes_exist(path: Path) -> None:
    for code in re.findall(r"\bDYN\d+\b", path.read_text(encoding="utf-8")):
        assert any(full.startswith(code) for full in known_codes()), code


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_commands_and_options_exist(path: Path) -> None:
    known = dict(commands(cli))
    everywhere = {option for options in known.values() for option in options}
    text = path.read_text(encoding="utf-8")
    for line in re.findall(r"\bdynalint +[a-z][^`\n|]*", text):
        # What comes after "--" is a command of the user's own.
        words = line.split("#")[0].split(" -- ")[0].split()
        command = next((" ".join(words[:count]) for count in (3, 2) if " ".join(words[:count]) in known), None)
        if command is None:
            continue
        for word in words:
            if re.fullmatch(r"--?[a-z][\w-]*", word):
                assert word in known[command] | {"--help"}, f"{command} has no {word}"
    for option in re.findall(r"`(--[a-z][\w-]*)", text):
        assert option in everywhere | {"--no-skips"}, option


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_blocks_can_be_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for block in blocks(text, "python"):
        ast.parse(block if not block.startswith("if ") else f"{block.rstrip()}\n    pass\n")
    for block in blocks(text, "yaml"):
        yaml.safe_load(block)
    for block in blocks(text, "toml"):
        settings = parse_toml(block, name(path)).values.get("tool", {}).get("dynalint", {})
        assert settings.keys() <= OPTIONS.keys() | {"extend"}
