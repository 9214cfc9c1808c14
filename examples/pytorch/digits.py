"""A network for digits, trained by DistributedDataParallel on any number of slots. It can be stopped at any moment.

Without a cluster: torchrun --nproc_per_node 2 digits.py
"""
import time

import muster
import torch
import torch.distributed as dist
from torch import nn

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
    return pictures, digits


def train(run, steps=600, batch=64, width=16, learning_rate=0.05, pause=0.0):
    dist.init_process_group("gloo")
    (pictures, digits), held_out = draw(4000, seed=1), draw(500, seed=2)
    torch.manual_seed(run.seed)
    net = nn.Sequential(nn.Conv2d(1, width, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(49 * width, 10))
    model, step = nn.parallel.DistributedDataParallel(net), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    if run.latest:
        state, step = torch.load(run.latest.path / "state.pt"), run.latest.step if run.latest.own else 0
        net.load_state_dict(state["net"]), optimizer.load_state_dict(state["optimizer"])
    for step in run.steps(step, steps):
        order = torch.randperm(len(digits), generator=torch.Generator().manual_seed(step))
        mine = order[run.rank:batch:run.world_size]
        loss = nn.functional.cross_entropy(model(pictures[mine]), digits[mine])
        optimizer.zero_grad(), loss.backward(), optimizer.step()
        time.sleep(pause)  # stands for the work of a larger model
        dist.all_reduce(total := loss.detach())
        run.report(step, loss=total / run.world_size)
        if run.due(step, every=50):
            with torch.no_grad():
                run.validate(step, accuracy=(net(held_out[0]).argmax(1) == held_out[1]).float().mean())
            with run.checkpoint(step) as folder:
                torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, folder / "state.pt")
    dist.destroy_process_group()


with muster.init() as run:
    train(run, **run.hparams)
