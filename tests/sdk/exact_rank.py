"""One rank of the trainings of test_exact.py: exact_rank.py RANK WORLD FOLDER TRAININGS

TRAININGS is a JSON list of {"name", "kind", "batch_norm", "steps", "load", "save_at", "die_at"}.
Rank 0 prints one JSON line for each training.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from exact_models import build  # noqa: E402

from muster.torch import Exact  # noqa: E402


def train(training: dict, rank: int, folder: Path) -> dict:
    model, optimizer, loss_fn, dataset = build(training["kind"])
    if rank > 0:  # the weights come from rank 0
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    exact = Exact(model, optimizer, micro_batch=4, global_batch=16, seed=11, clip_norm=1.0,
                  scheduler=scheduler, batch_norm=training.get("batch_norm", "ghost"),
                  bucket_bytes=40_000)
    if training.get("load"):
        exact.load_state_dict(torch.load(folder / training["load"]))
    losses, draws = [], []
    for batch in exact.batches(dataset, steps=training["steps"]):
        if exact.step_count == training.get("die_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        losses.append(exact.step(loss_fn, batch))
        draws.append(float(torch.rand(())))
        if exact.step_count == training.get("save_at") and rank == 0:
            torch.save(exact.state_dict(), folder / "part.pt")
            (folder / "part.pt").rename(folder / training["save"])
    metrics = exact.evaluate(loss_fn, torch.utils.data.Subset(dataset, range(30)))
    return {"name": training["name"], "digest": exact.digest(), "losses": losses, "draws": draws,
            "step": exact.step_count, "evaluation": metrics}


def main() -> None:
    rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting-{sys.argv[5]}",
                                rank=rank, world_size=world)
    for training in json.loads(sys.argv[4]):
        result = train(training, rank, folder)
        if rank == 0:
            print(json.dumps(result), flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
