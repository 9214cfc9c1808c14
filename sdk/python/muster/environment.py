"""The environment of a task, as the agent sets it (docs/wire.md, Environment of a task)."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import pathlib
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from muster.errors import Error

SHARED_FS = "/determined_shared_fs"  # where a task finds storage of type shared_fs


def read_int(env: Mapping[str, str], name: str, default: int) -> int:
    """The number in a variable, or the default."""
    text = env.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise Error(f"environment variable {name}: {text!r} is not a whole number") from None


def read_object(env: Mapping[str, str], name: str) -> dict[str, Any]:
    """The JSON object in a variable, or an empty one."""
    try:
        value = json.loads(env.get(name) or "{}")
    except ValueError as error:
        raise Error(f"environment variable {name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Error(f"environment variable {name} is not a JSON object")
    return value


@dataclass(frozen=True)
class RankAddress:
    """The number of this process among those of the run, and where rank 0 listens."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    host: str = "127.0.0.1"  # of rank 0
    port: int = 0  # where rank 0 listens for the other ranks
    secret: bytes = b""  # proves to the others that a process belongs to this run


@dataclass(frozen=True)
class Trial:
    """A trial that runs on a cluster."""

    master: str
    token: str
    trial_id: int
    experiment_id: int
    cluster_id: str
    allocation_id: str
    run_dir: pathlib.Path
    seed: int
    latest: Optional[str]  # the UUID of the checkpoint to go on from
    latest_step: int
    hparams: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)


def read_address(env: Mapping[str, str]) -> RankAddress:
    """The rank of this process, from the variables that agents and torchrun set."""
    size = read_int(env, "WORLD_SIZE", 1)
    rank = read_int(env, "RANK", 0)
    if not 0 <= rank < size:
        raise Error(f"RANK={rank} and WORLD_SIZE={size}: ranks go from 0 to WORLD_SIZE - 1; "
                    "start the program with torchrun or as a trial, or unset both variables")
    port = read_int(env, "INTER_TRAIN_PROCESS_COMM_PORT_1", 0)
    if not port:
        port = read_int(env, "MUSTER_PORT", read_int(env, "MASTER_PORT", 29500) + 1)
    key = env.get("DET_SESSION_TOKEN") or env.get("TORCHELASTIC_RUN_ID") or "local"
    secret = hmac.new(key.encode(), b"muster ranks", hashlib.sha256).digest()
    return RankAddress(rank, size, read_int(env, "LOCAL_RANK", 0),
                       env.get("MASTER_ADDR", "127.0.0.1"), port, secret)


def read_trial(env: Mapping[str, str]) -> Optional[Trial]:
    """The trial that this process belongs to; None outside a cluster and in tasks without one."""
    if not env.get("DET_TRIAL_ID") or not env.get("MUSTER_RUN_DIR"):
        return None
    names = ("DET_MASTER", "DET_SESSION_TOKEN", "DET_ALLOCATION_ID", "DET_EXPERIMENT_ID",
             "DET_CLUSTER_ID")
    missing = [name for name in names if not env.get(name)]
    if missing:
        raise Error(f"DET_TRIAL_ID is set, but {', '.join(missing)} is not: pass on the whole "
                    "environment of the task to the processes that you start")
    return Trial(master=env["DET_MASTER"].rstrip("/"), token=env["DET_SESSION_TOKEN"],
                 trial_id=read_int(env, "DET_TRIAL_ID", 0),
                 experiment_id=read_int(env, "DET_EXPERIMENT_ID", 0),
                 cluster_id=env["DET_CLUSTER_ID"],
                 allocation_id=env["DET_ALLOCATION_ID"],
                 run_dir=pathlib.Path(env["MUSTER_RUN_DIR"]),
                 seed=read_int(env, "DET_TRIAL_SEED", 0),
                 latest=env.get("DET_LATEST_CHECKPOINT") or None,
                 latest_step=read_int(env, "DET_STEPS_COMPLETED", 0),
                 hparams=read_object(env, "DET_HPARAMS"),
                 config=read_object(env, "DET_EXPERIMENT_CONFIG"))


def storage_folder(config: Mapping[str, Any]) -> pathlib.Path:
    """The folder of the checkpoint storage, as this task sees it."""
    storage = config.get("checkpoint_storage") or {}
    kind = storage.get("type")
    if kind == "directory":
        return pathlib.Path(storage["container_path"])
    if kind != "shared_fs":
        raise Error(f"checkpoint_storage.type: {kind!r} has no folder that a program can write to; "
                    "set it to shared_fs or directory in the experiment's configuration")
    host = storage["host_path"]
    path = os.path.normpath(os.path.join(host, storage.get("storage_path") or ""))
    if os.path.isdir(SHARED_FS):
        return pathlib.Path(SHARED_FS, os.path.relpath(path, host))
    return pathlib.Path(path)
