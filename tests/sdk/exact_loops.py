"""One rank of the training loops of test_exact.py: exact_loops.py RANK WORLD FOLDER

Every rank prints one JSON line for each loop; all ranks of all numbers print the same lines.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from muster.torch import Exact, ExactError


class Rows(torch.utils.data.Dataset):
    """Samples by index, as most data sets have them, with a random transformation if wanted."""

    def __init__(self, noise: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(1)
        self._x = torch.randn(96, 5, generator=generator)
        self._y = (self._x.sum(1) > 0).long()
        self._noise = noise

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        x = self._x[index]
        return x + self._noise * torch.randn(5) if self._noise else x, self._y[index]


def make(norm: bool = False, seed: int = 7) -> Exact:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 8), *([nn.BatchNorm1d(8)] if norm else []), nn.ReLU(),
                          nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return Exact(model, optimizer, micro_batch=4, global_batch=24, seed=seed)


def classify(model: nn.Module, batch: Any) -> torch.Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1])


def teach() -> dict:
    """The model in eval mode is its own teacher, and a copy of it in training mode another one."""
    exact = make(norm=True)
    probe = torch.randn(6, 5, generator=torch.Generator().manual_seed(2))
    wrong = 0
    for batch in exact.batches(Rows(), steps=5):
        exact.model.eval()
        expected = exact.model(probe).detach()
        exact.model.train()
        other = copy.deepcopy(exact.model)

        def loss_fn(model: nn.Module, samples: Any) -> torch.Tensor:
            nonlocal wrong
            model.eval()
            with torch.no_grad():
                wrong += not torch.equal(model(probe), expected)
                target = model(samples[0]).softmax(1)
            model.train()
            target = target + copy.deepcopy(other)(samples[0]).detach().softmax(1)
            return classify(model, samples) + (model(samples[0]).softmax(1) - target).pow(2).mean()

        exact.step(loss_fn, batch)
    return {"digest": exact.digest(), "wrong": wrong}


def mix(workers: int) -> dict:
    """Numbers that the loop draws between loading and the step."""
    exact = make()
    drawn = []
    random.seed(dist.get_rank() if dist.is_initialized() else 0)
    for batch in exact.batches(Rows(0.1), steps=6, workers=workers):
        drawn.append([float(torch.rand(())), random.random()])
        weight = drawn[-1][0]
        exact.step(lambda model, samples: weight * classify(model, samples), batch)
    return {"digest": exact.digest(), "drawn": drawn[1:]}


def add_noise() -> dict:
    """Noise that the loop adds to the weights."""
    exact = make()
    for batch in exact.batches(Rows(), steps=6):
        with torch.no_grad():
            for parameter in exact.model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.01)
        exact.step(classify, batch)
    return {"digest": exact.digest()}


def evaluate() -> dict:
    """A random transformation of the validation set changes nothing behind it."""
    exact = make()
    found, drawn = [], []
    for batch in exact.batches(Rows(), steps=3):
        exact.step(classify, batch)
        found += [exact.evaluate(classify, Rows(0.5)), exact.evaluate(classify, Rows(0.5))]
        drawn.append(float(torch.rand(())))
    exact = make()
    for batch in exact.batches(Rows(), steps=3):
        exact.step(classify, batch)
        assert drawn.pop(0) == float(torch.rand(()))
    assert found[0] == found[1] != found[2], found
    return {"found": found}


def add_parameter() -> dict:
    """A parameter that Exact does not know has no sum over the ranks."""
    exact = make()
    for batch in exact.batches(Rows(), steps=3):
        if exact.step_count == 2:
            extra = nn.Parameter(torch.ones(2))
            exact.model.register_parameter("extra", extra)
            exact.optimizer.add_param_group({"params": [extra]})
            before = exact.digest()
        try:
            exact.step(classify, batch)
        except ExactError as error:
            return {"error": str(error), "intact": exact.digest() == before}
    return {}


def skip() -> dict:
    """One rank's last micro-batch uses a layer that the last ones of the other ranks leave out."""
    torch.manual_seed(1)
    model = nn.ModuleDict({"always": nn.Linear(5, 2), "sometimes": nn.Linear(5, 2)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    exact = Exact(model, optimizer, micro_batch=4, global_batch=24, seed=7, bucket_bytes=1)
    x, y = torch.utils.data.default_collate([Rows()[index] for index in range(24)])
    x[:, 0] = torch.arange(24) >= 20

    def loss_fn(model: Any, samples: Any) -> torch.Tensor:
        out = model["always"](samples[0])
        if samples[0][0, 0] > 0:
            out = out + model["sometimes"](samples[0])
        return functional.cross_entropy(out, samples[1])

    losses = [exact.step(loss_fn, (x, y)) for _ in range(3)]
    return {"digest": exact.digest(), "losses": losses}


def part(rank: int) -> dict:
    """The ranks hold different weights from step 3 on."""
    exact = make()
    error = ""
    try:
        for batch in exact.batches(Rows(), steps=101):
            if exact.step_count == 3 and rank == 1:
                exact.optimizer.param_groups[0]["lr"] = 0.2
            exact.step(classify, batch)
    except ExactError as refusal:
        error = str(refusal).split(" (")[0]
    return {"error": error, "step": exact.step_count}


def split(rank: int, world: int) -> list[str]:
    """Every rank takes samples of its own: by its own seed, by its share of the data set, or in an
    evaluation."""
    rows = Rows()
    share = torch.utils.data.Subset(rows, range(rank * (96 // world), (rank + 1) * (96 // world)))
    errors = []

    def shuffle() -> None:
        exact = make()
        torch.manual_seed(rank)
        for batch in torch.utils.data.DataLoader(rows, batch_size=24, shuffle=True):
            exact.step(classify, batch)

    def divide() -> None:
        exact = make()
        for batch in exact.batches(share, steps=2):
            exact.step(classify, batch)

    for call in (shuffle, divide, lambda: make().evaluate(classify, share),
                 lambda: make().evaluate(classify, torch.utils.data.Subset(rows, range(30 + rank)))):
        try:
            call()
        except ExactError as error:
            errors.append(str(error).split(" (")[0])
    return errors


def copy_state() -> dict:
    """A training with another seed goes on as the saved one would, as copies in a search do."""
    exact = make()
    state: dict = {}
    for batch in exact.batches(Rows(), steps=6):
        exact.step(classify, batch)
        if exact.step_count == 2:
            state = copy.deepcopy(exact.state_dict())
    other = make(seed=8)
    other.load_state_dict(state)
    for batch in other.batches(Rows(), steps=6):
        other.step(classify, batch)
    assert other.digest() == exact.digest()
    return {"digest": other.digest(), "seed": other.seed}


def main() -> None:
    rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/loops-{world}", rank=rank,
                                world_size=world)
    found = {"teach": teach(), "mix": mix(0), "mix with workers": mix(2), "noise": add_noise(),
             "evaluate": evaluate(), "parameter": add_parameter(), "copy": copy_state(),
             "skip": skip(), "part": part(rank), "split": split(rank, world)}
    print(json.dumps(found))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
