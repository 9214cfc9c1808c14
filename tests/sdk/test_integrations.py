"""The callbacks for transformers and Lightning: with the packages where they are, and with stand-ins.

A stand-in calls a callback in the order in which the library's trainer does.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import pathlib
import sys
import types
import unittest
from typing import Any
from unittest import mock

import muster


def metrics_of(run: muster.Run, name: str) -> list[tuple]:
    lines = map(json.loads, (run.folder / "metrics.jsonl").read_text().splitlines())
    return [(line["group"], line["step"], line["metrics"][name]) for line in lines
            if name in line["metrics"]]


class Base(unittest.TestCase):
    def setUp(self) -> None:
        self.run_ = muster.init("-".join(self.id().split(".")[-2:]), quiet=True)
        self.addCleanup(self.run_.finish)

    def checkpoints(self) -> list[pathlib.Path]:
        return sorted((path for path in (self.run_.folder / "checkpoints").iterdir()
                       if path.is_dir()),
                      key=lambda path: json.loads((path / "metadata.json").read_text())[
                          "steps_completed"])

    def warm_start(self, own: bool = False) -> Any:
        """Lets the run begin at step 10 of a checkpoint; catches warnings."""
        self.run_.latest = types.SimpleNamespace(path=pathlib.Path("/x"), step=10, uuid="u-1",
                                                 own=own)
        return mock.patch("muster.failure.warn")

    def load(self, name: str, **modules: types.ModuleType) -> Any:
        with mock.patch.dict(sys.modules, modules):
            module = importlib.import_module(f"muster.integrations.{name}")
            self.addCleanup(sys.modules.pop, f"muster.integrations.{name}", None)
            return module


class TransformersTest(Base):
    def train(self, callback: Any, steps: int, prefix: str = "out-") -> None:
        """A Trainer with logging_steps=2, save_steps=4, eval_steps=4."""
        args = types.SimpleNamespace(output_dir=prefix + self.run_.folder.name)
        state = types.SimpleNamespace(global_step=0, max_steps=steps)
        control = types.SimpleNamespace(should_save=False, should_training_stop=False)
        callback.on_train_begin(args, state, control, model=None)
        while state.global_step < steps and not control.should_training_stop:
            state.global_step += 1
            control.should_save = state.global_step % 4 == 0
            callback.on_step_end(args, state, control, model=None)
            if state.global_step % 2 == 0:
                callback.on_log(args, state, control, logs={"loss": 1 / state.global_step,
                                                            "epoch": 0.1})
            if state.global_step % 4 == 0:
                callback.on_log(args, state, control, logs={"eval_loss": 2.0, "epoch": 0.1})
            if control.should_save:
                folder = pathlib.Path(args.output_dir, f"checkpoint-{state.global_step}")
                folder.mkdir(parents=True)
                (folder / "trainer_state.json").write_text(str(state.global_step))
                callback.on_save(args, state, control)
        callback.on_log(args, state, control, logs={"train_runtime": 1.5, "epoch": 1.0})

    def stand_in(self) -> Any:
        return self.load("transformers", transformers=types.SimpleNamespace(TrainerCallback=object))

    def test_stand_in(self) -> None:
        module = self.stand_in()
        self.assertIsNone(module.newest(self.run_))
        self.train(module.MusterCallback(self.run_), 10)
        self.run_.finish()
        expected = [("training", step, 1 / step) for step in range(2, 11, 2)] + \
            [("validation", step, 2.0) for step in (4, 8)]
        self.assertEqual(expected, sorted(metrics_of(self.run_, "loss")))
        self.assertEqual(["4", "8"], [(path / "trainer_state.json").read_text()
                                      for path in self.checkpoints()])

    def test_stop_request(self) -> None:
        module = self.stand_in()
        self.run_.should_stop = lambda step: step == 5
        self.train(module.MusterCallback(self.run_), 10)
        self.assertEqual(["4", "5"], [(path / "trainer_state.json").read_text()
                                      for path in self.checkpoints()])

    def test_repeated_evaluation(self) -> None:
        """trainer.evaluate() after the training repeats the values of the last step."""
        callback = self.stand_in().MusterCallback(self.run_)
        self.train(callback, 8)
        state = types.SimpleNamespace(global_step=8, max_steps=8)
        for logs in ({"eval_loss": 2.0}, {"eval_loss": 2.0, "eval_accuracy": 0.5},
                     {"test_loss": 3.0}, {"test_loss": 3.0}):
            callback.on_log(None, state, None, logs=logs)
        self.run_.finish()
        self.assertEqual([("validation", 4, 2.0), ("validation", 8, 2.0)],
                         [row for row in metrics_of(self.run_, "loss") if row[0] == "validation"])
        self.assertEqual([("validation", 8, 0.5)], metrics_of(self.run_, "accuracy"))
        self.assertEqual([("training", 8, 3.0)], metrics_of(self.run_, "test_loss"))

    def test_warm_start_from_step_zero(self) -> None:
        """The step of the other training has a meaning for that training alone."""
        with self.warm_start():
            self.train(self.stand_in().MusterCallback(self.run_), 12)
        self.run_.latest.step = 4
        with mock.patch("muster.failure.warn"):
            callback = self.stand_in().MusterCallback(self.run_)
            self.train(callback, 8, "again-")
        self.assertEqual(["4", "4", "8", "8", "12"], [(path / "trainer_state.json").read_text()
                                                      for path in self.checkpoints()])

    def test_warm_start_without_steps(self) -> None:
        for own, last, warnings in ((False, 10, 1), (False, 11, 0), (True, 10, 0)):
            with self.warm_start(own) as warn:
                callback = self.stand_in().MusterCallback(self.run_)
                callback.on_train_begin(None, types.SimpleNamespace(global_step=10, max_steps=last),
                                        None, model=None)
            self.assertEqual(warnings, warn.call_count)
            if warnings:
                self.assertRegex(warn.call_args[0][0], r"Trainer.train\(\): no step is left.*u-1 of "
                                 "another training, which is at step 10.*raise max_steps")

    def test_missing_folder(self) -> None:
        callback = self.stand_in().MusterCallback(self.run_)
        with self.assertRaisesRegex(muster.CheckpointError, "saved no folder nowhere/checkpoint-3"):
            callback.on_save(types.SimpleNamespace(output_dir="nowhere"),
                             types.SimpleNamespace(global_step=3), None)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
    def test_real(self) -> None:
        import torch
        import transformers
        module = self.load("transformers")

        class Line(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)

            def forward(self, x: Any = None, labels: Any = None) -> dict:
                out = self.layer(x).squeeze(1)
                return {"loss": ((out - labels) ** 2).mean(), "logits": out}

        data = [{"x": [float(i), 1.0], "labels": float(i)} for i in range(16)]
        arguments = transformers.TrainingArguments(
            output_dir="out-real", max_steps=6, logging_steps=2, save_steps=3, report_to=[])
        transformers.Trainer(model=Line(), args=arguments, train_dataset=data,
                             callbacks=[module.MusterCallback(self.run_)]).train()
        self.run_.finish()
        self.assertEqual([2, 4, 6], [step for _, step, _ in metrics_of(self.run_, "loss")])
        self.assertEqual(2, len(self.checkpoints()))


class LightningTest(Base):
    def test_warm_start_without_steps(self) -> None:
        for own, batches, warnings in ((False, 0, 1), (False, 1, 0), (True, 0, 0)):
            with self.warm_start(own) as warn:
                callback = self.stand_in().MusterCallback(self.run_)
                trainer = types.SimpleNamespace(global_step=10, max_steps=10)
                for _ in range(batches):
                    callback.on_train_start(trainer, None)
                    callback.on_train_batch_end(trainer, None, None, None, 0)
                callback.on_fit_end(trainer, None)
            self.assertEqual(warnings, warn.call_count)
            if warnings:
                self.assertRegex(warn.call_args[0][0], r"Trainer.fit\(\): no step is left.*at step "
                                 "10.*pass ckpt_path=newest")

    def train(self, callback: Any, steps: int, accumulate: int = 2, start: int = 0) -> None:
        trainer = types.SimpleNamespace(
            global_step=start, max_steps=steps, should_stop=False, sanity_checking=True,
            logged_metrics={}, callback_metrics={"val_loss": 9.0},
            save_checkpoint=lambda path: path.write_text(str(trainer.global_step)))
        callback.on_validation_end(trainer, None)  # the sanity check
        trainer.sanity_checking = False
        callback.on_train_start(trainer, None)
        batch = 0
        while trainer.global_step < steps and not trainer.should_stop:
            batch += 1
            if batch % accumulate == 0:
                trainer.global_step += 1
                trainer.logged_metrics = {"loss": 1 / trainer.global_step, "epoch": 0}
            callback.on_train_batch_end(trainer, None, None, None, batch)
            if trainer.global_step == 4 and batch % accumulate == 0:
                trainer.callback_metrics = {"val_loss": 0.5}
                callback.on_validation_end(trainer, None)
        callback.on_train_end(trainer, None)

    def test_warm_start_from_step_zero(self) -> None:
        """The step of the other training has a meaning for that training alone."""
        with self.warm_start():
            self.train(self.stand_in().MusterCallback(self.run_, save_every=4), 10)
        self.assertEqual(["4", "8", "10"], self.saved())

    def test_warm_start_with_as_many_steps(self) -> None:
        """The first validation and the first checkpoint come at the step of the other training."""
        with self.warm_start():
            self.run_.latest.step = 4
            self.train(self.stand_in().MusterCallback(self.run_), 4)
        self.run_.flush()
        self.assertEqual([("validation", 4, 0.5)], metrics_of(self.run_, "val_loss"))
        self.assertEqual(["4"], self.saved())

    def test_warm_start_that_goes_on(self) -> None:
        """The first batch behind the other training's step only accumulates gradients."""
        with self.warm_start(), mock.patch.object(self.run_, "should_stop", return_value=False) as ask:
            self.train(self.stand_in().MusterCallback(self.run_), 12, start=10)
        self.assertEqual([11, 12], [call[0][0] for call in ask.call_args_list])

    def stand_in(self) -> Any:
        pytorch = types.SimpleNamespace(Callback=object)
        return self.load("lightning", **{"lightning": types.ModuleType("lightning"),
                                         "lightning.pytorch": pytorch})

    def saved(self) -> list[str]:
        return [(path / "lightning.ckpt").read_text() for path in self.checkpoints()]

    def test_stand_in(self) -> None:
        module = self.stand_in()
        self.assertIsNone(module.newest(self.run_))
        self.train(module.MusterCallback(self.run_, report_every=2, save_every=4), 9)
        self.run_.finish()
        self.assertEqual([("training", step, 1 / step) for step in (2, 4, 6, 8)],
                         metrics_of(self.run_, "loss"))
        self.assertEqual([("validation", 4, 0.5)], metrics_of(self.run_, "val_loss"))
        self.assertEqual(["4", "8", "9"], self.saved())

    def test_stop_request(self) -> None:
        module = self.stand_in()
        self.run_.should_stop = lambda step: step == 5
        self.train(module.MusterCallback(self.run_, save_every=4), 9)
        self.assertEqual(["4", "5"], self.saved())

    @unittest.skipUnless(importlib.util.find_spec("lightning") or
                         importlib.util.find_spec("pytorch_lightning"),
                         "Lightning is not installed")
    def test_real(self) -> None:
        import torch
        module = self.load("lightning")
        lightning = sys.modules[module.Callback.__module__.partition(".")[0]]
        base = getattr(lightning, "pytorch", lightning)

        class Line(base.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)

            def training_step(self, batch: Any, _: int) -> Any:
                loss = (self.layer(batch) ** 2).mean()
                self.log("loss", loss)
                return loss

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(self.parameters(), 0.01)

        base.Trainer(max_steps=6, accelerator="cpu", devices=1, logger=False,
                     enable_checkpointing=False, enable_progress_bar=False,
                     callbacks=[module.MusterCallback(self.run_, 2, 3)]).fit(
            Line(), torch.utils.data.DataLoader(torch.ones(16, 2), batch_size=2))
        self.run_.finish()
        self.assertEqual([2, 4, 6], [step for _, step, _ in metrics_of(self.run_, "loss")])
        self.assertEqual(2, len(self.checkpoints()))


if __name__ == "__main__":
    unittest.main()
