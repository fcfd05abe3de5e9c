"""`dynalint explain`, which shows how Dynamo compiles a model or function."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from dynalint.cli.options import configuration_options, confirm_from
from dynalint.errors import DynalintError, UsageError

_EPILOG = """\b
Examples:
  dynalint explain model.py::Transformer
  dynalint explain package.model:Transformer --output-format html -o graphs.html
  dynalint explain model.py --device cuda
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
@click.option("--no-advice", is_flag=True, help="Do not try out which Dynamo settings would help.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="The device to run code on.")
@click.option("--confirm", is_flag=True, help="Run code even if there is no working sandbox.")
@click.option("--python", metavar="PATH", help="The interpreter to run code with. It must have torch.")
@confirm_from
@configuration_options
def explain(target: str, form: str, output_file: Path | None, **options: Any) -> int:
    """Show the graphs that Dynamo compiles for a model, and why they break.

    TARGET is "path/to/file.py::Name" or "package.module:Name". If TARGET is a file that contains one model, dynalint
    explains this model. If the file contains more than one, it lists the breaks in each of them. dynalint runs the
    target in a sandbox, with the example that you declared, a call from the project's tests or documentation, or
    generated inputs.
    """
    from dynalint.cli.activity import Activity
    from dynalint.cli.console import style_for, write
    from dynalint.cli.options import note_ignored, read_configuration
    from dynalint.explaining import NotExplainedError, explain, find_targets
    from dynalint.report import Style
    from dynalint.report.style import visible

    configuration = read_configuration(options)
    directory = Path.cwd()
    targets, settings, workspace = find_targets(target, configuration, directory)
    note_ignored(workspace.settings, options)
    if workspace.settings.confirm == "never":
        raise UsageError(
            'explain runs code, but the configuration contains `confirm = "never"`; pass --confirm to run it anyway.'
        )
    several = len(targets) > 1
    if several and form != "text":
        raise UsageError(
            f"{target} contains {len(targets)} models and functions, but {form} only supports one; name it, as in "
            f"{target}::{targets[0].qualname}."
        )
    style = Style() if output_file else style_for(sys.stdout, options["color"])
    animated = not options["quiet"] and sys.stderr is not None and sys.stderr.isatty()
    tried = {"advise": not (options["no_advice"] or several)}
    text = ""
    for found in targets:
        with Activity(f"explaining {found.name}", enabled=animated) as progress:
            on_stage = partial(progress, 0, 0) if progress is not None else None
            try:
                explanation = explain(found, settings, workspace, on_stage, **tried)
            except NotExplainedError as fault:
                if not several:
                    raise
                text += f"{visible(found.name)}: {visible(str(fault))}\n"
                continue
        text += _rendered(explanation, form, style, verbose=options["verbose"], brief=several)
    if several:
        text += f"To see one of them in full, run `dynalint explain {target}::{targets[0].qualname}`.\n"
    if output_file is None:
        write(text)
        return 0
    try:
        output_file.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    except OSError as fault:
        raise DynalintError(f"cannot write {output_file}: {fault.strerror or fault}.") from fault
    return 0


def _rendered(explanation: Any, form: str, style: Any, *, verbose: bool, brief: bool) -> str:
    if form == "json":
        from dynalint.report.json import document

        return document(explanation.to_json())
    from dynalint.explaining import html, text
    from dynalint.report.runners import in_text

    if form == "html":
        return html.render(explanation)
    return in_text(text.brief(explanation, style) if brief else text.render(explanation, style, verbose=verbose))
