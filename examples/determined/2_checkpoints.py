"""The training of 1_metrics.py, which can now be paused, preempted and killed: it goes on from its latest checkpoint."""

import json
import time

import determined as det
from line import Line, points


def save(context, line, step):
    with context.checkpoint.store_path({"steps_completed": step}) as (folder, _):
        (folder / "line.json").write_text(json.dumps({**vars(line), "step": step}))


def load(context, checkpoint):
    """Returns the line and the number of steps that it was trained."""
    with context.checkpoint.restore_path(checkpoint) as folder:
        state = json.loads((folder / "line.json").read_text())
    step = state.pop("step")
    print(f"restored step {step} from checkpoint {checkpoint}")
    return Line(**state), step


def train(context, checkpoint, hparams):
    data, held_out = points(seed=1), points(seed=2)
    line, first = load(context, checkpoint) if checkpoint else (Line(), 0)
    for step in range(first + 1, hparams["steps"] + 1):
        line.move(line.gradient(data), hparams["learning_rate"])
        time.sleep(hparams["seconds_per_step"])  # stands for the work of a larger model
        context.train.report_training_metrics(steps_completed=step, metrics={"loss": line.loss(data)})
        if step % 10 == 0:
            context.train.report_validation_metrics(steps_completed=step,
                                                    metrics={"validation_loss": line.loss(held_out)})
            context.train.report_progress(step / hparams["steps"])
            save(context, line, step)
            if context.preempt.should_preempt():
                print(f"preempted at step {step}")
                return


info = det.get_cluster_info()
with det.core.init() as context:
    train(context, info.latest_checkpoint, info.trial.hparams)
