"""A run as a program sees it, with a stand-in for the supervisor and outside a cluster."""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import unittest
from unittest import mock

import muster
from muster import local, socket_sink
from supervisor import Supervisor


def nested(levels):
    value = 1
    for _ in range(levels):
        value = {"k": value}
    return value


class InTrial(unittest.TestCase):
    """A run of a trial with one rank."""

    def setUp(self):
        self.folder = pathlib.Path.cwd() / self._testMethodName
        self.storage = self.folder / "storage"
        self.supervisor = self.enterContext(Supervisor(self.folder / "task"))

    def enterContext(self, context):  # Python 3.9 has none
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def begin(self, **variables):
        environment = self.supervisor.environment(self.storage, **variables)
        with mock.patch.dict(os.environ, environment):
            run = muster.init(hparams={"lr": 1.0, "width": 8})
        self.addCleanup(run.finish)
        return run

    def test_environment(self):
        run = self.begin()
        self.assertEqual(run.hparams, {"lr": 0.5, "width": 8})
        with self.assertRaisesRegex(KeyError, "'depth': set it under hyperparameters.*hparams={'depth': ...}"):
            run.hparams["depth"]
        self.assertEqual((run.seed, run.trial_id, run.experiment_id), (41, 7, 3))
        self.assertEqual((run.rank, run.world_size, run.local_rank, run.latest), (0, 1, 0, None))

    def test_reports_arrive_in_order(self):
        run = self.begin()
        for step in range(1, 5001):
            run.report(step, loss=1 / step)
            if step % 100 == 0:
                run.validate(step, {"error rate": step})
        run.report(5000, rate=3)
        run.report(5001, {"loss": math.nan}, rate=-math.inf)
        run.finish()
        expected = [(step, 1 / step) for step in range(1, 5001)] + [(5001, "NaN")]
        self.assertEqual(self.supervisor.curve("loss"), expected)
        self.assertEqual(self.supervisor.curve("rate"), [(5000, 3), (5001, "-Infinity")])
        self.assertEqual(self.supervisor.curve("error rate", "validation"),
                         [(step, step) for step in range(100, 5001, 100)])

    def test_a_broken_connection_loses_nothing(self):
        run = self.begin()
        self.supervisor.cut_after = 2
        for step in range(1, 4001):
            run.report(step, {f"m{step % 3}": step})
            if step % 1000 == 0:
                run.flush()
        run.finish()
        found = {step for name in ("m0", "m1", "m2") for step, _ in self.supervisor.curve(name)}
        self.assertEqual(found, set(range(1, 4001)))
        self.assertGreater(len(self.supervisor.connections), 1)

    def test_a_full_spool_delays(self):
        run = self.begin()
        self.supervisor.full = True
        run.report(1, loss=1.0)
        self.assertFalse(run.flush(0.3))
        run.report(2, loss=2.0)
        self.supervisor.full = False
        run.finish()
        self.assertEqual(self.supervisor.curve("loss"), [(1, 1), (2, 2)])

    def test_lines_that_are_sent_again_keep_their_order(self):
        """Room comes back in the middle of a batch: the lines behind a refused one follow it."""
        run, left = self.begin(), [2]

        def retry(message):
            refused = message.get("metadata") == {"at": 1} and left[0] > 0
            left[0] -= refused
            return refused
        self.supervisor.retry = retry
        for value in range(4):
            run.metadata(at=value)
        run.finish()
        seen = [message["metadata"]["at"] for message in self.supervisor.of_kind("metadata")]
        self.assertEqual(seen[seen.index(1):], [1, 2, 3])

    def test_steps(self):
        run = self.begin()
        due = []
        for step in run.steps(3, 12):
            run.report(step, loss=1.0)
            if run.due(step, every=5):
                due.append(step)
        run.finish()
        self.assertEqual([step for step, _ in self.supervisor.curve("loss")], list(range(4, 13)))
        self.assertEqual(due, [5, 10, 12])
        self.assertEqual(self.supervisor.of_kind("progress")[-1]["progress"], 1)
        self.assertFalse(run.stopping)

    def test_steps_after_the_end(self):
        """A loop that goes on behind finish() gets an exception: its exit code says that it failed."""
        run, seen = self.begin(), []
        with self.assertRaisesRegex(muster.Error, r"run.steps\(0, 5\): the run has ended"):
            for step in run.steps(0, 5):
                seen.append(step)
                run.report(step, loss=1.0)
                run._progress_time = time.monotonic()  # no progress is due
                run.finish()
        self.assertEqual(seen, [1])

    def test_checkpoint(self):
        run = self.begin()
        run.report(10, loss=1.0)
        with run.checkpoint(10, metadata={"note": "first"}) as folder:
            (folder / "model.pt").write_bytes(b"12345")
            (folder / "more").mkdir()
            (folder / "more" / "part").write_bytes(b"1")
        kinds = [message["kind"] for message in self.supervisor.lines]
        self.assertEqual(kinds, ["metrics", "checkpoint"])
        record = self.supervisor.lines[1]
        self.assertEqual((record["steps"], record["metadata"]), (10, {"note": "first"}))
        self.assertEqual(record["resources"].keys(), {"model.pt", "more/part", "metadata.json"})
        self.assertEqual(record["resources"]["model.pt"], 5)
        run.finish()
        again = self.begin(DET_LATEST_CHECKPOINT=record["uuid"], DET_STEPS_COMPLETED="10")
        self.assertEqual((again.latest.path / "model.pt").read_bytes(), b"12345")
        self.assertEqual((again.latest.step, again.latest.metadata), (10, {"note": "first"}))
        self.assertEqual(os.listdir(self.storage), [record["uuid"]])

    def test_start_from_another_training(self):
        run = self.begin()
        with run.checkpoint(10) as folder:
            (folder / "model.pt").write_bytes(b"1")
        run.finish()
        uuid = self.supervisor.lines[0]["uuid"]
        config = {"checkpoint_storage": {"type": "directory", "container_path": str(self.storage)},
                  "searcher": {"name": "single", "source_checkpoint_uuid": uuid}}
        run = self.begin(DET_LATEST_CHECKPOINT=uuid, DET_EXPERIMENT_CONFIG=json.dumps(config))
        self.assertEqual((run.latest.step, run.latest.own), (10, False))
        with mock.patch("muster.failure.warn") as warn:
            self.assertEqual(list(run.steps(run.latest.step, 10)), [])
            self.assertRegex(warn.call_args[0][0], r"steps\(10, 10\): no step is left.*at step 10. Begin at")
            warn.reset_mock()
            self.assertEqual(list(run.steps(8, 10)), [9, 10])
            warn.assert_not_called()
        with run.checkpoint(5) as folder:
            (folder / "model.pt").write_bytes(b"2")
        run.finish()
        own = self.supervisor.of_kind("checkpoint")[-1]["uuid"]
        run = self.begin(DET_LATEST_CHECKPOINT=own, DET_STEPS_COMPLETED="5",
                         DET_EXPERIMENT_CONFIG=json.dumps(config))
        self.assertEqual((run.latest.step, run.latest.own), (5, True))
        with mock.patch("muster.failure.warn") as warn:
            self.assertEqual(list(run.steps(5, 5)), [])  # the start after a kill behind the last step
            warn.assert_not_called()

    def test_failed_checkpoints_leave_nothing(self):
        run = self.begin()
        with self.assertRaisesRegex(muster.CheckpointError, "step=5.*save at least one file"):
            with run.checkpoint(5):
                pass
        with self.assertRaisesRegex(muster.CheckpointError, "vanished"):
            with run.checkpoint(5) as folder:
                folder.rmdir()
        with self.assertRaisesRegex(muster.CheckpointError, "link"):
            with run.checkpoint(5) as folder:
                (folder / "model").symlink_to("/etc/passwd")
        with self.assertRaisesRegex(muster.CheckpointError, "deep/pipe is a pipe, a socket or a device"):
            with run.checkpoint(5) as folder:
                (folder / "deep").mkdir()
                os.mkfifo(folder / "deep" / "pipe")
        with self.assertRaises(ZeroDivisionError):
            with run.checkpoint(5) as folder:
                (folder / "model").write_text(str(1 / 0))
        self.supervisor.refuse = lambda message: "no room" if message["kind"] == "checkpoint" else ""
        with self.assertRaisesRegex(muster.CheckpointError, "did not take the checkpoint: no room"):
            with run.checkpoint(5) as folder:
                (folder / "model").write_text("1")
        self.assertEqual(os.listdir(self.storage), [])
        self.assertEqual(self.supervisor.of_kind("checkpoint"), [])

    def test_a_folder_that_changes_while_it_is_saved(self):
        """Nothing is stored, and the error names the file; the next checkpoint works."""
        def rewrite(model):
            time.sleep(0.02)  # a tick of the clock of the file system
            model.write_text("other")
        flush, run = muster.checkpoint.sync, self.begin()
        for change, expected in (
                (lambda model: model.write_text("longer than before"), "deep/model changed while"),
                (rewrite, "deep/model changed while the checkpoint was saved; end the block after"),
                (lambda model: model.unlink(), "deep/model vanished while"),
                (lambda model: shutil.rmtree(model.parent), "deep/model vanished while"),
                (lambda model: (model.parent / "late").write_text("1"), "deep/late appeared while")):
            changes = [change]

            def sync(path):
                flush(path)
                if changes:
                    changes.pop()(folder / "deep" / "model")
            with self.subTest(expected), mock.patch("muster.checkpoint.sync", sync):
                with self.assertRaisesRegex(muster.CheckpointError, expected):
                    with run.checkpoint(5) as folder:
                        (folder / "deep").mkdir()
                        (folder / "deep" / "model").write_text("first")
                        (folder / "other").write_text("1")
        self.assertEqual(os.listdir(self.storage), [])
        with run.checkpoint(5) as folder:
            (folder / "model").write_text("1")
        self.assertEqual(len(self.supervisor.of_kind("checkpoint")), 1)

    def test_a_thread_that_still_writes(self):
        """A file that grows while it is saved is no checkpoint."""
        run, done = self.begin(), threading.Event()

        def write(path):
            with open(path, "ab") as file:
                while not done.is_set():
                    file.write(b"x" * 4096)
                    file.flush()
        with self.assertRaisesRegex(muster.CheckpointError, "model changed while"):
            with run.checkpoint(5) as folder:
                for number in range(50):
                    (folder / f"other-{number}").write_bytes(b"x" * 100_000)
                writer = threading.Thread(target=write, args=(folder / "model",))
                writer.start()
                time.sleep(0.05)
        done.set()
        writer.join()
        self.assertEqual(self.supervisor.of_kind("checkpoint"), [])

    def test_lines_stay_within_the_limits(self):
        """Reports with other names share a line only where all of it fits."""
        run = self.begin()
        wide = [{f"{part}/{number}": 1.0 for number in range(6000)} for part in "ab"]
        long = [{f"{part}{number}" + "m" * 1000: 1.0 for number in range(250)} for part in "abcd"]
        odd = [{f"{part}{number}" + "\u20ac" * 300: 1.0 for number in range(200)} for part in "abcd"]
        for group, reports in (("wide", wide), ("long", long), ("odd", odd)):
            for step, values in enumerate(reports):
                run.report(step, values, group=group)
        with self.assertRaisesRegex(muster.ReportError, "use several groups"):
            run.report(1, {f"{number}" + "\u20ac" * 300: 1.0 for number in range(300)})
        run.finish()
        for message in self.supervisor.lines:
            self.assertLessEqual(len(message["metrics"]), 10_000)
        found = {}
        for message in self.supervisor.lines:
            for name, column in message["metrics"].items():
                found.setdefault((message["group"], name), []).extend(
                    (step, value) for step, value in zip(message["steps"], column) if value is not None)
        self.assertEqual(found, {(group, name): [(step, 1)] for group, reports in (("wide", wide), ("long", long), ("odd", odd))
                                 for step, values in enumerate(reports) for name in values})
        self.assertEqual(self.supervisor.refused, [])

    def test_a_refused_report_costs_no_checkpoint(self):
        run = self.begin()
        self.supervisor.refuse = lambda message: "no such group" if message["kind"] == "metrics" else ""
        run.report(1, loss=1.0)
        with run.checkpoint(1) as folder:
            (folder / "model").write_text("1")
        record, = self.supervisor.of_kind("checkpoint")
        self.assertTrue((self.storage / record["uuid"] / "model").exists())

    def test_a_checkpoint_without_an_answer_keeps_its_files(self):
        """The record may be stored, and a record without files would fail the trial's next start."""
        run = self.begin()
        reached, go_on = threading.Event(), threading.Event()

        def wait(message):
            reached.set()
            go_on.wait(20)
            return ""

        self.supervisor.refuse = wait

        def save():
            with self.assertRaisesRegex(muster.CheckpointError, "nobody knows.*the run has ended.*remove /"):
                with run.checkpoint(1) as folder:
                    (folder / "model").write_text("1")
            saved.append(True)

        saved = []
        thread = threading.Thread(target=save)
        thread.start()
        reached.wait(20)
        run._finish(0.1)
        go_on.set()
        thread.join(20)
        self.assertEqual(saved, [True])
        while not self.supervisor.lines:
            time.sleep(0.01)
        record, = self.supervisor.of_kind("checkpoint")
        self.assertEqual(os.listdir(self.storage), [record["uuid"]])

    def test_metadata_that_json_cannot_hold(self):
        """A checkpoint is not lost because its loss is not finite."""
        run = self.begin()
        run.metadata(best=-math.inf, history=[1.0, math.nan], most=2**63 - 1)
        with run.checkpoint(10, metadata={"loss": math.nan, "bound": {"high": math.inf}}) as folder:
            (folder / "model").write_text("1")
        deep = []
        for _ in range(48):
            deep = [deep]
        self.assertEqual(run.gather(deep), [deep])
        for value, expected in ((2**63, r"value\['x'\] is an integer of more than 64 bits; use str"),
                                ("\udc80", "no valid Unicode; use text.encode"), ("a\0", "NUL character; remove"),
                                ({"\udc80": 1}, r"a key of value\['x'\] is no valid"),
                                ([deep], "more than 50 lists and dictionaries deep")):
            with self.subTest(expected), self.assertRaisesRegex(muster.ReportError, expected):
                run.metadata(x=value)
        self.assertEqual(run.gather(math.inf), [math.inf])  # ranks exchange numbers as they are
        run.finish()
        self.assertEqual(self.supervisor.of_kind("metadata")[0]["metadata"],
                         {"best": "-Infinity", "history": [1.0, "NaN"], "most": 2**63 - 1})
        record, = self.supervisor.of_kind("checkpoint")
        self.assertEqual(record["metadata"], {"loss": "NaN", "bound": {"high": "Infinity"}})
        again = self.begin(DET_LATEST_CHECKPOINT=record["uuid"], DET_STEPS_COMPLETED="10")
        self.assertEqual(again.latest.metadata, record["metadata"])

    def test_an_exception_with_an_odd_text_is_reported(self):
        with self.assertRaises(ValueError):
            with self.begin():
                raise ValueError("file a\udc80\0b")
        self.assertEqual(self.supervisor.lines[-1]["text"], "ValueError: file a??b")

    def test_an_exception_is_reported(self):
        with self.assertRaises(ValueError):
            with self.begin() as run:
                run.report(1, loss=1.0)
                raise ValueError("no such width")
        line = self.supervisor.lines[-1]
        self.assertEqual((line["kind"], line["rank"], line["text"]),
                         ("failure", 0, "ValueError: no such width"))
        self.assertIn("test_run.py:", line["place"])
        self.assertIn("raise ValueError", line["traceback"])
        self.assertEqual(self.supervisor.curve("loss"), [(1, 1)])

    def test_invalid_hyperparameters(self):
        with self.assertRaises(SystemExit):
            with self.begin() as run:
                run.invalid("lr is\n  negative")
        self.assertEqual([message["kind"] for message in self.supervisor.lines], ["exited", "failure"])
        self.assertEqual((self.supervisor.lines[0]["reason"], self.supervisor.lines[0]["text"]),
                         ("INVALID_HP", "lr is negative"))
        self.assertIn("lr is", self.supervisor.lines[1]["text"])

    def test_invalid_hyperparameters_with_an_odd_text(self):
        for text, expected in (("", None), ("x" * 4096, "x" * 4096), ("x" * 4097, "x" * 4093 + "..."), ("a\0\udc80", "a??")):
            with self.assertRaises(SystemExit), mock.patch("muster.failure.warn"):
                with self.begin() as run:
                    run.invalid(text)
            line = self.supervisor.of_kind("exited")[-1]
            self.assertEqual(line.get("text"), expected)

    def test_bad_reports(self):
        """Each raises an exception that names the place and the remedy, and the run goes on."""
        run = self.begin()
        run.report(1, loss=1.0)
        for arguments, values, expected in (
                ((2,), {"loss": "0.5"}, "step=2.*'loss' is of type str, not a number; report numbers only"),
                ((2,), {"loss": None}, "'loss' is of type NoneType"),
                ((2,), {"loss": [1.0, 2.0]}, "'loss' is of type list"),
                ((2, {"a": {"b": 1.0}}), {}, "'a' is of type dict"),
                ((2, [1.0]), {}, "metrics are of type list; pass name=number"),
                ((2,), {}, "no metrics; pass at least one"),
                ((2, {1: 1.0}), {}, "name 1 of a metric is of type int"),
                ((2, {"": 1.0}), {}, "a text of 1 to 1024 bytes"),
                ((2, {"m" * 1025: 1.0}), {}, "1025 bytes"),
                ((2, {"a\0b": 1.0}), {}, "NUL"),
                ((2, {"\udc80": 1.0}), {}, "not valid Unicode"),
                ((2.0,), {"loss": 1.0}, "step 2.0 is of type float, not a whole number"),
                ((True,), {"loss": 1.0}, "step True is of type bool"),
                ((-1,), {"loss": 1.0}, "step -1 is not in the range"),
                ((2**53 + 1,), {"loss": 1.0}, r"not in the range 0 to 2\^53"),
                ((1,), {"loss": 1.0}, "'loss' has a value in step 1 of group 'training' already"),
                ((2,), {"loss": 10**400}, "beyond the range"),
                ((2, {str(i): 1.0 for i in range(10001)}), {}, "at most 10000"),
                ((2, {"m" * 1000 + str(i): 1.0 for i in range(600)}), {}, "use several groups")):
            with self.subTest(expected), self.assertRaisesRegex(muster.ReportError, expected):
                run.report(*arguments, **values)
        for group in ("", "g" * 256, 5):
            with self.assertRaisesRegex(muster.ReportError, "of a group"):
                run.report(2, loss=1.0, group=group)
        run.report(2, loss=2.0)
        run.report(2, {"m" * 1024: 1.0}, group="g" * 255)  # the limits themselves
        run.report(2, {str(i): 1.0 for i in range(10000)}, group="wide")
        run.report(2**53, loss=3.0)
        run.finish()
        self.assertEqual(self.supervisor.curve("loss"), [(1, 1), (2, 2), (2**53, 3)])
        self.assertEqual(self.supervisor.curve("m" * 1024, "g" * 255), [(2, 1)])
        self.assertEqual(self.supervisor.curve("9999", "wide"), [(2, 1)])

    def test_numbers_of_other_libraries(self):
        class Scalar:
            def __init__(self, count):
                self.count = count

            def numel(self):
                return self.count

            def detach(self):
                return self

            def item(self):
                return 0.25

        run = self.begin()
        run.report(1, loss=Scalar(1), hit=True, count=7, big=2**60)
        with self.assertRaisesRegex(muster.ReportError, "3 elements; report one number.*loss=values.mean"):
            run.report(2, loss=Scalar(3))
        run.finish()
        found = {name: self.supervisor.curve(name)[0][1] for name in ("loss", "hit", "count", "big")}
        self.assertEqual(found, {"loss": 0.25, "hit": 1, "count": 7, "big": float(2**60)})

    def test_other_bad_input(self):
        run = self.begin()
        for call, expected in (
                (lambda: run.progress(1.5), "from 0 to 1"),
                (lambda: run.progress("half"), "not a number"),
                (lambda: run.metadata(model=object()), r"value\['model'\] is of type object"),
                (lambda: run.metadata([1]), r"\[1\] is no dictionary; pass name=value"),
                (lambda: run.due(1, every=0), "1 or more"),
                (lambda: run.steps("a", 5), "not a whole number"),
                (lambda: run.gather({1, 2}), "value is of type set"),
                (lambda: run.gather([b""]), r"value\[0\] is of type bytes"),
                (lambda: run.broadcast({1: 2}), "has the key 1"),
                (lambda: run.image(1, "x", "not an image"), "step 1, 'x'"),
                (lambda: run.text(1, "", "text"), "use 1 to 256"),
                (lambda: run.metadata(text="x" * 5001), "text'. is a text of more than 5000 bytes"),
                (lambda: run.metadata({"a.b": 1}), "'a.b' of metadata: a key has at most 50"),
                (lambda: run.metadata({"k" * 51: 1}), "a key has at most 50"),
                (lambda: run.metadata(a=list(range(101))), "'a'. is a list of more than 100"),
                (lambda: run.metadata(a=nested(10)), "more than 10 levels deep"),
                (lambda: run.metadata({f"k{i}": 1 for i in range(1001)}), "1001 values in all")):
            with self.subTest(expected), self.assertRaisesRegex(muster.ReportError, expected):
                call()
        with self.assertRaisesRegex(muster.Error, "has begun"):
            muster.init()
        run.finish()
        run.finish()
        with self.assertRaisesRegex(muster.Error, "the run has ended"):
            run.report(1, loss=1.0)
        self.assertEqual(self.supervisor.lines, [])

    def test_metadata(self):
        run = self.begin()
        run.metadata({"data size": 3}, commit="4be00ba")
        run.metadata(note={"a": [1]})
        run.finish()
        self.assertEqual([message["metadata"] for message in self.supervisor.of_kind("metadata")],
                         [{"data size": 3, "commit": "4be00ba"}, {"note": {"a": [1]}}])

    def test_metadata_up_to_its_limits(self):
        run = self.begin()
        run.metadata(deep=nested(9), text="x" * 5000, list=[1] * 100, **{"k" * 50: 1})
        run.metadata({f"k{i}": 1 for i in range(1000 - 103)})
        run.metadata({"k0": 2})
        with self.assertRaisesRegex(muster.ReportError, "1001 values in all"):
            run.metadata(more=1)
        run.finish()
        self.assertEqual(len(self.supervisor.of_kind("metadata")), 3)

    def test_refused_metadata_does_not_count(self):
        """Metadata that one line cannot hold is not stored, so the limit of values is as before."""
        run = self.begin()
        with self.assertRaisesRegex(muster.ReportError, "at most 1048576 fit"):
            run.metadata({f"t{i}": "x" * 5000 for i in range(250)})
        run.metadata({f"k{i}": 1 for i in range(1000)})
        run.finish()
        self.assertEqual([len(message["metadata"]) for message in self.supervisor.of_kind("metadata")], [1000])

    def test_refused_metadata_on_other_ranks(self):
        with self.assertRaisesRegex(muster.ReportError, "at most 1048576 fit"):
            self.begin(RANK="1", WORLD_SIZE="2").metadata({f"t{i}": "x" * 5000 for i in range(250)})

    def test_invalid_without_a_supervisor(self):
        """The program ends as invalid, whether its supervisor refuses the connection or never answers."""
        run = self.begin(RANK="1", WORLD_SIZE="2")
        with mock.patch("muster.run.FAILED_S", 0.5), mock.patch("muster.failure.warn") as warn:
            self.supervisor.full = True
            with self.assertRaisesRegex(muster.InvalidHyperparameters, "too wide"):
                run.invalid("too wide")
            self.assertRegex(warn.call_args[0][0], "may not know.*not taken a line within 0.5 s.*the spool of reports is full")
            self.supervisor.full = False
            self.supervisor.refuse = lambda message: time.sleep(3) or ""
            with self.assertRaisesRegex(muster.InvalidHyperparameters, "too wide"):
                run.invalid("too wide")
            self.assertRegex(warn.call_args[0][0], "may not know.*not taken a line within 0.5 s")
            (self.supervisor.folder / "report.sock").unlink()
            with self.assertRaisesRegex(muster.InvalidHyperparameters, "too wide"):
                run.invalid("too wide")
            self.assertRegex(warn.call_args[0][0], "may not know.*cannot reach the supervisor")

    def test_answers_that_are_none(self):
        """After a bad answer, later answers belong to the lines that they answer."""
        told = []
        with mock.patch.object(self.supervisor, "_answer", lambda line: told.append(line) or (
                [1] if len(told) == 1 else {"error": "of the first write"} if len(told) == 2 else {"sequence": 1})):
            sink = socket_sink.SocketSink(self.supervisor.folder, print)
            self.addCleanup(sink.close)
            with self.assertRaisesRegex(muster.Error, "is no answer to a report"):
                sink.write([b'{"a":1}\n', b'{"a":2}\n'])
            while len(told) < 2:
                time.sleep(0.01)
            self.assertEqual(sink.write([b'{"a":3}\n']), [])

    def test_a_sink_that_closes_while_it_is_reset(self):
        sink = socket_sink.SocketSink(self.supervisor.folder, print)
        real = sink._socket

        class Vanishing:
            def shutdown(self, how):
                sink._socket = None  # the other thread resets the sink now
                real.shutdown(how)

            def close(self):
                real.close()
        sink._socket = Vanishing()
        sink.close()
        self.assertEqual(real.fileno(), -1)

    def test_leftovers_of_earlier_starts(self):
        """They have the names that `muster checkpoint save` uses; the folders of this start and others stay."""
        uuid = "2fd2d2e8-6d4e-4c2c-9c5f-3c1b9d0a7e11"
        names = [f".3.task.{epoch}-{uuid}.tmp" for epoch in (0, 1, 2)] + [
            f".another.0-{uuid}.tmp", f".3.task.0-{uuid}.tmp.old", ".3.task.0-notes.tmp", f"3.task.0-{uuid}.tmp"]
        for name in names:
            (self.storage / name).mkdir(parents=True)
            (self.storage / name / "part").write_text("1")
        run = self.begin()
        self.assertEqual(sorted(os.listdir(self.storage)), sorted(names[1:]))
        with run.checkpoint(1) as folder:
            (folder / "model").write_text("1")
            self.assertRegex(folder.name, r"^\.3\.task\.1-[0-9a-f-]{36}\.tmp$")

    def test_the_newest_checkpoint_for_commands(self):
        """`muster checkpoint latest` in the same start reads the name from the folder of the task."""
        run = self.begin()
        self.assertFalse((self.supervisor.folder / "checkpoint.latest").exists())
        for step in (1, 2):
            with run.checkpoint(step) as folder:
                (folder / "model").write_text("1")
            self.assertEqual((self.supervisor.folder / "checkpoint.latest").read_text(),
                             self.supervisor.of_kind("checkpoint")[-1]["uuid"])
        with mock.patch("muster.run.write_whole", side_effect=OSError("read-only")), \
                mock.patch("muster.failure.warn") as warn:
            with run.checkpoint(3) as folder:
                (folder / "model").write_text("1")
        self.assertEqual(len(self.supervisor.of_kind("checkpoint")), 3)
        self.assertRegex(warn.call_args[0][0], "`muster checkpoint latest` does not find.*read-only")

    def test_missing_checkpoint_and_socket(self):
        with self.assertRaisesRegex(muster.CheckpointError, "not at .*; mount|not at .*: mount"):
            self.begin(DET_LATEST_CHECKPOINT="no-such-uuid")
        with self.assertRaisesRegex(muster.Error, "cannot reach the supervisor.*update it"):
            self.begin(MUSTER_RUN_DIR=str(self.folder))
        with self.assertRaisesRegex(muster.Error, "set it to shared_fs or directory"):
            self.begin(DET_EXPERIMENT_CONFIG='{"checkpoint_storage": {"type": "s3"}}')
        with self.assertRaisesRegex(muster.Error, "DET_ALLOCATION_ID is not"):
            self.begin(DET_ALLOCATION_ID="")

    def test_media(self):
        run = self.begin()
        run.image(3, "digit", [[0, 255], [128, 0]])
        run.text(3, "sample", "To be")
        run.histogram(3, "weights", [1.0, 2.0, 2.0], bins=2)
        run.table(3, "worst", [{"name": "a", "loss": 1.5}])
        with run.checkpoint(3) as folder:
            (folder / "model").write_text("1")
        items = [item for message in self.supervisor.of_kind("media") for item in message["items"]]
        self.assertEqual(self.supervisor.lines[-1]["kind"], "checkpoint")  # it stays behind them
        self.assertEqual([(item["step"], item["name"], item["type"]) for item in items], [
            (3, "digit", "image"), (3, "sample", "text"), (3, "weights", "histogram"), (3, "worst", "table")])
        for item in items:
            self.assertEqual((self.storage / "media" / "c1" / "3" / item["digest"]).stat().st_size, item["size"])


