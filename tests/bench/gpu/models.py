"""The models: each example with synthetic data, and the same model for PyTorch."""

import json
import math
from dataclasses import dataclass

ADAMW = {"rate": 6e-4, "betas": [0.9, 0.95], "weight_decay": 0.1, "warmup": 700, "least": 6e-5}
MOMENTUM = {"rate": 0.4, "momentum": 0.9, "weight_decay": 1e-4}


@dataclass
class Model:
    name: str
    example: str
    sets: dict  # overrides of the example
    spec: dict  # of the peer
    flops: float  # per token or image, forward and backward
    unit: str
    goal: float  # ratio of our speed to the peer's
    mfu_goal: float
    steps: int
    axes: dict  # settings of the peer, the most promising first
    fp8: bool = False  # has products that trainer.precision: fp8 quantises
    recomputes: bool = False  # the cost of running blocks twice is measured, too


def gpt_flops(s):
    """Per token, counted like `muster-trainer describe` does per sample: products, and attention without a mask."""
    weights = 12 * s["layers"] * s["width"] ** 2 + s["vocabulary"] * s["width"]
    return 6 * weights + 12 * s["layers"] * s["context"] * s["width"]


def resnet_flops(s):
    """Per image, counted like `muster-trainer describe`: without the gradient of the pixels."""
    side, before = s["side"] // 2, 64
    products = 2 * side**2 * 49 * 3 * 64 * 2
    side //= 2
    for stage, count in enumerate(s["blocks"]):
        middle = 64 << stage
        for i in range(count):
            stride = 2 if stage and not i else 1
            first, side = side, side // stride
            macs = first**2 * before * middle + side**2 * middle * (9 * middle + 4 * middle)
            if before != 4 * middle:
                macs += side**2 * before * 4 * middle
            products += 3 * 2 * macs
            before = 4 * middle
    return products + 3 * 2 * before * s["classes"]


def gpt(name, spec, unit_goal, mfu_goal, steps, axes):
    keys = ("layers", "heads", "width", "context", "vocabulary")
    model = ", ".join(f"{k}: {spec[k]}" for k in keys)
    sets = {
        "trainer.data": f"{{format: synthetic, samples: 1000000, vocabulary: {spec['drawn']}}}",
        "trainer.model": f"{{family: gpt, {model}, bias: {str(spec['bias']).lower()}}}",
        "trainer.global_batch_size": spec["global"],
        "trainer.micro_batch_size": spec["micro"],
    }
    return Model(name, "gpt2-124m.yaml", sets, spec, gpt_flops(spec), "tokens/s", unit_goal, mfu_goal, steps, axes,
                 fp8=True)


def llama_layers(s):
    """A list of layers: RMS norms, rotary positions, SiLU, and dropout after each half of a block."""
    width, deviation = s["width"], 0.02 * math.sqrt(768 / s["width"])
    last = deviation / math.sqrt(2 * s["layers"])

    def linear(out, start):
        return {"layer": "linear", "out": out, "bias": False, "deviation": start}

    dropout = {"layer": "dropout", "rate": s["dropout"]}
    attention = [{"layer": "rms_norm"}, linear(3 * width, deviation),
                 {"layer": "attention", "heads": s["heads"], "rotary": True}, linear(width, last), dropout]
    mlp = [{"layer": "rms_norm"}, linear(4 * width, deviation), {"layer": "silu"}, linear(width, last), dropout]
    blocks = [{"layer": "residual", "layers": half} for half in (attention, mlp)] * s["layers"]
    head = {"layer": "linear", "tied": "words", "out": s["vocabulary"], "bias": False}
    return [{"layer": "embedding", "name": "words", "width": width}, *blocks, {"layer": "rms_norm"}, head]


def llama(name, spec, steps, axes):
    model = gpt(name, spec, 1.1, None, steps, axes)
    layers = json.dumps(llama_layers(spec))
    model.sets["trainer.model"] = (f"{{family: layers, context: {spec['context']}, vocabulary: {spec['vocabulary']}, "
                                   f"layers: {layers}}}")
    model.recomputes = True
    return model


def large_gpt(name, spec, steps, axes):
    model = gpt(name, spec, 1.1, 0.55, steps, axes)
    model.recomputes = True
    return model


