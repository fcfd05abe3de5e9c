"""Draw sentences for a blind reading: ours, mixed with those of other projects.

    python benchmarks/sentences.py SENTENCES KEY [--count 40] [--seed 0]

SENTENCES gets a numbered list to give to a reader, who marks what a native technical writer would not have written. KEY
gets the source of each number. Without the other projects' sentences, a reader marks a share of any text.

Our sentences come from the documentation, the rule pages, the docstrings and the messages, a quarter each. The others
come from the docstrings of installed packages.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_OTHERS = (
    *("torch/_dynamo", "torch/compiler", "torch/export", "torch/fx", "torch/nn/modules", "_pytest", "click"),
    *("distributed", "hypothesis", "libcst", "mypy", "rich"),
)
_FENCED = re.compile(r"```.*?```", re.DOTALL)
_NOT_PROSE = ("#", "|", "<", "!", "---", "    ", ">>>", "..", ":")
_MARKUP = re.compile(r">>>|\||::|:(?:attr|class|func|math|meth):")
# A message is neither a regular expression nor HTML, and unlike a list of names, it has one of these words.
_NO_MESSAGE = re.compile(r"\\|\(\?|</|\n")
_CLAUSE = re.compile(r"\b(?:a|an|the|is|are|to|not|of|by|it|be|as|has|have|cannot|or|on)\b")
_SHORTEST, _LONGEST = 6, 40


def sentences(text: str) -> Iterator[str]:
    """Yield the complete sentences in a text, without code and tables."""
    for paragraph in re.split(r"\n\s*\n", _FENCED.sub(" ", text)):
        if paragraph.lstrip("\n").startswith(_NOT_PROSE):
            continue
        prose = " ".join(re.sub(r"^\s*[-*]\s+", "", paragraph).split())
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z`])", prose):
            if (
                re.match(r"[A-Z`].*\.$", sentence)
                and not _MARKUP.search(sentence)
                and _SHORTEST <= len(sentence.split()) <= _LONGEST
            ):
                yield sentence


def in_documents(paths: Iterable[Path]) -> list[str]:
    """Return the sentences in Markdown files."""
    return [one for path in sorted(paths) for one in sentences(path.read_text(encoding="utf-8"))]


def in_docstrings(paths: Iterable[Path]) -> list[str]:
    """Return the sentences in the docstrings of Python files."""
    found: list[str] = []
    for path in sorted(paths):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                found += sentences(ast.get_docstring(node) or "")
    return found


def in_messages(paths: Iterable[Path]) -> list[str]:
    """Return the messages in Python files: texts other than docstrings, with an ellipsis for each value."""
    found: list[str] = []
    for path in sorted(paths):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
        bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (inner | bare):
                text = node.value
            else:
                continue
            words = len(text.split())
            if _CLAUSE.search(text) and not _NO_MESSAGE.search(text) and _SHORTEST <= words <= _LONGEST:
                found.append(text)
    return found


def drawn(count: int, seed: int) -> list[tuple[str, str]]:
    """Return `count` of our sentences and as many of others, shuffled, each with its source."""
    chosen = random.Random(seed)  # noqa: S311 - a draw, not a secret
    code = [*(_ROOT / "dynalint").rglob("*.py"), *(_ROOT / "rules").rglob("*.py")]
    ours = [
        in_documents([*_ROOT.glob("*.md"), *(_ROOT / "docs").glob("*.md")]),
        in_documents((_ROOT / "rules").rglob("*.md")),
        in_docstrings(code),
        in_messages(code),
    ]
    theirs = in_docstrings(path for name in _OTHERS for path in _folder(name).rglob("*.py"))
    shares = [count // len(ours) + (number < count % len(ours)) for number in range(len(ours))]
    rows = [("ours", one) for pool, share in zip(ours, shares, strict=True) for one in chosen.sample(pool, share)]
    rows += [("others", one) for one in chosen.sample(theirs, count)]
    chosen.shuffle(rows)
    return rows


def _folder(name: str) -> Path:
    package, _, rest = name.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed; run `./dev setup`")
    return Path(spec.origin).parent / rest


def main() -> None:
    """Write the two files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("key", type=Path)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = drawn(options.count, options.seed)
    texts = (f"{number}. {text}\n" for number, (_, text) in enumerate(rows, 1))
    options.sentences.write_text("".join(texts), encoding="utf-8")
    options.key.write_text(
        "".join(f"{number} {source}\n" for number, (source, _) in enumerate(rows, 1)), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
