#!/usr/bin/python3
"""Writes the golden files of this folder: the losses of PyTorch for the same trainings.

Models are interpreted layer by layer from the same lists that Muster compiles, with parameters in
Muster's layout; PyTorch does the arithmetic, the gradients, the optimizers and the schedules.
Initial values, samples and labels come from an integer formula, so only the losses are stored. See README.md.
"""
import argparse
import json
import math
import os

import numpy
import torch
import torch.nn.functional as F

STEPS = 50
SAMPLES, LABELS, VALUES, TOKENS = 1000, 2000, 3000, 4000  # streams; parameter i uses stream i


def draws(stream, count):
    """Returns 48 random bits for each place: splitmix64 of (stream, place)."""
    z = (numpy.uint64(stream) << numpy.uint64(32)) + numpy.arange(count, dtype=numpy.uint64)
    z = (z + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return (z ^ (z >> numpy.uint64(31))) >> numpy.uint64(16)


def uniform(stream, count):
    """Returns multiples of 2^-23 in [-1, 1), which are exact in fp32."""
    bits = (draws(stream, count) >> numpy.uint64(24)).astype(numpy.float64)
    return bits * 2.0**-23 - 1


def below(stream, count, limit):
    return (draws(stream, count) % numpy.uint64(limit)).astype(numpy.int64)


class Net:
    """A list of layers and a dictionary of parameters, which the first pass creates."""

    def __init__(self, layers, shape, dtype):
        self.layers, self.shape, self.dtype = layers, shape, dtype
        self.parameters, self.facts, self.training = {}, [], True

    def parameter(self, layer, slot, shape, scale, offset=0.0, momentum=0.0):
        name = f"{layer}.{slot}"
        if name not in self.parameters:
            values = offset + scale * uniform(len(self.facts), math.prod(shape))
            p = torch.tensor(values.reshape(shape).astype(numpy.float32)).to(self.dtype)
            self.parameters[name] = p.requires_grad_(momentum == 0)
            self.facts.append({"name": name, "shape": list(shape), "scale": scale,
                               "offset": offset, "momentum": momentum,
                               "decay": len(shape) > 1})
        return self.parameters[name]

    def weight(self, layer, shape, fan_in):
        """Returns the deviation of He et al., rounded to a power of two."""
        return self.parameter(layer, "weight", shape, 2.0 ** round(math.log2((6 / fan_in)**0.5)))

    def bias(self, layer, width, spec):
        return self.parameter(layer, "bias", [width], 2.0**-4) if spec.get("bias", True) else None

    def forward(self, x):
        return self.run(self.layers, x, "")

    def run(self, layers, x, prefix):
        for i, spec in enumerate(layers):
            name = prefix + spec.get("name", str(i))
            x = getattr(self, spec["layer"])(x, spec, name)
        return x

    # --- one method for each kind of layer; images are NHWC between layers

    def linear(self, x, spec, name):
        if "tied" in spec:
            return x @ self.parameters[spec["tied"] + ".weight"].t()
        width = x.shape[-1]
        w = self.weight(name, [width, spec["out"]], width)
        b = self.bias(name, spec["out"], spec)
        return F.linear(x, w.t(), b)

    def conv2d(self, x, spec, name):
        k, out, groups, channels = spec["kernel"], spec["out"], spec.get("groups", 1), x.shape[-1]
        shape = [groups, k, k, channels // groups, out // groups]
        w = self.weight(name, shape if groups > 1 else shape[1:], k * k * channels // groups)
        filters = w.reshape(shape).permute(0, 4, 3, 1, 2).reshape(out, channels // groups, k, k)
        y = F.conv2d(x.permute(0, 3, 1, 2), filters, self.bias(name, out, spec),
                     spec.get("stride", 1), spec.get("padding", 0), groups=groups)
        return y.permute(0, 2, 3, 1)

    def batch_norm(self, x, spec, name):
        c = x.shape[-1]
        gain = self.parameter(name, "weight", [c], 2.0**-3, 1.0)
        bias = self.parameter(name, "bias", [c], 2.0**-4)
        momentum = spec.get("momentum", 0.1)
        mean = self.parameter(name, "running_mean", [c], 0.0, 0.0, momentum)
        variance = self.parameter(name, "running_var", [c], 0.0, 1.0, momentum)
        y = F.batch_norm(x.reshape(-1, c), mean, variance, gain, bias, self.training, momentum,
                         1e-5)
        return y.reshape(x.shape)

    def layer_norm(self, x, spec, name):
        gain = self.parameter(name, "weight", [x.shape[-1]], 2.0**-3, 1.0)
        return F.layer_norm(x, [x.shape[-1]], gain, self.bias(name, x.shape[-1], spec), 1e-5)

    def rms_norm(self, x, spec, name):
        gain = self.parameter(name, "weight", [x.shape[-1]], 2.0**-3, 1.0)
        return gain * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)

    def embedding(self, x, spec, name):
        table = self.parameter(name, "weight", [self.shape["vocabulary"], spec["width"]], 2.0**-3)
        return F.embedding(x, table)

    def position(self, x, spec, name):
        return x + self.parameter(name, "weight", list(x.shape[1:]), 2.0**-4)

    def attention(self, x, spec, name):
        n, context, width = x.shape[0], x.shape[1], x.shape[2] // 3
        head = width // spec["heads"]
        q, k, v = (part.reshape(n, context, spec["heads"], head).transpose(1, 2)
                   for part in x.split(width, 2))
        if spec.get("rotary"):
            q, k = self.turn(q), self.turn(k)
        scores = q @ k.transpose(2, 3) / math.sqrt(head)
        future = torch.ones(context, context, dtype=torch.bool).triu(1)
        y = scores.masked_fill(future, -math.inf).softmax(3) @ v
        return y.transpose(1, 2).reshape(n, context, width)

    @staticmethod
    def turn(x):
        """Rotary positions (Su et al. 2021), element i paired with i + head / 2."""
        context, half = x.shape[2], x.shape[3] // 2
        angle = torch.outer(torch.arange(context, dtype=torch.float64),
                            10000.0 ** (-torch.arange(half, dtype=torch.float64) / half))
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], 3)

    def residual(self, x, spec, name):
        beside = self.run(spec.get("shortcut", []), x, name + ".shortcut.")
        return self.run(spec["layers"], x, name + ".") + beside

    def max_pool(self, x, spec, name):
        k = spec["kernel"]
        y = F.max_pool2d(x.permute(0, 3, 1, 2), k, spec.get("stride", k), spec.get("padding", 0))
        return y.permute(0, 2, 3, 1)

    def avg_pool(self, x, spec, name):
        k = spec["kernel"]
        y = F.avg_pool2d(x.permute(0, 3, 1, 2), k, spec.get("stride", k), spec.get("padding", 0),
                         count_include_pad=False)
        return y.permute(0, 2, 3, 1)

    def global_pool(self, x, spec, name):
        return x.mean((1, 2))

    def flatten(self, x, spec, name):
        return x.reshape(x.shape[0], -1)

    def relu(self, x, spec, name):
        return F.relu(x)

    def gelu(self, x, spec, name):
        return F.gelu(x, approximate="tanh")

    def silu(self, x, spec, name):
        return F.silu(x)

    def tanh(self, x, spec, name):
        return torch.tanh(x)


# --- the model families of Muster


def mlp(spec):
    layers = [{"layer": "flatten"}]
    for i, width in enumerate(spec["hidden"]):
        layers += [{"layer": "linear", "name": f"hidden.{i}", "out": width},
                   {"layer": spec.get("activation", "relu")}]
    return layers + [{"layer": "linear", "name": "output", "out": spec["classes"]}]


def lenet(spec):
    layers = []
    for name, out, padding in ("conv1", 6, 2), ("conv2", 16, 0):
        layers += [{"layer": "conv2d", "name": name, "out": out, "kernel": 5, "padding": padding},
                   {"layer": "relu"}, {"layer": "max_pool", "kernel": 2}]
    layers += [{"layer": "flatten"}]
    for name, out in ("dense1", 120), ("dense2", 84):
        layers += [{"layer": "linear", "name": name, "out": out}, {"layer": "relu"}]
    return layers + [{"layer": "linear", "name": "output", "out": spec["classes"]}]


def resnet(spec):
    """The form for small images: depth 20, 32, 56 is 3, 5, 9 blocks in each of three stages."""

    def conv_norm(suffix, kernel, stride, out):
        return [{"layer": "conv2d", "name": "conv" + suffix, "out": out, "kernel": kernel,
                 "stride": stride, "padding": kernel // 2, "bias": False},
                {"layer": "batch_norm", "name": "norm" + suffix}]

    relu = [{"layer": "relu"}]
    layers = conv_norm("", 3, 1, 16) + relu
    for stage in range(3):
        for block in range((spec["depth"] - 2) // 6):
            out, stride = 16 << stage, 2 if stage and not block else 1
            layers += [{"layer": "residual", "name": f"stages.{stage}.{block}",
                        "layers": conv_norm("1", 3, stride, out) + relu
                        + conv_norm("2", 3, 1, out),
                        "shortcut": conv_norm("", 1, stride, out) if stride > 1 else []}] + relu
    return layers + [{"layer": "global_pool"},
                     {"layer": "linear", "name": "output", "out": spec["classes"]}]


def gpt(spec):
    width, bias = spec["width"], spec.get("bias", False)
    norm = {"layer": "layer_norm", "name": "norm", "bias": bias}

    def linear(name, out):
        return {"layer": "linear", "name": name, "out": out, "bias": bias}

    layers = [{"layer": "embedding", "name": "token_embedding", "width": width},
              {"layer": "position", "name": "position_embedding"}]
    for i in range(spec["layers"]):
        layers += [{"layer": "residual", "name": f"blocks.{i}.attention", "layers": [
            norm, linear("query_key_value", 3 * width),
            {"layer": "attention", "heads": spec["heads"]}, linear("projection", width)]},
                   {"layer": "residual", "name": f"blocks.{i}.mlp", "layers": [
                       norm, linear("up", 4 * width), {"layer": "gelu"}, linear("down", width)]}]
    return layers + [norm, {"layer": "linear", "name": "head", "tied": "token_embedding"}]


FAMILIES = {"mlp": mlp, "lenet": lenet, "resnet": resnet, "gpt": gpt,
            "layers": lambda spec: spec["layers"]}

# --- training


def inputs(case, dtype):
    """Returns all samples and their targets."""
    shape, n = case["shape"], case["samples"]
    if "context" in shape:
        length = shape["context"] + 1
        tokens = below(TOKENS, n * length, shape["vocabulary"]).reshape(n, length)
        return torch.tensor(tokens[:, :-1]), torch.tensor(tokens[:, 1:])
    size = [n, shape["height"], shape["width"], shape["channels"]]
    x = torch.tensor(uniform(SAMPLES, math.prod(size)).reshape(size)).to(dtype)
    if "features" in shape:
        x = x.reshape(n, -1)
    if "outputs" in shape:
        values = uniform(VALUES, n * shape["outputs"]).reshape(n, shape["outputs"])
        return x, torch.tensor(values).to(dtype)
    return x, torch.tensor(below(LABELS, n, shape["classes"]))


def loss_of(case, y, target):
    if case["loss"]["name"] == "mse":
        return F.mse_loss(y, target)
    return F.cross_entropy(y.reshape(-1, y.shape[-1]), target.reshape(-1),
                           label_smoothing=case["loss"].get("label_smoothing", 0.0))


def optimizer_of(case, net):
    spec = case["optimizer"]
    decay = spec.get("weight_decay", 0.0)
    learnt = [p for p in net.facts if p["momentum"] == 0]
    groups = [{"params": [net.parameters[p["name"]] for p in learnt if p["decay"] == decayed],
               "weight_decay": decay if decayed else 0.0} for decayed in (True, False)]
    rate, name = spec["learning_rate"], spec["name"]
    if name in ("adam", "adamw"):
        kind = torch.optim.Adam if name == "adam" else torch.optim.AdamW
        return kind(groups, rate, (spec.get("beta1", 0.9), spec.get("beta2", 0.999)),
                    spec.get("epsilon", 1e-8))
    return torch.optim.SGD(groups, rate, 0.0 if name == "sgd" else spec.get("momentum", 0.9),
                           nesterov=name == "nesterov")


def schedule_of(case, optimizer):
    spec = case["schedule"]
    if spec["name"] == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS,
                                                          spec.get("min_learning_rate", 0.0))
    if spec["name"] == "step":
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, spec["milestones"],
                                                    spec.get("factor", 0.1))
    if spec["name"] == "polynomial":
        return torch.optim.lr_scheduler.PolynomialLR(optimizer, STEPS, spec.get("power", 1.0))
    return torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)


