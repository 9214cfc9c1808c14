"""Numbers that every rank learns from every other, bit by bit.

Each rank has a row of 32-bit words: integers, then the bits of float32 numbers. All ranks get the
rows of all, so they can compare them or sum them in the same order. The rows of a step travel with
the integers of the last bucket: every rank adds its row to zeros. Other rows are gathered.
"""

from __future__ import annotations

from typing import Any, Sequence

import torch
import torch.distributed as dist

from muster.torch.errors import ExactError


def world_of(group: Any) -> tuple[int, int]:
    """The number of ranks and this rank's number."""
    if not (dist.is_available() and dist.is_initialized()):
        return 1, 0
    return dist.get_world_size(group), dist.get_rank(group)


def fill_row(row: torch.Tensor, integers: Sequence[int], numbers: Sequence[torch.Tensor]) -> None:
    """Writes integers of at most 31 bits, then tensors of float32, to a row of int32.

    The rest of the row stays.
    """
    # Made on the CPU, so the copy to a GPU does not wait for the GPU.
    words = torch.tensor(integers, dtype=torch.int32).to(row.device, non_blocking=True)
    size = len(integers) + sum(number.numel() for number in numbers)
    torch.cat([words.view(torch.float32), *numbers], out=row.view(torch.float32)[:size])


def gather_rows(row: torch.Tensor, group: Any) -> torch.Tensor:
    """int32 [ranks, words], on the CPU; rows of all ranks have the same length."""
    world = world_of(group)[0]
    if world == 1:
        return row.cpu().unsqueeze(0)
    rows = [torch.empty_like(row) for _ in range(world)]
    dist.all_gather(rows, row, group=group)
    return torch.stack(rows).cpu()


def refuse_disagreement(rows: Sequence[Sequence[int]], nouns: Sequence[str]) -> None:
    """ExactError if the integers of the ranks, one row each, differ in a column."""
    for column, noun in zip(zip(*rows), nouns):
        if min(column) != max(column):
            raise ExactError(f"the ranks disagree about {noun} (from {min(column)} to "
                             f"{max(column)}): start all ranks from the same checkpoint, data set "
                             "and program")
