#!/usr/bin/env python3
"""The peer: the same training step in PyTorch, with given settings.

    peer_torch.py speed SPEC [--setting JSON] [--steps N] [--warmup N] [--device cuda|cpu]
    peer_torch.py curve SPEC --corpus FILE --seed N --steps N [--setting JSON] [--device cuda|cpu]
    peer_torch.py peak [--device cuda|cpu]

SPEC is JSON: the model, its batch and its optimizer, as `run` writes it. Prints one JSON line. A step includes
everything: forward and backward passes of all micro-batches of the global batch, the sum of their gradients in
float32, clipping and the optimizer. Samples are copied from host memory ahead of time.

Settings that `run` tries:
  weights    master: bf16 weights and activations beside float32 masters; amp: autocast over float32
  attention  flash, cudnn, efficient, math: the one kernel of scaled_dot_product_attention
  compile    none, or a mode of torch.compile
  micro      samples of a micro-batch
  layout     channels_last or contiguous, of images
  recompute  none, or blocks: each block of a transformer is a checkpoint of activations
"""

import argparse
import contextlib
import json
import math
import sys
import time

import torch

import models_torch

POOL = 8  # number of micro-batches in memory
DEFAULTS = {"weights": "master", "attention": "flash", "compile": "default", "micro": 0,
            "layout": "channels_last", "recompute": "none"}


def make_model(spec):
    if spec["family"] == "gpt":
        return models_torch.Gpt(spec)
    return models_torch.ResNet50(spec["blocks"], spec["classes"])


# --- data


def draw_tokens(n, vocabulary):
    """Every doubling of the token number is equally likely (Zipf's law), as in the format `synthetic`."""
    begins, begin = [], 0
    while begin < vocabulary:
        begins.append(begin)
        begin = 2 * begin + 1
    begins = torch.tensor(begins)
    widths = torch.minimum(begins + 1, vocabulary - begins)
    which = torch.randint(len(begins), (n,))
    return begins[which] + (torch.rand(n) * widths[which]).long().clamp(max=vocabulary - 1)


def draw_batch(spec, micro, layout):
    if spec["family"] == "gpt":
        tokens = draw_tokens(micro * (spec["context"] + 1), spec["drawn"]).view(micro, -1)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    side = spec["side"]
    images = torch.randint(256, (micro, 3, side, side), dtype=torch.uint8)
    if layout == "channels_last":
        images = images.contiguous(memory_format=torch.channels_last)
    return images, torch.randint(spec["classes"], (micro,))


class Corpus:
    """Windows of a file at random positions: bytes, or uint16 tokens in the format of nanoGPT and llm.c."""

    def __init__(self, path, spec, seed):
        with open(path, "rb") as f:
            data = f.read()
        if spec["data"] == "tokens":
            skip = 1024 if data[:4] == (20240520).to_bytes(4, "little") else 0
            numbers = torch.frombuffer(bytearray(data[skip:]), dtype=torch.int16).long() & 0xFFFF
        else:
            numbers = torch.frombuffer(bytearray(data), dtype=torch.uint8).long()
        self.text = numbers[: int(len(numbers) * (1 - spec["validation_fraction"]))]
        self.context = spec["context"]
        self.random = torch.Generator().manual_seed(seed)

    def draw(self, micro):
        starts = torch.randint(len(self.text) - self.context, (micro, 1), generator=self.random)
        places = starts + torch.arange(self.context)
        return self.text[places], self.text[places + 1]


class Feed:
    """Batches on the device; the next one is copied while one is used."""

    def __init__(self, draw, device):
        self.draw, self.device = draw, device
        self.stream = torch.cuda.Stream() if device == "cuda" else None
        self.next = self.send()

    def send(self):
        batch = self.draw()
        if not self.stream:
            return batch
        with torch.cuda.stream(self.stream):
            return [t.to("cuda", non_blocking=True) for t in batch]

    def take(self):
        batch = self.next
        if self.stream:
            torch.cuda.current_stream().wait_stream(self.stream)
            for t in batch:
                t.record_stream(torch.cuda.current_stream())
        self.next = self.send()
        return batch


def pool_of(spec, setting, device):
    batches = [draw_batch(spec, setting["micro"], setting["layout"]) for _ in range(POOL)]
    if device == "cuda":
        batches = [[t.pin_memory() for t in b] for b in batches]
    at = 0

    def draw():
        nonlocal at
        at += 1
        return batches[at % POOL]

    return draw


# --- a trainer


def choose_kernels(setting, device):
    if device == "cpu":
        return
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    wanted = setting["attention"]
    for name, word in (("flash", "flash"), ("mem_efficient", "efficient"), ("math", "math"), ("cudnn", "cudnn")):
        switch = getattr(torch.backends.cuda, f"enable_{name}_sdp", None)
        if switch:
            switch(word == wanted)