PROGRAM_END = """
import muster, os, sys, threading, time
"""


class Ends(unittest.TestCase):
    """The ways in which a program can end, each in a process of its own."""

    def run_program(self, program):
        folder = pathlib.Path.cwd() / self._testMethodName
        with Supervisor(folder / "task") as supervisor:
            environment = {**os.environ, **supervisor.environment(folder / "storage")}
            done = subprocess.run([sys.executable, "-c", PROGRAM_END + textwrap.dedent(program)], timeout=60,
                                  env=environment, cwd=folder, capture_output=True, text=True)
            deadline = time.monotonic() + 5
            while not supervisor.lines and time.monotonic() < deadline:
                time.sleep(0.01)
            return done, supervisor

    def test_exit_without_with(self):
        """The end of the program waits for its reports."""
        done, supervisor = self.run_program("""
            run = muster.init()
            for step in range(1000):
                run.report(step, loss=1.0)
            sys.exit(3)
            """)
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        self.assertEqual(len(supervisor.curve("loss")), 1000)
        self.assertEqual(supervisor.of_kind("failure"), [])

    def test_uncaught_exception(self):
        for program in ("muster.init()\n1 / 0", "with muster.init():\n    1 / 0"):
            with self.subTest(program):
                done, supervisor = self.run_program(program)
                self.assertEqual(done.returncode, 1)
                self.assertTrue(done.stderr.startswith("Traceback"), done.stderr)
                self.assertEqual(done.stderr.count("ZeroDivisionError: division by zero"), 1)
                line, = supervisor.of_kind("failure")
                self.assertEqual(line["text"], "ZeroDivisionError: division by zero")

    def test_exit_with_a_text(self):
        done, supervisor = self.run_program("with muster.init():\n    sys.exit('no data')")
        self.assertEqual((done.returncode, done.stderr), (1, "no data\n"))
        self.assertEqual(supervisor.of_kind("failure")[0]["text"], "no data")

    def test_fork(self):
        """A fork has no run, and its end changes nothing for the parent."""
        done, supervisor = self.run_program("""
            run = muster.init()
            for step in range(100):
                run.report(step, loss=1.0)
                pid = os.fork() if step % 10 == 0 else -1
                if pid == 0:
                    try:
                        run.report(5, loss=1.0)
                    except muster.Error as error:
                        print(error, flush=True)
                    sys.exit(0)
                if pid > 0:
                    os.waitpid(pid, 0)
            """)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("this process is a fork"), 10)
        self.assertEqual(len(supervisor.curve("loss")), 100)
        self.assertEqual(len(supervisor.connections), 1)

    def test_threads(self):
        """Several threads report at once."""
        done, supervisor = self.run_program("""
            with muster.init() as run:
                def work(name):
                    for step in range(3000):
                        run.report(step, {name: float(step)}, group=name)
                threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
                [thread.start() for thread in threads]
                [thread.join() for thread in threads]
            """)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("t0", "t1", "t2", "t3"):
            self.assertEqual(supervisor.curve(name, name), [(step, step) for step in range(3000)])


