"""An uncaught exception as the reason of a failed trial."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType
from typing import Any, Optional

from muster.errors import InvalidHyperparameters

TRACEBACK_BYTES = 64 << 10
TEXT_BYTES = 4096


def place_of(trace: Optional[TracebackType]) -> str:
    """file:line of the innermost frame in the program's own files, else of the innermost frame."""
    here = os.path.join(os.getcwd(), "")
    package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
    own, last = "", ""
    for frame, line in traceback.walk_tb(trace):
        path = os.path.abspath(frame.f_code.co_filename)
        last = f"{path}:{line}"
        if path.startswith(here) and not path.startswith(package):
            own = f"{path[len(here):]}:{line}"
    return own or last


def describe(rank: int, kind: type, error: BaseException,
             trace: Optional[TracebackType]) -> Optional[dict[str, Any]]:
    """The line that reports an exception; None: the exception is an ordinary end."""
    invalid = isinstance(error, InvalidHyperparameters)
    if isinstance(error, SystemExit) and not isinstance(error.code, str) and not invalid:
        return None
    if isinstance(error, SystemExit):
        text = str(error) if invalid else str(error.code)
    else:
        text = "".join(traceback.format_exception_only(kind, error)).strip()
    full = "".join(traceback.format_exception(kind, error, trace))
    return {"kind": "failure", "rank": rank, "text": cut(text, TEXT_BYTES),
            "place": cut(place_of(trace), TEXT_BYTES),
            "traceback": cut_front(full, TRACEBACK_BYTES)}


def as_bytes(text: str) -> bytes:
    """A text without what the cluster cannot store."""
    return text.replace("\0", "?").encode(errors="replace")


def cut(text: str, limit: int) -> str:
    """The beginning of a text, at most `limit` bytes; "..." stands for the rest."""
    data = as_bytes(text)
    if len(data) <= limit:
        return data.decode()
    return data[:limit - len("...")].decode(errors="ignore") + "..."


def cut_front(text: str, limit: int) -> str:
    """The end of a text, at most `limit` bytes; the end of a traceback says most."""
    data = as_bytes(text)
    if len(data) <= limit:
        return data.decode()
    return "..." + data[len("...") - limit:].decode(errors="ignore")


def warn(text: str) -> None:
    """Tells the user about a trouble that does not stop the program."""
    try:
        sys.stderr.write(f"muster: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # stderr is closed
