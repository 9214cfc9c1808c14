"""Files that survive the end of the machine."""

from __future__ import annotations

import os
import pathlib


def sync(path: str | os.PathLike[str]) -> None:
    """Flushes a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_whole(path: pathlib.Path, content: bytes) -> None:
    """Writes a file that appears at once and whole: under another name, flushed and renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)
