"""Gradients on their way from the backward pass into buckets."""

from __future__ import annotations

from typing import Any, Callable

import torch

from muster.torch.errors import ExactError
from muster.torch.reduction import Bucket


class GradientHooks:
    """Moves each bucket's gradients into its sums as soon as the backward pass has made all.

    In the last local micro-batch of a step, full buckets start their sums over the ranks, in the
    same order on every rank. The last bucket has nothing to overlap with, so it needs no hooks.
    Without `overlap` all of this happens after the backward pass.
    """

    def __init__(self, buckets: list[Bucket], parameters: list[list[torch.nn.Parameter]],
                 overlap: bool) -> None:
        self.buckets, self.parameters = buckets, parameters
        self._missing = [0] * len(buckets)
        self._armed = self._last = False
        self._group: Any = None
        self._works: list[Any] = []
        self._kept: list[Any] = []
        if overlap:
            for number, members in enumerate(parameters[:-1]):
                for parameter in members:
                    self._kept.append(call_after_gradient(parameter, self._hook_of(number)))

    def _hook_of(self, number: int) -> Callable[[], None]:
        def hook() -> None:
            if not self._armed:
                return  # a backward pass outside a step
            self._missing[number] -= 1
            if self._missing[number] == 0:
                self._take(number)
                if self._last:
                    self._start_full()
            elif self._missing[number] < 0:
                name = self.buckets[number].entries[0].name
                raise ExactError(
                    f"a parameter beside {name} received a gradient twice in one backward pass: "
                    "use checkpoint(..., use_reentrant=False), or Exact(..., overlap=False)")
        return hook

    def begin(self, last: bool, group: Any) -> None:
        """Before the backward pass of a micro-batch. last: full buckets may start their sums."""
        self._armed, self._last, self._group = True, last, group
        self._works = []
        for number, members in enumerate(self.parameters):
            self._missing[number] = len(members)
            for entry, parameter in zip(self.buckets[number].entries, members):
                if parameter.grad is not None:
                    refuse_gradient(entry.name, parameter)

    def _take(self, number: int) -> None:
        bucket, members = self.buckets[number], self.parameters[number]
        gradients = []
        for entry, parameter in zip(bucket.entries, members):
            gradient = parameter.grad
            if gradient is not None and gradient.layout != torch.strided:
                raise ExactError(f"the gradient of {entry.name} is sparse, which has no exact sum: "
                                 "make its layer with sparse=False")
            gradients.append(gradient)
            parameter.grad = None
        bucket.add(gradients)

    def _start_full(self) -> None:
        """Starts full buckets. The last one has no hooks, so it waits for start_rest()."""
        while self._missing[len(self._works)] <= 0:
            self._works.append(self.buckets[len(self._works)].start(self._group))

    def end(self) -> None:
        """After the backward pass: takes what no hook took."""
        self._armed = False
        for number in range(len(self.buckets)):
            if self._missing[number] > 0:
                self._missing[number] = 0
                self._take(number)

    def start_rest(self, group: Any) -> list[Any]:
        """Starts all sums over the ranks that have not started; returns the works of all."""
        while len(self._works) < len(self.buckets):
            self._works.append(self.buckets[len(self._works)].start(group))
        works, self._works = self._works, []
        return works


def refuse_gradient(name: str, parameter: torch.nn.Parameter) -> None:
    """Refuses a gradient of loss_fn's own; forgets zeros, which a zero_grad() left there."""
    if bool(parameter.grad.any()):
        raise ExactError(
            f"loss_fn called backward() itself, and the gradient of {name} would be lost: add the "
            "term to the loss that it returns, or use torch.autograd.grad()")
    parameter.grad = None


def call_after_gradient(parameter: torch.nn.Parameter, function: Callable[[], None]) -> Any:
    """Calls the function whenever a backward pass has written parameter.grad."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # torch >= 2.1
        return parameter.register_post_accumulate_grad_hook(lambda _: function())
    # The node that accumulates the gradient lives as long as someone refers to it.
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    node.register_hook(lambda *_: function())
    return node
