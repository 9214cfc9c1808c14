"""Digits with the same bits on any number of slots: stop it, kill it or give it other slots, and the digest stays.

Without a cluster: python3 digits.py, or torchrun --nproc_per_node 3 digits.py
"""
import muster
import muster.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import TensorDataset

# Which segments of a seven-segment display are lit, and the top, left, height and width of each segment.
DIGITS = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011".split()
PLACES = [(0, 0, 1, 6), (0, 0, 5, 1), (0, 5, 5, 1), (4, 0, 1, 6), (4, 0, 5, 1), (4, 5, 5, 1), (8, 0, 1, 6)]


def draw(count, seed):
    """Pictures [count, 1, 16, 16] of noisy digits at random places, and the digits [count]."""
    chance = torch.Generator().manual_seed(seed)
    digits = torch.randint(10, (count,), generator=chance)
    pictures = torch.rand(count, 1, 16, 16, generator=chance)
    for picture, digit in zip(pictures, digits.tolist()):
        y, x = torch.randint(2, 6, (2,), generator=chance).tolist()
        for lit, (top, left, height, width) in zip(DIGITS[digit], PLACES):
            if lit == "1":
                picture[0, y + top:y + top + height, x + left:x + left + width] += 0.5
    return TensorDataset(pictures, digits)


def loss_of(model, batch):
    """The mean loss and accuracy of a micro-batch."""
    pictures, digits = batch
    out = model(pictures)
    return {"loss": nn.functional.cross_entropy(out, digits), "accuracy": (out.argmax(1) == digits).float().mean()}


def train(run, steps=400, global_batch=64, micro_batch=8, width=16, learning_rate=0.05):
    if run.world_size > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(run.seed)
    model = nn.Sequential(nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Dropout(0.2), nn.Linear(49 * width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    exact = muster.torch.Exact(model, optimizer, micro_batch=micro_batch, global_batch=global_batch, seed=run.seed)
    if run.latest:
        exact.load_state_dict(torch.load(run.latest.path / "state.pt"))
    batches, held_out = exact.batches(draw(4000, seed=1), steps=steps), draw(500, seed=2)
    for step in run.steps(exact.step_count, steps):
        exact.step(loss_of, next(batches))
        run.report(step, exact.metrics)
        if run.due(step, every=50):
            run.validate(step, exact.evaluate(loss_of, held_out))
            with run.checkpoint(step) as folder:
                torch.save(exact.state_dict(), folder / "state.pt")
    if run.rank == 0:
        print(f"step {exact.step_count}: SHA-256 of the weights and the optimizer {exact.digest()}", flush=True)
    if run.world_size > 1:
        dist.destroy_process_group()


with muster.init() as run:
    train(run, **run.hparams)
