"""Follow calls from the project into the code of installed packages.

The project's own code is analysed as a whole. Installed code is only read where the project calls it, and each call is
analysed separately. The arguments of the call are known, so most tests of options have a single outcome. Nothing is
shared with the analysis of the project, so the result for a call does not depend on what else the project contains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dynalint.analysis import kinds as k
from dynalint.analysis.build import build_module
from dynalint.analysis.decorators import wrappers_of
from dynalint.analysis.disk import Disk
from dynalint.analysis.events import Event, InstalledCall
from dynalint.analysis.frame import Context, Environment, Frame
from dynalint.analysis.index import FunctionInfo, Import
from dynalint.analysis.interpreter import Interpreter
from dynalint.analysis.kinds import UNKNOWN, Kind
from dynalint.analysis.members import member
from dynalint.analysis.project import EXTERNAL, Project
from dynalint.analysis.source import parse_source
from dynalint.analysis.steps import Budget, Budgets

# The maximum number of steps for the analysis of one call.
_MOST_STEPS = 300_000
# Packages whose functions Dynamo does not have to trace, because they are registered with it.
_OPAQUE = frozenset({"einops", "optree"})
_CALLEE = "callee"
CALL = Path("<call>")
"""The path of the code that makes a call."""
# Decorators that leave a function as it is, or only run it in another mode.
_TRANSPARENT = frozenset(
    "abstractmethod cache cached_property classmethod contextmanager enable_grad final inference_mode lru_cache "
    "no_grad override overload property script script_if_tracing script_method staticmethod unused wraps".split()
)


@dataclass(eq=False)
class FollowedCall:
    """The result of following a call: the events that it cannot avoid, in the order in which they happen.

    `project` contains the code that was read. `extension` is the file of the extension module that contains the callee,
    if there is one. `cut` means that not all of the code could be analysed. `returns` is what is known about the
    result, without the classes and functions of the package.
    """

    project: Project
    events: list[Event] = field(default_factory=list)
    extension: Path | None = None
    cut: bool = False
    returns: Kind = UNKNOWN


class Installed:
    """The packages in some folders. `watched` selects the calls that become events, as for the project."""

    def __init__(
        self,
        folders: Sequence[Path],
        disk: Disk,
        options: Mapping[str, object],
        watched: Callable[[str], str | None],
    ) -> None:
        self.folders = tuple(folders)
        self._disk, self._options, self._watched = disk, options, watched
        self._known: dict[tuple[object, ...], FollowedCall | None] = {}

    def follow(self, call: InstalledCall) -> FollowedCall | None:
        """Return the result of following a call, or None if its code was not found or is unknown."""
        return self._followed(call.function, call.callee, call.maker, call.call, starred=call.starred)

    def result(
        self, function: FunctionInfo, callee: str, maker: k.Partial | None, call: k.Partial, *, starred: bool
    ) -> Kind:
        """Return the result of a call in `function`, as far as the code of the package shows it."""
        followed = self._followed(function, callee, maker, call, starred=starred)
        return UNKNOWN if followed is None else followed.returns

    def _followed(
        self, function: FunctionInfo, callee: str, maker: k.Partial | None, call: k.Partial, *, starred: bool
    ) -> FollowedCall | None:
        key = (callee, maker, call, starred)
        if key not in self._known:
            self._known[key] = self._follow(function, callee, maker, call, starred=starred)
        return self._known[key]

    def shown(self, path: Path) -> str:
        """Return the path of a file relative to the folder of packages that contains it."""
        folder = next((one for one in self.folders if path.is_relative_to(one)), None)
        return (path if folder is None else path.relative_to(folder)).as_posix()

    def _follow(
        self, function: FunctionInfo, name: str, maker: k.Partial | None, call: k.Partial, *, starred: bool
    ) -> FollowedCall | None:
        if not self.folders or name.partition(".")[0] in _OPAQUE:
            return None
        project = _Packages(roots=list(self.folders), disk=self._disk, options=self._options)
        interpreter = _CallInterpreter(project, self._watched)
        callee = _callee(interpreter, function, name, maker)
        if isinstance(callee, k.External):
            return FollowedCall(project, extension=self._extension(callee.name))
        if not isinstance(callee, (k.Function, k.Class, k.Instance)):
            return None
        context = _call(interpreter, function, callee, call, starred=starred)
        interpreter.note_unsettled()
        cut = bool(interpreter.budgets.left_out or interpreter.failures)
        returns = UNKNOWN if context.returns is k.NOTHING else k.outside(context.returns)
        return FollowedCall(project, list(_firm_events(context, {})), cut=cut, returns=returns)

    def _extension(self, name: str) -> Path | None:
        """Return the file of the extension module that contains a function or class."""
        *parents, module, _ = ["", *name.split(".")]
        for folder in (one.joinpath(*parents) for one in self.folders):
            file = self._disk.extension(folder, module) if module else None
            if file is not None:
                return folder / file
        return None


class _Packages(Project):
    """The code in the package folders that a call reaches."""

    def locate(self, name: str) -> Path | None:
        parts = name.split(".")
        if not name or parts[0] in EXTERNAL or parts[0] in _OPAQUE:
            return None
        return next((path for root in self.roots if (path := self._locate(root, parts)) is not None), None)


class _CallInterpreter(Interpreter):
    """Interprets the code that a call reaches. No other code calls these functions."""

    exact = True

    def __init__(self, project: Project, watched: Callable[[str], str | None]) -> None:
        super().__init__(project, watched)
        self.budgets = _OneBudget(_MOST_STEPS)
        self._frames: list[Frame] = []

    def interpret(self, context: Context) -> None:
        """Run a context once, in the same way as for the project."""
        depth = len(self._frames)
        super().interpret(context)
        del self._frames[depth:]

    def context_for(self, function: FunctionInfo, params: Environment) -> Context:
        """Return the context of a call. A call that may not be made is not followed, so that its result is unknown.

        It cannot contain an event on every path, and following all such calls takes four times as long.
        """
        if all(frame.certain and frame.condition is None for frame in self._frames):
            return super().context_for(function, params)
        return Context(function, params, returns=UNKNOWN)

    def _frame(self, context: Context) -> Frame:
        frame = super()._frame(context)
        if self._frames and self._frames[-1].context is context:
            del self._frames[-1]
        self._frames.append(frame)
        return frame

    def runs(self, function: FunctionInfo) -> bool:
        """Return whether calling a function runs it, as far as its decorators show."""
        return function.decorators <= _TRANSPARENT or bool(wrappers_of(self, function))

    def _is_open(self, function: FunctionInfo) -> bool:
        return False


class _OneBudget(Budgets):
    """A single budget for all files."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._all = Budget(most)

    def of(self, file: object) -> Budget:
        """Return the budget."""
        return self._all


