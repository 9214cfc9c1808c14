"""Bit-exact data parallelism: the weights are the same bits on any number of ranks.

Every global batch consists of V = global_batch / micro_batch micro-batches, whose shapes and order
of samples do not depend on the ranks. The ranks share them, evenly or not, and sum their gradients
as integers (reduction.py). Everything else is a function of (seed, step, micro-batch).
"""

from __future__ import annotations

import inspect
import math
import os
import warnings
import zlib
from typing import Any, Callable, Iterator, Optional, Union

import torch
import torch.distributed as dist

from muster.torch.batches import (FIRST_TWICE, Batch, Loader, MicroBatches, count_samples,
                                  fetch_samples, kept_generators, map_tensors, seed_generators)
from muster.torch.errors import DeterminismError, ExactError, StateError
from muster.torch.hooks import GradientHooks
from muster.torch.norms import GhostNorms, running_norms
from muster.torch.operations import explain_determinism
from muster.torch.order import (EVALUATION_DRAW, MODEL_DRAW, PAUSE_DRAW, SampleOrder, draw_key,
                                share)
from muster.torch.reduction import Bucket, Entry, cut_buckets, fall_exponents, judge_magnitudes
from muster.torch.rows import fill_row, gather_rows, refuse_disagreement, world_of
from muster.torch.state import (FORMAT, check_model, check_optimizer, checksum_of, fingerprint,
                                sha256_of)
from muster.torch.sync_norms import Lockstep

LossFn = Callable[[torch.nn.Module, Any], Union[torch.Tensor, dict]]
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
_STATE = "the weights or the optimizer state (a checksum)"
_DATA = "the data: samples that every rank has loaded (a checksum)"
_LOW_BITS = 0x7FFFFFFF
_STEPS_TO_COMPARE = 100  # from one comparison of the ranks' states to the next


