"""A convolutional network on pictures of digits, trained by PyTorch's DistributedDataParallel on any number of slots.

determined.launch.torch_distributed starts this program once for each slot. Each step takes its pictures by the number of
the step, so a training that was interrupted goes on as if nothing had happened.
"""

import time

import determined as det
import torch
import torch.distributed
from digits import SIDE
from torch import nn


def read(path):
    """Returns the pictures [count, 1, SIDE, SIDE] and the digits [count] of a file that digits.py has written."""
    with open(path, "rb") as file:
        records = torch.tensor(list(file.read())).reshape(-1, 1 + SIDE * SIDE)
    return records[:, 1:].reshape(-1, 1, SIDE, SIDE) / 255, records[:, 0]


def make_model(width):
    return nn.Sequential(nn.Conv2d(1, width, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width, width, 3), nn.ReLU(),
                         nn.Flatten(), nn.Linear(25 * width, 10))


def batch(pictures, digits, step, rank, size, count):
    """The part of a rank of the pictures of a step."""
    chosen = torch.randperm(len(digits), generator=torch.Generator().manual_seed(step))[:count]
    return pictures[chosen[rank::size]], digits[chosen[rank::size]]


def save(context, model, optimizer, step):
    with context.checkpoint.store_path({"steps_completed": step}) as (folder, _):
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                   folder / "state.pt")


def load(context, checkpoint, model, optimizer):
    with context.checkpoint.restore_path(checkpoint) as folder:
        state = torch.load(folder / "state.pt")
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"restored step {state['step']} from checkpoint {checkpoint}")
    return state["step"]


def accuracy(model, pictures, digits):
    with torch.no_grad():
        return (model(pictures).argmax(1) == digits).float().mean().item()


def train(context, checkpoint, hparams):
    rank, size = context.distributed.rank, context.distributed.size
    (pictures, digits), held_out = read("train.bin"), read("test.bin")  # startup-hook.sh has drawn them
    torch.manual_seed(hparams["seed"])
    model = nn.parallel.DistributedDataParallel(make_model(hparams["width"]))
    optimizer = torch.optim.SGD(model.parameters(), lr=hparams["learning_rate"], momentum=0.9)
    first = load(context, checkpoint, model, optimizer) if checkpoint else 0
    for step in range(first + 1, hparams["steps"] + 1):
        inputs, targets = batch(pictures, digits, step, rank, size, hparams["global_batch_size"])
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(hparams["seconds_per_step"])  # stands for the work of a larger model
        mean = loss.detach() / size
        torch.distributed.all_reduce(mean)
        if rank == 0:
            context.train.report_training_metrics(steps_completed=step, metrics={"loss": mean.item()})
        if step % 20 == 0:
            if rank == 0:
                context.train.report_validation_metrics(
                    steps_completed=step, metrics={"accuracy": accuracy(model.module, *held_out)})
                context.train.report_progress(step / hparams["steps"])
                save(context, model, optimizer, step)
            if context.preempt.should_preempt():
                return


info = det.get_cluster_info()
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
with det.core.init(distributed=det.core.DistributedContext.from_torch_distributed()) as context:
    train(context, info.latest_checkpoint, info.trial.hparams)
