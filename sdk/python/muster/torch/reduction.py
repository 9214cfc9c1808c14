"""Exact sums of gradients over micro-batches and ranks.

The number format is that of the native trainer (trainer/reduction/reducer.c). Every tensor has an
exponent e: that of its largest micro-batch gradient in the previous step; it falls by at most one
per step. With V micro-batches per step, an element g becomes rint(g * 2^(p - e)) with
p = 30 - ceil(log2 V) - 3. So a tensor may grow 8-fold from one step to the next, and the sum of V
integers still fits into int32. (Tensors of float64 have int64 sums and p = 62 - ceil(log2 V) - 3.
With more than 64 micro-batches p would be too small for gradients far below the largest one, so
the sums of all tensors are int64, with p of at most 40 for float32.) Integer sums do not depend on
their order. A tensor that outgrows its exponent shows in the largest magnitudes of the ranks; then
the step is repeated with a scale that fits.

Tensors that are summed together form a bucket. A bucket of gradients starts its all-reduce as soon
as the last local micro-batch has filled it, in parallel with the rest of the backward pass. The
last bucket starts at the end and carries the magnitudes and the metrics of every rank (rows.py).
"""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import torch
import torch.distributed as dist

from muster.torch.errors import GradientError
from muster.torch.rows import world_of

GROWTH = 3  # by which an exponent may grow in one step without a repetition
GROWTH_MAX = 34  # growth in one step that is reported as an explosion
EXPONENT_FLOOR = -24
NARROW_MAX = 64  # micro-batches of a step whose sums of float32 fit into int32 with enough bits
WIDE_BITS = 40  # p of float32 in int64: the scale of a first gradient leaves room up to 2^64
UNKNOWN = None  # the exponent of a tensor whose gradients were all zero so far
UNSEEN = -1.0  # the largest magnitude of a tensor that has no gradient in this step


def exponent_of(magnitude: float) -> Optional[int]:
    """The e with 2^(e-1) <= magnitude < 2^e; None for 0 and for a tensor without a gradient."""
    return math.frexp(magnitude)[1] if magnitude > 0 else None


def next_exponent(now: int, magnitude: float) -> int:
    """The exponent after a step whose largest magnitude is known: it rises at once and falls by
    one in a step, down to EXPONENT_FLOOR."""
    found = exponent_of(magnitude)
    return now if found is None else max(found, now - 1, EXPONENT_FLOOR)


def largest_values(pieces: Sequence[torch.Tensor]) -> torch.Tensor:
    """The largest value of each tensor of values >= 0: [tensors]; NaN if it has one."""
    if pieces[0].device.type == "cpu":  # its norm computes one element at a time
        return torch.stack([piece.max() for piece in pieces])
    return torch.stack(torch._foreach_norm(pieces, math.inf))


