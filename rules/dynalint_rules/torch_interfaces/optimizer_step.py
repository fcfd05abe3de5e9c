"""DYN613: optimizers, schedulers, scalers and data loaders in compiled code."""

from __future__ import annotations

from dynalint.rulekit import Call, Rule

_SCALER = "scale step update unscale_ get_scale state_dict".split()
_SCALERS = ("torch.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.GradScaler")


class OptimizerStep(Rule):
    code = "DYN613"
    name = "optimizer-step"
    summary = "Stepping an optimizer inside a compiled function breaks the graph"
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
    message = "Dynamo does not trace `{callee}()`, so the graph breaks here"
    help = "call it outside the compiled code, or compile the optimizer step separately"
    refusal = "move the training loop out of the compiled function and compile the optimizer step separately"