class Exact:
    """Trains a model so that its bits do not depend on the number of ranks.

    model, optimizer: of this rank. Rank 0's weights and buffers go to all ranks.
    micro_batch:   samples that go through the network together. It decides the bits.
    global_batch:  samples of one update; a multiple of micro_batch. Up to V = global_batch /
                   micro_batch ranks take part, each with an equal share or one micro-batch more.
    seed:          of the order of samples, dropout and augmentation (default: that of the trial).
    batch_norm:    "ghost": over each micro-batch; "sync": over the global batch.
    clip_norm:     the largest norm of all gradients of a step; None: no limit.
    scheduler:     a learning rate scheduler that takes a step after every update.
    threads:       of torch on a CPU. The number decides the bits, so it is fixed here.
    overlap:       reduce gradients during the last backward pass.
    group:         the process group (default: all ranks).
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *,
                 micro_batch: int, global_batch: int, seed: Optional[int] = None,
                 batch_norm: str = "ghost", clip_norm: Optional[float] = None,
                 scheduler: Any = None, threads: int = 1, overlap: bool = True,
                 bucket_bytes: int = 4 << 20, group: Any = None) -> None:
        self.model, self.optimizer, self.scheduler = model, optimizer, scheduler
        self.micro_batch, self.global_batch = micro_batch, global_batch
        self.seed = int(os.environ.get("DET_TRIAL_SEED", "0")) if seed is None else seed
        self.batch_norm, self.clip_norm, self.threads = batch_norm, clip_norm, threads
        self._check_sizes()
        self.micro_batches = global_batch // micro_batch
        self.group = group
        self.world, self.rank = self._join()
        self.share = share(self.micro_batches, self.world, self.rank)
        self._parameters = self._check_model()
        self.device = self._parameters[0][1].device
        self._pin_arithmetic()

        entries = [Entry(name, p) for name, p in reversed(self._parameters)]
        self.buckets = cut_buckets(entries, self.micro_batches, bucket_bytes)
        norms = running_norms(model) if batch_norm == "ghost" else []
        self._norms = GhostNorms(norms, self.micro_batches, self.device)
        self._lockstep = Lockstep(self) if batch_norm == "sync" else None
        by_name = dict(self._parameters)
        self._hooks = GradientHooks(
            self.buckets, [[by_name[entry.name] for entry in bucket.entries]
                            for bucket in self.buckets], overlap and not self._lockstep)
        self._with_buffers = [(name, module) for name, module in model.named_modules()
                              if module._buffers]

        self.step_count = 0  # updates so far
        self.cursor = 0  # samples so far: the position in the endless sequence of samples
        self.samples = 0  # in the data set; 0: unknown
        self.metrics: dict[str, float] = {}  # of the last step
        self._names: Optional[list[str]] = None  # of the metrics
        self._checked = False  # the ranks have compared their state
        self._data_sum = 0  # of samples that are the same on all ranks
        self._same_start()
        self._seed_pause(0)

    # ---- the start ------------------------------------------------------------------------------

    def _check_sizes(self) -> None:
        for name in ("micro_batch", "global_batch", "threads"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ExactError(f"{name} is {value!r}: give a whole number of at least 1")
        if self.global_batch % self.micro_batch:
            below = self.global_batch // self.micro_batch * self.micro_batch
            raise ExactError(
                f"micro_batch {self.micro_batch} does not divide global_batch {self.global_batch}: "
                f"the nearest global batches are {below or self.micro_batch} and "
                f"{below + self.micro_batch}")
        if self.batch_norm not in ("ghost", "sync"):
            raise ExactError(f"batch_norm is {self.batch_norm!r}: give \"ghost\" (over each "
                             "micro-batch) or \"sync\" (over the global batch)")
        for noun, part, remedy in (
                ("scheduler", self.scheduler, "call its step() yourself after exact.step(), for "
                 "example with a number of evaluate(), and save its state_dict(), too"),
                ("optimizer", self.optimizer, "use another optimizer")):
            needed = needed_arguments(type(part).step) if part is not None else ""
            if needed:
                raise ExactError(f"the {noun} {type(part).__name__} needs an argument ({needed}) "
                                 f"in each step, which Exact does not have: {remedy}")

    def _join(self) -> tuple[int, int]:
        world, rank = world_of(self.group)
        ranks = int(os.environ.get("WORLD_SIZE", "1") or 1)
        if ranks > 1 and not (dist.is_available() and dist.is_initialized()):
            raise ExactError(f"WORLD_SIZE is {ranks}, but the ranks are not connected: call "
                             "torch.distributed.init_process_group(\"gloo\") or (\"nccl\") first")
        if world > self.micro_batches:
            raise ExactError(
                f"{world} ranks cannot share the {self.micro_batches} micro-batches of a step "
                f"(global_batch {self.global_batch} / micro_batch {self.micro_batch}): use at most "
                f"{self.micro_batches} ranks, or a smaller micro_batch from the start")
        return world, rank

    def _check_model(self) -> list[tuple[str, torch.nn.Parameter]]:
        if type(self.model).__name__ in _WRAPPERS:
            raise ExactError(f"the model is wrapped in {type(self.model).__name__}, which reduces "
                             "gradients as floats: pass the module inside it (model.module)")
        for name, module in self.model.named_modules():
            if not isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
                continue
            if module.sparse:
                raise ExactError(f"the layer {name} has sparse gradients, which have no exact sum: "
                                 "make it with sparse=False")
            if module.max_norm is not None:
                raise ExactError(f"the layer {name} has max_norm, which changes the weights of "
                                 "those rows that a rank looks up: leave it out, and limit the "
                                 "norms of all rows after exact.step(), with torch.no_grad()")
        everything = list(self.model.named_parameters())
        for name, parameter in everything:
            if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
                raise ExactError(f"{name} has no shape yet: run one forward pass before Exact")
            if parameter.requires_grad and not parameter.is_floating_point():
                raise ExactError(f"{name} has the type {parameter.dtype}, which has no exact sum: "
                                 "train real numbers, or freeze it (requires_grad_(False))")
        self._everything = everything
        self._frozen = [(name, p) for name, p in everything if not p.requires_grad]
        own = self._known = {id(p): p for _, p in everything}
        for number, group in enumerate(self.optimizer.param_groups):
            for parameter in group["params"]:
                if id(parameter) not in own:
                    raise ExactError(
                        f"the optimizer's group {number} updates a parameter of the shape "
                        f"{tuple(parameter.shape)} that is not part of the model, so its gradient "
                        "would not be summed: put it into the model, or use another optimizer")
        trained = [(name, p) for name, p in everything if p.requires_grad and p.numel() > 0]
        if not trained:
            raise ExactError("no parameter of the model requires a gradient: there is nothing to "
                             "train")
        return trained

    def _pin_arithmetic(self) -> None:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
        deterministic = getattr(torch.utils, "deterministic", None)
        if deterministic is not None:  # filling fresh memory costs time and changes no result
            deterministic.fill_uninitialized_memory = False
        if self.device.type == "cpu":
            torch.set_num_threads(self.threads)

    def _same_start(self) -> None:
        """Compares what every rank built, and gives all ranks the weights of rank 0."""
        if self.world == 1:
            return
        layout = [(name, tuple(p.shape), str(p.dtype)) for name, p in self._parameters]
        clip = self.clip_norm
        agreed = [checksum_of(repr(layout)), self.micro_batch, self.global_batch,
                  self.seed & _LOW_BITS,
                  checksum_of([self._settings(), None if clip is None else float(clip)]),
                  checksum_of(fingerprint(self.device, self.threads))]
        refuse_disagreement(self._gather(agreed), (
            "the parameters of the model (a checksum)", "micro_batch", "global_batch", "the seed",
            "the seed, batch_norm or clip_norm (a checksum)",
            "the arithmetic: the type of device, the torch version, the instruction set or the "
            "number of threads (a checksum)"))
        with torch.no_grad():
            for tensor in list(self.model.parameters()) + list(self.model.buffers()):
                source = dist.get_global_rank(self.group, 0) if self.group is not None else 0
                flat = tensor.detach().contiguous()
                dist.broadcast(flat, source, group=self.group)
                tensor.copy_(flat)

    def _gather(self, integers: list[int]) -> list[list[int]]:
        row = torch.tensor(integers, dtype=torch.int32, device=self.device)
        return gather_rows(row, self.group).tolist()

    # ---- data -----------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Complete passes over the data set."""
        return self.cursor // self.samples if self.samples else 0

    def batches(self, dataset: Any, epochs: Optional[int] = None, steps: Optional[int] = None, *,
                collate: Optional[Callable[[list], Any]] = None, workers: int = 0,
                pin_memory: bool = False) -> Iterator[Batch]:
        """Global batches of a data set, from the training's position on.

        epochs, steps: totals since step 0, so a resumed training ends where it would have ended.
        Without both, the loop ends with the present pass over the data. A batch may begin in one
        pass and end in the next. workers: processes that load samples ahead.
        """
        count = count_samples(dataset, "the data set")
        if count < self.global_batch:
            raise ExactError(
                f"the data set has {count} samples, fewer than one global batch "
                f"({self.global_batch}): use a smaller global_batch or more samples")
        if self.samples not in (0, count):
            raise ExactError(
                f"the data set has {count} samples, but this training began with {self.samples}: "
                "pass the same data set, or begin a new training with these weights")
        self.samples = count
        last = self._last_step(count, epochs, steps)
        source = MicroBatches(dataset, SampleOrder(self.seed, count), self.micro_batch, collate)
        return self._iterate(Loader(source, workers, pin_memory), last, self.seed)

    def _last_step(self, count: int, epochs: Optional[int], steps: Optional[int]) -> int:
        if epochs is None and steps is None:
            epochs = self.cursor // count + 1
        ends = [] if steps is None else [steps]
        if epochs is not None:
            left = max(epochs * count - self.cursor, 0)
            ends.append(self.step_count + -(-left // self.global_batch))
        return min(ends)

    def _iterate(self, loader: Loader, last: int, seed: int) -> Iterator[Batch]:
        first = self.step_count
        start = self.cursor

        def cursors() -> Iterator[int]:
            if last > first:
                yield FIRST_TWICE
            for ahead in range(last - first):
                for number in self.share:
                    yield start + ahead * self.global_batch + number * self.micro_batch

        loaded = loader.load(cursors())
        if last > first:
            self._data_sum, again = [checksum_of(tensors_of(batch)) for batch in next(loaded)]
            if again != self._data_sum:
                raise ExactError("the data set gives other samples when it is asked again: draw "
                                 "random numbers from the generators of torch, Python or NumPy, "
                                 "which Exact seeds, not from one of its own")
        for ahead in range(last - first):
            if self.seed != seed:
                raise ExactError(f"the batches have the seed {seed}, and the training has "
                                 f"{self.seed}: call batches() again after load_state_dict()")
            own = [next(loaded) for _ in self.share]
            yield Batch(start + ahead * self.global_batch, self.global_batch, self.samples, own)

    def _own_micro_batches(self, batch: Any) -> list[Any]:
        if isinstance(batch, Batch):
            if batch.cursor != self.cursor:
                raise ExactError(
                    f"the batch begins at sample {batch.cursor}, but the training is at sample "
                    f"{self.cursor}: call step() once for every batch, and batches() again after "
                    "load_state_dict()")
            return list(batch.micro_batches)
        sizes = set()
        map_tensors(batch, lambda tensor: sizes.add(tensor.shape[0] if tensor.dim() else 0))
        if self._compares_contents() and self.world > 1:
            self._data_sum = checksum_of(tensors_of(batch))
        if sizes != {self.global_batch}:
            raise ExactError(
                f"the batch has tensors of {sorted(sizes)} samples: pass a batch of batches(), or "
                f"one whose tensors all have the {self.global_batch} samples of a global batch")
        return [map_tensors(batch, lambda tensor: tensor[number * self.micro_batch:
                                                         (number + 1) * self.micro_batch])
                for number in self.share]

    # ---- a step ---------------------------------------------------------------------------------

    def step(self, loss_fn: LossFn, batch: Any) -> float:
        """One update of the weights; returns the mean loss of the global batch.

        loss_fn(model, samples) returns the mean loss of a micro-batch, or a dictionary with "loss"
        and other numbers; `metrics` then has the means of all. If a gradient outgrows its scale,
        loss_fn is called again for the same samples. An exception of loss_fn or of the sums leaves
        the training as it was before the step.
        """
        own = self._own_micro_batches(batch)
        self._refuse_unfrozen()
        self._refuse_new_parameters()
        own = [map_tensors(samples, lambda tensor: tensor.to(self.device, non_blocking=True))
               for samples in own]
        entries = self._entries()
        exponents = [entry.exponent for entry in entries]
        try:
            magnitudes, values, calls = self._sum_until_it_fits(loss_fn, own, entries)
        except BaseException:
            for entry, exponent in zip(entries, exponents):
                entry.exponent = exponent
            self._forget_gradients()
            self._seed_pause(self.step_count)
            raise
        finally:
            self._norms.give_back()
        self._update(entries, magnitudes, calls)
        self._take_metrics(values)
        self.step_count += 1
        self.cursor += self.global_batch
        return self.metrics["loss"]

    def _entries(self) -> list[Entry]:
        return [entry for bucket in self._all_buckets() for entry in bucket.entries]

    def _all_buckets(self) -> list[Bucket]:
        return self.buckets + ([self._norms.bucket] if self._norms.bucket else [])

    def _forget_gradients(self) -> None:
        for _, parameter in self._parameters:
            parameter.grad = None

    def _refuse_unfrozen(self) -> None:
        for name, parameter in self._frozen:
            if parameter.requires_grad:
                raise ExactError(f"{name} was frozen when Exact was made and is not any more: make "
                                 "a new Exact and load this one's state_dict() into it")

    def _compares_contents(self) -> bool:
        """Whether this step looks for what shows in the contents of tensors alone."""
        return not self._checked or self.step_count % _STEPS_TO_COMPARE == 0

    def _refuse_new_parameters(self) -> None:
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in self._known:
                    names = [name for name, p in self.model.named_parameters() if p is parameter]
                    raise ExactError(
                        f"the optimizer updates {(names or ['a parameter'])[0]}, which was not "
                        "part of the model when Exact was made: make a new Exact after a change "
                        "of the parameters")

    def _sum_until_it_fits(self, loss_fn: LossFn, own: list[Any], entries: list[Entry]
                           ) -> tuple[list[float], list[float], list[int]]:
        for _ in range(3):  # the first step raises the exponents; a second time they must fit
            with self._refuse_changed_state():
                values = self._compute(loss_fn, own)
            works = self._start_sums(values)
            self._seed_pause(self.step_count + 1)  # while the sums are on their way
            for work in works:
                if work is not None:
                    work.wait()
            magnitudes, shared, calls = self._read_rows(entries)
            if judge_magnitudes(entries, magnitudes):
                return magnitudes, shared, calls
        raise DeterminismError("two passes over the same samples gave different gradients: look "
                               "for random numbers or a state of loss_fn that torch does not seed")

    def _seed_pause(self, step: int) -> None:
        """Random numbers of the optimizer and between two steps, too, are the same on all ranks and
        after a restart."""
        seed_generators(draw_key(self.seed, PAUSE_DRAW, step, 0))

    def _compute(self, loss_fn: LossFn, own: list[Any]) -> list[torch.Tensor]:
        self._forget_gradients()
        for bucket in self.buckets:
            bucket.begin_step()
        self._norms.begin_step()
        if self._lockstep:
            return self._lockstep.compute(loss_fn, own)
        return self._compute_one_by_one(loss_fn, own)

    def _compute_one_by_one(self, loss_fn: LossFn, own: list[Any]) -> list[torch.Tensor]:
        values = []
        self._norms.begin()
        with explain_determinism(self.model, lambda: loss_fn(self.model, samples)):
            for number, samples in zip(self.share, own):
                seed_generators(self.model_key(number))
                loss, numbers = self.split_loss(loss_fn(self.model, samples))
                # No sum may start before _compare_state(): which buckets are full differs by rank.
                self._hooks.begin(self._checked and number == self.share[-1], self.group)
                loss.backward()
                self._hooks.end()
                self._norms.end_micro_batch()
                values += numbers
        self._norms.give_back()
        return values

    def model_key(self, number: int) -> int:
        """The seed of the model's random numbers in a micro-batch of this step."""
        return draw_key(self.seed, MODEL_DRAW, self.step_count, number)

    def split_loss(self, result: Any) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The loss, and the numbers of all metrics in the order of their names."""
        named = result if isinstance(result, dict) else {"loss": result}
        loss = named.get("loss")
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise ExactError(f"loss_fn returned {describe(result)}: return the mean loss of the "
                             "micro-batch as a tensor of one element that depends on the model, or "
                             "a dictionary with it as \"loss\"")
        numbers = self._numbers_of(named)
        return loss.reshape(()), numbers

    def _numbers_of(self, named: dict) -> list[torch.Tensor]:
        names = sorted(named)
        if self._names is None:
            self._names = names
        if names != self._names:
            raise ExactError(f"loss_fn returned the metrics {names}, and {self._names} before: "
                             "return the same names for every micro-batch")
        numbers = []
        for name in names:
            value = named[name]
            if isinstance(value, torch.Tensor) and value.numel() == 1:
                numbers.append(value.detach().to(self.device, torch.float32).reshape(1))
            elif isinstance(value, (int, float)):
                numbers.append(torch.tensor([float(value)], dtype=torch.float32)
                               .to(self.device, non_blocking=True))
            else:
                raise ExactError(f"the metric {name} is {describe(value)}: return one number")
        return numbers

    def _start_sums(self, values: list[torch.Tensor]) -> list[Any]:
        """Starts the sums over the ranks; the last one carries this rank's row."""
        if not self._checked:
            self._compare_state()
        integers = [self.step_count & _LOW_BITS, self.samples & _LOW_BITS, self._data_sum,
                    self._state_in_row(), *self._norms.calls]
        buckets = self._all_buckets()
        width = len(integers) + sum(len(bucket.entries) for bucket in buckets) + \
            len(share(self.micro_batches, self.world, 0)) * len(self._names)
        rows = buckets[-1].reserve_rows(self.world, width)
        fill_row(rows[self.rank], integers, [bucket.peaks() for bucket in buckets] + values)
        works = self._hooks.start_rest(self.group)
        if self._norms.bucket:
            works.append(self._norms.bucket.start(self.group))
        return works

    def _read_rows(self, entries: list[Entry]) -> tuple[list[float], list[float], list[int]]:
        """The largest magnitudes of all entries, the metrics of all micro-batches in their order,
        and for each batch norm the number of micro-batches that it was in."""
        rows = self._all_buckets()[-1].rows.cpu()
        first = 4 + len(self._norms.calls)
        integers, floats = rows[:, :first].tolist(), rows.view(torch.float32)[:, first:]
        refuse_disagreement(integers, ("the step", "the number of samples", _DATA, _STATE))
        peaks = floats[:, :len(entries)].amax(0).tolist()
        return ([peak * 2.0 ** entry.base for peak, entry in zip(peaks, entries)],
                self._metrics_of_all(floats[:, len(entries):], self.micro_batches),
                [sum(column) for column in zip(*integers)][4:])

    def _metrics_of_all(self, floats: torch.Tensor, items: int) -> list[float]:
        """The metrics of `items` micro-batches in their order, from one row for each rank."""
        width = len(self._names or [])
        return [number for rank, row in enumerate(floats.tolist())
                for number in row[:len(share(items, self.world, rank)) * width]]

    def _compare_state(self) -> None:
        """Before the first update: ranks that loaded different states must not train together."""
        agreed = [zlib.crc32(repr(self._names).encode()) & _LOW_BITS, self.step_count & _LOW_BITS,
                  checksum_of(self.seed), checksum_of(self._tensors_of_state())]
        refuse_disagreement(self._gather(agreed), (
            "the names of the metrics (a checksum)", "the step", "the seed (a checksum)",
            _STATE))
        self._checked = True

    def _state_in_row(self) -> int:
        """A checksum of the state before one in _STEPS_TO_COMPARE steps, 0 before the others. It
        shows that a program has changed the weights of one rank alone."""
        if self.world == 1 or self.step_count % _STEPS_TO_COMPARE:
            return 0
        return checksum_of(self._tensors_of_state())

    def _update(self, entries: list[Entry], magnitudes: list[float], calls: list[int]) -> None:
        fall_exponents(entries, magnitudes)
        for bucket, parameters in zip(self.buckets, self._hooks.parameters):
            bucket.finish([self.micro_batches] * len(bucket.entries))
            for entry, parameter, total in zip(bucket.entries, parameters, bucket.parts):
                parameter.grad = total.to(parameter.dtype) if entry.used else None
        norm = None
        if self.clip_norm is not None:
            norm = torch.nn.utils.clip_grad_norm_([p for _, p in self._parameters], self.clip_norm)
        self.optimizer.step()
        with torch.no_grad():
            if self._lockstep:
                self._lockstep.commit()
            else:
                self._norms.commit(calls)
        if self.scheduler is not None:
            self.scheduler.step()
        self._norm = None if norm is None else float(norm)

    def _take_metrics(self, values: list[float]) -> None:
        names = self._names or []
        columns = [values[i::len(names)] for i in range(len(names))]
        self.metrics = {name: mean_of(column) for name, column in zip(names, columns)}
        if self._norm is not None:
            self.metrics["gradient_norm"] = self._norm

    def _refuse_changed_state(self) -> "StateGuard":
        return StateGuard(self._with_buffers, self._everything, keep=not self._checked,
                          contents=self._compares_contents())

    # ---- evaluation -----------------------------------------------------------------------------

    @torch.no_grad()
    @kept_generators()
    def evaluate(self, loss_fn: LossFn, dataset: Any,
                 collate: Optional[Callable[[list], Any]] = None) -> dict[str, float]:
        """The means of loss_fn's numbers over a data set, in eval mode: the same bits on all ranks.

        The data set is cut into micro-batches; the last one may be smaller and counts less. Random
        numbers of the data set and loss_fn depend on the seed and the micro-batch alone.
        """
        count = count_samples(dataset, "the data set of evaluate()")
        if count == 0:
            raise ExactError("the data set of evaluate() has no samples: pass at least one")
        self._refuse_other_data(dataset, count)
        collate = collate or torch.utils.data.default_collate
        total = -(-count // self.micro_batch)
        own = share(total, self.world, self.rank)
        modes = [(module, module.training) for module in self.model.modules()]
        names_of_training, self._names = self._names, None
        try:
            self.model.eval()
            values = []
            for number in own:
                seed_generators(draw_key(self.seed, EVALUATION_DRAW, 0, number))
                first = number * self.micro_batch
                indices = list(range(first, min(first + self.micro_batch, count)))
                samples = map_tensors(collate(fetch_samples(dataset, indices)),
                                      lambda tensor: tensor.to(self.device))
                result = loss_fn(self.model, samples)
                values += self._numbers_of(result if isinstance(result, dict)
                                           else {"loss": result})
            self._names = names = self._names_of_all()
            row = torch.zeros(len(share(total, self.world, 0)) * len(names), dtype=torch.int32,
                              device=self.device)
            fill_row(row, [], values)
            floats = gather_rows(row, self.group).view(torch.float32)
            shared = self._metrics_of_all(floats, total)
        finally:
            self._names = names_of_training
            for module, training in modes:
                module.training = training
        sizes = [self.micro_batch] * total
        sizes[-1] = count - (total - 1) * self.micro_batch
        return {name: mean_of(shared[i::len(names)], sizes) for i, name in enumerate(names)}

    def _refuse_other_data(self, dataset: Any, count: int) -> None:
        """Compares the number of samples and the first one between the ranks."""
        if self.world == 1:
            return
        seed_generators(draw_key(self.seed, EVALUATION_DRAW, 0, 0))
        first = tensors_of(fetch_samples(dataset, [0]))
        refuse_disagreement(self._gather([count & _LOW_BITS, checksum_of(first)]), (
            "the number of samples of evaluate()", "the first sample of evaluate() (a checksum)"))

    def _names_of_all(self) -> list[str]:
        """The names of the metrics; a rank without micro-batches learns them from rank 0."""
        names = [self._names]
        if self.world > 1:
            source = dist.get_global_rank(self.group, 0) if self.group is not None else 0
            dist.broadcast_object_list(names, source, group=self.group,
                                       device=self.device if self.device.type == "cuda" else None)
        return names[0] or []

    # ---- state ----------------------------------------------------------------------------------

    def _tensors_of_state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def digest(self) -> str:
        """The SHA-256 of all weights, buffers and the optimizer state, as 64 hex digits."""
        return sha256_of(self._tensors_of_state())

    def state_dict(self) -> dict[str, Any]:
        """Everything that a training on any number of ranks continues from; for torch.save()."""
        state = self._tensors_of_state()
        state.update(
            format=FORMAT, step=self.step_count, cursor=self.cursor, samples=self.samples,
            settings=self._settings(), fingerprint=fingerprint(self.device, self.threads),
            exponents={entry.name: entry.exponent for entry in self._entries()})
        if self.scheduler is not None:
            state["scheduler"] = self.scheduler.state_dict()
        return state

    def _settings(self) -> dict[str, Any]:
        return {"micro_batch": self.micro_batch, "global_batch": self.global_batch,
                "seed": self.seed, "batch_norm": self.batch_norm}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a state_dict() of any number of ranks; every rank loads the same one.

        The training takes over the saved seed: in a search, a copy of a trial has another one.
        """
        if not isinstance(state, dict) or state.get("format") != FORMAT:
            raise StateError("the saved state was not made by Exact.state_dict() of this version: "
                             "load the weights alone with model.load_state_dict()")
        for name, value in self._settings().items():
            saved = state["settings"][name]
            if saved != value and name != "seed":
                raise StateError(f"{name} is {value} here and {saved} in the saved state, which "
                                 f"would change the results: use {name}={saved!r}, or begin a new "
                                 "training with model.load_state_dict(state[\"model\"])")
        check_model(state["model"], self.model.state_dict())
        check_optimizer(state["optimizer"], self.optimizer)
        if (self.scheduler is None) != ("scheduler" not in state):
            raise StateError("the saved state and this training differ in having a scheduler: pass "
                             "the scheduler of the saved training, or none if it had none")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        for entry in self._entries():
            entry.exponent = state["exponents"].get(entry.name)
        self.step_count, self.cursor = state["step"], state["cursor"]
        self.samples, self.seed = state["samples"], state["settings"]["seed"]
        self._checked = False
        self._seed_pause(self.step_count)
        self._warn_of_other_arithmetic(state["fingerprint"])

    def _warn_of_other_arithmetic(self, saved: dict[str, Any]) -> None:
        present = fingerprint(self.device, self.threads)
        different = [f"{name} {saved.get(name)} -> {present.get(name)}"
                     for name in sorted(set(saved) | set(present))
                     if saved.get(name) != present.get(name)]
        if different and self.rank == 0:
            warnings.warn("the training continues with other arithmetic, so its bits differ from "
                          f"those of an undisturbed one: {', '.join(different)}", stacklevel=3)


class StateGuard:
    """Refuses forward passes that change buffers or weights: they would differ by rank.

    Most changes raise the version of a tensor. A change through `.data` shows in the contents
    alone, which are compared in some of the steps (`contents`). `keep`: buffers are put back.
    """

    def __init__(self, modules: list[tuple[str, torch.nn.Module]],
                 parameters: list[tuple[str, torch.nn.Parameter]], keep: bool,
                 contents: bool) -> None:
        self._modules, self._parameters = modules, parameters
        self._keep, self._contents = keep, contents
        self._before: list[tuple[str, torch.Tensor, tuple[int, int], Optional[torch.Tensor]]] = []
        self._sums: list[int] = []  # of the parameters, then of the buffers

    def _persistent(self) -> Iterator[tuple[str, torch.Tensor]]:
        for prefix, module in self._modules:
            for name, buffer in module._buffers.items():
                if buffer is not None and name not in module._non_persistent_buffers_set:
                    yield (f"{prefix}.{name}" if prefix else name), buffer

    def _sums_of_contents(self) -> list[int]:
        if not self._contents:
            return []
        return [checksum_of(tensor) for _, tensor in self._parameters] + \
            [checksum_of(buffer) for _, buffer, _, _ in self._before]

    def __enter__(self) -> None:
        for name, buffer in self._persistent():
            copy = buffer.detach().clone() if self._keep else None
            self._before.append((name, buffer, _mark(buffer), copy))
        self._marks = [_mark(parameter) for _, parameter in self._parameters]
        self._sums = self._sums_of_contents()

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None:
            return
        sums = self._sums_of_contents()
        changed = [a != b for a, b in zip(self._sums, sums)] or \
            [False] * (len(self._parameters) + len(self._before))
        self._refuse_buffers(changed[len(self._parameters):])
        for (name, parameter), before, other in zip(self._parameters, self._marks, changed):
            # A tensor that moves, such as by flatten_parameters() of an RNN, need not change.
            place, version = _mark(parameter)
            if other or place == before[0] and version != before[1]:
                raise ExactError(
                    f"the parameter {name} changes in the forward pass, so it would depend on how "
                    "many micro-batches a rank computes, and which: change it between two steps. "
                    "Its old value is lost, so begin again from the last checkpoint")

    def _refuse_buffers(self, changed: list[bool]) -> None:
        present = dict(self._persistent())
        for (name, buffer, mark, copy), other in zip(self._before, changed):
            if present.get(name) is buffer and _mark(buffer)[1] == mark[1] and not other:
                continue
            if copy is not None:
                buffer.data.copy_(copy)
            raise ExactError(
                f"the buffer {name} changes in the forward pass, so it would depend on which rank "
                "computes which samples: update it between two steps, or register it with "
                "persistent=False if it is a cache")


def _mark(tensor: torch.Tensor) -> tuple[int, int]:
    """Where a tensor lies, and a number that each change in place raises."""
    return tensor.data_ptr(), tensor._version


def tensors_of(tree: Any) -> list[torch.Tensor]:
    """The tensors of nested containers."""
    found: list[torch.Tensor] = []
    map_tensors(tree, lambda tensor: found.append(tensor) or tensor)
    return found


def mean_of(values: list[float], weights: Optional[list[int]] = None) -> float:
    """The mean, correctly rounded, so it does not depend on the order of the values."""
    if not all(math.isfinite(value) for value in values):
        return math.nan
    weights = weights or [1] * len(values)
    return math.fsum(value * weight for value, weight in zip(values, weights)) / sum(weights)


def needed_arguments(call: Any) -> str:
    """The names of the arguments without which a method cannot be called."""
    try:
        _, *parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # it does not tell
        return ""
    return ", ".join(p.name for p in parameters if p.default is p.empty and
                     p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def describe(value: Any) -> str:
    """A value in the words of an error."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of the shape {tuple(value.shape)}" + \
            ("" if value.requires_grad else " without a gradient")
    if isinstance(value, dict):
        return f"a dictionary with {sorted(map(str, value))}"
    return f"a value of the type {type(value).__name__}"
