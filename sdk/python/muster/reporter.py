"""The way of reports out of the training thread.

report() appends to a queue and returns. A thread takes what has gathered, packs it into columns and
hands it to a sink: the socket of the task's supervisor (muster.socket_sink) or a file
(muster.local).
"""

from __future__ import annotations

import collections
import threading
import time
from typing import Any, Callable, Optional, Protocol, Union

from muster.columns import Packer, Report

GATHER_S = 0.1  # a report waits so long for others of its line
QUEUE_REPORTS = 200_000  # reports in memory; beyond them report() waits
WORK_BYTES = 64 << 20  # of images and the like in memory; beyond them their calls wait
TAKE = 20_000  # reports in one round


class Sink(Protocol):
    """Where lines go."""

    def write(self, lines: list[bytes]) -> list[str]:
        """Returns when all lines are safe from a kill of this process; waits if it must. The
        answer holds a text for each line that was refused."""

    def close(self) -> None:
        """Frees the sink. A write() in another thread ends with an exception."""

    def abandon(self) -> None:
        """Forgets the sink in a fork of the program, without an effect on the parent."""


class Work:
    """A piece of work for the thread, in its place among the reports: it returns a line."""

    def __init__(self, make: Callable[[], bytes], size: int) -> None:
        self.make, self.size = make, size


class Mark:
    """A place in the queue; flush() waits until the thread has passed it. It may carry a line; then
    `error` says why it may not be stored, and `refused` says that it is certainly not."""

    def __init__(self, line: bytes = b"") -> None:
        self.line = line
        self.passed = threading.Event()
        self.error, self.refused = "", False


Item = Union[Report, bytes, Mark, Work]


class Reporter:
    """A queue, and the thread that empties it. Every method may be called from any thread."""

    def __init__(self, sink: Sink, warn: Any) -> None:
        self._sink, self._warn = sink, warn
        self._queue: collections.deque[Item] = collections.deque()
        self._wake, self._urgent = threading.Event(), threading.Event()
        self._idle = True
        self._closed = False
        self._work_bytes, self._work_lock = 0, threading.Lock()  # held by pieces of work
        self._thread = threading.Thread(target=self._work, name="muster-reports", daemon=True)
        self._thread.start()

    def add(self, item: Item) -> None:
        """Adds a report or a line. It waits only where too many reports are in memory."""
        queue = self._queue
        queue.append(item)
        if self._idle:
            self._wake.set()
        if len(queue) > QUEUE_REPORTS:
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        self._urgent.set()
        while len(self._queue) > QUEUE_REPORTS // 2 and self._thread.is_alive():
            time.sleep(0.005)

    def add_work(self, work: Work) -> None:
        """Adds a piece of work. It waits where too many bytes are in memory."""
        while self._work_bytes > WORK_BYTES and self._thread.is_alive():
            self._urgent.set()
            time.sleep(0.005)
        with self._work_lock:
            self._work_bytes += work.size
        self.add(work)

    def _add_urgent(self, mark: Mark) -> Mark:
        self.add(mark)
        self._urgent.set()
        self._wake.set()
        return mark

    def flush(self, seconds: float) -> bool:
        """Waits until everything before this call is safe. False: not within these seconds."""
        return self._add_urgent(Mark()).passed.wait(seconds)

    def send(self, line: bytes, seconds: Optional[float] = None) -> Mark:
        """Sends a line behind everything before it and waits until it is safe. `error` of the
        answer is empty, or says why the line was not stored."""
        mark = self._add_urgent(Mark(line))
        if not mark.passed.wait(seconds):
            mark.error = f"no answer within {seconds} s"
        return mark

    def close(self, seconds: float) -> bool:
        """Flushes, ends the thread and frees the sink."""
        done = self.flush(seconds)
        self._closed = True
        self._urgent.set()
        self._wake.set()
        if not done:
            self._sink.close()
        self._thread.join(1.0)
        if done:
            self._sink.close()
        return done

    def abandon(self) -> None:
        """Forgets everything in a fork of the program, which has no such thread."""
        self._closed = True
        self._sink.abandon()

    def _work(self) -> None:
        while not self._closed:
            self._idle = True
            if not self._queue:
                self._wake.wait()
            self._idle = False
            self._wake.clear()
            self._urgent.wait(GATHER_S)
            self._urgent.clear()
            while self._queue and not self._closed:
                self._send_some()

    def _send_some(self) -> None:
        packer, queue = Packer(), self._queue
        mark = None
        for _ in range(min(len(queue), TAKE)):
            item = queue.popleft()
            if type(item) is tuple:
                packer.add_report(item)
            elif isinstance(item, bytes):
                packer.add_line(item)
            elif isinstance(item, Work):
                self._do(item, packer)
            else:
                mark = item
                break
        _, broken = self._write(packer.take())
        if mark and mark.line:
            refused, broken = ("", broken) if broken else self._write([mark.line])
            mark.error, mark.refused = refused or broken, bool(refused)
        if mark:
            mark.passed.set()

    def _do(self, work: Work, packer: Packer) -> None:
        try:
            packer.add_line(work.make())
        except Exception as error:
            self._warn(str(error))
        with self._work_lock:
            self._work_bytes -= work.size

    def _write(self, lines: list[bytes]) -> tuple[str, str]:
        """Returns why the first line was refused, and why nobody knows which lines are stored; both
        are empty if all lines are."""
        if not lines:
            return "", ""
        try:
            refused, broken = self._sink.write(lines), ""
        except Exception as error:  # the training goes on, whatever happens to its reports
            refused, broken = [], f"{type(error).__name__}: {error}"
        for text in refused[:3] or [broken] * bool(broken):
            self._warn(f"a report was not stored: {text}")
        return refused[0] if refused else "", broken
