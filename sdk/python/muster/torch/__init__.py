"""Bit-exact data parallelism for PyTorch.

    exact = muster.torch.Exact(model, optimizer, micro_batch=8, global_batch=64)
    for batch in exact.batches(dataset):
        exact.step(loss_fn, batch)

The weights after a step are the same bits on 1, 2, 3 or more ranks, and however often the training
was killed and resized (for the same device, library version and number of threads).
"""

from muster.torch.batches import Batch
from muster.torch.errors import DeterminismError, ExactError, GradientError, StateError
from muster.torch.exact import Exact

__all__ = ["Batch", "DeterminismError", "Exact", "ExactError", "GradientError", "StateError"]
