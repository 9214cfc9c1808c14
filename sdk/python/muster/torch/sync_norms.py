"""Batch norm over the global batch (batch_norm="sync").

The local micro-batches go through the model in lockstep: each has a thread and a replica of the
model, which shares the weights. One thread runs at a time, until it reaches a batch norm. When all
are there, the statistics of all micro-batches of all ranks are put together, in the order of their
numbers, and the threads go on. One backward pass then runs through all replicas.
"""

from __future__ import annotations

import copy
import functools
import threading
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from muster.torch.batches import generator_states, seed_generators, set_generator_states
from muster.torch.errors import ExactError
from muster.torch.hooks import refuse_gradient
from muster.torch.norms import running_norms, update_running


class _Abandoned(BaseException):
    """Ends a thread whose step was given up."""


class _Runner(threading.Thread):
    """The forward pass of one micro-batch."""

    def __init__(self, turn: threading.Semaphore, seed: int, threads: int,
                 forward: Callable[[], Any]) -> None:
        super().__init__(name="muster-micro-batch", daemon=True)
        self.go, self._turn = threading.Semaphore(0), turn
        self._seed, self._threads, self._forward = seed, threads, forward
        self.layer: Optional[str] = None  # where it waits
        self.value: Any = None  # its input there; then the answer
        self.result: Any = None
        self.error: Optional[BaseException] = None
        self.abandoned = False

    def run(self) -> None:
        self.go.acquire()
        try:
            if not self.abandoned:
                torch.set_num_threads(self._threads)
                seed_generators(self._seed)
                self.result = self._forward()
        except _Abandoned:
            pass
        except BaseException as error:
            self.error = error
        self.layer = None
        self._turn.release()

    def meet(self, layer: str, value: torch.Tensor) -> torch.Tensor:
        """Called by its own thread: waits until all micro-batches are at this layer."""
        states = generator_states()
        self.layer, self.value = layer, value
        self._turn.release()
        self.go.acquire()
        if self.abandoned:
            raise _Abandoned
        set_generator_states(states)
        return self.value


class Lockstep:
    """The forward and backward passes of a step's local micro-batches, layer by layer together."""

    def __init__(self, exact: Any) -> None:
        self._exact = exact
        self._norms = {name: module for name, module in running_norms(exact.model)}
        for name, module in exact.model.named_modules():
            if isinstance(module, _InstanceNorm) and name in self._norms:
                raise ExactError(f"the layer {name} keeps running statistics of each sample, which "
                                 "batch_norm=\"sync\" cannot keep: use track_running_stats=False")
            if isinstance(module, _BatchNorm):
                self._norms[name] = module
        self._numbers = {name: i for i, name in enumerate(self._norms)}
        self._replicas: list[torch.nn.Module] = []
        self._runners: list[_Runner] = []
        self._found: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}

    def _make_replicas(self) -> None:
        """Copies of the model whose weights lie in the same memory, each with own gradients."""
        present = [p.data_ptr() for p in self._exact.model.parameters()]
        for replica in self._replicas:
            if [p.data_ptr() for p in replica.parameters()] != present:
                self._replicas = []
                break
        for index in range(len(self._replicas), len(self._exact.share)):
            memo: dict[int, Any] = {id(p): torch.nn.Parameter(p.detach(), p.requires_grad)
                                    for p in self._exact.model.parameters()}
            memo.update((id(b), b) for b in self._exact.model.buffers())
            replica = copy.deepcopy(self._exact.model, memo)
            for name, module in replica.named_modules():
                if name in self._norms:
                    module.forward = functools.partial(self._forward_of_norm, index, name, module)
            self._replicas.append(replica)
        for replica in self._replicas:
            replica.zero_grad(set_to_none=True)  # those of a step that failed
            for own, original in zip(replica.modules(), self._exact.model.modules()):
                own.training = original.training

    def _forward_of_norm(self, index: int, name: str, module: Any, x: torch.Tensor) -> torch.Tensor:
        if not module.training:
            return type(module).forward(module, x)
        module._check_input_dim(x)
        y = self._runners[index].meet(name, x)
        if not module.affine:
            return y
        shape = [1, -1] + [1] * (x.dim() - 2)
        return y * module.weight.view(shape).to(y) + module.bias.view(shape).to(y)

    def compute(self, loss_fn: Callable, own: list[Any]) -> list[torch.Tensor]:
        """Adds the gradients of the local micro-batches to the buckets; returns their metrics."""
        exact = self._exact
        self._make_replicas()
        self._found = {}
        turn = threading.Semaphore(0)
        self._runners = [
            _Runner(turn, exact.model_key(number), torch.get_num_threads(),
                    functools.partial(loss_fn, replica, samples))
            for number, replica, samples in zip(exact.share, self._replicas, own)]
        try:
            self._run_all(turn)
        finally:
            for runner in self._runners:
                runner.abandoned = True
                runner.go.release()
            for runner in self._runners:
                runner.join()
        results = [exact.split_loss(runner.result) for runner in self._runners]
        self._runners = []
        for replica in self._replicas:
            for name, parameter in replica.named_parameters():
                if parameter.grad is not None:
                    refuse_gradient(name, parameter)
        torch.autograd.backward([loss for loss, _ in results])
        self._take_gradients()
        return [number for _, numbers in results for number in numbers]

    def _run_all(self, turn: threading.Semaphore) -> None:
        for runner in self._runners:
            runner.start()
        while True:
            for runner in self._runners:
                runner.go.release()
                turn.acquire()
                if runner.error is not None:
                    raise runner.error
            layers = {runner.layer for runner in self._runners}
            if len(layers) > 1:
                raise ExactError(f"the micro-batches of a step are at different layers ("
                                 f"{', '.join(sorted(map(str, layers)))}): with batch_norm=\"sync\""
                                 " every micro-batch must pass the same batch norms")
            layer = layers.pop()
            if layer is None:
                return
            values = _SyncNormalise.apply(self, layer, *[r.value for r in self._runners])
            for runner, value in zip(self._runners, values):
                runner.value = value

    def _take_gradients(self) -> None:
        own = [dict(replica.named_parameters()) for replica in self._replicas]
        for name, parameter in self._exact.model.named_parameters():
            if parameter.grad is not None:
                raise ExactError(f"loss_fn computed a gradient of {name} in a model of its own: "
                                 "with batch_norm=\"sync\", loss_fn(model, samples) must call the "
                                 "model that it is given")
        for parameters in own:
            for bucket in self._exact.buckets:
                bucket.add([parameters[entry.name].grad for entry in bucket.entries])
            for parameter in parameters.values():
                parameter.grad = None

    # ---- statistics -----------------------------------------------------------------------------

    def gather(self, layer: str, rows: list[torch.Tensor]) -> torch.Tensor:
        """The rows of all micro-batches of the step in their order: [V, width], float64.

        Every rank adds its rows to zeros, so the sum over the ranks only puts rows together.
        """
        exact = self._exact
        table = torch.zeros(exact.micro_batches, rows[0].numel() + 1, dtype=torch.float64,
                            device=exact.device)
        for number, row in zip(exact.share, rows):
            table[number, :-1] += row.to(table)
            table[number, -1] = self._numbers[layer]
        if exact.world > 1:
            dist.all_reduce(table, group=exact.group)
            if bool((table[:, -1] != self._numbers[layer]).any()):
                raise ExactError(f"the ranks are at different batch norms (this one at {layer}): "
                                 "every rank must run the same program")
        return table[:, :-1]

    def keep_statistics(self, layer: str, mean: torch.Tensor, variance: torch.Tensor) -> None:
        """Keeps the mean and variance [channels] of a layer for commit()."""
        self._found.setdefault(layer, []).append((mean, variance))

    def commit(self) -> None:
        """Updates the running statistics after a step."""
        for name, found in self._found.items():
            module = self._norms[name]
            if module.running_mean is not None:
                means, variances = zip(*found)
                update_running(module, torch.stack(means).mean(0), torch.stack(variances).mean(0))

    def epsilon(self, layer: str) -> float:
        """The number that a layer adds to the variance."""
        return self._norms[layer].eps


