"""Exceptions of muster.torch. Each text names the place and the remedy."""

from __future__ import annotations

from muster.errors import Error


class ExactError(Error):
    """The call was refused. It has changed neither weights nor optimizer nor position; only a
    forward pass that changes parameters has."""


class GradientError(ExactError):
    """A gradient is not a finite number or grew beyond every scale. Every rank raises it."""


class StateError(ExactError):
    """A saved state does not fit this training. Nothing of it was loaded."""


class DeterminismError(ExactError):
    """An operation of the model has no deterministic implementation, or two passes over the same
    samples gave different gradients."""
