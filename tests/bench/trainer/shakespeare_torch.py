#!/usr/bin/python3
"""nanoGPT's recipe for a CPU in PyTorch, the counterpart of examples/shakespeare.yaml.

    shakespeare_torch.py input.txt [--ranks N] [--threads N] [--steps 2000]

Prints {"loss": nats per byte over the whole validation part, "training_s": seconds of the steps}.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

from peer_torch import Gpt, free_port

CONTEXT, BATCH = 64, 12
RATE, LEAST, WARMUP, DECAY = 1e-3, 1e-4, 100, 2000


def rate(step):
    if step < WARMUP:
        return RATE * (step + 1) / (WARMUP + 1)
    return LEAST + (RATE - LEAST) * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (DECAY - WARMUP)))


def windows(text, starts):
    at = starts[:, None] + torch.arange(CONTEXT)
    return text[at], text[at + 1].flatten()


@torch.no_grad()
def validate(model, text):
    starts = torch.arange(0, len(text) - CONTEXT - 1, CONTEXT)
    total = sum(
        F.cross_entropy(model(x), y, reduction="sum").item()
        for x, y in (windows(text, part) for part in starts.split(64))
    )
    return total / (len(starts) * CONTEXT)


def train(rank, args):
    torch.manual_seed(1337 + rank)
    torch.set_num_threads(args.threads)
    text = torch.frombuffer(bytearray(Path(args.path).read_bytes()), dtype=torch.uint8).long()
    cut = int(0.9 * len(text))
    model = bare = Gpt(layers=4, heads=4, width=128, context=CONTEXT)
    for name, p in bare.named_parameters():  # GPT-2: layers that add to the residual stream start smaller
        if name.endswith(("project.weight", "down.weight")):
            nn.init.normal_(p, std=0.02 / math.sqrt(2 * 4))
    if args.ranks > 1:
        model = nn.parallel.DistributedDataParallel(bare, gradient_as_bucket_view=True)
    matrices = [p for p in bare.parameters() if p.dim() > 1]
    others = [p for p in bare.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=RATE, betas=(0.9, 0.99), foreach=True,
    )
    begin = time.perf_counter()
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        x, y = windows(text[:cut], torch.randint(cut - CONTEXT - 1, (BATCH // args.ranks,)))
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(bare.parameters(), 1.0)
        optimizer.step()
    seconds = time.perf_counter() - begin
    if rank == 0:
        print(json.dumps({"loss": validate(bare, text[cut:]), "training_s": seconds}), flush=True)


def run_rank(rank, args, port):
    with_group = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=with_group, rank=rank, world_size=args.ranks)
    train(rank, args)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("path")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    if args.ranks > 1:
        mp.start_processes(run_rank, (args, free_port()), nprocs=args.ranks, start_method="spawn")
    else:
        train(0, args)


if __name__ == "__main__":
    main()