def _by_channel(statistic: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return statistic.to(x.dtype).view([1, -1] + [1] * (x.dim() - 2))


class _SyncNormalise(torch.autograd.Function):
    """(x - mean) / deviation of several tensors [n, channels, ...] with common statistics."""

    @staticmethod
    def forward(ctx: Any, lockstep: Lockstep, layer: str, *inputs: torch.Tensor) -> Any:
        wide = [x if x.dtype == torch.float64 else x.float() for x in inputs]
        rows = []
        for x in wide:
            dims = [d for d in range(x.dim()) if d != 1]
            variance, mean = torch.var_mean(x, dims, unbiased=False)
            count = torch.full_like(mean, x.numel() // x.shape[1], dtype=torch.float64)
            rows.append(torch.cat([mean.double(), variance.double(), count]))
        means, variances, counts = lockstep.gather(layer, rows).chunk(3, dim=1)
        total = counts.sum(0)
        mean = (means * counts).sum(0) / total
        variance = ((variances + (means - mean) ** 2) * counts).sum(0) / total
        lockstep.keep_statistics(layer, mean, variance * total / (total - 1).clamp(min=1))
        scale = torch.rsqrt(variance + lockstep.epsilon(layer))
        outputs = tuple((x - _by_channel(mean, x)) * _by_channel(scale, x) for x in wide)
        ctx.lockstep, ctx.layer, ctx.dtypes = lockstep, layer, [x.dtype for x in inputs]
        ctx.save_for_backward(scale, total, *outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        scale, total, *outputs = ctx.saved_tensors
        rows = []
        for g, y in zip(gradients, outputs):
            dims = [d for d in range(y.dim()) if d != 1]
            rows.append(torch.cat([g.sum(dims).double(), (g * y).sum(dims).double()]))
        own, crossed = (ctx.lockstep.gather(ctx.layer, rows).sum(0) / total.repeat(2)).chunk(2)
        results = [((g - _by_channel(own, y) - y * _by_channel(crossed, y)) *
                    _by_channel(scale, y)).to(dtype)
                   for g, y, dtype in zip(gradients, outputs, ctx.dtypes)]
        return (None, None, *results)
