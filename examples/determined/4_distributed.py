"""The training of 2_checkpoints.py on several slots: each worker has a part of the points, and all average their
gradients.

The program starts one worker for each slot of its machine. Only the chief (rank 0) reports and saves.
"""

import json
import subprocess
import sys
import time

import determined as det
from line import Line, points


def save(context, line, step):
    with context.checkpoint.store_path({"steps_completed": step}) as (folder, _):
        (folder / "line.json").write_text(json.dumps({**vars(line), "step": step}))


def load(context, checkpoint):
    with context.checkpoint.restore_path(checkpoint) as folder:  # every worker must call it
        state = json.loads((folder / "line.json").read_text())
    step = state.pop("step")
    print(f"restored step {step} from checkpoint {checkpoint}")
    return Line(**state), step


def train(context, checkpoint, hparams):
    workers, chief = context.distributed, context.distributed.rank == 0
    data, held_out = points(seed=1), points(seed=2)
    mine = data[workers.rank::workers.size]
    line, first = load(context, checkpoint) if checkpoint else (Line(), 0)
    for step in range(first + 1, hparams["steps"] + 1):
        parts = workers.allgather(line.gradient(mine))
        line.move([sum(part) / workers.size for part in zip(*parts)], hparams["learning_rate"])
        time.sleep(hparams["seconds_per_step"])  # stands for the work of a larger model
        if chief:
            context.train.report_training_metrics(steps_completed=step, metrics={"loss": line.loss(data)})
        if step % 10 == 0:
            if chief:
                context.train.report_validation_metrics(steps_completed=step,
                                                        metrics={"validation_loss": line.loss(held_out)})
                context.train.report_progress(step / hparams["steps"])
                save(context, line, step)
            if context.preempt.should_preempt():  # every worker must call it; all get the chief's answer
                return


def work(info, local_rank):
    local_size, machines = len(info.slot_ids), len(info.container_addrs)
    distributed = det.core.DistributedContext(
        rank=sum(info.container_slot_counts[:info.container_rank]) + local_rank,
        size=sum(info.container_slot_counts), local_rank=local_rank, local_size=local_size,
        cross_rank=info.container_rank, cross_size=machines, chief_ip=info.container_addrs[0])
    with det.core.init(distributed=distributed) as context:
        print(f"rank {distributed.rank} of {distributed.size} on machine {info.container_rank} of {machines}")
        train(context, info.latest_checkpoint, info.trial.hparams)


def launch(info):
    """Starts the workers of this machine and returns the exit code of the first that fails, or 0."""
    first = sum(info.container_slot_counts[:info.container_rank])
    workers = [subprocess.Popen([sys.executable, "-m", "determined.launch.wrap_rank", str(first + local_rank), "--",
                                 sys.executable, __file__, str(local_rank)])
               for local_rank in range(len(info.slot_ids))]
    while workers:
        time.sleep(0.1)
        for worker in [worker for worker in workers if worker.poll() is not None]:
            workers.remove(worker)
            if worker.returncode != 0:  # the others would wait for it for ever
                for other in workers:
                    other.kill()
                return worker.returncode
    return 0


info = det.get_cluster_info()
if len(sys.argv) == 1:
    sys.exit(launch(info))
work(info, int(sys.argv[1]))