class Local(unittest.TestCase):
    """A run outside a cluster."""

    def begin(self, **arguments):
        run = muster.init(self._testMethodName, quiet=True, **arguments)
        self.addCleanup(run.finish)
        return run

    def test_resume(self):
        run = self.begin()
        for step in run.steps(0, 30):
            run.report(step, loss=float(step))
            if step == 20:
                with run.checkpoint(step) as folder:
                    (folder / "step").write_text("20")
            if step == 25:
                break
        run.finish()
        with self.assertRaisesRegex(muster.Error, "resume=True"):
            self.begin()
        run = self.begin(resume=True)
        self.assertEqual((run.latest.step, (run.latest.path / "step").read_text()), (20, "20"))
        for step in run.steps(run.latest.step, 30):
            run.report(step, loss=float(step))
        run.finish()
        lines = pathlib.Path("muster-runs/test_resume/metrics.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line)["metrics"] for line in lines],
                         [{"loss": float(step)} for step in range(1, 31)])

    def test_media_in_the_environment_of_a_task(self):
        """A command of a cluster is no trial; its media are in the folder of the run like all others."""
        for name, variables in (("here", {}), ("command", {"DET_CLUSTER_ID": "c1", "DET_TASK_ID": "t1",
                                                           "DET_EXPERIMENT_ID": "9"})):
            with self.subTest(name), mock.patch.dict(os.environ, variables), mock.patch("muster.failure.warn") as warn:
                run = muster.init(name, quiet=True)
                run.text(1, "0", "To be")
                run.finish()
                media = pathlib.Path("muster-runs", name, "media")
                self.assertEqual((media / "0" / "1.txt").read_text(), "To be")
                self.assertEqual(sorted(os.listdir(media)), [".contents", "0"])
                self.assertNotIn("not stored", str(warn.mock_calls))

    def test_names_of_media(self):
        """Each name has a folder of its own, which the file system takes."""
        names = ["a/b", "a_b", "a%2Fb", "..", "_", "n" * 255, "n" * 256, "n" * 255 + "m", "\u20ac" * 85, "worst digit"]
        run = self.begin()
        for name in names:
            run.text(1, name, "text of " + name)
        run.finish()
        media = run.folder / "media"
        self.assertEqual(sorted(path.read_text() for path in media.glob("*/1.txt")),
                         sorted("text of " + name for name in names))
        self.assertEqual((media / "worst digit" / "1.txt").read_text(), "text of worst digit")

    def test_a_file_system_without_hard_links(self):
        run = self.begin()
        with mock.patch("os.link", side_effect=PermissionError("no links")):
            run.text(1, "sample", "To be")
            run.flush()
        self.assertEqual((run.folder / "media" / "sample" / "1.txt").read_text(), "To be")

    def test_an_item_that_cannot_be_written(self):
        """It is told, and the reports and checkpoints behind it are stored."""
        run = self.begin()
        (run.folder / "media").mkdir()
        (run.folder / "media" / "sample").write_text("in the way of the folder")
        with mock.patch("muster.failure.warn"):
            run._reporter._warn = warn = mock.Mock()
            run.text(1, "sample", "To be")
            run.report(1, loss=1.0)
            run.flush()
        self.assertRegex(warn.call_args_list[0][0][0], "not stored: media: .*sample")
        self.assertEqual(warn.call_count, 1)
        self.assertEqual(len((run.folder / "metrics.jsonl").read_text().splitlines()), 1)
        with mock.patch("muster.local.LocalSink._append", side_effect=OSError(28, "No space left")):
            with self.assertRaisesRegex(muster.CheckpointError, "did not take the checkpoint: checkpoint: .*No space"):
                with run.checkpoint(1) as folder:
                    (folder / "model").write_text("1")
        with run.checkpoint(1) as folder:
            (folder / "model").write_text("1")
        self.assertEqual(len(os.listdir(run.folder / "checkpoints")), 1)

    def test_metrics_that_cannot_be_written(self):
        """They are refused; a checkpoint, whose record is in a file of its own, is not."""
        with mock.patch("muster.failure.warn") as warn:
            run = self.begin()
            with mock.patch.object(run._reporter._sink, "_metrics") as full:
                full.flush.side_effect = OSError(28, "No space left")
                run.report(1, loss=1.0)
                with run.checkpoint(1) as folder:
                    (folder / "model").write_text("1")
                self.assertRegex(warn.call_args[0][0], "not stored: metrics: .*No space")
                self.assertEqual(warn.call_count, 1)
        self.assertEqual(local.latest_checkpoint(run.folder).step, 1)

    def test_a_torn_record_of_a_checkpoint(self):
        """The disk was full for a time: the records behind the torn line count."""
        run = self.begin()
        for step in (1, 2, 3):
            with run.checkpoint(step) as folder:
                (folder / "step").write_text(str(step))
            if step == 1:
                with open(run.folder / local.CHECKPOINTS, "a", encoding="utf-8") as file:
                    file.write('{"uuid": "2fd2d2e8-6d')
            if step == 2:
                self.assertEqual(local.latest_checkpoint(run.folder).step, 2)
        run.finish()
        self.assertEqual(self.begin(resume=True).latest.step, 3)

    def test_the_end_is_printed(self):
        """The last report of each group, though others were printed a moment ago, and the checkpoint."""
        program = """
            import muster
            with muster.init() as run:
                for step in run.steps(0, 30):
                    run.report(step, loss=1 / step)
                    run.flush()
                    if run.due(step, every=20):
                        run.validate(step, accuracy=step / 30)
                        run.flush()
                        with run.checkpoint(step) as folder:
                            (folder / "step").write_text("1")
                run.report(step + FAIL, rate=1.0)
            """
        for fail, end in (("0", "done: 30 steps"), ("None", "failed: 30 steps")):
            done = subprocess.run([sys.executable, "-c", textwrap.dedent(program).replace("FAIL", fail)],
                                  env={**os.environ, "MUSTER_RUN_NAME": end[:4]}, capture_output=True, text=True)
            lines = done.stdout.splitlines()
            self.assertIn("step 30  " + ("rate 1" if fail == "0" else "loss 0.0333333"), lines)
            self.assertIn("step 30  [validation]  accuracy 1", lines)
            self.assertRegex(lines[-1], f"^muster: {end}, checkpoint of step 30 in muster-runs/{end[:4]}/checkpoints/")
            self.assertTrue(pathlib.Path(lines[-1].rpartition(" in ")[2], "step").exists())
            self.assertEqual((done.returncode, "TypeError" in done.stderr), (int(fail != "0"), fail != "0"))


if __name__ == "__main__":
    unittest.main()