class Entry:
    """A tensor that is summed: the gradient of a parameter, or a statistic of a batch norm."""

    def __init__(self, name: str, like: torch.Tensor, noun: str = "gradient of") -> None:
        self.name, self.noun, self.like = name, noun, like
        self.exponent: Optional[int] = UNKNOWN
        self.used = False  # had a gradient in the last step, on any rank

    @property
    def base(self) -> int:
        """The exponent that the scale belongs to."""
        return EXPONENT_FLOOR if self.exponent is None else self.exponent


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

    def __init__(self, entries: Sequence[Entry], micro_batches: int,
                 scratch: Optional[torch.Tensor] = None) -> None:
        """scratch: that of another bucket with the same type, which is shared if large enough."""
        self.entries = list(entries)
        first = self.entries[0].like
        double = first.dtype == torch.float64
        wide = double or micro_batches > NARROW_MAX
        self.real = torch.float64 if double else torch.float32
        self.integer = torch.int64 if wide else torch.int32
        self.bits = (62 if wide else 30) - max(micro_batches - 1, 0).bit_length() - GROWTH
        if wide and not double:
            self.bits = min(self.bits, WIDE_BITS)
        sizes = [entry.like.numel() for entry in self.entries]
        # The scaled gradients of a micro-batch; after the step, the sums as real numbers.
        self.values = torch.zeros(sum(sizes), dtype=self.real, device=first.device)
        self.parts = [_view_like(piece, entry.like)
                      for piece, entry in zip(self.values.split(sizes), self.entries)]
        self.scratch = scratch
        if scratch is None or scratch.numel() < sum(sizes):
            self.scratch = torch.empty_like(self.values, dtype=self.integer)
        self._absolute = self.scratch.view(self.real)[:sum(sizes)]
        self._pieces = self._absolute.split(sizes)
        self._rounded = self.scratch[:sum(sizes)]
        self.magnitudes = torch.empty(len(sizes), dtype=self.real, device=first.device)
        self.scales: list[float] = []
        self.empty = True
        self.sums = torch.zeros(self.values.numel(), dtype=self.integer, device=first.device)
        self.flat = self.sums  # everything that is summed over the ranks
        self.rows: Optional[torch.Tensor] = None

    def reserve_rows(self, ranks: int, width: int) -> torch.Tensor:
        """Zeros of int32 [ranks, at least width], which are summed with the bucket (rows.py)."""
        width += width % 2  # whole words of int64
        if self.rows is None or self.rows.shape != (ranks, width):
            count = self.sums.numel()
            words = ranks * width * 4 // self.sums.element_size()
            self.flat = torch.zeros(count + words, dtype=self.integer, device=self.sums.device)
            self.flat[:count] = self.sums
            self.sums = self.flat[:count]
            self.rows = self.flat[count:].view(torch.int32).view(ranks, width)
        return self.rows.zero_()

    def begin_step(self) -> None:
        """Forgets the sums of the step before, and takes the scales of the exponents."""
        self.empty = True
        self.magnitudes.fill_(UNSEEN)
        self.scales = [math.ldexp(1.0, self.bits - entry.base) for entry in self.entries]

    def add(self, gradients: Sequence[Optional[torch.Tensor]]) -> None:
        """Adds the gradients of one micro-batch. None: no gradient.

        A gradient that is too large for its scale makes a sum of no meaning; the magnitudes show
        it, and the step is repeated.
        """
        here = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if not here:
            return
        found = [gradients[i] for i in here]
        if found[0].dtype != self.real:  # gradients of bfloat16 or float16
            found = [gradient.to(self.real) for gradient in found]
        if len(here) < len(self.entries):
            self.values.zero_()
        for i, gradient in zip(here, found):
            torch.mul(gradient, self.scales[i], out=self.parts[i])
        torch.abs(self.values, out=self._absolute)
        peaks = largest_values(self._pieces)
        if len(here) < len(self.entries):
            absent = torch.tensor([i for i, g in enumerate(gradients) if g is None])
            peaks.index_fill_(0, absent.to(peaks.device, non_blocking=True), UNSEEN)
        # A maximum passes NaN on.
        torch.maximum(self.magnitudes, peaks, out=self.magnitudes)
        self.values.round_()
        if self.empty:
            self.sums.copy_(self.values)
        else:
            self.sums.add_(self._rounded.copy_(self.values))
        self.empty = False

    def peaks(self) -> torch.Tensor:
        """The largest magnitude of each entry as a multiple of 2^base, float32; negative: none."""
        return (self.magnitudes * 2.0 ** -self.bits).to(torch.float32)

    def start(self, group: Any) -> Any:
        """Starts the sum over all ranks; returns the work to wait for (None: there is one rank)."""
        if self.empty:
            self.sums.zero_()
            self.empty = False
        if world_of(group)[0] == 1:
            return None
        return dist.all_reduce(self.flat, group=group, async_op=True)

    def finish(self, divisors: Sequence[int]) -> None:
        """Turns the sums into real numbers in `parts`, divided by one divisor for each entry."""
        self.values.copy_(self.sums)
        torch._foreach_mul_(self.parts, [1.0 / (scale * divisor)
                                         for scale, divisor in zip(self.scales, divisors)])


def cut_buckets(entries: Sequence[Entry], micro_batches: int, bucket_bytes: int) -> list[Bucket]:
    """Buckets of about bucket_bytes in the given order; the bits do not depend on the size."""
    buckets: list[Bucket] = []
    scratch: dict[Any, torch.Tensor] = {}  # by type
    current: list[Entry] = []
    size = 0
    for entry in [*entries, None]:
        kind = entry and (entry.like.dtype, entry.like.device)
        more = entry.like.numel() * 4 if entry else 0
        first = current and (current[0].like.dtype, current[0].like.device)
        if current and (size + more > bucket_bytes or kind != first):
            buckets.append(Bucket(current, micro_batches, scratch.get(first)))
            scratch[first] = buckets[-1].scratch
            current, size = [], 0
        if entry:
            current.append(entry)
            size += more
    return buckets


def judge_magnitudes(entries: Sequence[Entry], magnitudes: Sequence[float]) -> bool:
    """True if every tensor fitted its scale; else raises exponents, and the step is repeated.

    GradientError: a tensor is not finite or exploded. Every rank sees the same magnitudes.
    """
    for entry, magnitude in zip(entries, magnitudes):
        if not math.isfinite(magnitude):
            first = ", or too large for a first gradient" if entry.exponent is UNKNOWN else ""
            raise GradientError(
                f"the {entry.noun} {entry.name} is not a finite number{first}: lower the learning "
                "rate, clip gradients (clip_norm), or look for bad values in the data. The weights "
                "and the optimizer are those before this step")
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
        if found is not None and found > entry.base + GROWTH:
            entry.exponent = found
            fits = False
    return fits


def fall_exponents(entries: Sequence[Entry], magnitudes: Sequence[float]) -> None:
    """After a step that fitted: notes which entries had a gradient, and lets their exponents follow
    the magnitudes (one for each entry). Zeros say nothing about the next step."""
    for entry, magnitude in zip(entries, magnitudes):
        entry.used = magnitude >= 0
        if magnitude > 0:
            entry.exponent = next_exponent(entry.base, magnitude)
