"""The order of samples and the keys of random numbers: pure functions of (seed, step, position).

The training set is an endless sequence of samples in which every epoch is a keyed permutation of
the data set. These are the functions of the native trainer (trainer/reduction/sampler.c and
base/rng.c), with the same values.
"""

from __future__ import annotations

from collections import OrderedDict

import torch

_LOW = 0xFFFFFFFF
_LONG = 0xFFFFFFFFFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
_FEISTEL_ROUNDS = 6
_BLOCK = 16384  # positions that are permuted together: one call costs as much for one as for 1,000
_BLOCKS_KEPT = 4

ORDER_DRAW = 0x6F72646572  # separates draws of the same seed, as in the native trainer
MODEL_DRAW = 0x6D6F64656C  # dropout and other random numbers of the model
DATA_DRAW = 0x64617461  # random transformations in a data set
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


def _philox_first(key: int, high: int, low: torch.Tensor) -> torch.Tensor:
    """The first output word for a tensor of counters. int64 products wrap, which keeps all bits."""
    k0, k1 = key & _LOW, key >> 32 & _LOW
    c0, c1 = low & _LOW, low >> 32 & _LOW
    c2, c3 = torch.full_like(low, high), torch.zeros_like(low)
    for _ in range(10):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (p1 >> 32 & _LOW) ^ c1 ^ k0, p1 & _LOW
        c2, c3 = (p0 >> 32 & _LOW) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _INCREMENTS[0]) & _LOW, (k1 + _INCREMENTS[1]) & _LOW
    return c0


def _feistel_permute(key: int, value: torch.Tensor, left_bits: int,
                     right_bits: int) -> torch.Tensor:
    left, right = value >> right_bits, value & ((1 << right_bits) - 1)
    for turn in range(_FEISTEL_ROUNDS):
        mixed = _philox_first(key, turn, right)
        left, right = right, (left ^ mixed) & ((1 << left_bits) - 1)
        left_bits, right_bits = right_bits, left_bits
    return left << right_bits | right


def keyed_permutation(key: int, count: int, positions: torch.Tensor) -> torch.Tensor:
    """The images of int64 positions in [0, count) under the permutation that the key selects."""
    if count == 1:
        return torch.zeros_like(positions)
    bits = max((count - 1).bit_length(), 2)
    out = _feistel_permute(key, positions, bits // 2, bits - bits // 2)
    while True:  # a value outside [0, count) is mapped again; its cycle returns
        outside = (out >= count).nonzero().squeeze(1)
        if outside.numel() == 0:
            return out
        out[outside] = _feistel_permute(key, out[outside], bits // 2, bits - bits // 2)


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

    def _block(self, epoch: int, block: int) -> list[int]:
        indices = self._blocks.get((epoch, block))
        if indices is None:
            draw = philox4x32(self.seed, ORDER_DRAW, epoch)
            first = block * _BLOCK
            positions = torch.arange(first, min(first + _BLOCK, self.count))
            indices = keyed_permutation(draw[0] << 32 | draw[1], self.count, positions).tolist()
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