def train(case, dtype):
    """Returns the loss of every step, that of the first batch afterwards, and the parameters."""
    net = Net(FAMILIES[case["model"]["family"]](case["model"]), case["shape"], dtype)
    x, target = inputs(case, dtype)
    net.training = False
    net.forward(x[:case["batch"]])  # creates the parameters
    net.training = True
    optimizer = optimizer_of(case, net)
    schedule = schedule_of(case, optimizer)
    learnt = [p for group in optimizer.param_groups for p in group["params"]]
    losses = []
    for step in range(STEPS):
        chosen = (torch.arange(case["batch"]) + step * case["batch"]) % case["samples"]
        loss = loss_of(case, net.forward(x[chosen]), target[chosen])
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        if case["clip_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(learnt, case["clip_norm"])
        optimizer.step()
        schedule.step()
    net.training = False
    plain = dict(case, loss={"name": case["loss"]["name"]})  # smoothing applies to training only
    with torch.no_grad():
        after = loss_of(plain, net.forward(x[:case["batch"]]), target[:case["batch"]]).item()
    return losses, after, net.facts


# --- the cases

IMAGE_8 = {"height": 8, "width": 8, "channels": 1, "classes": 10}
IMAGE_16 = {"height": 16, "width": 16, "channels": 1, "classes": 10}
COLOUR_12 = {"height": 12, "width": 12, "channels": 4, "classes": 7}
COLOUR_16 = {"height": 16, "width": 16, "channels": 3, "classes": 10}
FEATURES = {"height": 1, "width": 1, "channels": 12, "features": True, "outputs": 3}
TEXT = {"context": 16, "vocabulary": 31}
MLP = {"family": "mlp", "hidden": [32, 24], "activation": "relu", "classes": 10}


def case(name, model, shape, optimizer, **more):
    base = {"name": name, "model": model, "loss": {"name": "cross_entropy"}, "shape": shape,
            "samples": 32, "batch": 16, "micro_batches": [1], "optimizer": optimizer,
            "schedule": {"name": "constant"}, "clip_norm": 0}
    return {**base, **more}


def sgd(name, rate, **more):
    return {"name": name, "learning_rate": rate, **more}


def cnn():
    return {"family": "layers", "layers": [
        {"layer": "conv2d", "name": "first", "out": 8, "kernel": 3, "padding": 1},
        {"layer": "silu"},
        {"layer": "max_pool", "kernel": 3, "stride": 2, "padding": 1},
        {"layer": "residual", "name": "block", "layers": [
            {"layer": "conv2d", "name": "grouped", "out": 8, "kernel": 3, "padding": 1,
             "groups": 2, "bias": False},
            {"layer": "batch_norm", "name": "norm"},
            {"layer": "relu"}]},
        {"layer": "avg_pool", "kernel": 2},
        {"layer": "conv2d", "name": "last", "out": 12, "kernel": 3, "stride": 2, "padding": 1},
        {"layer": "batch_norm", "name": "norm", "momentum": 0.2},
        {"layer": "tanh"},
        {"layer": "global_pool"},
        {"layer": "linear", "name": "output", "out": 7}]}


def values():
    return {"family": "layers", "layers": [
        {"layer": "linear", "name": "in", "out": 16},
        {"layer": "layer_norm", "name": "norm"},
        {"layer": "gelu"},
        {"layer": "linear", "name": "out", "out": 3}]}


def rotary():
    return {"family": "layers", "layers": [
        {"layer": "embedding", "name": "tokens", "width": 24},
        {"layer": "residual", "name": "attention", "layers": [
            {"layer": "rms_norm", "name": "norm"},
            {"layer": "linear", "name": "in", "out": 72, "bias": False},
            {"layer": "attention", "heads": 3, "rotary": True},
            {"layer": "linear", "name": "out", "out": 24}]},
        {"layer": "rms_norm", "name": "norm"},
        {"layer": "linear", "name": "head", "out": 31}]}


def cases():
    gpt_spec = {"family": "gpt", "layers": 2, "heads": 2, "width": 32, "context": 16,
                "vocabulary": 31}
    adamw = sgd("adamw", 1e-3, weight_decay=0.1)
    yield case("mlp_sgd", MLP, IMAGE_8, sgd("sgd", 0.1, weight_decay=0.01))
    yield case("mlp_momentum", MLP, IMAGE_8, sgd("momentum", 0.02, weight_decay=0.01),
               micro_batches=[1, 4])
    yield case("mlp_nesterov", MLP, IMAGE_8, sgd("nesterov", 0.02, momentum=0.8))
    yield case("mlp_adam", MLP, IMAGE_8, sgd("adam", 2e-3, weight_decay=0.01))
    yield case("mlp_adamw", MLP, IMAGE_8, sgd("adamw", 2e-3, weight_decay=0.1, beta2=0.99))
    yield case("mlp_clip", dict(MLP, activation="tanh"), IMAGE_8, sgd("momentum", 0.05),
               clip_norm=0.5, loss={"name": "cross_entropy", "label_smoothing": 0.1})
    yield case("mlp_cosine", dict(MLP, activation="gelu"), IMAGE_8, sgd("sgd", 0.1),
               schedule={"name": "cosine", "min_learning_rate": 0.01})
    yield case("mlp_step", MLP, IMAGE_8, sgd("sgd", 0.1),
               schedule={"name": "step", "milestones": [20, 40], "factor": 0.2})
    yield case("mlp_polynomial", MLP, IMAGE_8, sgd("sgd", 0.1),
               schedule={"name": "polynomial", "power": 2.0})
    yield case("values", values(), FEATURES, sgd("momentum", 0.05), loss={"name": "mse"})
    yield case("lenet", {"family": "lenet", "classes": 10}, IMAGE_16,
               sgd("momentum", 0.003, weight_decay=0.001))
    yield case("cnn", cnn(), COLOUR_12, sgd("momentum", 0.02))
    yield case("resnet", {"family": "resnet", "depth": 20, "classes": 10}, COLOUR_16,
               sgd("sgd", 2e-3, weight_decay=0.001), clip_norm=1.0)
    yield case("gpt", gpt_spec, TEXT, adamw, micro_batches=[1, 4], clip_norm=1.0)
    yield case("gpt_bias", dict(gpt_spec, bias=True), TEXT, sgd("momentum", 0.005))
    yield case("rotary", rotary(), TEXT, adamw)


def write(folder, one, facts, losses, after):
    text = ",\n  ".join(f'"{key}": {json.dumps(value)}' for key, value in one.items())
    facts_text = ",\n    ".join(json.dumps(p) for p in facts)
    rows = [losses[i:i + 10] for i in range(0, STEPS, 10)]
    losses_text = ",\n    ".join(", ".join(f"{x:.9g}" for x in row) for row in rows)
    with open(os.path.join(folder, one["name"] + ".json"), "w", encoding="utf-8") as out:
        out.write(f'{{\n  {text},\n  "parameters": [\n    {facts_text}],\n'
                  f'  "losses": [\n    {losses_text}],\n  "after": {after:.9g}\n}}\n')


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases; all by default")
    parser.add_argument("--folder", default=here, help="where the files go")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for one in cases():
        if args.names and one["name"] not in args.names:
            continue
        losses, after, facts = train(one, torch.float32)
        exact, exact_after, _ = train(one, torch.float64)
        noise = max(abs(a / b - 1) for a, b in zip(losses + [after], exact + [exact_after]))
        print(f"{one['name']:16} loss {losses[0]:.4f} -> {losses[-1]:.4f}, evaluated {after:.4f}; "
              f"fp32 and fp64 differ by {noise:.1e}")
        write(args.folder, one, facts, losses, after)


if __name__ == "__main__":
    main()
