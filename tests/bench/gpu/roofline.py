#!/usr/bin/env python3
"""Predicts the time of a micro-batch on a GPU by kernel: the tables of NOTES.md.

    tests/bench/gpu/roofline.py gpt2|gpt-350m|gpt-1.3b|llama-350m|resnet50 [--peak 790] [--bandwidth 4.3] [--micro N]
        [--unfused] [--recompute] [--fp8]

For each kernel of trainer/ops/cuda it prints the FLOP, the bytes read from and written to GPU memory (without
reads from a cache), and the longer of the times for both, at the shares of the peaks that such kernels are known to
reach. The shares are guesses made before anything was measured.
"""

import argparse
from dataclasses import dataclass

ELEMENTWISE, SUMS = 0.85, 0.75  # shares of the bandwidth
LAUNCH_US = 1.5  # the GPU's time between two kernels


class Table:
    def __init__(self, peak, bandwidth, fp8_peak):
        self.peak, self.bandwidth, self.fp8_peak = peak * 1e12, bandwidth * 1e12, fp8_peak * 1e12
        self.rows = []

    def add(self, name, count, flop, size, share_of_peak=1.0, share_of_bandwidth=ELEMENTWISE):
        """Adds an op that runs `count` times; flop and bytes are per run."""
        compute = flop / (self.peak * share_of_peak)
        memory = size / (self.bandwidth * share_of_bandwidth)
        self.rows.append((name, count, flop, size, count * (max(compute, memory) + LAUNCH_US * 1e-6)))

    def show(self, unit, units, model_flop, per_step, micro_batches):
        total = sum(r[4] for r in self.rows)
        print("| op | times | GFLOP of one | MB of one | ms of all | share | measured |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for name, count, flop, size, seconds in self.rows:
            print(f"| {name} | {count} | {flop / 1e9:,.0f} | {size / 1e6:,.0f} | {1e3 * seconds:.2f} | "
                  f"{100 * seconds / total:.1f} % | |")
        step = micro_batches * total + per_step
        speed = micro_batches * units / step
        print(f"\nA micro-batch: {1e3 * total:.1f} ms. The rest of a step: {1e3 * per_step:.1f} ms. A step of "
              f"{micro_batches} micro-batches: {1e3 * step:.0f} ms, {speed:,.0f} {unit}, "
              f"MFU {100 * speed * model_flop / self.peak:.1f} % of the matrix peak.")


@dataclass
class Gpt:
    layers: int
    width: int
    heads: int
    context: int
    micro: int
    step: int = 512  # samples
    vocabulary: int = 50304
    bias: bool = True  # also: learnt positions and fused gelu; else rotary positions, silu and dropout

    def parameters(self):
        w = self.width
        small = 13 * w if self.bias else 2 * w
        ends = (self.context + 2) * w if self.bias else w
        return self.layers * (12 * w**2 + small) + self.vocabulary * w + ends

    def tensors(self):
        return self.layers * (12 if self.bias else 6) + (4 if self.bias else 2)


GPTS = {
    "gpt2": Gpt(12, 768, 12, 1024, 64),
    "gpt-350m": Gpt(24, 1024, 16, 1024, 32, 256),
    "gpt-1.3b": Gpt(24, 2048, 16, 1024, 16, 256),
    "llama-350m": Gpt(24, 1024, 16, 4096, 4, 64, bias=False),
}


def linear_fp8(t, name, layers, n, i, o, share, gelu_before=False, gelu_after=False, bias=True):
    """A linear layer in FP8: numbers of two bytes become codes of one byte, in both orders by one kernel."""
    codes, faster = i * o, t.fp8_peak / t.peak
    flop = 2.0 * n * i * o
    t.add(f"{name}, input{' with gelu' * gelu_before} to fp8", layers, 0, 4 * n * i, 1, SUMS)
    t.add(f"{name}, forward", layers, flop, n * i + 2 * n * o + codes, share * faster)
    t.add(f"{name}, gradient{' through gelu' * gelu_after} to fp8{', of bias' * bias}", layers, 0,
          (6 if gelu_after else 4) * n * o, 1, SUMS)
    t.add(f"{name}, of x", layers, flop, n * o + 2 * n * i + codes, share * faster)
    t.add(f"{name}, of weights", layers, flop, n * (i + o) + 4 * codes, share * faster)


def gpt(t, s, micro, fused, recompute, fp8):
    layers, width, heads, context, vocabulary = s.layers, s.width, s.heads, s.context, s.vocabulary
    n, parameters, fused = micro * context, s.parameters(), fused and s.bias
    a = 2 * n * width  # bytes of the residual stream
    product = lambda i, o: 2.0 * n * i * o
    norm = "layer_norm" if s.bias else "rms_norm"

    # The extra bytes of a fused product, and the share of its speed that remains.
    def linear(name, i, o, share, forward=(0, 1), of_x=(0, 1), count=layers):
        if fp8:
            linear_fp8(t, name, count, n, i, o, share, gelu_before=of_x[0] > 0, gelu_after=forward[0] > 0,
                       bias=s.bias)
            return
        weights, gelu = 2 * i * o, ("", " and gelu")
        t.add(f"{name}{gelu[forward[0] > 0]}, forward", count, product(i, o),
              2 * n * (i + o) + weights + forward[0], share * forward[1])
        t.add(f"{name}{gelu[of_x[0] > 0]}, of x", count, product(i, o), 2 * n * (i + o) + weights + of_x[0],
              share * of_x[1])
        t.add(f"{name}, of weights", count, product(i, o), 2 * n * (i + o) + 2 * weights, share)
        if s.bias:
            t.add(f"{name}, of bias", count, 0, 2 * n * o, 1, SUMS)

    t.add("embedding, position forward" if s.bias else "embedding forward", 1, 0, 4 * a)
    if fused or not s.bias:
        t.add(f"{norm} forward", 1, 0, 2 * a)
        t.add(f"residual add and {norm} forward", 2 * layers, 0, 4 * a)
    else:
        t.add(f"{norm} forward", 2 * layers + 1, 0, 2 * a)
        t.add("residual add", 2 * layers, 0, 3 * a)
    linear("query_key_value", width, 3 * width, 0.80)
    if not s.bias:
        t.add("rotary, both ways", 2 * layers, 0, 4 * a)
        t.add("dropout, both ways", 4 * layers, 0, 2.5 * a)
    # Half of the scores is never computed; a forward kernel is also bound by exponentials.
    half = 4.0 * n * context * width / 2
    t.add("attention forward (cuDNN)", layers, half, 4 * a, 0.45)
    # Deterministic: five products instead of two, and the gradient of the scores (two bytes each) is written and read.
    t.add("attention backward (cuDNN)", layers, 2.5 * half, 8 * a + 2 * 2 * micro * heads * context**2, 0.33)
    linear("projection", width, width, 0.72)
    if fused:
        linear("up", width, 4 * width, 0.82, forward=(4 * a, 0.92))
        linear("down", 4 * width, width, 0.86, of_x=(4 * a, 0.88))
    else:
        linear("up", width, 4 * width, 0.82)
        t.add("gelu forward" if s.bias else "silu forward", layers, 0, 8 * a)
        t.add("gelu backward" if s.bias else "silu backward", layers, 0, 12 * a)
        linear("down", 4 * width, width, 0.86)
    if fused or not s.bias:
        t.add(f"{norm} backward, with sums", 2 * layers + 1, 0, 4 * a, 1, 0.7)
    else:
        t.add(f"{norm} backward, sums", 2 * layers + 1, 0, 2 * a, 1, SUMS)
        t.add(f"{norm} backward", 2 * layers + 1, 0, 4 * a, 1, 0.75)
    logits = 2 * n * vocabulary
    t.add("head, forward", 1, product(width, vocabulary), logits + a, 0.86)
    t.add("cross entropy (row read twice)", 1, 0, 2.5 * logits, 1, 0.8)
    t.add("head, of x", 1, product(width, vocabulary), logits + a, 0.88)
    t.add("head, of weights", 1, product(width, vocabulary), logits + a + 4 * width * vocabulary, 0.82)
    t.add("position, embedding backward" if s.bias else "embedding backward", 1, 0, 3 * a + 2 * 4 * 20000 * width, 1,
          0.4)
    if recompute:
        run_again(t, s, a, product, half, fused, norm)
    t.add(f"exact sum of gradients ({s.tensors()} tensors)", 1, 0, 12 * parameters)
    t.rows[-1] = (*t.rows[-1][:4], t.rows[-1][4] + (s.tensors() - 1) * LAUNCH_US * 1e-6)
    # to float, norm, AdamW, bf16 weights; codes of the matrices; waits of the host
    per_step = parameters * (8 + 8 + 28 + 6) / (t.bandwidth * ELEMENTWISE) + 1.5e-3
    if fp8:
        per_step += 12 * layers * width**2 * 6 / (t.bandwidth * SUMS)
    flop = 6 * (12 * layers * width**2 + vocabulary * width) + 12 * layers * context * width
    t.show("tokens/s", n, flop, per_step, s.step // micro)
    if not fp8:
        print(memory_text(s, micro, recompute))


def run_again(t, s, a, product, half, fused, norm):
    """The second forward run of each block: all but its last product."""
    layers, width = s.layers, s.width

    def linear(name, o, share, more=0):
        t.add(f"again: {name}", layers, product(width, o), a + a * o // width + 2 * width * o + more, share)

    t.add(f"again: {norm}", layers, 0, 2 * a)
    linear("query_key_value", 3 * width, 0.80)
    if not s.bias:
        t.add("again: rotary", layers, 0, 4 * a)
        t.add("again: dropout, and the mask of the second", layers, 0, 3 * a)
    t.add("again: attention (cuDNN)", layers, half, 4 * a, 0.45)
    linear("projection", width, 0.72)
    t.add(f"again: residual add and {norm}", layers, 0, 4 * a)
    linear("up and gelu" if fused else "up", 4 * width, 0.82 * (0.92 if fused else 1), 4 * a if fused else 0)
    if not fused:
        t.add("again: gelu" if s.bias else "again: silu", layers, 0, 8 * a)


def memory_text(s, micro, recompute):
    """The memory that the trainer allocates on the GPU, in GiB; CUDA and its libraries come on top."""
    n, parameters = micro * s.context, s.parameters()
    a, drawn = 2 * n * s.width, 0 if s.bias else 2 * n * s.width
    block = 16 * a + drawn  # two norms, query_key_value (3), attention, up (4), its activation (4), two sums
    statistics = s.layers * (4 * n * s.heads + (16 if s.bias else 8) * n)
    head = 2 * n * s.vocabulary + 4 * s.vocabulary * s.width + a
    kept = statistics + (s.layers + 1 if recompute else 1) * a + (0 if recompute else s.layers * block)
    # Backward, a block has its values, their gradients and those of its weights; or the head is at work.
    gradients = 8 * a + 4 * 4 * s.width**2
    used = kept + max(head + a, gradients + (block if recompute else 0))
    scores = 2 * micro * s.heads * s.context**2
    gib = lambda size: f"{size / 2**30:.1f}"
    return (f"Memory, GiB: activations {gib(used)}, gradient of the scores {gib(scores)}, weights, sums, moments and bf16 "
            f"weights {gib(18 * parameters)}; all {gib(used + scores + 18 * parameters)}.")


def resnet50(t, micro):
    weights, norms = 25_557_032, 53
    total = {}

    def note(name, flop, size, share, of_bandwidth=ELEMENTWISE):
        compute, memory = flop / (t.peak * share), size / (t.bandwidth * of_bandwidth)
        one = total.setdefault(name, [0, 0.0, 0.0, 0.0])
        for i, more in enumerate((1, flop, size, max(compute, memory) + LAUNCH_US * 1e-6)):
            one[i] += more

    def conv(side, before, after, kernel, stride, kind, first=False, add=False, masks=True):
        out = side // stride
        x, y = 2 * micro * side**2 * before, 2 * micro * out**2 * after
        flop = 2.0 * micro * out**2 * after * before * kernel**2
        share = {1: 0.55, 3: 0.55, 7: 0.15}[kernel]
        note(f"{kind}, forward", flop, x + y, share)
        if not first:
            note(f"{kind}, of x", flop, x + y, share * 0.85)
        note(f"{kind}, of weights", flop, x + y, share * 0.7)
        note("batch_norm forward, sums", 0, y, 1, SUMS)
        note("batch_norm forward (relu, add)", 0, (3 if add else 2) * y, 1)
        if not masks:
            note("relu after the add, backward", 0, 3 * y, 1)
        note("batch_norm backward, sums", 0, 2 * y, 1, SUMS)
        note("batch_norm backward", 0, 3 * y, 1)
        return out

    side = conv(224, 3, 64, 7, 2, "7x7", first=True)
    pooled = 2 * micro * (side // 2) ** 2 * 64
    note("max_pool, both ways", 0, 2 * (4 * pooled + 2 * pooled), 1)
    side, before = side // 2, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        middle = 64 << stage
        for i in range(blocks):
            stride = 2 if stage and not i else 1
            x = 2 * micro * side**2 * before
            conv(side, before, middle, 1, 1, "1x1")
            out = conv(side, middle, middle, 3, stride, "3x3")
            conv(out, middle, 4 * middle, 1, 1, "1x1", add=True, masks=False)
            if before != 4 * middle:
                conv(side, before, 4 * middle, 1, stride, "1x1")
            note("sum of both branches' gradients", 0, 3 * x, 1)
            side, before = out, 4 * middle
    note("head, pool, loss", 3 * 2.0 * micro * 2048 * 1000, 6 * 2 * micro * 49 * 2048, 0.3)
    note("exact sum of gradients", 0, 12 * weights, 1)
    note("small kernels (statistics, filters turned, 161 tensors' sums)", 0, 0, 1)
    total["small kernels (statistics, filters turned, 161 tensors' sums)"][3] = (norms * 11 + 161) * 2.5e-6
    # The host copies floats to page-locked memory one micro-batch ahead, except for the first of a step.
    pixels = "pixels to the GPU, 10 GB/s: of a step's first micro-batch, shared out"
    note(pixels, 0, 0, 1)
    total[pixels][3] = micro * 224 * 224 * 3 * 4 / 10e9 / (1024 // micro)
    for name, (count, flop, size, seconds) in total.items():
        t.rows.append((name, count, flop / count, size / count, seconds))
    per_step = weights * (8 + 16 + 6) / (t.bandwidth * ELEMENTWISE) + 1.5e-3
    t.show("images/s", micro, 24.299e9, per_step, 1024 // micro)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model", choices=[*GPTS, "resnet50"])
    parser.add_argument("--peak", type=float, default=790, help="TFLOP/s of products of bf16")
    parser.add_argument("--bandwidth", type=float, default=4.3, help="TB/s of a copy, both directions counted")
    parser.add_argument("--fp8-peak", type=float, default=1200, help="TFLOP/s of products of fp8")
    parser.add_argument("--fp8", action="store_true", help="trainer.precision: fp8")
    parser.add_argument("--micro", type=int, default=0)
    parser.add_argument("--unfused", action="store_true", help="gelu and residual sums as separate kernels")
    parser.add_argument("--recompute", action="store_true", help="blocks run forward twice (trainer.recompute: blocks)")
    args = parser.parse_args()
    if args.fp8 and args.recompute:
        parser.error("--fp8 and --recompute have not been predicted together")
    table = Table(args.peak, args.bandwidth, args.fp8_peak)
    if args.model == "resnet50":
        resnet50(table, args.micro or 128)
    else:
        spec = GPTS[args.model]
        gpt(table, spec, args.micro or spec.micro, not args.unfused, args.recompute, args.fp8)


if __name__ == "__main__":
    main()
