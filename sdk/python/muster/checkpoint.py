"""Checkpoints: folders that are complete or absent.

A checkpoint is written into a temporary folder beside its place, flushed to the disk, renamed, and
recorded last. What is not recorded does not exist for the cluster.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from dataclasses import dataclass, field
from typing import Any, Optional

from muster.errors import CheckpointError

METADATA = "metadata.json"  # as Determined's library names it
STEPS = "steps_completed"
FILES = 100_000  # the master's limit


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
    if not folder.is_dir():
        raise CheckpointError(f"the checkpoint's folder {folder} has vanished while it was "
                              "written; leave it where it is, the checkpoint moves by itself")
    sizes: dict[str, int] = {}
    for base, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files) + [name for name in folders
                                     if os.path.islink(os.path.join(base, name))]:
            path = os.path.join(base, name)
            relative = os.path.relpath(path, folder)
            if os.path.islink(path):
                raise CheckpointError(f"{relative} is a link: copy the file into the checkpoint")
            sizes[relative] = os.stat(path).st_size
            if len(sizes) > FILES:
                raise CheckpointError(f"a checkpoint has at most {FILES} files; pack them together")
    return sizes


def sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: pathlib.Path) -> None:
    """Flushes all files and folders to the disk."""
    for base, _, files in os.walk(folder, topdown=False):
        for name in files:
            sync(os.path.join(base, name))
        sync(base)


def write_metadata(folder: pathlib.Path, step: int, metadata: dict[str, Any]) -> None:
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
    """A folder of checkpoints, and the names in it."""

    def __init__(self, folder: pathlib.Path, owner: str,
                 root: Optional[pathlib.Path] = None) -> None:
        self.folder, self._owner = folder, owner
        self.root = root or folder  #: where media lie

    def path(self, name: str) -> pathlib.Path:
        return self.folder / name

    def temporary(self, name: str) -> pathlib.Path:
        return self.folder / f".{self._owner}-{name}.tmp"

    def make_temporary(self, name: str) -> pathlib.Path:
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
        sync(str(self.folder))
        return path

    def remove_leftovers(self) -> None:
        """Removes what earlier starts of this run left unfinished."""
        for path in self.folder.glob(f".{self._owner}-*.tmp"):
            shutil.rmtree(path, ignore_errors=True)