def _callee(interpreter: Interpreter, function: FunctionInfo, name: str, maker: k.Partial | None) -> Kind:
    """Return the callee. The receiver of a method is a new object."""
    if maker is None:
        return _resolve(interpreter, name)
    type_, _, method = name.rpartition(".")
    cls = _resolve(interpreter, type_)
    if not isinstance(cls, k.Class):
        return UNKNOWN
    instance = k.lasting(_call(interpreter, function, cls, maker, starred=False).returns)
    if not isinstance(instance, k.Instance) or method == "__call__":
        return instance
    return member(Frame(interpreter, cls.cls.module), instance, method)


def _resolve(interpreter: Interpreter, name: str) -> Kind:
    """Return the kind of a dotted name, which packages may re-export."""
    first, *rest = name.split(".")
    kind = interpreter.scopes.imported(Import(first, None))
    for part in rest:
        if isinstance(kind, k.External):
            kind = k.external(f"{kind.name}.{part}")
            continue
        if not isinstance(kind, (k.Module, k.Class)):
            return UNKNOWN
        owner, module = kind, kind.module if isinstance(kind, k.Module) else kind.cls.module
        kind = member(Frame(interpreter, module), owner, part)
        if isinstance(kind, k.Unknown) and isinstance(owner, k.Module):
            kind = k.external(f"{module.name}.{part}")  # an extension module
    return kind


def _call(
    interpreter: Interpreter, function: FunctionInfo, callee: Kind, given: k.Partial, *, starred: bool
) -> Context:
    """Interpret a function that makes a call for `function`. Its first parameter is the callee."""
    params: Environment = {_CALLEE: callee}
    args, keywords = [], []
    for number, kind in enumerate(given.args):
        args.append(f"argument{number}")
        params[args[-1]] = kind
    for number, (name, kind) in enumerate(given.keywords):
        keywords.append(f"{name}=keyword{number}")
        params[f"keyword{number}"] = kind
    if starred:
        args.append("*rest")
        params["rest"] = k.Sequence("tuple", UNKNOWN)
    text = f"def call({', '.join(params)}):\n    return {_CALLEE}({', '.join([*args, *keywords])})\n"
    module = build_module("", parse_source(CALL, text.encode()), False)
    module.hierarchy = interpreter.project
    entry = module.functions[0]
    entry.caller = function
    context = interpreter.context_for(entry, params)
    interpreter.run(())
    return context


def _firm_events(context: Context, seen: dict[Context, None]) -> Iterator[Event]:
    """Return the events on every path through a call, by line. Events in callees count at the line of the call."""
    if context in seen:
        return
    seen[context] = None
    own = [(event.node.lineno, event) for key, event in context.events.items() if key in context.firm_events]
    calls = [(line, callee) for callee, line in context.firm_calls.items()]
    steps: list[tuple[int, Event | Context]] = sorted([*own, *calls], key=lambda pair: pair[0])
    for _, one in steps:
        if isinstance(one, Context):
            yield from _firm_events(one, seen)
        else:
            yield one
