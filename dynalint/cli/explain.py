"""`dynalint explain`: what Dynamo makes of one model or function."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dynalint.cli.options import configuration_options
from dynalint.errors import DynalintError, UsageError

_EPILOG = """\b
Examples:
  dynalint explain model.py::Transformer
  dynalint explain package.model:Transformer --output-format html -o graphs.html
  dynalint explain model.py --backend inductor --device cuda
"""


@click.command(epilog=_EPILOG)
@click.argument("target")
@click.option("--output-format", "form", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@click.option(
    "-o",
    "--output-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file instead of standard output.",
)
@click.option(
    "--backend",
    type=click.Choice(["eager", "aot_eager", "inductor"]),
    default="eager",
    show_default=True,
    help="What compiles and runs the graphs while times are kept.",
)
@click.option("--no-advice", is_flag=True, help="Do not try which settings would help.")
@click.option("--export", is_flag=True, help="Also try `torch.export.export(strict=True)`.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Where to run code.")
@click.option("--confirm", is_flag=True, help="Run code even where no sandbox holds.")
@click.option("--python", metavar="PATH", help="The interpreter, with torch, that runs code.")
@configuration_options
def explain(target: str, form: str, output_file: Path | None, backend: str, **options: Any) -> int:
    """Show the graphs that Dynamo makes of one model or function, and where and why they split.

    TARGET is "path/to/file.py::Name" or "package.module:Name"; a file alone will do if it holds one model. It is run in
    a sandbox, with the declared example or with inputs that are worked out.
    """
    from dynalint.cli.activity import Activity
    from dynalint.cli.console import style_for, write
    from dynalint.cli.options import note_ignored, read_configuration
    from dynalint.explaining import explain, find_target
    from dynalint.report import Style

    configuration = read_configuration(options)
    directory = Path.cwd()
    found, settings, workspace = find_target(target, configuration, directory)
    note_ignored(workspace.settings, options)
    if workspace.settings.confirm == "never":
        raise UsageError(
            'explain runs code, which `confirm = "never"` in the configuration forbids; --confirm allows it.'
        )
    visible = not options["quiet"] and sys.stderr is not None and sys.stderr.isatty()
    with Activity(f"explaining {found.name}", enabled=visible) as progress:
        on_stage = (lambda stage: progress(0, 0, stage)) if progress is not None else None
        tried = {"advise": not options["no_advice"], "export": options["export"]}
        explanation = explain(found, settings, workspace, backend, on_stage, **tried)
    style = Style() if output_file else style_for(sys.stdout, options["color"])
    text = _rendered(explanation, form, style, verbose=options["verbose"])
    if output_file is None:
        write(text)
        return 0
    try:
        output_file.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    except OSError as fault:
        raise DynalintError(f"cannot write {output_file}: {fault.strerror or fault}.") from fault
    return 0


def _rendered(explanation: Any, form: str, style: Any, *, verbose: bool) -> str:
    if form == "json":
        from dynalint.report.json import document

        return document(explanation.to_json())
    from dynalint.explaining import html, text
    from dynalint.report.runners import in_text

    if form == "html":
        return html.render(explanation)
    return in_text(text.render(explanation, style, verbose=verbose))