class Trainer:
    """A model with float32 masters of its bf16 weights, or autocast with float32 weights."""

    def __init__(self, spec, setting, device):
        self.spec, self.setting, self.device = spec, setting, device
        model = make_model(spec).to(device)
        model.recompute = setting["recompute"] == "blocks"
        if setting["layout"] == "channels_last" and spec["family"] == "resnet":
            model = model.to(memory_format=torch.channels_last)
        bf16 = setting["weights"] == "master" and device == "cuda"
        if bf16:
            self.masters = [p.detach().clone() for p in model.parameters()]
            for m in self.masters:
                m.grad = torch.zeros_like(m)
            for module in model.modules():
                if not isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                    for p in module.parameters(recurse=False):
                        p.data = p.data.bfloat16()
        self.weights = list(model.parameters())
        if not bf16:
            self.masters = self.weights
        self.model, self.bf16 = model, bf16
        self.optimizer = self.make_optimizer()
        self.loss = self.compiled(self.loss_of)
        self.count = spec["global"] // setting["micro"]

    def make_optimizer(self):
        o, spec = self.spec["optimizer"], self.spec
        groups = [
            {"params": [m for m in self.masters if m.dim() > 1], "weight_decay": o["weight_decay"]},
            {"params": [m for m in self.masters if m.dim() <= 1], "weight_decay": 0.0},
        ]
        fused = {"fused": True} if self.device == "cuda" else {"foreach": True}
        if spec["family"] == "gpt":
            return torch.optim.AdamW(groups, lr=o["rate"], betas=o["betas"], eps=1e-8, **fused)
        return torch.optim.SGD(groups, lr=o["rate"], momentum=o["momentum"], **fused)

    def loss_of(self, x, y):
        if self.spec["family"] == "resnet":  # normalises bytes to mean 0 and deviation 1
            x = (x.bfloat16() if self.bf16 else x.float()).sub(127.5).mul(1 / 73.9)
        amp = self.device == "cuda" and not self.bf16
        with torch.autocast("cuda", dtype=torch.bfloat16) if amp else contextlib.nullcontext():
            return self.model.loss(x, y) / self.count

    def compiled(self, function):
        mode = self.setting["compile"]
        if mode == "none" or not hasattr(torch, "compile"):
            return function
        return torch.compile(function, mode=None if mode == "default" else mode, dynamic=False)

    def micro_batch(self, x, y):
        if hasattr(torch, "compiler") and "cudagraph_mark_step_begin" in dir(torch.compiler):
            torch.compiler.cudagraph_mark_step_begin()
        loss = self.loss(x, y)
        loss.backward()
        if self.bf16:
            torch._foreach_add_([m.grad for m in self.masters], [p.grad for p in self.weights])
            for p in self.weights:
                p.grad = None
        return loss.detach().clone()

    def step(self, feed):
        losses = [self.micro_batch(*feed.take()) for _ in range(self.count)]
        if self.spec["clip"]:
            torch.nn.utils.clip_grad_norm_(self.masters, self.spec["clip"])
        self.optimizer.step()
        if self.bf16:
            with torch.no_grad():
                torch._foreach_zero_([m.grad for m in self.masters])
                torch._foreach_copy_(self.weights, self.masters)
        else:
            self.optimizer.zero_grad(set_to_none=True)
        return losses

    def set_rate(self, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


# --- the commands


def speed(spec, setting, args):
    torch.manual_seed(1)
    trainer = Trainer(spec, setting, args.device)
    feed = Feed(pool_of(spec, setting, args.device), args.device)
    for _ in range(args.warmup):
        trainer.step(feed)
    wait(args.device)
    begin = time.perf_counter()
    for _ in range(args.steps):
        losses = trainer.step(feed)
    wait(args.device)
    seconds = time.perf_counter() - begin
    loss = sum(float(x) for x in losses)
    if not math.isfinite(loss):
        sys.exit(f"peer_torch: the loss is {loss}; this setting does not train")
    per_sample = spec["context"] if spec["family"] == "gpt" else 1
    memory = torch.cuda.max_memory_allocated() / 2**20 if args.device == "cuda" else 0
    return {"per_second": spec["global"] * per_sample * args.steps / seconds,
            "step_ms": 1000 * seconds / args.steps, "memory_mb": memory, "loss": loss}


def rate_at(spec, step, steps):
    """The learning rate of warmup_cosine (trainer/optim/schedule.c); `step` counts from 0."""
    o = spec["optimizer"]
    if step < o["warmup"]:
        return o["rate"] * (step + 1) / (o["warmup"] + 1)
    done = (step - o["warmup"]) / max(1, steps - o["warmup"])
    return o["least"] + (o["rate"] - o["least"]) * 0.5 * (1 + math.cos(math.pi * done))


def curve(spec, setting, args):
    torch.manual_seed(args.seed)
    trainer = Trainer(spec, setting, args.device)
    corpus = Corpus(args.corpus, spec, args.seed)
    pinned = (lambda b: [t.pin_memory() for t in b]) if args.device == "cuda" else list
    feed = Feed(lambda: pinned(corpus.draw(setting["micro"])), args.device)
    losses = []
    for step in range(args.steps):
        trainer.set_rate(rate_at(spec, step, args.steps))
        losses.append(torch.stack(trainer.step(feed)).sum())
    wait(args.device)
    return {"losses": [round(float(x), 5) for x in losses]}


def peak(args):
    """FLOP/s of matrix products of random numbers: the best of five runs of ten products of 8192."""
    cuda = args.device == "cuda"
    side, kind = (8192, torch.bfloat16) if cuda else (1024, torch.float32)
    a, b = (torch.randn(side, side, device=args.device).to(kind) for _ in range(2))
    best = float("inf")
    for _ in range(6):
        wait(args.device)
        begin = time.perf_counter()
        for _ in range(10):
            torch.mm(a, b)
        wait(args.device)
        best = min(best, time.perf_counter() - begin)
    return {"flops": 10 * 2 * side**3 / best}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", choices=["speed", "curve", "peak"])
    parser.add_argument("spec", nargs="?", default="{}")
    parser.add_argument("--setting", default="{}")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--corpus")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    spec = json.loads(args.spec)
    setting = {**DEFAULTS, **json.loads(args.setting)}
    setting["micro"] = setting["micro"] or spec.get("micro", 1)
    choose_kernels(setting, args.device)
    if args.what == "peak":
        result = peak(args)
    else:
        result = (speed if args.what == "speed" else curve)(spec, setting, args)
    name = torch.cuda.get_device_name() if args.device == "cuda" else "cpu"
    print(json.dumps({**result, "torch": torch.__version__, "device": name}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
