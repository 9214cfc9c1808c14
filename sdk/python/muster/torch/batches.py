"""Batches of a data set: which samples a rank computes in a step, and how they are loaded."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Any, Callable, Iterator, Optional, Sequence

import torch

from muster.torch.errors import ExactError
from muster.torch.order import DATA_DRAW, SampleOrder, draw_key


def seed_generators(key: int) -> None:
    """Seeds the global generators of torch (all devices), Python and, if it is loaded, NumPy."""
    torch.default_generator.manual_seed(key)
    if torch.cuda.is_initialized():  # torch.manual_seed() would remember every call until it is
        torch.cuda.manual_seed_all(key)
    random.seed(key)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(key & 0xFFFFFFFF)


def generator_states() -> tuple[Any, Any, Any, Any]:
    """The states of the generators that seed_generators() seeds."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    numpy = sys.modules.get("numpy")
    return (torch.get_rng_state(), cuda, random.getstate(),
            numpy.random.get_state() if numpy else None)


def set_generator_states(states: tuple[Any, Any, Any, Any]) -> None:
    """Sets the states that generator_states() has returned."""
    own, cuda, plain, numpy = states
    torch.set_rng_state(own)
    if cuda is not None:
        torch.cuda.set_rng_state_all(cuda)
    random.setstate(plain)
    if numpy is not None:
        sys.modules["numpy"].random.set_state(numpy)


@contextlib.contextmanager
def kept_generators() -> Iterator[None]:
    """Leaves the global generators as they were: between two steps they are equal on all ranks."""
    states = generator_states()
    try:
        yield
    finally:
        set_generator_states(states)


def map_tensors(tree: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Applies a function to every tensor of nested tuples, lists and dictionaries."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_tensors(item, function) for item in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(map_tensors(item, function) for item in tree)
    if isinstance(tree, dict):
        return {key: map_tensors(item, function) for key, item in tree.items()}
    if hasattr(tree, "items") and hasattr(tree, "keys"):  # such as transformers.BatchEncoding
        return {key: map_tensors(item, function) for key, item in tree.items()}
    return tree


class Batch:
    """A global batch: this rank's micro-batches, and where the batch lies in the sequence."""

    def __init__(self, cursor: int, size: int, samples: int, micro_batches: Sequence[Any]) -> None:
        self.cursor = cursor  # position of the first sample in the endless sequence of samples
        self.size = size  # samples of all ranks
        self.samples = samples  # of the data set; 0: unknown
        self.micro_batches = micro_batches  # of this rank

    def __repr__(self) -> str:
        return (f"Batch(cursor={self.cursor}, size={self.size}, "
                f"micro_batches={len(self.micro_batches)} on this rank)")


FIRST_TWICE = -1  # in place of a cursor: the first micro-batch of the sequence, loaded twice


class MicroBatches(torch.utils.data.Dataset):
    """A data set whose items are micro-batches, keyed by (seed, cursor)."""

    def __init__(self, dataset: Any, order: SampleOrder, size: int,
                 collate: Optional[Callable[[list], Any]]) -> None:
        self.dataset, self.order, self.size = dataset, order, size
        plain = isinstance(dataset, torch.utils.data.TensorDataset) and collate is None
        self._tensors = dataset.tensors if plain else None
        self._collate = collate or torch.utils.data.default_collate

    def __getitem__(self, cursor: int) -> Any:
        if cursor == FIRST_TWICE:
            return [self[0], self[0]]
        indices = self.order.indices(cursor, self.size)
        if self._tensors is not None:
            chosen = torch.tensor(indices)
            return [tensor[chosen] for tensor in self._tensors]
        # Random transformations depend on the samples alone, not on the process that loads them.
        with kept_generators():
            seed_generators(draw_key(self.order.seed, DATA_DRAW, cursor, 0))
            return self._collate(fetch_samples(self.dataset, indices))


def fetch_samples(dataset: Any, indices: list[int]) -> list:
    """The samples of a data set with these indices; at once if it has __getitems__."""
    if hasattr(dataset, "__getitems__"):
        return dataset.__getitems__(indices)
    return [dataset[index] for index in indices]


def count_samples(dataset: Any, noun: str) -> int:
    """The number of samples. ExactError: the data set has no length or no samples by index;
    `noun` names it."""
    if isinstance(dataset, torch.utils.data.DataLoader):
        raise ExactError(f"{noun} is a DataLoader, whose order depends on the ranks: pass its data "
                         "set (loader.dataset) and its collate function (collate=...)")
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise ExactError(f"{noun} ({type(dataset).__name__}) has no length or no samples by "
                         "index: use a data set with __len__ and __getitem__, or call step() with "
                         "global batches of your own")
    return len(dataset)


class Loader:
    """Loads this rank's micro-batches in order, in other processes if wanted."""

    def __init__(self, source: MicroBatches, workers: int, pin: bool) -> None:
        self.source, self.workers, self.pin = source, workers, pin

    def load(self, cursors: Iterator[int]) -> Iterator[Any]:
        """The micro-batches that begin at these cursors."""
        if self.workers == 0:
            return (self.source[cursor] for cursor in cursors)
        return iter(torch.utils.data.DataLoader(
            self.source, sampler=_Cursors(cursors), batch_size=None, num_workers=self.workers,
            pin_memory=self.pin, generator=torch.Generator()))


class _Cursors(torch.utils.data.Sampler):
    def __init__(self, cursors: Iterator[int]) -> None:  # the base class wants a data source
        self._cursors = cursors

    def __iter__(self) -> Iterator[int]:
        return self._cursors
