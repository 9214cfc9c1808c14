"""The order of samples and the keys of random numbers: pure functions of (seed, step, position).

The training set is an endless sequence of samples in which every epoch is a keyed permutation of
the data set. These are the functions of the native trainer (trainer/reduction/sampler.c and
base/rng.c), with the same values.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Optional

import torch

_LOW = 0xFFFFFFFF
_LONG = 0xFFFFFFFFFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
_FEISTEL_ROUNDS = 6
_BLOCK = 16384  # positions that are permuted together: one call costs as much for one as for 1,000
_BLOCKS_KEPT = 4
_TABLE_BITS = 18  # a table of at most 12 MB, for up to 2^36 samples

ORDER_DRAW = 0x6F72646572  # separates draws of the same seed, as in the native trainer
MODEL_DRAW = 0x6D6F64656C  # dropout and other random numbers of the model
DATA_DRAW = 0x64617461  # random transformations in a data set
EVALUATION_DRAW = 0x6576616C  # random numbers of an evaluation, the same in every step
PAUSE_DRAW = 0x7061757365  # random numbers between two steps


def philox4x32(key: int, high: int, low: int) -> tuple[int, int, int, int]:
    """Philox4x32-10 (Salmon et al., SC 2011) of a 64-bit key and a 128-bit counter."""
    k0, k1 = key & _LOW, key >> 32 & _LOW
    c0, c1, c2, c3 = low & _LOW, low >> 32 & _LOW, high & _LOW, high >> 32 & _LOW
    for _ in range(10):
        p0, p1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & _LOW, p0 >> 32 ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _INCREMENTS[0]) & _LOW, (k1 + _INCREMENTS[1]) & _LOW
    return c0, c1, c2, c3


def draw_key(seed: int, draw: int, step: int, part: int) -> int:
    """The 63-bit seed of the random numbers of one part (such as a micro-batch) of a step."""
    mixed = philox4x32(seed & _LONG, draw, step)
    out = philox4x32(mixed[0] << 32 | mixed[1], draw, part)
    return (out[0] << 32 | out[1]) >> 1


def _philox_first(key: int, high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """The first output word for tensors of counters. int64 products wrap, which keeps all bits."""
    k0, k1 = key & _LOW, key >> 32 & _LOW
    c0, c1 = low & _LOW, low >> 32 & _LOW
    c2, c3 = high, torch.zeros_like(high)
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (p1 >> 32 & _LOW) ^ c1 ^ k0, p1 & _LOW
        c2, c3 = (p0 >> 32 & _LOW) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _INCREMENTS[0]) & _LOW, (k1 + _INCREMENTS[1]) & _LOW
    return c0


class KeyedPermutation:
    """The permutation of [0, count) that a key selects: a Feistel network.

    A round of the network draws a number for each value of one half of the bits. The values are
    few, so the numbers of all rounds lie in a table, unless the data set is enormous.
    """

    def __init__(self, key: int, count: int) -> None:
        self.key, self.count = key, count
        bits = max((count - 1).bit_length(), 2)
        self._left, self._right = bits // 2, bits - bits // 2  # bits of the halves
        self._rounds = torch.arange(_FEISTEL_ROUNDS).unsqueeze(1)
        self._drawn: Optional[torch.Tensor] = None
        if self._right <= _TABLE_BITS:
            self._drawn = _philox_first(key, self._rounds, torch.arange(1 << self._right))

    def _draw(self, turn: int, half: torch.Tensor) -> torch.Tensor:
        if self._drawn is None:
            return _philox_first(self.key, self._rounds[turn], half)
        return self._drawn[turn][half]

    def _permute(self, value: torch.Tensor) -> torch.Tensor:
        left_bits, right_bits = self._left, self._right
        left, right = value >> right_bits, value & ((1 << right_bits) - 1)
        for turn in range(_FEISTEL_ROUNDS):
            left, right = right, (left ^ self._draw(turn, right)) & ((1 << left_bits) - 1)
            left_bits, right_bits = right_bits, left_bits
        return left << right_bits | right

    def images(self, positions: torch.Tensor) -> torch.Tensor:
        """The images of int64 positions in [0, count)."""
        if self.count == 1:
            return torch.zeros_like(positions)
        out = self._permute(positions)
        while True:  # a value outside [0, count) is mapped again; its cycle returns
            outside = (out >= self.count).nonzero().squeeze(1)
            if outside.numel() == 0:
                return out
            out[outside] = self._permute(out[outside])


def share(items: int, world: int, rank: int) -> range:
    """The rank's items: equal shares; the first (items mod world) ranks take one more."""
    each, more = divmod(items, world)
    first = each * rank + min(rank, more)
    return range(first, first + each + (rank < more))


class SampleOrder:
    """The sequence of samples of a data set of `count` samples."""

    def __init__(self, seed: int, count: int) -> None:
        self.seed, self.count = seed & _LONG, count
        self._blocks: OrderedDict[tuple[int, int], list[int]] = OrderedDict()
        self._permutation: tuple[int, KeyedPermutation] = (-1, KeyedPermutation(0, 1))  # its epoch

    def _block(self, epoch: int, block: int) -> list[int]:
        indices = self._blocks.get((epoch, block))
        if indices is None:
            if self._permutation[0] != epoch:
                draw = philox4x32(self.seed, ORDER_DRAW, epoch)
                self._permutation = epoch, KeyedPermutation(draw[0] << 32 | draw[1], self.count)
            first = block * _BLOCK
            positions = torch.arange(first, min(first + _BLOCK, self.count))
            indices = self._permutation[1].images(positions).tolist()
            self._blocks[epoch, block] = indices
            if len(self._blocks) > _BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        return indices

    def indices(self, cursor: int, count: int) -> list[int]:
        """The indices of `count` samples from position `cursor` of the sequence on."""
        out: list[int] = []
        while len(out) < count:
            epoch, at = divmod(cursor + len(out), self.count)
            block, inside = divmod(at, _BLOCK)
            out += self._block(epoch, block)[inside:inside + count - len(out)]
        return out
