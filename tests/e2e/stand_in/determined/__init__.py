"""A stand-in for Determined's library, for tests only (../README.md)."""

from determined._info import ClusterInfo, RendezvousInfo, TrialInfo, get_cluster_info
from determined import core

__version__ = "0.38.1"
LOG_FORMAT = "%(levelname)s: [%(process)s] %(name)s: %(message)s"


class InvalidHP(Exception):
    """A program raises it for hyperparameters that it cannot train."""


__all__ = ["ClusterInfo", "InvalidHP", "LOG_FORMAT", "RendezvousInfo", "TrialInfo", "core", "get_cluster_info"]
