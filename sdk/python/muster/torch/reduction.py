"""Exact sums of gradients over micro-batches and ranks.

The number format is that of the native trainer (trainer/reduction/reducer.c). Every tensor has an
exponent e: that of its largest micro-batch gradient in the previous step; it falls by at most one
per step. With V micro-batches per step, an element g becomes rint(g * 2^(p - e)) with
p = 30 - ceil(log2 V) - 3. So a tensor may grow 8-fold from one step to the next, and the sum of V
integers still fits into int32. (Tensors of float64 have int64 sums and p = 62 - ceil(log2 V) - 3.)
Integer sums do not depend on their order. A tensor that outgrows its exponent shows in the largest
magnitudes that the ranks exchange at the end of the step; then the step is repeated with a scale
that fits.

Tensors that are summed together form a bucket. A bucket of gradients starts its all-reduce as soon
as the last local micro-batch has filled it, in parallel with the rest of the backward pass.
"""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import torch
import torch.distributed as dist

from muster.torch.errors import ExactError, GradientError

GROWTH = 3  # by which an exponent may grow in one step without a repetition
GROWTH_MAX = 34  # growth in one step that is reported as an explosion
EXPONENT_FLOOR = -24
UNKNOWN = None  # the exponent of a tensor that has had no gradient yet
UNSEEN = -1.0  # the largest magnitude of a tensor that had no gradient in this step
NOTHING = -(1 << 31)  # loses every maximum of int32


def exponent_of(magnitude: float) -> Optional[int]:
    """The e with 2^(e-1) <= magnitude < 2^e; None for 0 and for a tensor without a gradient."""
    return math.frexp(magnitude)[1] if magnitude > 0 else None


def next_exponent(now: int, magnitude: float) -> int:
    found = exponent_of(magnitude)
    return now if found is None else max(found, now - 1, EXPONENT_FLOOR)


def world_of(group: Any) -> tuple[int, int]:
    """The number of ranks and this rank's number."""
    if not (dist.is_available() and dist.is_initialized()):
        return 1, 0
    return dist.get_world_size(group), dist.get_rank(group)


