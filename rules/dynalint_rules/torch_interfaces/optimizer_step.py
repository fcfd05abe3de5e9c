"""DYN613: the loop around the model, inside of it: optimizers, schedules, loaders of data."""

from __future__ import annotations

from collections.abc import Iterable

from dynalint.rulekit import Call, Declined, Event, Project, Rewrite, Rule, Violation, leads_to_raise

_SCALER = "scale step update unscale_ get_scale state_dict".split()
_SCALERS = ("torch.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.GradScaler")


class OptimizerStep(Rule):
    code = "DYN613"
    name = "optimizer-step"
    summary = "stepping an optimizer inside of the compiled function ends the graph"
    gb = ("GB0025", "GB0008", "GB0007")
    events = (Call,)
    calls = frozenset(
        {
            "torch.optim.Optimizer.step",
            "torch.optim.Optimizer.zero_grad",
            "torch.optim.lr_scheduler.LRScheduler.step",
            "torch.utils.data.DataLoader",
            *(f"torch.optim.{name}.{method}" for name in ("SGD", "Adam", "AdamW") for method in ("step", "zero_grad")),
            *(f"torch.optim.{name}" for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "LBFGS")),
            *(f"{owner}.{method}" for owner in _SCALERS for method in _SCALER),
        }
    )

    def check(self, event: Event, project: Project) -> Iterable[Violation]:
        """Flag the call wherever it stands."""
        if isinstance(event, Call) and not leads_to_raise(event, project):
            yield Violation(
                event.node,
                f"`{event.callee.removeprefix('torch.')}()` belongs between graphs, and ends this one",
                help="step outside of the compiled code, or compile the step by itself",
            )

    def fix(self, event: Event, violation: Violation, project: Project) -> Rewrite | Declined | None:
        """Decline: the loop has to move."""
        return Declined("the training loop has to move out of the compiled function; compile the step by itself")
