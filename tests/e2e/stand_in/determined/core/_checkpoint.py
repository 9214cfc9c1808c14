import contextlib
import datetime
import json
import os
import pathlib
import shutil
import uuid

SHARED_FS = "/determined_shared_fs"  # the real library writes there, whatever host_path is


def storage_of(config):
    """The folder of a checkpoint_storage section."""
    if config["type"] == "directory":
        return pathlib.Path(config["container_path"])
    if config["type"] != "shared_fs":
        raise RuntimeError(f"this stand-in has no storage of type {config['type']}")
    host, below = config["host_path"], config.get("storage_path")
    if below is None:
        return pathlib.Path(SHARED_FS)
    path = os.path.normpath(os.path.join(host, below))  # storage_path may be absolute
    if not path.startswith(host):
        raise ValueError("storage_path must be below host_path")
    return pathlib.Path(SHARED_FS, os.path.relpath(path, host))


def files_of(folder):
    """The sizes of all files; folders end with a slash."""
    return {str(path.relative_to(folder)) + "/" * path.is_dir(): 0 if path.is_dir() else path.stat().st_size
            for path in sorted(folder.rglob("*"))}


def merge(parts, what):
    merged = {}
    for part in parts:
        for key, value in part.items():
            if key in merged and merged[key] != value or key in merged and what == "file" and not key.endswith("/"):
                raise RuntimeError(f"several workers save the {what} {key}")
            merged[key] = value
    return merged


class CheckpointContext:
    def __init__(self, session, info, distributed, base, storage_id):
        self._session, self._info, self._dist = session, info, distributed
        self._base, self._storage_id = base, storage_id

    # saving

    def _make_folder(self, checkpoint):
        umask = os.umask(0)
        try:
            self._base.mkdir(parents=True, exist_ok=True, mode=0o777)
        finally:
            os.umask(umask)
        folder = self._base / checkpoint
        folder.mkdir(exist_ok=True)
        return folder

    def _common_id(self):
        return self._dist.broadcast(str(uuid.uuid4()) if self._dist.rank == 0 else None)

    def _check_chief(self, call):
        if self._dist.rank != 0:
            raise RuntimeError(f"only the chief may call {call}(shard=False)")

    @contextlib.contextmanager
    def store_path(self, metadata=None, *, shard=False):
        if not shard:
            self._check_chief("store_path")
        checkpoint = self._common_id() if shard else str(uuid.uuid4())
        folder = self._make_folder(checkpoint)
        yield folder, checkpoint
        metadata = merge(self._dist.allgather(metadata or {}), "metadata") if shard else metadata or {}
        if self._dist.rank == 0:
            files = files_of(folder)
            self._finish(folder, checkpoint, files, metadata)

    def upload(self, ckpt_dir, metadata=None, *, shard=False):
        if not shard:
            self._check_chief("upload")
        source = pathlib.Path(ckpt_dir) if ckpt_dir is not None else None
        checkpoint = self._common_id() if shard else str(uuid.uuid4())
        files = files_of(source) if source else {}
        if shard:
            place = (os.stat(source).st_dev, os.stat(source).st_ino) if source else None
            places = self._dist.allgather(place)
            if not any(places):
                raise RuntimeError("no worker has a folder to upload")
            if place and places.index(place) != self._dist.rank:  # another worker uploads the same folder
                source, files = None, {}
            files = merge(self._dist.allgather(files), "file")
            metadata = merge(self._dist.allgather(metadata or {}), "metadata")
        folder = self._make_folder(checkpoint)
        if source:
            shutil.copytree(source, folder, dirs_exist_ok=True)
        if shard:
            self._dist.allgather(None)  # all copies are complete
        if self._dist.rank == 0:
            self._finish(folder, checkpoint, files, metadata or {})
        return checkpoint

    def _finish(self, folder, checkpoint, files, metadata):
        if "steps_completed" not in metadata:
            raise ValueError("the metadata of a checkpoint needs steps_completed")
        (folder / "metadata.json").write_text(json.dumps(metadata, indent=2))
        self._session.post("/api/v1/checkpoints", {
            "allocationId": self._info.allocation_id, "metadata": metadata,
            "resources": {name: str(size) for name, size in files.items()}, "taskId": self._info.task_id, "training": {},
            "uuid": checkpoint, "reportTime": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "state": "STATE_COMPLETED", "storageId": self._storage_id})

    # restoring

    def _find(self, checkpoint):
        folder = self._base / checkpoint
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no checkpoint {checkpoint} in {self._base}")
        return folder

    @contextlib.contextmanager
    def restore_path(self, storage_id):
        """All workers must call it: the ones of a machine use the folder of their first."""
        folder = self._dist.broadcast_local(self._find(storage_id) if self._dist.local_rank == 0 else None)
        try:
            yield folder
        finally:
            self._dist.gather_local(None)

    def download(self, storage_id, ckpt_dir):
        if self._dist.local_rank == 0:
            shutil.copytree(self._find(storage_id), ckpt_dir)
        self._dist.broadcast_local(None)

    def get_metadata(self, storage_id):
        return self._session.get(f"/api/v1/checkpoints/{storage_id}")["checkpoint"].get("metadata") or {}
