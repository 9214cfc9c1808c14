"""Names the layer behind torch's complaint about an operation without a deterministic form."""

from __future__ import annotations

import contextlib
import re
from typing import Any, Callable, Iterator, Optional

import torch

from muster.torch.errors import DeterminismError

_COMPLAINT = re.compile(r"^(\S+) does not have a deterministic implementation")


@contextlib.contextmanager
def explain_determinism(model: torch.nn.Module, forward: Callable[[], Any]) -> Iterator[None]:
    """Turns torch's complaint into a DeterminismError that names the operation and its layer."""
    try:
        yield
    except RuntimeError as error:
        found = _COMPLAINT.match(str(error))
        if not found:
            raise
        layer = find_layer(model, forward)
        place = f"the layer {layer}" if layer else "an operation outside the layers of the model"
        raise DeterminismError(
            f"{place} uses {found[1]}, which has no deterministic implementation on this device: "
            "replace it by an operation that has one (see torch.use_deterministic_algorithms), or "
            "call torch.use_deterministic_algorithms(True, warn_only=True) after Exact(...) and "
            "accept that the bits differ") from error


def find_layer(model: torch.nn.Module, forward: Callable[[], Any]) -> Optional[str]:
    """The innermost layer whose forward or backward pass raises the complaint."""
    names = {id(module): name or type(module).__name__ for name, module in model.named_modules()}
    running: list[str] = []
    calls: list[tuple[str, Any, Any]] = []

    def enter(module: Any, _inputs: Any) -> None:
        running.append(names.get(id(module), type(module).__name__))

    def leave(module: Any, inputs: Any, output: Any) -> None:
        calls.append((running.pop(), module, inputs))

    modules = torch.nn.modules.module
    handles = [modules.register_module_forward_pre_hook(enter),
               modules.register_module_forward_hook(leave)]
    try:
        forward()
    except RuntimeError as error:
        return running[-1] if running and _COMPLAINT.match(str(error)) else None
    finally:
        for handle in handles:
            handle.remove()
    for name, module, inputs in calls:  # inner layers come before those that contain them
        if complains(module, inputs):
            return name
    return None


def complains(module: Any, inputs: Any) -> bool:
    """Whether a backward pass of one layer alone raises the complaint."""
    try:
        own = [x.detach().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point()
               else x for x in inputs]
        output = module(*own)
        if isinstance(output, torch.Tensor) and output.requires_grad:
            torch.autograd.grad(output.sum(), [x for x in own if isinstance(x, torch.Tensor) and
                                               x.requires_grad] +
                                [p for p in module.parameters() if p.requires_grad],
                                allow_unused=True)
    except RuntimeError as error:
        return bool(_COMPLAINT.match(str(error)))
    except Exception:  # a layer that cannot run alone: another one is tried
        return False
    return False
