"""Loss curves of the trainer and of PyTorch on a corpus: one model, one recipe, several seeds each.

A curve is the training loss of each step, smoothed to the means of windows of WINDOW steps. PyTorch's seeds
give a mean and a spread: the spread is the largest deviation, over windows and seeds, of one seed's curve from
the mean of the others'. The criterion is met if the mean of our seeds' curves deviates from the mean of
PyTorch's in no window by more than the spread.

Training in fp8 is compared with training in bf16 (on CPUs in float32) in the same way: the spread is that of the trainer's
own seeds in bf16.
"""

import json
import re
import tempfile
from pathlib import Path

from children import Failed, json_of, output_of, say

ROOT = Path(__file__).resolve().parents[3]
WINDOW = 50
FULL = {"family": "gpt", "layers": 6, "heads": 6, "width": 384, "context": 256, "vocabulary": 256, "bias": False,
        "global": 64, "micro": 16, "clip": 1.0, "validation_fraction": 0.1,
        "optimizer": {"rate": 1e-3, "betas": [0.9, 0.99], "weight_decay": 0.1, "warmup": 100, "least": 1e-4}}
TINY = FULL | {"layers": 2, "heads": 2, "width": 64, "context": 32, "global": 8, "micro": 4}
LINE = re.compile(r"^step (\d+)/\d+  loss (\S+)", re.MULTILINE)


def spec_of(bench):
    options = bench.options
    spec = (FULL if bench.device == "cuda" else TINY) | json.loads(options.loss_spec)
    tokens = options.loss.suffix == ".bin"
    if tokens and "vocabulary" not in json.loads(options.loss_spec):
        spec["vocabulary"] = 50304
    spec["data"] = "tokens" if tokens else "bytes"
    spec["optimizer"] = spec["optimizer"] | {"warmup": min(spec["optimizer"]["warmup"], options.loss_steps // 4)}
    return spec


def sets_of(spec, corpus, steps, seed):
    o = spec["optimizer"]
    model = ", ".join(f"{k}: {spec[k]}" for k in ("layers", "heads", "width", "context", "vocabulary"))
    return {
        "reproducibility.experiment_seed": seed,
        "trainer.data": f"{{format: {spec['data']}, path: '{corpus.resolve()}', "
                        f"validation_fraction: {spec['validation_fraction']}}}",
        "trainer.model": f"{{family: gpt, {model}, bias: {str(spec['bias']).lower()}}}",
        "trainer.global_batch_size": spec["global"],
        "trainer.micro_batch_size": spec["micro"],
        "trainer.steps": steps,
        "trainer.optimizer": f"{{name: adamw, learning_rate: {o['rate']}, beta1: {o['betas'][0]}, "
                             f"beta2: {o['betas'][1]}, weight_decay: {o['weight_decay']}}}",
        "trainer.schedule": f"{{name: warmup_cosine, warmup_steps: {o['warmup']}, min_learning_rate: {o['least']}}}",
        "trainer.clip_norm": spec["clip"],
        "trainer.validate_every": 0,
        "trainer.checkpoint_every": 0,
        "trainer.report_every": 1,
    }


def ours(bench, spec, seed, precision="auto"):
    options = bench.options
    with tempfile.TemporaryDirectory(prefix="muster-curve-") as folder:
        argv = [bench.trainer, "run", ROOT / "examples/gpt2-124m.yaml", "--slots", 1, "--checkpoint-dir", folder]
        sets = sets_of(spec, options.loss, options.loss_steps, seed) | {"trainer.precision": precision}
        for key, value in sets.items():
            argv += ["--set", f"{key}={value}"]
        out = output_of(argv, bench.clock)
    losses = {int(step): float(loss) for step, loss in LINE.findall(out)}
    if sorted(losses) != list(range(1, options.loss_steps + 1)):
        raise Failed(f"the output has the losses of {len(losses)} steps, not of {options.loss_steps}: {out[-300:]}")
    return [losses[s] for s in sorted(losses)]


def ours_in_fp8(bench, spec, seed):
    return ours(bench, spec, seed, "fp8")


def theirs(bench, spec, seed):
    options = bench.options
    setting = {"compile": "default" if bench.device == "cuda" else "none", "micro": spec["global"]}
    argv = [*options.python.split(), Path(__file__).parent / "peer_torch.py", "curve", json.dumps(spec)]
    argv += ["--corpus", options.loss, "--seed", seed, "--steps", options.loss_steps]
    argv += ["--setting", json.dumps(setting), "--device", bench.device]
    return json_of(argv, bench.clock)["losses"]


def smooth(losses):
    width = min(WINDOW, max(1, len(losses) // 4))
    return [sum(losses[i : i + width]) / width for i in range(0, len(losses) - width + 1, width)]


def mean(curves):
    return [sum(values) / len(values) for values in zip(*curves)]


def deviation(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def spread(curves):
    return max(deviation(c, mean(curves[:i] + curves[i + 1 :])) for i, c in enumerate(curves))


def train_all(bench, spec, got):
    """Trains all seeds, alternating, so that both have results when the time is up."""
    mine, his = (int(n) for n in bench.options.loss_seeds.split(","))
    eight = bench.options.loss_fp8
    for i in range(max(mine, his, eight)):
        for name, count, train in (("PyTorch", his, theirs), ("ours", mine, ours), ("fp8", eight, ours_in_fp8)):
            if i < count:
                say(f"loss curve: {name}, seed {i + 1} of {count}")
                losses = bench.try_to(f"loss curve, {name}", lambda: train(bench, spec, i + 1))
                got[name] += [smooth(losses)] if losses else []


def compare(bench, emit):
    got = {"ours": [], "PyTorch": [], "fp8": []}
    try:
        train_all(bench, spec_of(bench), got)
    finally:
        report(bench, emit, got)


def report_one(bench, emit, measure, mine, reference):
    if not mine or len(reference) < 2:
        say(f"{measure}: the comparison needs one curve, and two to compare it with")
        return
    apart, wide = deviation(mean(mine), mean(reference)), spread(reference)
    emit(measure, apart, "nats", wide, apart / wide, 1.0, at_most=True, seeds=[len(mine), len(reference)],
         steps=bench.options.loss_steps)


def report(bench, emit, got):
    report_one(bench, emit, "loss curve, largest deviation", got["ours"], got["PyTorch"])
    if got.get("fp8"):
        report_one(bench, emit, "loss curve, fp8 from bf16", got["fp8"], got["ours"])
    line = {name: [[round(x, 4) for x in c] for c in curves] for name, curves in got.items()}
    print(json.dumps({"bench": "gpu", "curves": line}), flush=True)
