"""Checkpoints: folders that are complete or absent.

A checkpoint is written into a temporary folder beside its place, flushed to the disk, renamed, and
recorded last. What is not recorded does not exist for the cluster.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import stat
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from muster.errors import CheckpointError
from muster.files import sync

METADATA = "metadata.json"  # as Determined's library names it
STEPS = "steps_completed"
FILES = 100_000  # the master's limit
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@dataclass(frozen=True)
class Checkpoint:
    """A stored checkpoint. `path` is its folder in the storage: read from it, do not change it.

    `own` is False where a run starts from the checkpoint of another training, which its experiment
    names as searcher.source_trial_id, source_experiment_id or source_checkpoint_uuid. `step` then
    counts the steps of that training.
    """

    path: pathlib.Path
    step: int
    uuid: str
    metadata: dict[str, Any] = field(default_factory=dict)
    own: bool = True


def open_checkpoint(path: pathlib.Path, uuid: str, step: Optional[int] = None,
                    own: bool = True) -> Checkpoint:
    """Finds a stored checkpoint."""
    if not path.is_dir():
        raise CheckpointError(f"checkpoint {uuid} is not at {path}: mount the checkpoint storage "
                              "at the same path on every machine, or start a new trial without it")
    metadata: dict[str, Any] = {}
    try:
        metadata = json.loads((path / METADATA).read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass  # a native trainer or another program wrote it
    except (OSError, ValueError) as error:
        raise CheckpointError(f"checkpoint {uuid}: {path / METADATA}: {error}") from None
    if step is None:
        step = int(metadata.get(STEPS, 0))
    facts = {key: value for key, value in metadata.items() if key != STEPS}
    return Checkpoint(path, step, uuid, facts, own)


def list_files(folder: pathlib.Path) -> dict[str, int]:
    """The sizes of all files below a folder, by relative path."""
    return {path: size for path, (size, _) in scan(folder).items()}


def scan(folder: pathlib.Path) -> dict[str, tuple[int, int]]:
    """The size and the time of the last change of all files below a folder, by relative path. A
    file that vanishes meanwhile is left out."""
    if not folder.is_dir():
        raise CheckpointError(f"the checkpoint's folder {folder} has vanished while it was "
                              "written; leave it where it is, the checkpoint moves by itself")
    found: dict[str, tuple[int, int]] = {}
    for base, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files) + [name for name in folders
                                     if os.path.islink(os.path.join(base, name))]:
            path = os.path.join(base, name)
            relative = os.path.relpath(path, folder)
            if os.path.islink(path):
                raise CheckpointError(f"{relative} is a link: copy the file into the checkpoint")
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(path)
                if not stat.S_ISREG(status.st_mode):
                    raise CheckpointError(f"{relative} is a pipe, a socket or a device; a "
                                          "checkpoint contains only files and folders")
                found[relative] = (status.st_size, status.st_mtime_ns)
            if len(found) > FILES:
                raise CheckpointError(f"a checkpoint has at most {FILES} files; pack them together")
    return found


def settle(folder: pathlib.Path) -> dict[str, int]:
    """Flushes all files and folders to the disk, and returns the sizes of the files. Nobody may
    change the files meanwhile."""
    before = scan(folder)
    for base, _, files in os.walk(folder, topdown=False):
        for name in files:
            with contextlib.suppress(FileNotFoundError):  # told below
                sync(os.path.join(base, name))
        with contextlib.suppress(FileNotFoundError):
            sync(base)
    after = scan(folder)
    check_unchanged(before, after)
    return {path: size for path, (size, _) in after.items()}


def check_unchanged(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Compares what was found in a folder at two times."""
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path):
            word = "vanished" if path not in after else "changed" if path in before else "appeared"
            raise CheckpointError(f"{path} {word} while the checkpoint was saved; end the block "
                                  "after the threads and programs that write into the folder have "
                                  "ended")


def write_metadata(folder: pathlib.Path, step: int, metadata: dict[str, Any]) -> None:
    """Writes the file METADATA, which the program must not have written."""
    path = folder / METADATA
    if path.exists():
        raise CheckpointError(f"{METADATA} is the name of a file that the checkpoint gets anyway; "
                              "use another name, or pass metadata={...} to run.checkpoint()")
    try:
        text = json.dumps({**metadata, STEPS: step}, indent=1)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"metadata of the checkpoint at step {step}: {error}; use numbers, "
                              "texts, lists and objects") from None
    path.write_text(text + "\n", encoding="utf-8")


class Storage:
    """A folder of checkpoints and the names in it, and the folder of media.

    owner: this start, TASK.EPOCH; each start of a task has a larger epoch than the one before. An
    unfinished checkpoint is .TASK.EPOCH-UUID.tmp, as of `muster checkpoint save`.
    """

    def __init__(self, folder: pathlib.Path, owner: str, media: pathlib.Path) -> None:
        self.folder, self._owner, self.media = folder, owner, media

    def path(self, name: str) -> pathlib.Path:
        """The folder of a complete checkpoint."""
        return self.folder / name

    def temporary(self, name: str) -> pathlib.Path:
        """The folder of a checkpoint that is being written."""
        return self.folder / f".{self._owner}-{name}.tmp"

    def make_temporary(self, name: str) -> pathlib.Path:
        """Makes the folder in which a checkpoint is written."""
        path = self.temporary(name)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.mkdir()
        except OSError as error:
            raise CheckpointError(f"cannot write into the checkpoint storage {self.folder}: "
                                  f"{error}; make the folder, or change checkpoint_storage"
                                  ) from None
        return path

    def publish(self, name: str) -> pathlib.Path:
        """Moves a complete folder to its place."""
        path = self.path(name)
        os.rename(self.temporary(name), path)
        sync(self.folder)
        return path

    def remove_leftovers(self) -> None:
        """Removes what earlier starts of this task left unfinished. Other processes of this start
        may be writing."""
        task, _, epoch = self._owner.rpartition(".")
        form = re.compile(re.escape(f".{task}.") + r"(\d+)-" + UUID + r"\.tmp")
        for path in self.folder.glob(".*.tmp") if task else ():
            found = form.fullmatch(path.name)
            if found and int(found[1]) < int(epoch):
                shutil.rmtree(path, ignore_errors=True)
