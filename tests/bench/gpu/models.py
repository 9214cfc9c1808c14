"""The models: each example with synthetic data, and the same model for PyTorch."""

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


def resnet(name, spec, unit_goal, steps, axes):
    shape = [spec["side"], spec["side"], 3]
    sets = {
        "trainer.data": f"{{format: synthetic, samples: 1281167, shape: {shape}, classes: {spec['classes']}}}",
        "trainer.model.classes": spec["classes"],
        "trainer.global_batch_size": spec["global"],
        "trainer.micro_batch_size": spec["micro"],
    }
    return Model(name, "resnet50.yaml", sets, spec, resnet_flops(spec), "images/s", unit_goal, None, steps, axes)


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
    }
