"""Runs outside a cluster: everything goes into a folder, and short lines tell how it goes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import sys
import time
import urllib.parse
from typing import Any, Optional

from muster.checkpoint import STEPS, Checkpoint, open_checkpoint
from muster.columns import encode
from muster.errors import Error

FOLDER = "muster-runs"
CONTENTS = "media/.contents"  # of images and the like, by digest; names of media begin with no dot
METRICS, CHECKPOINTS = "metrics.jsonl", "checkpoints.jsonl"
FOLDER_NAME_BYTES = 255
PRINT_S = 1.0  # a group of metrics is printed at most once in this time
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def new_folder(base: pathlib.Path, name: Optional[str], resume: bool) -> pathlib.Path:
    """The folder of a run: the named one, or the next number behind the name of the program."""
    if name is not None and not NAME.fullmatch(name):
        raise Error(f"name={name!r}: a name has 1 to 100 letters, digits, '-', '_' and '.'")
    program = re.sub(r"[^A-Za-z0-9_-]", "-", pathlib.Path(sys.argv[0] or "run").stem) or "run"
    if name is None:
        numbers = [int(found.group(1)) for path in base.glob(program + "-*")
                   if (found := re.fullmatch(re.escape(program) + r"-(\d+)", path.name))]
        number = max(numbers, default=0)
        name = f"{program}-{number}" if resume and number else f"{program}-{number + 1}"
    folder = base / name
    if folder.exists() and not resume:
        raise Error(f"{folder} exists: pass resume=True to go on with this run, another name, or "
                    "remove the folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def folder_name(name: str) -> str:
    """The name of the folder for an image or text: percent-encoded, and another one for each name.
    The end of a long one is replaced by a digest, because a file system takes 255 bytes."""
    quoted = urllib.parse.quote(name, safe=" ")
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]  # "." and ".." are folders
    if len(quoted) > FOLDER_NAME_BYTES:
        quoted = quoted[:FOLDER_NAME_BYTES - 65] + "-" + hashlib.sha256(name.encode()).hexdigest()
    return quoted


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """The objects of a file; a line that a kill or a full disk has torn is left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def write_lines(path: pathlib.Path, rows: list[dict[str, Any]]) -> None:
    """Replaces a file."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    os.replace(temporary, path)


def append_line(path: pathlib.Path, row: dict[str, Any]) -> None:
    """Adds an object to a file, in a line of its own even if the last line is torn."""
    with open(path, "ab+") as file:
        torn = False
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"
        file.write(b"\n" * torn + encode(row))


def latest_checkpoint(folder: pathlib.Path) -> Optional[Checkpoint]:
    """The newest checkpoint of a run whose folder is there."""
    for row in reversed(read_lines(folder / CHECKPOINTS)):
        path = folder / "checkpoints" / row["uuid"]
        if path.is_dir():
            return open_checkpoint(path, row["uuid"], row[STEPS])
    return None


def cut_metrics(folder: pathlib.Path, step: int) -> None:
    """Forgets the reports behind the checkpoint from which the run goes on."""
    path = folder / METRICS
    if path.exists():
        write_lines(path, [row for row in read_lines(path) if row["step"] <= step])


class LocalSink:
    """Takes the lines that a cluster would get, and writes them into the files of the run."""

    def __init__(self, folder: pathlib.Path, quiet: bool = False) -> None:
        self._folder, self._quiet = folder, quiet
        self._metrics = open(folder / METRICS, "a", encoding="utf-8")
        self._printed: dict[str, float] = {}  # of each group, when a report was printed
        self._unprinted: dict[str, dict[str, Any]] = {}  # of each group, the last report, if newer
        self._step, self._failed, self._stored = 0, False, ""

    def write(self, lines: list[bytes]) -> list[str]:
        """Writes the lines; the answer says which could not be written."""
        refused = []
        for line in lines:
            message = json.loads(line)
            kind = message.pop("kind")
            try:
                self._write_message(kind, message)
            except OSError as error:
                refused.append(f"{kind}: {error}")
        return refused

    def _write_message(self, kind: str, message: dict[str, Any]) -> None:
        if kind == "metrics":
            self._write_metrics(message)
        elif kind == "checkpoint":
            self._append(CHECKPOINTS, {"uuid": message["uuid"], STEPS: message["steps"],
                                       "time": message["time"], "files": message["resources"]})
            path = os.path.relpath(self._folder / "checkpoints" / message["uuid"])
            self._stored = f", checkpoint of step {message['steps']} in {path}"
        elif kind == "media":
            for item in message["items"]:
                self._write_item(item)
        elif kind == "failure":
            self._failed = True
        elif kind != "progress":
            self._append(f"{kind}.jsonl", message)

    def close(self) -> None:
        """Closes the files, and prints how the run has ended."""
        self._metrics.close()
        if not self._quiet:
            with contextlib.suppress(OSError, ValueError):  # nobody reads the output any more
                self._print_end()

    def _print_end(self) -> None:
        """The last values of each group, and where the run has ended."""
        for row in self._unprinted.values():
            print_row(row)
        word = "failed" if self._failed else "done"
        steps = f": {self._step} step" + "s" * (self._step != 1) if self._step else ""
        print(f"muster: {word}{steps}{self._stored}", flush=True)

    def abandon(self) -> None:
        """Nothing is buffered between two writes."""

    def _append(self, name: str, row: dict[str, Any]) -> None:
        append_line(self._folder / name, row)

    def _write_item(self, item: dict[str, Any]) -> None:
        """Gives the content a name that a person finds: media/NAME/STEP.png."""
        self._append("media.jsonl", item)
        ending = {"png": "png", "json": "json"}.get(item["format"], "txt")
        path = self._folder / "media" / folder_name(item["name"]) / f"{item['step']}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        content = self._folder / CONTENTS / item["digest"]
        try:
            os.link(content, path)
        except OSError:  # a file system without hard links
            shutil.copyfile(content, path)

    def _write_metrics(self, message: dict[str, Any]) -> None:
        columns, row = message["metrics"], {}
        for number, (step, moment) in enumerate(zip(message["steps"], message["times"])):
            values = {name: column[number] for name, column in columns.items()
                      if column[number] is not None}
            row = {"step": step, "group": message["group"], "time": moment / 1e6, "metrics": values}
            self._metrics.write(json.dumps(row) + "\n")
            self._step = max(self._step, step)
        self._metrics.flush()
        if row:
            self._print(row)

    def _print(self, row: dict[str, Any]) -> None:
        now, group = time.monotonic(), row["group"]
        if self._quiet or now - self._printed.get(group, -PRINT_S) < PRINT_S:
            self._unprinted[group] = row
            return
        self._unprinted.pop(group, None)
        self._printed[group] = now
        print_row(row)


def print_row(row: dict[str, Any]) -> None:
    """Prints a report as a short line."""
    words = [f"{name} {NOT_FINITE.get(value, value):.6g}" for name, value in row["metrics"].items()]
    label = "" if row["group"] == "training" else f"  [{row['group']}]"
    print(f"step {row['step']}{label}  " + "  ".join(words[:8]), flush=True)
