"""The peer's models: GPT-2 and ResNet-50 as a PyTorch expert would write them, with the layers, initial values and
losses of muster-trainer (trainer/model/families.c). They also run on CPUs and old versions of PyTorch."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def attend(q, k, v):
    """Causal attention; torch.backends.cuda chooses the kernel."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    context = q.shape[2]
    mask = torch.full((context, context), float("-inf"), dtype=q.dtype, device=q.device).triu(1)
    return F.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[3]) + mask, dim=-1) @ v


class Block(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.norm1 = layer_norm(width, bias)
        self.attend = nn.Linear(width, 3 * width, bias=bias)
        self.project = nn.Linear(width, width, bias=bias)
        self.norm2 = layer_norm(width, bias)
        self.up = nn.Linear(width, 4 * width, bias=bias)
        self.down = nn.Linear(4 * width, width, bias=bias)

    def attention(self, x):
        samples, context, width = x.shape
        shape = (samples, context, self.heads, width // self.heads)
        q, k, v = (p.view(shape).transpose(1, 2) for p in self.attend(x).split(width, dim=2))
        return self.project(attend(q, k, v).transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def layer_norm(width, bias):
    norm = nn.LayerNorm(width)
    if not bias:
        norm.register_parameter("bias", None)
    return norm


class Gpt(nn.Module):
    """Pre-norm, learnt positions, tied head; matrices are initialised like GPT-2's, scaled to the width."""

    def __init__(self, layers, heads, width, context, vocabulary, bias):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(context, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, bias) for _ in range(layers)))
        self.norm = layer_norm(width, bias)
        deviation = 0.02 * math.sqrt(768 / width)
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif p.dim() == 2 and name.startswith("blocks"):
                last = name.endswith(("project.weight", "down.weight"))
                nn.init.normal_(p, std=deviation / math.sqrt(2 * layers) if last else deviation)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def loss(self, tokens, targets):
        x = self.norm(self.blocks(self.tokens(tokens) + self.positions))
        logits = F.linear(x, self.tokens.weight).flatten(0, 1)
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
