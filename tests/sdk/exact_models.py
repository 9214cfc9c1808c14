"""Models and data of the tests and benchmarks of muster.torch, small and made from seeds."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional


class LeNet(nn.Module):
    """LeNet-5 for 28x28 digits, with dropout."""

    def __init__(self, dropout: float = 0.25) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(dropout))
        self.head = nn.Sequential(
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


class ResidualBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.short = nn.Identity() if inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(out)) + self.short(x))


class ResNet20(nn.Module):
    """ResNet-20 for small images (He et al. 2016)."""

    def __init__(self, width: int = 16, channels: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, 1, 1, bias=False),
                                   nn.BatchNorm2d(width), nn.ReLU()]
        inputs = width
        for stage in range(3):
            for block in range(3):
                outputs = width << stage
                layers.append(ResidualBlock(inputs, outputs, 2 if stage and not block else 1))
                inputs = outputs
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(inputs, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        q, k, v = (part.view(n, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, 2))
        weights = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = weights.masked_fill(mask, -torch.inf).softmax(3) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(n, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A small GPT; the embedding is also the weight of the last layer."""

    def __init__(self, words: int = 64, width: int = 64, layers: int = 2, heads: int = 4,
                 length: int = 32, dropout: float = 0.1) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.words(x) + self.places(places))))


def classify(model: nn.Module, batch: Any) -> dict[str, torch.Tensor]:
    x, y = batch
    out = model(x)
    return {"loss": functional.cross_entropy(out, y),
            "accuracy": (out.argmax(1) == y).float().mean()}


def predict_next(model: nn.Module, batch: Any) -> torch.Tensor:
    tokens = batch[0]
    out = model(tokens[:, :-1])
    return functional.cross_entropy(out.reshape(-1, out.shape[-1]), tokens[:, 1:].reshape(-1))


def make_digits(count: int) -> torch.utils.data.Dataset:
    generator = torch.Generator().manual_seed(1)
    return torch.utils.data.TensorDataset(torch.randn(count, 1, 28, 28, generator=generator),
                                          torch.randint(10, (count,), generator=generator))


def make_pictures(count: int, size: int = 12) -> torch.utils.data.Dataset:
    generator = torch.Generator().manual_seed(2)
    return torch.utils.data.TensorDataset(torch.randn(count, 3, size, size, generator=generator),
                                          torch.randint(10, (count,), generator=generator))


def make_text(count: int, length: int = 33) -> torch.utils.data.Dataset:
    generator = torch.Generator().manual_seed(3)
    return torch.utils.data.TensorDataset(torch.randint(64, (count, length), generator=generator))


def build(kind: str) -> tuple[nn.Module, torch.optim.Optimizer, Callable, Any]:
    """The model, optimizer, loss function and data set of a kind, always with the same weights."""
    torch.manual_seed(7)
    if kind == "lenet":
        model: nn.Module = LeNet()
        return (model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), classify,
                make_digits(50))
    if kind == "resnet20":
        model = ResNet20(width=8)
        return (model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4),
                classify, make_pictures(50))
    model = GPT()
    return model, torch.optim.AdamW(model.parameters(), 1e-3), predict_next, make_text(50)
