"""Muster from inside a program: metrics, checkpoints, stop requests and meetings of ranks.

    import muster
    with muster.init() as run:
        model, step = build(run.hparams), 0
        if run.latest:
            step = load(model, run.latest.path)
        for step in run.steps(step, 10_000):
            run.report(step, loss=train(model))
            if run.due(step, every=500):
                with run.checkpoint(step) as folder:
                    save(model, folder / "model.pt")

Outside a cluster the same program prints its metrics and writes to ./muster-runs.
"""

from __future__ import annotations

import atexit
import os
import pathlib
import sys
import time
from types import TracebackType
from typing import Any, Mapping, Optional

from muster import failure
from muster.checkpoint import Checkpoint, Storage, open_checkpoint
from muster.environment import RankAddress, Trial, read_address, read_trial, storage_folder
from muster.errors import (AllocationEnded, CheckpointError, Error, InvalidHyperparameters,
                           RankError, ReportError)
from muster.local import CONTENTS, FOLDER, LocalSink, cut_metrics, latest_checkpoint, new_folder
from muster.media import folder_of
from muster.ranks import Ranks
from muster.reporter import Reporter
from muster.run import Run
from muster.socket_sink import SocketSink
from muster.stopping import Master, StopRequest

__all__ = ["AllocationEnded", "Checkpoint", "CheckpointError", "Error", "InvalidHyperparameters",
           "RankError", "ReportError", "Run", "current", "init"]
__version__ = "0.1.0"

_current: Optional[Run] = None


def init(name: Optional[str] = None, *, hparams: Optional[Mapping[str, Any]] = None, seed: int = 0,
         resume: bool = False, quiet: bool = False) -> Run:
    """Begins the run of this process. Use it as a context manager.

    `hparams` are defaults: the experiment's hyperparameters replace those of the same name. The
    other arguments matter outside a cluster: `name` of the folder in ./muster-runs (a number by
    default), `seed`, `resume` to go on from the newest checkpoint of the named or the newest run,
    and `quiet` to print no metrics. MUSTER_RUN_NAME and MUSTER_RESUME=1 replace name and resume.
    """
    global _current
    if current():
        raise Error("muster.init(): the run of this process has begun; call init() once and pass "
                    "the run on, or end it with run.finish()")
    address, trial = read_address(os.environ), read_trial(os.environ)
    if trial:
        run = _begin_trial(address, trial, dict(hparams or {}))
    else:
        if os.environ.get("DET_TASK_ID") and address.rank == 0:
            failure.warn("this task is no trial, so its reports go to ./muster-runs")
        run = _begin_local(address, dict(hparams or {}), seed, quiet,
                           os.environ.get("MUSTER_RUN_NAME") or name,
                           resume or os.environ.get("MUSTER_RESUME", "0") not in ("", "0"))
    _current = run
    return run


def current() -> Optional[Run]:
    """The run of this process; None before init() and after the end."""
    return _current if _current and not _current.ended else None


def _begin_trial(address: RankAddress, trial: Trial, hparams: dict[str, Any]) -> Run:
    root = storage_folder(trial.config)
    storage = Storage(root, trial.allocation_id,
                      folder_of(root, trial.cluster_id, trial.experiment_id))
    latest, reporter, request = None, None, None
    if trial.latest:
        source = (trial.config.get("searcher") or {}).get("source_checkpoint_uuid")
        latest = open_checkpoint(storage.path(trial.latest), trial.latest,
                                 trial.latest_step or None, own=trial.latest != source)
    if address.rank == 0:
        storage.remove_leftovers()
        reporter = Reporter(SocketSink(trial.run_dir, failure.warn), failure.warn)
        master = Master(trial, os.environ.get("DET_MASTER_CERT_FILE"))
        request = StopRequest(master, trial.allocation_id, failure.warn)
    return Run(address, {**hparams, **trial.hparams}, trial.seed, storage, latest, reporter,
               Ranks(address, failure.warn), request, trial, task_folder=str(trial.run_dir))


def _begin_local(address: RankAddress, hparams: dict[str, Any], seed: int, quiet: bool,
                 name: Optional[str], resume: bool) -> Run:
    ranks = Ranks(address, failure.warn)
    folder, reporter = None, None
    if address.rank == 0:
        folder = new_folder(pathlib.Path.cwd() / FOLDER, name, resume)
    folder = pathlib.Path(ranks.gather("muster.init()", str(folder))[0])
    latest = latest_checkpoint(folder) if resume else None
    ranks.gather("muster.init(), found", None)  # before rank 0 changes the files
    storage = Storage(folder / "checkpoints", f"muster.{time.time_ns()}", folder / CONTENTS)
    if address.rank == 0:
        cut_metrics(folder, latest.step if latest else 0)
        storage.remove_leftovers()
        reporter = Reporter(LocalSink(folder, quiet), failure.warn)
        if not quiet:
            print(f"muster: the run is in {os.path.relpath(folder)}" +
                  (f" and goes on from step {latest.step}" if latest else ""), flush=True)
    return Run(address, hparams, seed, storage, latest, reporter, ranks, folder=folder,
               task_folder=os.environ.get("MUSTER_RUN_DIR"))


def _end() -> None:
    if _current:
        _current.finish()


def _forget_in_fork() -> None:
    if _current:
        _current.leave("this process is a fork of the program that called muster.init()")


def _tell_failure(kind: type, error: BaseException, trace: Optional[TracebackType]) -> None:
    if _current:
        _current.fail(kind, error, trace)
    _hook_before(kind, error, trace)


_hook_before, sys.excepthook = sys.excepthook, _tell_failure
atexit.register(_end)
os.register_at_fork(after_in_child=_forget_in_fork)