def largest_magnitudes(tensors: list[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The largest magnitude of each tensor; NaN if it has one."""
    if tensors[0].device.type == "cpu":  # its norm computes one element at a time
        return [tensor.abs().max() for tensor in tensors]
    return torch._foreach_norm(tensors, math.inf)


class Entry:
    """A tensor that is summed: the gradient of a parameter, or a statistic of a batch norm."""

    def __init__(self, name: str, like: torch.Tensor, noun: str = "gradient of") -> None:
        self.name, self.noun, self.like = name, noun, like
        self.exponent: Optional[int] = UNKNOWN
        self.used = False  # had a gradient in the last step, on any rank


def _view_like(flat: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The elements of `flat` with the shape of `like`, and with its strides if it has no gaps."""
    if like.is_contiguous():
        return flat.view(like.shape)
    ordered = sorted((stride, size) for stride, size in zip(like.stride(), like.shape) if size > 1)
    expected = 1
    for stride, size in ordered:
        if stride != expected:
            return flat.view(like.shape)
        expected *= size
    return flat.as_strided(like.shape, like.stride())


class Bucket:
    """Entries of one device and one number format, whose sums lie in one flat tensor."""

    def __init__(self, entries: Sequence[Entry], micro_batches: int, extra: int = 0) -> None:
        self.entries = list(entries)
        first = self.entries[0].like
        wide = first.dtype == torch.float64
        self.real = torch.float64 if wide else torch.float32
        self.integer = torch.int64 if wide else torch.int32
        self.bits = (62 if wide else 30) - max(micro_batches - 1, 0).bit_length() - GROWTH
        sizes = [entry.like.numel() for entry in self.entries]
        self.sums = torch.zeros(sum(sizes) + extra, dtype=self.integer, device=first.device)
        self.values = torch.zeros(sum(sizes), dtype=self.real, device=first.device)
        self.parts = self._cut(self.sums, sizes)
        self.results = self._cut(self.values, sizes)
        self.extra = self.sums[sum(sizes):]  # more integers that are summed with the bucket
        self.magnitudes = torch.empty(len(sizes), dtype=torch.float32, device=first.device)
        self.scales: list[float] = []
        self.empty = True

    def _cut(self, flat: torch.Tensor, sizes: list[int]) -> list[torch.Tensor]:
        pieces = flat[:sum(sizes)].split(sizes)
        return [_view_like(piece, entry.like) for piece, entry in zip(pieces, self.entries)]

    def begin_step(self) -> None:
        self.empty = True
        self.magnitudes.fill_(UNSEEN)
        self.scales = [math.ldexp(1.0, self.bits - (EXPONENT_FLOOR if entry.exponent is None
                                                    else entry.exponent))
                       for entry in self.entries]
        self.extra.zero_()

    def add(self, gradients: Sequence[Optional[torch.Tensor]]) -> None:
        """Adds the gradients of one micro-batch, which it overwrites. None: no gradient.

        A gradient that is too large for its scale makes a sum of no meaning; the magnitudes show
        it, and the step is repeated.
        """
        here = [i for i, gradient in enumerate(gradients) if gradient is not None]
        found = [gradients[i] for i in here]
        if not found:
            return
        if found[0].dtype != self.real:  # gradients of bfloat16 or float16
            found = [gradient.to(self.real) for gradient in found]
        scales, parts, magnitudes = self.scales, self.parts, self.magnitudes
        peaks = torch.stack(largest_magnitudes(found)).to(torch.float32)
        if len(here) < len(self.entries):
            scales, parts = [scales[i] for i in here], [parts[i] for i in here]
            peaks = magnitudes.clone().index_copy_(
                0, torch.tensor(here, device=peaks.device), peaks)
        # A maximum passes NaN on.
        torch.maximum(magnitudes, peaks, out=magnitudes)
        torch._foreach_mul_(found, scales)
        torch._foreach_round_(found)
        if self.empty and len(here) == len(self.entries):
            for part, gradient in zip(parts, found):
                part.copy_(gradient)
        else:
            if self.empty:
                self.sums[:self.values.numel()].zero_()
            torch._foreach_add_(parts, [gradient.to(self.integer) for gradient in found])
        self.empty = False

    def start(self, group: Any) -> Any:
        """Starts the sum over all ranks; returns the work to wait for (None: there is one rank)."""
        if self.empty:
            self.sums[:self.values.numel()].zero_()
            self.empty = False
        if world_of(group)[0] == 1:
            return None
        return dist.all_reduce(self.sums, group=group, async_op=True)

    def finish(self, divisors: Sequence[int]) -> None:
        """Turns the sums into real numbers, divided by one divisor for each entry."""
        self.values.copy_(self.sums[:self.values.numel()])
        torch._foreach_mul_(self.results, [1.0 / (scale * divisor)
                                           for scale, divisor in zip(self.scales, divisors)])


def cut_buckets(entries: Sequence[Entry], micro_batches: int, bucket_bytes: int) -> list[Bucket]:
    """Buckets of about bucket_bytes in the given order; the bits do not depend on the size."""
    buckets: list[Bucket] = []
    current: list[Entry] = []
    size = 0
    for entry in entries:
        like = entry.like
        kind = like.dtype, like.device
        if current and (size + like.numel() * 4 > bucket_bytes or
                        kind != (current[0].like.dtype, current[0].like.device)):
            buckets.append(Bucket(current, micro_batches))
            current, size = [], 0
        current.append(entry)
        size += like.numel() * 4
    if current:
        buckets.append(Bucket(current, micro_batches))
    return buckets


def judge_magnitudes(entries: Sequence[Entry], magnitudes: Sequence[float]) -> bool:
    """True if every tensor fitted its scale; else raises exponents, and the step is repeated.

    GradientError: a tensor is not finite or exploded. Every rank sees the same magnitudes.
    """
    for entry, magnitude in zip(entries, magnitudes):
        if not math.isfinite(magnitude):
            raise GradientError(
                f"the {entry.noun} {entry.name} is not a finite number: lower the learning rate, "
                "clip gradients (clip_norm), or look for bad values in the data. The weights and "
                "the optimizer are those before this step")
    for entry, magnitude in zip(entries, magnitudes):
        found = exponent_of(magnitude)
        if found is not None and entry.exponent is not None and \
                found > entry.exponent + GROWTH_MAX:
            raise GradientError(
                f"gradient exploded: the {entry.noun} {entry.name} grew from 2^{entry.exponent} to "
                f"2^{found} in one step; lower the learning rate or lengthen its warm-up. The "
                "weights and the optimizer are those before this step")
    fits = True
    for entry, magnitude in zip(entries, magnitudes):
        found = exponent_of(magnitude)
        now = EXPONENT_FLOOR if entry.exponent is None else entry.exponent
        if found is not None and found > now + GROWTH:
            entry.exponent = found
            fits = False
    return fits


def fall_exponents(entries: Sequence[Entry], magnitudes: Sequence[float]) -> None:
    for entry, magnitude in zip(entries, magnitudes):
        entry.used = magnitude >= 0
        if entry.used:
            now = EXPONENT_FLOOR if entry.exponent is None else entry.exponent
            entry.exponent = next_exponent(now, magnitude)


class Exchange:
    """One all-reduce (maximum of int32) of everything that the ranks agree on after a step.

    Floats travel as their bits: for numbers >= 0 these have the same order. The value of a
    micro-batch has a place of its own, where the other ranks send NOTHING; so all ranks get all
    values bit by bit, and sum them in the same order.
    """

    def __init__(self, group: Any, device: torch.device) -> None:
        self.group, self.device = group, device

    def run(self, magnitudes: Sequence[torch.Tensor], agreed: Sequence[int],
            places: int, first: int, values: Sequence[torch.Tensor]) -> tuple[list, list, list]:
        """Returns magnitudes and values of all ranks, and [(minimum, maximum)] of `agreed`.

        `values` are tensors of float32 that fill the places from `first` on.
        """
        peaks = torch.cat([m.to(self.device) for m in magnitudes]) if magnitudes else \
            torch.empty(0, device=self.device)
        peaks = torch.nan_to_num(peaks, nan=math.inf, posinf=math.inf)
        slots = torch.full((places,), NOTHING, dtype=torch.int32, device=self.device)
        if values:
            own = torch.cat([v.reshape(-1) for v in values]).to(self.device, torch.float32)
            slots[first:first + own.numel()] = own.view(torch.int32)
        both = [number for n in agreed for number in (n, -n)]
        numbers = torch.tensor(both, dtype=torch.int32, device=self.device)
        flat = torch.cat([peaks.view(torch.int32), numbers, slots])
        if world_of(self.group)[0] > 1:
            dist.all_reduce(flat, op=dist.ReduceOp.MAX, group=self.group)
        flat = flat.cpu()
        end = peaks.numel() + len(both)
        pairs = flat[peaks.numel():end].tolist()
        spans = [(-pairs[i + 1], pairs[i]) for i in range(0, len(pairs), 2)]
        return (flat[:peaks.numel()].view(torch.float32).tolist(),
                flat[end:].view(torch.float32).tolist(), spans)


def refuse_disagreement(spans: Sequence[tuple[int, int]], nouns: Sequence[str]) -> None:
    for (least, most), noun in zip(spans, nouns):
        if least != most:
            raise ExactError(f"the ranks disagree about {noun} (from {least} to {most}): start all "
                             "ranks from the same checkpoint, data set and program")
