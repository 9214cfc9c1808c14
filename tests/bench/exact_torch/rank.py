#!/usr/bin/python3
"""One rank of `run`: rank.py RANK WORLD MEETING JOB. Rank 0 prints one JSON line.

JOB is JSON: {"kind": "speed", "model", "rounds", "steps"} or {"kind": "loss", "digits", "seeds",
"epochs"}. DDP and Exact train in the same processes, alternately, with the same batches in memory.
"""

import gzip
import json
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "sdk"), str(HERE.parent.parent.parent / "sdk" / "python")]

from exact_models import GPT, LeNet, ResNet20, classify, make_digits, make_pictures  # noqa: E402
from exact_models import make_text, predict_next  # noqa: E402
from muster.torch import Exact  # noqa: E402

MODELS = {  # model, samples, loss function, global batch, micro-batch
    "lenet": (LeNet, lambda: make_digits(2048), classify, 256, 64),
    "resnet20": (ResNet20, lambda: make_pictures(1024, 32), classify, 128, 32),
    "gpt": (lambda: GPT(width=128, layers=4, length=64), lambda: make_text(1024, 65),
            predict_next, 64, 16),
}


def optimizer_of(name, model):
    if name == "gpt":
        return torch.optim.AdamW(model.parameters(), 1e-3, foreach=True)
    return torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, foreach=True)


def loss_of(result):
    return result["loss"] if isinstance(result, dict) else result


class Ddp:
    """Plain DDP: each rank computes its half of the global batch, in `parts` passes."""

    def __init__(self, name, model, tensors, loss_fn, size, parts, seed=0):
        self.model = DistributedDataParallel(model, gradient_as_bucket_view=True)
        self.optimizer = optimizer_of(name, model)
        self.tensors, self.loss_fn, self.parts = tensors, loss_fn, parts
        self.size, self.own = size, size // dist.get_world_size()
        self.generator = torch.Generator().manual_seed(seed)
        self.order, self.at = None, 0

    def samples(self):
        count = len(self.tensors[0])
        if self.order is None or self.at + self.size > count:
            self.order, self.at = torch.randperm(count, generator=self.generator), 0
        first = self.at + dist.get_rank() * self.own
        self.at += self.size
        return [tensor[self.order[first:first + self.own]] for tensor in self.tensors]

    def step(self):
        samples = self.samples()
        self.optimizer.zero_grad(set_to_none=True)
        each = self.own // self.parts
        for part in range(self.parts):
            self.model.require_backward_grad_sync = part == self.parts - 1
            piece = [x[part * each:part * each + each] for x in samples]
            loss = loss_of(self.loss_fn(self.model, piece)) / self.parts
            loss.backward()
        self.optimizer.step()
        return float(loss)


class Own:
    """Exact, with the same batches."""

    def __init__(self, name, model, tensors, loss_fn, size, micro, **options):
        self.exact = Exact(model, optimizer_of(name, model), micro_batch=micro, global_batch=size,
                           **options)
        self.batches = self.exact.batches(TensorDataset(*tensors), steps=1 << 30)
        self.loss_fn = loss_fn

    def step(self):
        return self.exact.step(self.loss_fn, next(self.batches))


def measure_speed(job):
    make, data, loss_fn, size, micro = MODELS[job["model"]]
    tensors = data().tensors
    parts = size // micro // dist.get_world_size()
    torch.manual_seed(1)
    ways = {"exact": Own(job["model"], make(), tensors, loss_fn, size, micro)}
    torch.use_deterministic_algorithms(False)  # DDP as its users run it
    ways["ddp"] = Ddp(job["model"], make(), tensors, loss_fn, size, 1)
    ways["ddp in micro-batches"] = Ddp(job["model"], make(), tensors, loss_fn, size, parts)
    times, work = {way: [] for way in ways}, {way: 0.0 for way in ways}
    for turn in range(job["rounds"] + 1):
        for way, training in ways.items():
            torch.use_deterministic_algorithms(way == "exact")
            dist.barrier()
            start, busy = time.perf_counter(), time.process_time()
            for _ in range(job["steps"]):
                training.step()
            if turn > 0:  # the first round warms up
                times[way].append((time.perf_counter() - start) / job["steps"])
                work[way] += time.process_time() - busy
    return {way: {"step_ms": [round(1000 * t, 2) for t in found],
                  "cpu_s": work[way]}
            for way, found in times.items()}


def read_digits(folder):
    images = gzip.open(Path(folder) / "t10k-images-idx3-ubyte.gz").read()[16:]
    labels = gzip.open(Path(folder) / "t10k-labels-idx1-ubyte.gz").read()[8:]
    x = torch.frombuffer(bytearray(images), dtype=torch.uint8).view(-1, 1, 28, 28) / 255 - 0.5
    y = torch.frombuffer(bytearray(labels), dtype=torch.uint8).long()
    return x, y


def measure_loss(job):
    """Validation losses after some epochs on 8,000 digits, of the other 2,000."""
    x, y = read_digits(job["digits"])
    train, rest = (x[:8000], y[:8000]), TensorDataset(x[8000:], y[8000:])
    results = {"exact": [], "ddp": []}
    for seed in range(job["seeds"]):
        for way in results:
            torch.manual_seed(seed)
            model = LeNet()
            steps = job["epochs"] * 8000 // 64
            if way == "exact":
                training = Own("lenet", model, train, classify, 64, 16, seed=seed)
            else:
                training = Ddp("lenet", model, train, classify, 64, 1, seed)
                torch.manual_seed(1000 * seed + dist.get_rank())  # dropout differs by rank
            for _ in range(steps):
                training.step()
            judge = Exact(model, optimizer_of("lenet", model), micro_batch=50, global_batch=100)
            found = judge.evaluate(classify, rest)
            results[way].append([round(found["loss"], 4), round(100 * found["accuracy"], 2)])
    return results


def main():
    rank, world, job = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[4])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=rank,
                            world_size=world)
    result = measure_speed(job) if job["kind"] == "speed" else measure_loss(job)
    if rank == 0:
        print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
