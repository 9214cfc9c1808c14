"""Lightning: reports, checkpoints and stop requests of a Trainer.

    with muster.init() as run:
        trainer = Trainer(..., callbacks=[MusterCallback(run, report_every=10, save_every=500)],
                          enable_checkpointing=False)
        trainer.fit(model, data, ckpt_path=newest(run))

Rank 0 stores a checkpoint as one file, so strategies whose ranks write files of their own (FSDP,
DeepSpeed) need another way.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from muster.run import Run

FILE = "lightning.ckpt"


def newest(run: Run) -> Optional[str]:
    """The file to resume from; None: begin at the beginning."""
    return str(run.latest.path / FILE) if run.latest else None


def numbers_of(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics as numbers, without those that Lightning adds."""
    return {name: float(value) for name, value in metrics.items() if name not in ("epoch", "step")}


class MusterCallback(Callback):
    """Every rank has one; rank 0 reports and stores."""

    def __init__(self, run: Run, report_every: int = 10, save_every: int = 500) -> None:
        self.run, self.report_every, self.save_every = run, report_every, save_every
        self._trained = False
        self._step = self._validated = self._saved = 0  # the steps that are done already

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        self._step = self._validated = self._saved = trainer.global_step

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        self._trained = True
        step = trainer.global_step
        if step == self._step:
            return  # this batch only accumulated gradients
        self._step = step
        if step % self.report_every == 0:
            metrics = numbers_of(trainer.logged_metrics)
            if metrics:
                self.run.report(step, metrics)
        if 0 < trainer.max_steps:
            self.run.progress(min(step / trainer.max_steps, 1.0))
        stop = self.run.should_stop(step)
        if stop or step % self.save_every == 0:
            self._save(trainer)
        trainer.should_stop = trainer.should_stop or stop

    def on_validation_end(self, trainer: Any, *_: Any) -> None:
        metrics = numbers_of(trainer.callback_metrics)
        if not trainer.sanity_checking and trainer.global_step != self._validated and metrics:
            self._validated = trainer.global_step
            self.run.validate(trainer.global_step, metrics)

    def on_train_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step != self._saved:
            self._save(trainer)

    def on_fit_end(self, *_: Any) -> None:
        if not self._trained:  # Lightning calls no other hook of the training then
            self.run.warn_of_no_step(
                "Trainer.fit()", "Load the weights alone and pass ckpt_path=newest(run) only if "
                "`run.latest.own`, or raise max_steps or max_epochs")

    def _save(self, trainer: Any) -> None:
        self._saved = trainer.global_step
        with self.run.checkpoint(trainer.global_step) as folder:  # a lost one on other ranks
            trainer.save_checkpoint(folder / FILE)  # every rank takes part
