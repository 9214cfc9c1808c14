"""The socket of the task's supervisor: one line of JSON for each report, one line as its answer
(docs/wire.md, Reports of programs)."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import threading
import time
from typing import Any, Optional

from muster.errors import Error

NAME = "report.sock"
LINE_BYTES = 1 << 20  # the longest line that the supervisor takes
LINES_AT_ONCE = 64  # sent before their answers are read
PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)  # between attempts; the last one repeats
COMPLAIN_S = 30.0  # a trouble that lasts so long is told


def connect(folder: pathlib.Path, seconds: Optional[float] = None) -> socket.socket:
    """Connects to the socket in a folder, whose calls then end after these seconds. The path goes
    through /proc, because the path of a socket has at most 107 bytes."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(seconds)
    try:
        client.connect(f"/proc/self/fd/{handle}/{NAME}")
    except BaseException:
        client.close()
        raise
    finally:
        os.close(handle)
    return client


class SocketSink:
    """Sends lines and waits for their answers. A broken connection is made again, and the lines
    without an answer are sent again: the master stores each report once.

    seconds: how long write() tries to send its lines; None: until the sink is closed.
    """

    def __init__(self, folder: pathlib.Path, warn: Any, seconds: Optional[float] = None) -> None:
        self._folder, self._warn, self._seconds = folder, warn, seconds
        self._socket: Optional[socket.socket] = None
        self._buffer = b""
        self._closed = threading.Event()
        self._trouble_since, self._told = 0.0, False
        try:
            self._socket = connect(folder, seconds)
        except OSError as error:
            raise Error(f"cannot reach the supervisor of this task at {folder}/{NAME}: {error}; an "
                        "agent that is older than this package has no such socket, so update it, "
                        "and programs in a container of their own need this folder") from None

    def write(self, lines: list[bytes]) -> list[str]:
        """Returns the refusals. Error: the lines were not taken within the time of the sink, or it
        was closed."""
        refused: list[str] = []
        end = time.monotonic() + self._seconds if self._seconds is not None else None
        for start in range(0, len(lines), LINES_AT_ONCE):
            self._write_some(lines[start:start + LINES_AT_ONCE], refused, end)
        return refused

    def close(self) -> None:
        """Ends the connection, also under a write() in another thread."""
        self._closed.set()
        connection = self._socket  # the other thread may reset it
        if connection:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()

    def abandon(self) -> None:
        """Forgets the connection in a fork of the program, whose parent goes on with it."""
        self._closed.set()
        self._reset()

    def _write_some(self, lines: list[bytes], refused: list[str], end: Optional[float]) -> None:
        attempt, trouble = 0, ""
        while lines:
            if self._closed.is_set():
                raise Error("the run has ended")
            if end is not None and time.monotonic() >= end:
                raise Error("the supervisor of this task has not taken a line within "
                            f"{self._seconds} s: {trouble}")
            left: list[bytes] = []
            try:
                left = self._exchange(lines, refused)
                if left:
                    trouble = "the spool of reports is full; the master is away or slow"
            except OSError as error:
                if self._closed.is_set():
                    raise Error("the run has ended") from None
                trouble = f"cannot reach the supervisor of this task: {error}"
                self._reset()
                left = lines
            if left:
                self._tell(trouble)
                self._closed.wait(PAUSES_S[min(attempt, len(PAUSES_S) - 1)])
                attempt += 1
            else:
                self._trouble_since, self._told = 0.0, False
            lines = left

    def _exchange(self, lines: list[bytes], refused: list[str]) -> list[bytes]:
        """Sends lines and reads their answers; returns the lines to send again."""
        if not self._socket:
            self._socket = connect(self._folder, self._seconds)
        self._socket.sendall(b"".join(lines))
        again, texts = [], []
        for line in lines:
            answer = self._read_answer()
            if answer.get("retry") or (again and "error" not in answer):
                again.append(line)  # and all that follow it: lines keep their order
            elif "error" in answer:
                texts.append(str(answer["error"]))
        refused += texts
        return again

    def _read_answer(self) -> dict[str, Any]:
        """The next answer. After a bad one, the connection is made again, so that no later line
        gets the answer of an earlier one."""
        line = self._read_line()
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self._reset()
            raise Error(f"{line[:100]!r} of {self._folder}/{NAME} is no answer to a report; only "
                        "the supervisor of this task may listen there")
        return answer

    def _read_line(self) -> bytes:
        while b"\n" not in self._buffer:
            part = self._socket.recv(65536) if self._socket else b""
            if not part:
                raise ConnectionError("the supervisor has closed the connection")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _reset(self) -> None:
        if self._socket:
            self._socket.close()
        self._socket, self._buffer = None, b""

    def _tell(self, text: str) -> None:
        now = time.monotonic()
        self._trouble_since = self._trouble_since or now
        if not self._told and now - self._trouble_since >= COMPLAIN_S:
            self._told = True
            self._warn(f"{text}; reports wait in memory and are sent again")