def resnet(name, spec, unit_goal, steps, axes):
    shape = [spec["side"], spec["side"], 3]
    sets = {
        "trainer.data": f"{{format: synthetic, samples: 1281167, shape: {shape}, classes: {spec['classes']}}}",
        "trainer.model.classes": spec["classes"],
        "trainer.global_batch_size": spec["global"],
        "trainer.micro_batch_size": spec["micro"],
    }
    return Model(name, "resnet50.yaml", sets, spec, resnet_flops(spec), "images/s", unit_goal, None, steps, axes)


LLAMA = {"rotary": True, "norm": "rms_norm", "activation": "silu", "dropout": 0.1, "bias": False}


def larger(text, micro):
    """Steps of at least a quarter of a million tokens; micro-batches as large as is useful and fits into 80 GB."""
    def spec(name, layers, width, batch, size, **more):
        shape = {"layers": layers, "width": width, "heads": 16, "global": batch, "micro": int(micro.get(name, size))}
        return text | shape | more

    def axes(*sizes):
        return {
            "attention": ["flash", "cudnn"],
            "weights": ["master", "amp"],
            "compile": ["default", "max-autotune-no-cudagraphs", "reduce-overhead", "none"],
            "micro": sizes,
            "recompute": ["none", "blocks"],
        }

    return {
        "gpt-350m": large_gpt("gpt-350m", spec("gpt-350m", 24, 1024, 256, 32), 5, axes(32, 16, 64)),
        "gpt-1.3b": large_gpt("gpt-1.3b", spec("gpt-1.3b", 24, 2048, 256, 16), 2, axes(16, 8, 32)),
        "llama-350m": llama("llama-350m", spec("llama-350m", 24, 1024, 64, 4, context=4096, **LLAMA), 5,
                            axes(4, 8, 16)),
    }


def full(micro):
    text = {"family": "gpt", "layers": 12, "heads": 12, "width": 768, "context": 1024, "vocabulary": 50304,
            "drawn": 50257, "bias": True, "global": 512, "micro": int(micro.get("gpt2", 64)), "clip": 1.0,
            "optimizer": ADAMW}
    image = {"family": "resnet", "blocks": [3, 4, 6, 3], "side": 224, "classes": 1000, "global": 1024,
             "micro": int(micro.get("resnet50", 128)), "clip": 0, "optimizer": MOMENTUM}
    text_axes = {
        "attention": ["flash", "cudnn"],
        "weights": ["master", "amp"],
        "compile": ["default", "max-autotune-no-cudagraphs", "reduce-overhead"],
        "micro": [64, 32, 128],
    }
    image_axes = {
        "weights": ["master", "amp"],
        "compile": ["default", "max-autotune-no-cudagraphs", "reduce-overhead", "none"],
        "micro": [128, 256, 512],
        "layout": ["channels_last", "contiguous"],
    }
    return {
        "gpt2": gpt("gpt2", text, 1.15, 0.55, 8, text_axes),
        "resnet50": resnet("resnet50", image, 1.1, 20, image_axes),
        **larger(text, micro),
    }


def tiny():
    """Models for a trial run on a CPU; the comparison is meaningless."""
    text = {"family": "gpt", "layers": 2, "heads": 2, "width": 64, "context": 32, "vocabulary": 512, "drawn": 500,
            "bias": True, "global": 8, "micro": 1, "clip": 1.0, "optimizer": ADAMW}
    image = {"family": "resnet", "blocks": [3, 4, 6, 3], "side": 32, "classes": 10, "global": 4, "micro": 2,
             "clip": 0, "optimizer": MOMENTUM}
    axes = {"compile": ["none"], "micro": [2, 4]}
    return {
        "gpt2": gpt("gpt2", text, 1.15, 0.55, 3, axes),
        "resnet50": resnet("resnet50", image, 1.1, 3, axes),
        "gpt-350m": large_gpt("gpt-350m", text | {"layers": 4}, 3, axes),
        "gpt-1.3b": large_gpt("gpt-1.3b", text | {"layers": 4, "width": 96}, 3, axes | {"recompute": ["none", "blocks"]}),
        "llama-350m": llama("llama-350m", text | {"layers": 3, "context": 64} | LLAMA, 3, axes),
    }
