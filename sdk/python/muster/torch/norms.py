"""Batch norm whose results do not depend on the number of ranks.

Ghost mode: every micro-batch is normalised by its own statistics. The running statistics are
updated once per step, by the mean of the statistics of all micro-batches, which are summed as
integers like gradients.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch.nn.modules.batchnorm import _NormBase

from muster.torch.errors import ExactError
from muster.torch.reduction import Bucket, Entry

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # buffers of a layer


def running_norms(model: torch.nn.Module) -> list[tuple[str, Any]]:
    """The layers that have running statistics, with their names."""
    found = []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.SyncBatchNorm):
            raise ExactError(f"the layer {name} is a SyncBatchNorm, which sums floats in an order "
                             "that depends on the ranks: use nn.BatchNorm and Exact(..., "
                             "batch_norm=\"sync\")")
        if isinstance(module, _NormBase) and module.running_mean is not None:
            found.append((name, module))
    return found


def update_running(module: Any, mean: torch.Tensor, variance: torch.Tensor) -> None:
    """Moves a layer's running statistics towards those of a step."""
    factor = module.momentum
    if module.num_batches_tracked is not None:
        module.num_batches_tracked.add_(1)
        if factor is None:  # a cumulative average
            factor = 1.0 / float(module.num_batches_tracked)
    for running, value in ((module.running_mean, mean), (module.running_var, variance)):
        running.mul_(1 - factor).add_(value.to(running), alpha=factor)


class GhostNorms:
    """The running statistics of a model's batch norms during a step."""

    def __init__(self, norms: list[tuple[str, Any]], micro_batches: int,
                 device: torch.device) -> None:
        self.modules = [module for _, module in norms]
        entries = []
        for name, module in norms:
            for part in ("running_mean", "running_var"):
                # Sums of int64: a channel may be much smaller than the largest one of its layer.
                like = torch.zeros_like(module.running_mean, dtype=torch.float64, device=device)
                entries.append(Entry(f"{name}.{part}", like, "statistic"))
        self.bucket: Optional[Bucket] = \
            Bucket(entries, micro_batches) if entries else None
        self.calls = [0] * len(self.modules)  # local micro-batches of the step that a layer was in
        self._own: list[Any] = [None] * len(self.modules)  # of the layers that have borrowed
        self._seen: list[list[list[torch.Tensor]]] = [[] for _ in self.modules]
        self._lent: list[Any] = [None] * len(self.modules)
        # deepcopy() copies hooks, too, so each compares the layer that calls it with its own.
        for number, module in enumerate(self.modules):
            module.register_forward_pre_hook(
                lambda layer, _inputs, number=number: self._borrow(number, layer))
            module.register_forward_hook(
                lambda layer, _inputs, _output, number=number: self._keep(number, layer))
        self._active = False

    def _borrow(self, number: int, layer: Any) -> None:
        """Lets a layer in training mode write a micro-batch's statistics elsewhere (momentum 1)."""
        if not self._active or not layer.training or layer is not self.modules[number]:
            return
        own = self._own[number]
        if own is None:
            own = self._own[number] = (*map(layer._buffers.get, _STATISTICS), layer.momentum)
        if self._lent[number] is None:
            self._lent[number] = torch.zeros_like(own[0]), torch.zeros_like(own[1]), None
        layer._buffers.update(zip(_STATISTICS, self._lent[number]))
        object.__setattr__(layer, "momentum", 1.0)  # a module's own __setattr__ is slow

    def _keep(self, number: int, layer: Any) -> None:
        if layer is self.modules[number] and self._own[number] is not None:
            self._seen[number].append([lent.to(torch.float64, copy=True)
                                       for lent in self._lent[number][:2]])
            self._give_back(number)

    def _give_back(self, number: int) -> None:
        layer, own = self.modules[number], self._own[number]
        layer._buffers.update(zip(_STATISTICS, own))
        object.__setattr__(layer, "momentum", own[-1])
        self._own[number] = None

    def begin(self) -> None:
        """Before the first local micro-batch of a step."""
        self._active = True

    def give_back(self) -> None:
        """Gives the layers their running statistics back; further calls do nothing."""
        self._active = False
        for number, own in enumerate(self._own):
            if own is not None:
                self._give_back(number)
        self._lent = [None] * len(self.modules)
        self._seen = [[] for _ in self.modules]

    def begin_step(self) -> None:
        """Forgets the statistics of the step before."""
        self.calls = [0] * len(self.modules)
        if self.bucket:
            self.bucket.begin_step()

    def end_micro_batch(self) -> None:
        """Adds the statistics of a micro-batch. A layer that was called twice gives their mean."""
        if not self.bucket:
            return
        found: list[Optional[torch.Tensor]] = []
        for number, calls in enumerate(self._seen):
            for part in (0, 1):
                if len(calls) > 1:
                    found.append(torch.stack([call[part] for call in calls]).mean(0))
                else:
                    found.append(calls[0][part] if calls else None)
            self.calls[number] += bool(calls)
        self.bucket.add(found)
        self._seen = [[] for _ in self.modules]

    def commit(self, calls: list[int]) -> None:
        """Updates the running statistics from the step's sums, which are complete.

        calls: for each layer, in how many micro-batches of all ranks it was.
        """
        if not self.bucket:
            return
        self.bucket.finish([max(count, 1) for count in calls for _ in (0, 1)])
        for module, count, mean, variance in zip(self.modules, calls, self.bucket.parts[::2],
                                                 self.bucket.parts[1::2]):
            if count > 0:
                update_running(module, mean, variance)
