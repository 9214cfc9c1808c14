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


def connect(folder: pathlib.Path) -> socket.socket:
    """Connects to the socket in a folder. The path goes through /proc, because the path of a socket
    has at most 107 bytes."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
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
    without an answer are sent again: the master stores each report once."""

    def __init__(self, folder: pathlib.Path, warn: Any) -> None:
        self._folder, self._warn = folder, warn
        self._socket: Optional[socket.socket] = None
        self._buffer = b""
        self._closed = threading.Event()
        self._trouble_since, self._told = 0.0, False
        try:
            self._socket = connect(folder)
        except OSError as error:
            raise Error(f"cannot reach the supervisor of this task at {folder}/{NAME}: {error}; an "
                        "agent that is older than this package has no such socket, so update it, "
                        "and programs in a container of their own need this folder") from None

    def write(self, lines: list[bytes]) -> list[str]:
        refused: list[str] = []
        for start in range(0, len(lines), LINES_AT_ONCE):
            self._write_some(lines[start:start + LINES_AT_ONCE], refused)
        return refused

    def close(self) -> None:
        self._closed.set()
        if self._socket:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            self._socket.close()

    def abandon(self) -> None:
        """Forgets the connection in a fork of the program, whose parent goes on with it."""
        self._closed.set()
        self._reset()

    def _write_some(self, lines: list[bytes], refused: list[str]) -> None:
        attempt = 0
        while lines:
            if self._closed.is_set():
                raise Error("the run has ended")
            left: list[bytes] = []
            try:
                left = self._exchange(lines, refused)
                if left:
                    self._tell("the spool of reports is full; the master is away or slow")
            except OSError as error:
                if self._closed.is_set():
                    raise Error("the run has ended") from None
                self._tell(f"cannot reach the supervisor of this task: {error}")
                self._reset()
                left = lines
            if left:
                self._closed.wait(PAUSES_S[min(attempt, len(PAUSES_S) - 1)])
                attempt += 1
            else:
                self._trouble_since, self._told = 0.0, False
            lines = left

    def _exchange(self, lines: list[bytes], refused: list[str]) -> list[bytes]:
        """Sends lines and reads their answers; returns the lines to send again."""
        if not self._socket:
            self._socket = connect(self._folder)
        self._socket.sendall(b"".join(lines))
        again, texts = [], []
        for line in lines:
            answer = json.loads(self._read_line())
            if answer.get("retry") or (again and "error" not in answer):
                again.append(line)  # and all that follow it: lines keep their order
            elif "error" in answer:
                texts.append(str(answer["error"]))
        refused += texts
        return again

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
