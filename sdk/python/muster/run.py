"""A run: the handle of a program to its trial, or to a folder where there is no cluster."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
import time
import uuid as uuids
from types import TracebackType
from typing import Any, Callable, Iterator, Mapping, Optional

from muster import failure, media
from muster.checkpoint import (METADATA, Checkpoint, Storage, check_unchanged, list_files, settle,
                               write_metadata)
from muster.columns import encode
from muster.environment import RankAddress, Trial
from muster.errors import CheckpointError, Error, InvalidHyperparameters, ReportError
from muster.files import write_whole
from muster.ranks import Ranks
from muster.reporter import Reporter, Work
from muster.socket_sink import LINE_BYTES, SocketSink
from muster.stopping import Agreement, StopRequest
from muster.values import (GROUP_LIMIT, LAST_STEP, Hyperparameters, check_metadata, check_metrics,
                           check_name, check_object, check_step, number)

END_S = 600.0  # the end of the program waits so long for its reports
FAILED_S = 10.0  # and a program that has failed
LATEST = "checkpoint.latest"  # in the folder of the task, the id of the newest checkpoint
PARTS = ".parts"  # holds a folder for each rank while a checkpoint is written
PROGRESS_S = 1.0  # between two reports of the progress


class Run:
    """The handle of a program to its run. `muster.init()` makes it.

    Every rank may call every method. Rank 0 alone sends reports, progress and metadata; the same
    calls of other ranks are checked and end there. Methods that say "every rank" are meetings: each
    rank must call them, in the same order.
    """

    def __init__(self, address: RankAddress, hparams: Mapping[str, Any], seed: int,
                 storage: Storage, latest: Optional[Checkpoint], reporter: Optional[Reporter],
                 ranks: Ranks, request: Optional[StopRequest] = None, trial: Optional[Trial] = None,
                 folder: Optional[pathlib.Path] = None,
                 task_folder: Optional[str] = None) -> None:
        self.hparams: dict[str, Any] = Hyperparameters(hparams)  #: the hyperparameters
        self.latest = latest  #: the checkpoint to go on from; None: begin at the beginning
        self.seed = seed  #: for random numbers; it stays the same when the run starts again
        self.folder = folder  #: the folder of a run outside a cluster
        self.trial_id = trial.trial_id if trial else None
        self.experiment_id = trial.experiment_id if trial else None
        self.rank, self.world_size = address.rank, address.world_size
        self.local_rank = address.local_rank
        self._trial, self._storage, self._reporter = trial, storage, reporter
        self._task_folder = pathlib.Path(task_folder) if task_folder else None
        self._request, self._ranks = request, ranks
        self._agreement = Agreement(ranks, request)
        self._names: dict[str, set[str]] = {}  # of each group, the names that were checked
        self._newest: dict[str, tuple[int, dict[str, float]]] = {}  # of each group, its last report
        self._facts: dict[str, Any] = {}  # the metadata that this process has reported
        self._end, self._progress_time = -1, 0.0
        self._unusable = ""  # says why the run takes no more calls

    # reports

    def report(self, step: int, metrics: Optional[Mapping[str, float]] = None, /, *,
               group: str = "training", **values: float) -> None:
        """Reports metrics of a step: `run.report(10, loss=0.3)` or `run.report(10, {"loss": 0.3})`.

        It returns at once. Reports arrive in their order; none is lost or counted twice, also when
        the master is away for a time. The values are numbers, or tensors and arrays of one element.
        A metric has one value in a step and group.
        """
        if metrics is not None:
            values = join(metrics, values)
        known = self._names.get(group)
        if known is None or self._unusable or type(step) is not int or not values or \
                not isinstance(values, dict) or not values.keys() <= known or \
                not 0 <= step <= LAST_STEP:
            step, values = self._check_report(step, group, values)
        for value in values.values():
            if type(value) is not float:
                values = {name: number(f"run.report(step={step})", name, value)
                          for name, value in values.items()}
                break
        newest = self._newest.get(group)
        if newest and newest[0] == step:
            self._newest[group] = (step, merge(step, group, newest[1], values))
        else:
            self._newest[group] = (step, values)
        if self._reporter:
            self._reporter.add((group, step, time.time_ns() // 1000, values))

    def _check_report(self, step: Any, group: Any, values: Any) -> tuple[int, dict[str, float]]:
        """The long form of the checks, for names that are new and for all that looks wrong."""
        call = f"run.report(step={step!r})"
        self._check_usable(call)
        step = check_step(call, step)
        check_name(call, "group", group, GROUP_LIMIT)
        values = check_metrics(call, values)
        self._names.setdefault(group, set()).update(values)
        return step, values

    def validate(self, step: int, metrics: Optional[Mapping[str, float]] = None, /,
                 **values: float) -> None:
        """Reports validation metrics. They drive the search and choose the best checkpoint."""
        self.report(step, metrics, group="validation", **values)

    def progress(self, fraction: float) -> None:
        """Reports how much of the run is done, from 0 to 1. run.steps() does it by itself."""
        call = f"run.progress({fraction!r})"
        self._check_usable(call)
        value = number(call, "fraction", fraction)
        if not 0 <= value <= 1:
            raise ReportError(f"{call}: the progress is a number from 0 to 1")
        if self._reporter:
            self._reporter.add(encode({"kind": "progress", "progress": value}))

    def image(self, step: int, name: str, value: Any) -> None:
        """Stores a picture of a step: PNG bytes, or an array or tensor of (height, width), (height,
        width, channels) or torch's (channels, height, width). Floats are 0 to 1."""
        self._store_media(step, name, media.image, value)

    def histogram(self, step: int, name: str, value: Any, bins: int = 64) -> None:
        """Stores the distribution of numbers at a step: an array or list of any shape."""
        self._store_media(step, name, lambda numbers: media.histogram(numbers, bins), value)

    def table(self, step: int, name: str, value: Any) -> None:
        """Stores a table of a step: a list of dictionaries, or a dictionary of columns."""
        self._store_media(step, name, media.table, value)

    def text(self, step: int, name: str, value: str) -> None:
        """Stores a text of a step, such as a sample of a language model."""
        self._store_media(step, name, media.text, value)

    def _store_media(self, step: int, name: str, encode_value: Callable[[Any], media.Media],
                     value: Any) -> None:
        """Encodes a value now, and writes it in the thread of the reports."""
        call = f"step {step!r}, {name!r}"
        self._check_usable(call)
        step = check_step(call, step)
        try:
            media.check_name(name)
            item = encode_value(value)
        except media.MediaError as error:
            raise ReportError(f"{call}: {error}") from None
        if self._reporter:
            self._reporter.add_work(Work(lambda: self._write_item(step, name, item),
                                         len(item.content)))

    def _write_item(self, step: int, name: str, item: media.Media) -> bytes:
        digest = media.store(self._storage.media, item.content)
        return encode({"kind": "media", "items": [
            {"step": step, "name": name, "type": item.type, "format": item.format, "digest": digest,
             "size": len(item.content), "time": time.time_ns() // 1000}]})

    def metadata(self, facts: Optional[Mapping[str, Any]] = None, /, **values: Any) -> None:
        """Stores facts about the run: `run.metadata(samples=1000)`, or a dictionary of them. Later
        calls add to them. NaN and the infinities become texts."""
        self._check_usable("run.metadata()")
        if facts is not None:
            if not isinstance(facts, Mapping):
                raise ReportError(f"run.metadata(): {facts!r:.100} is no dictionary; pass "
                                  "name=value, or one dictionary of names and values")
            values = {**facts, **values}
        values = check_object("run.metadata()", values, stored=True)
        merged = check_metadata("run.metadata()", values, self._facts)
        line = self._line("run.metadata()", {"kind": "metadata", "metadata": values})
        self._facts = merged
        if self._reporter:
            self._reporter.add(line)

    def flush(self, seconds: float = END_S) -> bool:
        """Waits until all reports so far would survive a kill of this process."""
        return not self._reporter or self._reporter.flush(seconds)

    # steps

    def steps(self, start: int, end: int) -> Iterator[int]:
        """The steps after `start` up to `end`: start + 1, ..., end. Every rank calls it.

        A step number counts the steps that are complete when the body of the loop ends, so a
        checkpoint of step N goes on with `run.steps(N, end)`. The loop reports its progress. When
        the run is asked to stop, the loop ends after one more step, in which run.due() is true.
        """
        call = f"run.steps({start!r}, {end!r})"
        self._check_usable(call)
        start, end = check_step(call, start), check_step(call, end)
        if start >= end:
            self.warn_of_no_step(call, "Begin at `run.latest.step if run.latest.own else 0` to "
                                 f"train {end} steps more, or raise the last step")
        self._ranks.gather(call, None)
        self._agreement.restart()
        return self._walk(call, start, end)

    def warn_of_no_step(self, call: str, remedy: str) -> None:
        """Warns on rank 0 that a warm start leaves no step to train; the callbacks use it."""
        if self.rank == 0 and self.latest and not self.latest.own:
            failure.warn(f"{call}: no step is left. The run starts from checkpoint "
                         f"{self.latest.uuid} of another training, which is at step "
                         f"{self.latest.step}. {remedy}")

    def _walk(self, call: str, start: int, end: int) -> Iterator[int]:
        if self._request:
            self._request.start()
        self._end = end
        for step in range(start + 1, end + 1):
            self._check_usable(call)
            stop = self._agreement.at(step) and step < end
            if stop and self._request:
                self._request.acknowledge()
            yield step
            now = time.monotonic()
            if now - self._progress_time >= PROGRESS_S or step == end:
                self._progress_time = now
                self.progress(step / end)
            if stop:
                break

    def due(self, step: int, every: int) -> bool:
        """Whether to save or to validate in this step: after each `every` steps, in the last step
        of run.steps(), and in the step before the run stops. It is the same on all ranks."""
        if type(every) is not int or every < 1:
            raise ReportError(f"run.due(every={every!r}): the distance is a whole number of 1 "
                              "or more")
        return step % every == 0 or step == self._end or self._agreement.decided

    def should_stop(self, step: int) -> bool:
        """Whether to save and to leave now, for loops without run.steps(). Every rank calls it,
        with the same step."""
        call = f"run.should_stop({step!r})"
        self._check_usable(call)
        step = check_step(call, step)
        if self._request:
            self._request.start()
        stop = self._agreement.at(step)
        if stop and self._request:
            self._request.acknowledge()
        return stop

    @property
    def stopping(self) -> bool:
        """Whether the run was asked to stop, so that the end of the loop is not its completion."""
        return self._agreement.decided

    # ranks

    def barrier(self) -> None:
        """Waits until every rank is here."""
        self._meet("run.barrier()", None)

    def gather(self, value: Any) -> list:
        """The values of all ranks, in the order of ranks, on every rank: numbers, texts, lists and
        dictionaries. Every rank calls it."""
        return self._meet("run.gather()", check_object("run.gather()", value))

    def broadcast(self, value: Any = None) -> Any:
        """The value of rank 0, on every rank. Every rank calls it."""
        sent = check_object("run.broadcast()", value) if self.rank == 0 else None
        return self._meet("run.broadcast()", sent)[0]

    def _meet(self, call: str, value: Any) -> list:
        self._check_usable(call)
        return self._ranks.gather(call, value)

    # checkpoints

    @contextlib.contextmanager
    def checkpoint(self, step: int, *, sharded: bool = False,
                   metadata: Optional[Mapping[str, Any]] = None) -> Iterator[pathlib.Path]:
        """A folder to write a checkpoint into; it is stored when the body ends without exception.

        Without `sharded`, the checkpoint is what rank 0 writes; other ranks get a folder that is
        thrown away, so they may also skip it. With `sharded`, every rank calls it and writes files
        with names of its own, which lie together in the stored checkpoint.
        """
        call = f"run.checkpoint(step={step!r})"
        self._check_usable(call)
        step = check_step(call, step)
        facts = check_object(call, dict(metadata or {}), stored=True)
        if sharded and self.world_size > 1:
            writing = self._write_together(call, step, facts)
        elif self.rank == 0:
            writing = self._write_alone(call, step, facts)
        else:
            writing = throw_away()
        with writing as folder:
            yield folder

    @contextlib.contextmanager
    def _write_alone(self, call: str, step: int, facts: dict[str, Any]) -> Iterator[pathlib.Path]:
        name = str(uuids.uuid4())
        folder = self._storage.make_temporary(name)
        try:
            yield folder
            sizes = list_files(folder)
            self._store(call, name, step, facts, sizes)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @contextlib.contextmanager
    def _write_together(self, call: str, step: int,
                        facts: dict[str, Any]) -> Iterator[pathlib.Path]:
        """Each rank writes into a part of its own; rank 0 moves the files together."""
        name, mine = str(uuids.uuid4()), {"error": "", "path": ""}
        if self.rank == 0:
            mine = outcome(lambda: {"path": str(self._storage.make_temporary(name))})
        begun = self._ranks.gather(call, mine)
        raise_fault(call, begun)
        folder = pathlib.Path(begun[0]["path"])
        part = folder / PARTS / str(self.rank)
        mine = outcome(lambda: part.mkdir(parents=True) or {})
        fault: Optional[BaseException] = None
        try:
            if not mine["error"]:
                yield part
                mine = outcome(lambda: {"sizes": settle(part)})
        except BaseException as error:
            fault, mine = error, {"error": f"{type(error).__name__}: {error}"}
        try:
            written = self._ranks.gather(call + ", written", mine)
            if fault:
                raise fault
            raise_fault(call, written)
            if self.rank == 0:
                mine = outcome(lambda: self._store(call, name, step, facts,
                                                   join_parts(folder, written)) or {})
            raise_fault(call, self._ranks.gather(call + ", stored", mine))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _store(self, call: str, name: str, step: int, facts: dict[str, Any],
               sizes: dict[str, int]) -> None:
        """Makes the files of a temporary folder a checkpoint."""
        folder = self._storage.temporary(name)
        if not sizes:
            raise CheckpointError(f"{call}: nothing was written into the folder; save at least one "
                                  "file into it")
        write_metadata(folder, step, facts)
        stored = settle(folder)
        check_unchanged(sizes, {path: size for path, size in stored.items() if path != METADATA})
        line = self._line(call, {"kind": "checkpoint", "uuid": name, "steps": step,
                                 "metadata": facts, "resources": stored,
                                 "time": time.time_ns() // 1000})
        path = self._storage.publish(name)
        sent = self._reporter.send(line) if self._reporter else None
        if sent and sent.refused:
            shutil.rmtree(path, ignore_errors=True)
            raise CheckpointError(f"{call}: the cluster did not take the checkpoint: {sent.error}")
        if sent and sent.error:
            raise CheckpointError(f"{call}: nobody knows whether the cluster took the checkpoint: "
                                  f"{sent.error}; if it is not in the list of checkpoints, remove "
                                  f"{path}")
        if self._trial and self._task_folder:
            self._name_latest(self._task_folder / LATEST, name)

    def _name_latest(self, path: pathlib.Path, name: str) -> None:
        """Tells the command `muster checkpoint latest` in this start about a new checkpoint."""
        try:
            write_whole(path, name.encode())
        except OSError as error:
            failure.warn(f"`muster checkpoint latest` does not find checkpoint {name}: {error}")

    # the end

    def invalid(self, reason: str) -> None:
        """Ends the program because its hyperparameters cannot work. The trial is not started again,
        a search goes on without it, and its reason is this text."""
        self._check_usable("run.invalid()")
        failure.warn(f"invalid hyperparameters: {reason}")
        text = failure.cut(" ".join(str(reason).split()), failure.TEXT_BYTES)
        message = {"kind": "exited", "reason": "INVALID_HP", **({"text": text} if text else {})}
        try:
            self._send_now(message)
        except Error as error:
            failure.warn(f"the cluster may not know about the invalid hyperparameters: {error}")
        raise InvalidHyperparameters(str(reason))

    def finish(self) -> None:
        """Waits until the reports are safe, and ends the run. The end of `with` does it, and so
        does the end of the program."""
        self._finish(END_S)

    def _finish(self, seconds: float) -> None:
        if self._unusable:
            return
        self._unusable = "the run has ended"
        if self._reporter and not self._reporter.close(seconds):
            failure.warn(f"the last reports were not taken within {seconds:.0f} s and are lost")
        if self._request:
            if not self._request.wait_until_acknowledged(seconds):
                failure.warn("the master did not take the acknowledgement of the stop request")
            self._request.close()
        self._ranks.close()

    @property
    def ended(self) -> bool:
        """Whether the run takes no more calls."""
        return bool(self._unusable)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: Optional[type], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if error and kind:
            self.fail(kind, error, trace)
        self.finish()

    def fail(self, kind: type, error: BaseException, trace: Optional[TracebackType]) -> None:
        """Tells the cluster about an exception that ends the program."""
        line = None if self._unusable else failure.describe(self.rank, kind, error, trace)
        if line:
            with contextlib.suppress(Exception):
                self._send_now(line)
            self._finish(FAILED_S)

    def leave(self, reason: str) -> None:
        """Makes the run unusable without any output, in a fork of the program."""
        if self._unusable:
            return
        self._unusable = reason
        if self._reporter:
            self._reporter.abandon()
        self._ranks.close()
        self._reporter, self._request = None, None

    def _send_now(self, message: Mapping[str, Any]) -> None:
        """Sends a line from any rank and waits until it is safe."""
        line = encode(message)
        if self._reporter and (self._trial or not self._task_folder):
            self._reporter.send(line, FAILED_S)
        elif self._task_folder:
            sink = SocketSink(self._task_folder, failure.warn, FAILED_S)
            try:
                sink.write([line])
            finally:
                sink.close()

    def _line(self, call: str, message: Mapping[str, Any]) -> bytes:
        line = encode(message)
        if len(line) > LINE_BYTES:
            raise ReportError(f"{call}: {len(line)} bytes with all names and values; at most "
                              f"{LINE_BYTES} fit, so use fewer or shorter ones")
        return line

    def _check_usable(self, call: str) -> None:
        if self._unusable:
            raise Error(f"{call}: {self._unusable}")


def join(metrics: Any, values: dict[str, float]) -> Any:
    """The metrics of both forms of a report; something else than a mapping is refused later."""
    return {**metrics, **values} if isinstance(metrics, Mapping) else metrics


def merge(step: int, group: str, before: dict[str, float],
          values: dict[str, float]) -> dict[str, float]:
    """The values of two reports of one step, which must have different names."""
    twice = sorted(before.keys() & values.keys())
    if twice:
        raise ReportError(f"run.report(step={step}): {twice[0]!r} has a value in step {step} of "
                          f"group {group!r} already; report it once, or count steps up")
    return {**before, **values}


@contextlib.contextmanager
def throw_away() -> Iterator[pathlib.Path]:
    """A folder for ranks whose files are not needed."""
    with tempfile.TemporaryDirectory(prefix="muster-") as folder:
        yield pathlib.Path(folder)


def outcome(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a piece of work, or its error, for the other ranks."""
    try:
        return {"error": "", **work()}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def raise_fault(call: str, outcomes: list[dict[str, Any]]) -> None:
    """Raises the first error of any rank, on every rank."""
    for rank, found in enumerate(outcomes):
        if found["error"]:
            raise CheckpointError(f"{call}: rank {rank} failed, so the checkpoint is not stored: "
                                  f"{found['error']}")


def join_parts(folder: pathlib.Path, written: list[dict[str, Any]]) -> dict[str, int]:
    """Moves the files of all ranks into one folder."""
    owners: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for rank, found in enumerate(written):
        for path, size in found["sizes"].items():
            if path in owners:
                raise CheckpointError(f"ranks {owners[path]} and {rank} both wrote {path}; put the "
                                      "rank into the name, such as f'model-{run.rank}.pt'")
            owners[path], sizes[path] = rank, size
    for path, rank in owners.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(folder / PARTS / str(rank) / path, folder / path)
        except FileNotFoundError:
            raise CheckpointError(f"rank 0 does not see {path} of rank {rank}; the ranks of "
                                  "several machines need a checkpoint storage that all of them "
                                  "share") from None
    shutil.rmtree(folder / PARTS)
    return sizes
