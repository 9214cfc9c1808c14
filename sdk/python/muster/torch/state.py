"""Saved state: comparing it with a training before anything is loaded, and digests of it."""

from __future__ import annotations

import ctypes
import hashlib
import platform
import zlib
from typing import Any

import torch

from muster.torch.errors import StateError

FORMAT = 1
_SHAPED_LIKE_PARAMETERS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer",
                           "square_avg")


def fingerprint(device: torch.device, threads: int) -> dict[str, Any]:
    """Everything outside the program that decides the bits of the arithmetic."""
    cpu = getattr(torch.backends, "cpu", None)
    found = {"torch": torch.__version__, "machine": platform.machine(), "device": device.type}
    if device.type == "cuda":
        found["device_name"] = torch.cuda.get_device_name(device)
        found["cuda"], found["cudnn"] = torch.version.cuda, torch.backends.cudnn.version()
    else:
        found["threads"] = threads
        found["instructions"] = cpu.get_cpu_capability() if cpu else _cpu_capability()
    return found


def _cpu_capability() -> str:
    for line in torch.__config__.show().splitlines():
        if "CPU capability usage" in line:
            return line.split(":", 1)[1].strip()
    return "unknown"


def hash_tree(digest: Any, tree: Any) -> None:
    """Feeds tensors, numbers and texts of nested containers to a digest, in a fixed order."""
    if isinstance(tree, torch.Tensor):
        flat = tree.detach().cpu().contiguous()
        digest.update(f"tensor {flat.dtype} {tuple(flat.shape)}\n".encode())
        size = flat.numel() * flat.element_size()
        digest.update((ctypes.c_char * size).from_address(flat.data_ptr()) if size else b"")
    elif isinstance(tree, dict):
        for key in sorted(tree, key=repr):
            digest.update(f"key {key!r}\n".encode())
            hash_tree(digest, tree[key])
    elif isinstance(tree, (list, tuple)):
        digest.update(f"list {len(tree)}\n".encode())
        for item in tree:
            hash_tree(digest, item)
    else:
        digest.update(f"{tree!r}\n".encode())


def sha256_of(tree: Any) -> str:
    """The SHA-256 of all tensors, numbers and texts of nested containers, as 64 hex digits."""
    digest = hashlib.sha256()
    hash_tree(digest, tree)
    return digest.hexdigest()


def checksum_of(tree: Any, sum_so_far: int = 0) -> int:
    """A fast 31-bit checksum for comparisons between ranks; not for storage."""
    if isinstance(tree, torch.Tensor):
        flat = tree.detach().contiguous().reshape(-1).view(torch.uint8)
        tail = flat.numel() % 4
        total = flat[:flat.numel() - tail].view(torch.int32).sum(dtype=torch.int64) + \
            flat[flat.numel() - tail:].sum(dtype=torch.int64)
        return zlib.crc32(str(int(total)).encode(), sum_so_far) & 0x7FFFFFFF
    if isinstance(tree, dict):
        for key in sorted(tree, key=repr):
            sum_so_far = checksum_of(tree[key], zlib.crc32(repr(key).encode(), sum_so_far))
        return sum_so_far & 0x7FFFFFFF
    if isinstance(tree, (list, tuple)):
        for item in tree:
            sum_so_far = checksum_of(item, sum_so_far)
        return sum_so_far & 0x7FFFFFFF
    return zlib.crc32(repr(tree).encode(), sum_so_far) & 0x7FFFFFFF


def check_model(saved: dict[str, Any], present: dict[str, Any]) -> None:
    """StateError if the saved weights are those of another model."""
    remedy = ("the checkpoint belongs to another model: build the model with the hyperparameters "
              "of the checkpoint, or start without it")
    for name, value in present.items():
        if name not in saved:
            raise StateError(f"the saved state has no {name}; {remedy}")
        if isinstance(value, torch.Tensor) and (not isinstance(saved[name], torch.Tensor) or
                                                saved[name].shape != value.shape):
            shape = tuple(getattr(saved[name], "shape", ()))
            raise StateError(f"{name} has the shape {tuple(value.shape)} in the model and {shape} "
                             f"in the saved state; {remedy}")
    for name in saved:
        if name not in present:
            raise StateError(f"the model has no {name}, which the saved state has; {remedy}")


def check_optimizer(saved: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """StateError if the saved optimizer state does not fit, before load_state_dict changes it."""
    kind = type(optimizer).__name__
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    found = [len(group["params"]) for group in saved["param_groups"]]
    if sizes != found:
        raise StateError(f"the optimizer {kind} has groups of {sizes} parameters, the saved state "
                         f"has {found}: make the optimizer as the saved training did")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    numbers = [n for group in saved["param_groups"] for n in group["params"]]
    for number, parameter in zip(numbers, parameters):
        for key, value in saved["state"].get(number, {}).items():
            if key in _SHAPED_LIKE_PARAMETERS and isinstance(value, torch.Tensor) and \
                    value.shape != parameter.shape:
                raise StateError(
                    f"{key} of parameter {number} has the shape {tuple(value.shape)} in the saved "
                    f"optimizer state, and the parameter has {tuple(parameter.shape)}: make the "
                    "optimizer as the saved training did")
