import sys

import determined
from determined._info import get_cluster_info
from determined._session import Session
from determined.core._checkpoint import CheckpointContext, storage_of
from determined.core._distributed import DistributedContext
from determined.core._preempt import PreemptContext, PreemptMode
from determined.core._searcher import SearcherContext
from determined.core._train import EarlyExitReason, MetricShipper, TrainContext


class Context:
    def __init__(self, info, distributed, preempt_mode):
        trial = info.trial
        storage = trial._config["checkpoint_storage"]
        self.info, self.distributed = info, distributed
        self._session = Session(info.master_url)
        base = storage_of(storage)
        answer = self._session.post("/api/v1/runs/start", {"runId": trial.trial_id, "checkpointStorage": storage})
        self._metrics = MetricShipper(self._session, trial.trial_id, trial._trial_run_id)
        self.train = TrainContext(self._session, trial, self._metrics)
        self.checkpoint = CheckpointContext(self._session, info, distributed, base, answer.get("storageId"))
        self.preempt = PreemptContext(self._session, info.allocation_id, distributed, preempt_mode)
        self.searcher = SearcherContext(self._session, distributed, trial)

    def __enter__(self):
        self.preempt.start()
        self._metrics.start()
        return self

    def __exit__(self, kind, error, trace):
        self.preempt.close()
        self.distributed.close()
        self._metrics.close()
        if isinstance(error, determined.InvalidHP):
            self.train.report_early_exit(EarlyExitReason.INVALID_HP)
            sys.exit(0)
        self._session.close()


def init(*, distributed=None, preempt_mode=PreemptMode.WorkersAskChief):
    info = get_cluster_info()
    if info is None or info.task_type != "TRIAL":
        raise RuntimeError("this stand-in works only in a trial")
    if distributed is None and (len(info.container_addrs) > 1 or len(info.slot_ids) > 1):
        raise ValueError("a task with several slots needs a DistributedContext")
    return Context(info, distributed or DistributedContext.of_one(), preempt_mode)
