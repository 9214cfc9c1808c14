from determined.core._checkpoint import CheckpointContext
from determined.core._context import Context, init
from determined.core._distributed import DistributedContext
from determined.core._preempt import PreemptContext, PreemptMode
from determined.core._searcher import SearcherContext, SearcherOperation
from determined.core._train import EarlyExitReason, TrainContext

__all__ = ["CheckpointContext", "Context", "DistributedContext", "EarlyExitReason", "PreemptContext", "PreemptMode",
           "SearcherContext", "SearcherOperation", "TrainContext", "init"]
