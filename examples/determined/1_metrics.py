"""The training of 0_start.py, which now reports its metrics and its progress.

It does not listen for preemption, but the library asks for it. A pause ends it only after preemption_timeout (10 minutes by
default), and it starts again from the beginning.
"""

import time

import determined as det
from line import Line, points


def train(context, hparams):
    data, held_out, line = points(seed=1), points(seed=2), Line()
    for step in range(1, hparams["steps"] + 1):
        line.move(line.gradient(data), hparams["learning_rate"])
        time.sleep(hparams["seconds_per_step"])  # stands for the work of a larger model
        context.train.report_training_metrics(steps_completed=step, metrics={"loss": line.loss(data)})
        if step % 10 == 0:
            context.train.report_validation_metrics(steps_completed=step,
                                                    metrics={"validation_loss": line.loss(held_out)})
            context.train.report_progress(step / hparams["steps"])


info = det.get_cluster_info()
with det.core.init() as context:
    train(context, info.trial.hparams)
