"""A search for the learning rate of 2_checkpoints.py. The searcher stops bad trials early, by the signal of a
preemption."""

import json
import time

import determined as det
from line import Line, points


def save(context, line, step, trial):
    with context.checkpoint.store_path({"steps_completed": step}) as (folder, _):
        (folder / "line.json").write_text(json.dumps({**vars(line), "step": step, "trial": trial}))


def load(context, checkpoint, trial):
    """Returns the line and the number of steps. The steps count from 0 if another trial saved the checkpoint."""
    with context.checkpoint.restore_path(checkpoint) as folder:
        state = json.loads((folder / "line.json").read_text())
    step, owner = state.pop("step"), state.pop("trial")
    return Line(**state), step if owner == trial else 0


def train(context, info, hparams):
    data, held_out, trial = points(seed=1), points(seed=2), info.trial.trial_id
    line, first = load(context, info.latest_checkpoint, trial) if info.latest_checkpoint else (Line(), 0)
    for step in range(first + 1, hparams["steps"] + 1):
        line.move(line.gradient(data), hparams["learning_rate"])
        time.sleep(hparams["seconds_per_step"])  # stands for the work of a larger model
        if step % 2 == 0:
            # ASHA compares trials at the same number of batches, so this metric is the searcher's time_metric.
            context.train.report_validation_metrics(
                steps_completed=step, metrics={"validation_loss": line.loss(held_out), "batches": step})
            context.train.report_progress(step / hparams["steps"])
            save(context, line, step, trial)
            if context.preempt.should_preempt():
                print(f"stopped at step {step}")
                return


info = det.get_cluster_info()
with det.core.init() as context:
    train(context, info, info.trial.hparams)
