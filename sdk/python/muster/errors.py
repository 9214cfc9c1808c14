"""The exceptions of the package. Each text names the place and the remedy."""

from __future__ import annotations


class Error(RuntimeError):
    """The base of all exceptions of this package."""


class ReportError(Error, ValueError):
    """A report, a step or a name that cannot be stored. Nothing of it was stored."""


class CheckpointError(Error):
    """A checkpoint was not stored. The checkpoints before it are untouched."""


class RankError(Error):
    """A rank is gone, or the ranks disagree about what to do next."""


class InvalidHyperparameters(SystemExit):
    """The program ends because its hyperparameters cannot work; the trial is not started again."""

    def __init__(self, reason: str) -> None:
        super().__init__(1)
        self.reason = reason

    def __str__(self) -> str:
        return f"invalid hyperparameters: {self.reason}"


class AllocationEnded(SystemExit):
    """The cluster has ended this start of the trial and counts no failure (exit code 80)."""

    def __init__(self) -> None:
        super().__init__(80)
