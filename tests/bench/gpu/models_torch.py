"""The peer's models as a PyTorch expert would write them: GPTs (also with the parts of Llama) and ResNet-50, with the
layers, initial values and losses of muster-trainer (trainer/model/families.c). They also run on CPUs and old versions
of PyTorch."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def attend(q, k, v):
    """Causal attention; torch.backends.cuda chooses the kernel."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    context = q.shape[2]
    mask = torch.full((context, context), float("-inf"), dtype=q.dtype, device=q.device).triu(1)
    return F.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[3]) + mask, dim=-1) @ v


class Block(nn.Module):
    def __init__(self, spec):
        super().__init__()
        width, bias = spec["width"], spec["bias"]
        self.heads = spec["heads"]
        self.activation = F.silu if spec.get("activation") == "silu" else gelu
        self.dropout = nn.Dropout(spec["dropout"]) if spec.get("dropout") else nn.Identity()
        self.norm1 = norm_of(spec)
        self.attend = nn.Linear(width, 3 * width, bias=bias)
        self.project = nn.Linear(width, width, bias=bias)
        self.norm2 = norm_of(spec)
        self.up = nn.Linear(width, 4 * width, bias=bias)
        self.down = nn.Linear(4 * width, width, bias=bias)

    def attention(self, x, turn):
        samples, context, width = x.shape
        shape = (samples, context, self.heads, width // self.heads)
        q, k, v = (p.view(shape).transpose(1, 2) for p in self.attend(x).split(width, dim=2))
        if turn is not None:
            q, k = rotate(q, turn), rotate(k, turn)
        return self.project(attend(q, k, v).transpose(1, 2).reshape(x.shape))

    def forward(self, x, turn=None):
        x = x + self.dropout(self.attention(self.norm1(x), turn))
        return x + self.dropout(self.down(self.activation(self.up(self.norm2(x)))))


def gelu(x):
    return F.gelu(x, approximate="tanh")


def turns(context, head):
    """Cosines and sines of rotary positions, [2, context, head / 2]."""
    half = head // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.outer(torch.arange(context, dtype=torch.float64), rates)
    return torch.stack([angle.cos(), angle.sin()]).float()


def rotate(x, turn):
    """Turns the pairs of elements i and i + head / 2 (Su et al. 2021)."""
    a, b = x.float().chunk(2, dim=-1)
    cos, sin = turn
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


def norm_of(spec):
    if spec.get("norm") == "rms_norm":
        return RmsNorm(spec["width"])
    norm = nn.LayerNorm(spec["width"])
    if not spec["bias"]:
        norm.register_parameter("bias", None)
    return norm


class Gpt(nn.Module):
    """Pre-norm, tied head; positions are learnt or rotary. Matrices are initialised like GPT-2's, scaled to the width.
    With `recompute`, only the values between blocks are kept for the backward pass."""

    recompute = False

    def __init__(self, spec):
        super().__init__()
        layers, width, context = spec["layers"], spec["width"], spec["context"]
        self.tokens = nn.Embedding(spec["vocabulary"], width)
        if spec.get("rotary"):
            self.register_buffer("turn", turns(context, width // spec["heads"]))
        else:
            self.turn = None
            self.positions = nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = nn.ModuleList(Block(spec) for _ in range(layers))
        self.norm = norm_of(spec)
        deviation = 0.02 * math.sqrt(768 / width)
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif p.dim() == 2 and name.startswith("blocks"):
                last = name.endswith(("project.weight", "down.weight"))
                nn.init.normal_(p, std=deviation / math.sqrt(2 * layers) if last else deviation)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def loss(self, tokens, targets):
        x = self.tokens(tokens)
        if self.turn is None:
            x = x + self.positions
        for block in self.blocks:
            x = checkpoint(block, x, self.turn, use_reentrant=False) if self.recompute else block(x, self.turn)
        logits = F.linear(self.norm(x), self.tokens.weight).flatten(0, 1)
        return F.cross_entropy(logits.float(), targets.flatten())


class Bottleneck(nn.Module):
    def __init__(self, before, middle, stride):
        super().__init__()
        after = 4 * middle
        self.main = nn.Sequential(
            *conv_norm(before, middle, 1, 1),
            nn.ReLU(inplace=True),
            *conv_norm(middle, middle, 3, stride),
            nn.ReLU(inplace=True),
            *conv_norm(middle, after, 1, 1),
        )
        nn.init.zeros_(self.main[-1].weight)
        self.short = nn.Identity()
        if before != after or stride > 1:
            self.short = nn.Sequential(*conv_norm(before, after, 1, stride))

    def forward(self, x):
        return F.relu(self.main(x) + self.short(x), inplace=True)


def conv_norm(before, after, kernel, stride):
    conv = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv, nn.BatchNorm2d(after)


class ResNet50(nn.Module):
    def __init__(self, blocks, classes):
        super().__init__()
        layers, before = [*conv_norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
        for stage, count in enumerate(blocks):
            for i in range(count):
                layers.append(Bottleneck(before, 64 << stage, 2 if stage and not i else 1))
                before = 256 << stage
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(before, classes)
        nn.init.normal_(self.head.weight, std=0.1 / math.sqrt(before))

    def loss(self, images, labels):
        x = self.head(self.body(images).mean((2, 3)))
        return F.cross_entropy(x.float(), labels, label_smoothing=0.1)
