#!/usr/bin/python3
"""The peer: the same models, batches and optimizers in idiomatic, fast PyTorch.

    peer_torch.py MODEL [--ranks N] [--threads N] [--steps N] [--warmup N] [--channels-last]

Trains from memory and prints one JSON line: samples (tokens for gpt) per second over the measured
steps. More than one rank uses DistributedDataParallel over gloo with the same global batch.
MODEL all_reduce measures gloo's all-reduce among the ranks instead.
tests/bench/trainer/run starts it with the best environment.
"""

import argparse
import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

SAMPLES = 4096  # images in memory
BYTES = 1 << 20  # of text


class Block(nn.Module):
    """A block of nanoGPT: pre-norm, no biases. The mask is the first operand of the sum, which saves two passes."""

    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width, bias=False)
        self.project = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)
        mask = torch.full((1, context, context), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def attention(self, x):
        samples, context, width = x.shape
        size = width // self.heads
        q, k, v = (
            part.view(samples, context, self.heads, size).transpose(1, 2).reshape(-1, context, size)
            for part in self.attend(x).split(width, dim=2)
        )
        scores = torch.baddbmm(self.mask, q, k.transpose(1, 2), alpha=size**-0.5)
        y = torch.bmm(F.softmax(scores, dim=-1), v)
        return self.project(y.view(samples, self.heads, context, size).transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers=6, heads=6, width=384, context=256, vocabulary=256):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, context) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self.initialise)
        self.head.weight = self.tokens.weight

    @staticmethod
    def initialise(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x) + self.positions))).flatten(0, 1)


class Residual(nn.Module):
    """He et al. 2015 for CIFAR; a shortcut of another shape is a 1x1 convolution."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.short = nn.Identity()
        if before != after:
            self.short = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x):
        return F.relu(self.main(x) + self.short(x), inplace=True)


def mlp():
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 512),
        nn.ReLU(inplace=True),
        nn.Linear(512, 512),
        nn.ReLU(inplace=True),
        nn.Linear(512, 10),
    )


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(inplace=True),
        nn.Linear(120, 84),
        nn.ReLU(inplace=True),
        nn.Linear(84, 10),
    )


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 7 * 7, 128),
        nn.ReLU(inplace=True),
        nn.Linear(128, 10),
    )


def resnet20():
    blocks, before = [], 16
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        for i in range(3):
            blocks.append(Residual(before, width, stride if i == 0 else 1))
            before = width
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


# model: constructor, shape of an image (None: text), global batch
MODELS = {
    "mlp": (mlp, (1, 28, 28), 256),
    "lenet": (lenet, (1, 28, 28), 256),
    "cnn": (cnn, (1, 28, 28), 256),
    "resnet20": (resnet20, (3, 32, 32), 128),
    "gpt": (Gpt, None, 8),
}
CONTEXT = 256


class Images:
    per_sample = 1

    def __init__(self, shape, batch, layout):
        self.images = torch.rand(SAMPLES, *shape).to(memory_format=layout)
        self.labels = torch.randint(10, (SAMPLES,))
        self.batch = batch

    def draw(self):
        at = torch.randint(SAMPLES, (self.batch,))
        return self.images[at], self.labels[at]


class Text:
    per_sample = CONTEXT

    def __init__(self, batch):
        self.text = torch.randint(256, (BYTES,))
        self.batch = batch

    def draw(self):
        starts = torch.randint(BYTES - CONTEXT - 1, (self.batch, 1)) + torch.arange(CONTEXT)
        return self.text[starts], self.text[starts + 1].flatten()


def optimizer_of(name, model):
    if name == "gpt":
        return torch.optim.AdamW(
            model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, foreach=True
        )
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)


def measure(rank, args):
    name = args.model
    torch.manual_seed(rank)
    torch.set_num_threads(args.threads)
    make, shape, batch = MODELS[name]
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    data = Images(shape, batch // args.ranks, layout) if shape else Text(batch // args.ranks)
    model = make().to(memory_format=layout) if shape else make()
    if args.ranks > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = optimizer_of(name, model)

    def step():
        x, y = data.draw()
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    for _ in range(args.warmup):
        step()
    if args.ranks > 1:
        dist.barrier()
    begin = time.perf_counter()
    for _ in range(args.steps):
        step()
    if args.ranks > 1:
        dist.barrier()
    seconds = time.perf_counter() - begin
    return {"per_second": batch * data.per_sample * args.steps / seconds}


def run_rank(rank, args, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    result = (all_reduce if args.model == "all_reduce" else measure)(rank, args)
    if rank == 0:
        show(result)
    dist.destroy_process_group()


def all_reduce(rank, args):
    """Returns the median microseconds of gloo's all-reduce by bytes, measured like ours in all_reduce.c."""
    medians = {}
    for size in (1 << 10, 1 << 20, 16 << 20):
        data, times = torch.zeros(size // 4), []
        for _ in range(60):
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(data)
            times.append((time.perf_counter() - begin) * 1e6)
        medians[str(size)] = statistics.median(times)
    return medians


def show(result):
    print(json.dumps(result), flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=[*MODELS, "all_reduce"])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--channels-last", action="store_true")
    args = parser.parse_args()
    if args.ranks > 1:
        mp.start_processes(run_rank, (args, free_port()), nprocs=args.ranks, start_method="spawn")
    else:
        show(measure(0, args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
