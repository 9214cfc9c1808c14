"""Hugging Face: reports, checkpoints and stop requests of a transformers.Trainer.

    with muster.init() as run:
        trainer = Trainer(..., callbacks=[MusterCallback(run)])
        trainer.train(resume_from_checkpoint=newest(run))

The Trainer saves as its arguments say (save_steps); each of its checkpoints becomes one of the run.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Optional

from transformers import TrainerCallback

from muster.errors import CheckpointError
from muster.run import Run

_SKIPPED = ("epoch", "step")  # logged with training and with evaluation: no metrics


def newest(run: Run) -> Optional[str]:
    """The folder to resume from; None: begin at the beginning."""
    return str(run.latest.path) if run.latest else None


class MusterCallback(TrainerCallback):
    """Every rank has one; rank 0 reports and stores."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._saved = 0  # the step of the newest checkpoint
        self._step, self._reported = -1, set()  # the names that have a value in this step

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._saved = state.global_step
        if state.global_step >= state.max_steps:
            self.run.warn_of_no_step(
                "Trainer.train()", "Make the model by from_pretrained(run.latest.path) and resume "
                "from newest(run) only if `run.latest.own`, or raise max_steps or num_train_epochs")

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        numbers = {name: value for name, value in (logs or {}).items()
                   if isinstance(value, (int, float)) and name not in _SKIPPED}
        evaluated = {name[len("eval_"):]: value for name, value in numbers.items()
                     if name.startswith("eval_")}
        summary = {name: value for name, value in numbers.items() if name.startswith("train_")}
        others = {name: value for name, value in numbers.items()
                  if not name.startswith(("eval_", "train_"))}
        self._report(state.global_step, "validation", evaluated)
        self._report(state.global_step, "training", others)
        if summary:  # of the whole training, after its last step
            self.run.metadata(**summary)

    def _report(self, step: int, group: str, numbers: dict[str, float]) -> None:
        """Reports what is new: evaluate() after a training repeats the values of its last step."""
        if step != self._step:
            self._step, self._reported = step, set()
        new = {name: value for name, value in numbers.items()
               if (group, name) not in self._reported}
        self._reported.update((group, name) for name in new)
        if new:
            self.run.report(step, new, group=group)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.max_steps > 0:
            self.run.progress(min(state.global_step / state.max_steps, 1.0))
        if self.run.should_stop(state.global_step):
            control.should_save = control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        step = state.global_step
        if step == self._saved:
            return
        self.run.barrier()  # every rank has written its files
        source = os.path.join(args.output_dir, f"checkpoint-{step}")
        if self.run.rank == 0:
            if not os.path.isdir(source):
                raise CheckpointError(f"the Trainer saved no folder {source}: leave output_dir and "
                                      "the names of its checkpoints as they are")
            with self.run.checkpoint(step) as folder:
                shutil.copytree(source, folder, dirs_exist_ok=True)
        self._saved = step
        self.run.barrier()  # before the Trainer deletes old checkpoints
