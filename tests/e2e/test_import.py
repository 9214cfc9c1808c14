"""muster import determined: a dump of Determined's database, and a running Determined master (a
small one of our own), into a real master. The dump comes from our own writer, and from PostgreSQL
if it is installed."""

import base64
import contextlib
import crypt
import http.server
import io
import json
import os
import pathlib
import pwd
import sqlite3
import subprocess
import tarfile
import threading
import time
import unittest
import urllib.parse
import uuid

from cluster import BIN, Cluster, wait_for
from determined_db import BARE_END, BARE_TIME, END, TIME, Database, columns_of, config_of, sent_password, summary_of

POSTGRES = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
SECRET = "open sesame please"
UUIDS = [str(uuid.UUID(int=number)) for number in range(1, 4)]
STEPS = 700
NEWEST = "2025-02-03 10:15:06.789+05:30"  # of the trial that has not ended there; the zone is that of the server


def code_archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo("train.py")
        text = b"print('from there')\n"
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return out.getvalue()


def validation_of(run, step):
    return {"loss": run + 1 / (step + 1)}


def make_database(storage):
    """Two users, a workspace, four experiments (one is running, one is being deleted), trials,
    checkpoints, a model. Texts have every character that COPY escapes."""
    db = Database()
    bcrypt = crypt.crypt(sent_password(SECRET), "$2b$04$" + "abcdefghijklmnopqrstuu")
    for id, name, admin, hash in ((1, "admin", True, None), (2, "determined", False, None), (7, "ann", False, bcrypt),
                                  (8, "bob", False, None)):
        db.add("users", id=id, username=name, password_hash=hash, display_name=f"{name.title()} of them", admin=admin,
               active=True, modified_at=TIME, remote=False)
    db.add("workspaces", id=1, name="Uncategorized", archived=False, created_at=TIME, user_id=1, immutable=True)
    db.add("workspaces", id=2, name="vision", archived=False, created_at=TIME, user_id=7)
    db.add("projects", id=1, name="Uncategorized", created_at=TIME, workspace_id=1, user_id=1, archived=False, notes=[],
           description="")
    db.add("projects", id=5, name="resnet", created_at=TIME, workspace_id=2, user_id=7, archived=False,
           notes=[{"name": "plan", "contents": "first\n\\second"}], description="residual networks")
    for id, state, archived, project, parent in ((40, "COMPLETED", True, 5, None), (12, "ERROR", False, 5, None),
                                                 (41, "ACTIVE", False, 1, 12), (42, "DELETED", False, 1, None)):
        config = config_of(f"exp {id}", storage)
        db.add("experiments", id=id, state=state, config=config, model_definition=code_archive(), start_time=BARE_TIME,
               end_time=BARE_END if state != "ACTIVE" else None, archived=archived, parent_id=parent, owner_id=7,
               progress=1.0, original_config=f"# as written\nname: exp {id}\n", notes="tab\there, \\N and\nnewline",
               project_id=project, best_trial_id=id * 10, unmanaged=False)
        db.add("trials_v2", run_id=id * 10, request_id=str(uuid.UUID(int=id)), seed=99)
        db.add("run_id_task_id", run_id=id * 10, task_id=f"{id}.{uuid.UUID(int=id)}")
        values = [validation_of(id, step)["loss"] for step in range(100, STEPS + 1, 100)]
        db.add("runs", id=id * 10, experiment_id=id, state=state, start_time=BARE_TIME,
               end_time=BARE_END if state != "ACTIVE" else None, hparams={"lr": 0.1, "note": "a\tb"}, restarts=2,
               restart_id=3, total_batches=STEPS, best_validation_id=id * 1000 + STEPS, latest_validation_id=id * 1000 + STEPS,
               searcher_metric_value=values[-1], runner_state="", project_id=project,
               summary_metrics={"avg_metrics": {"loss": summary_of(list(range(STEPS)))},
                                "validation_metrics": {"loss": summary_of(values),
                                                       "words": {"count": 1, "type": "string"},
                                                       "odd": {"count": 2, "last": 1.5, "min": "NaN", "max": "NaN",
                                                               "sum": "NaN", "type": "number"}}})
    db.add("runs_metadata", run_id=400, metadata={"dataset": "v2", "deep": {"er": 1}})
    for step in range(1, STEPS + 1):  # the reports of different trials are mixed
        for id in (40, 12, 41):
            db.add("raw_steps", trial_id=id * 10, end_time=NEWEST if (id, step) == (41, 300) else TIME, total_batches=step,
                   trial_run_id=3, archived=False, id=id * 1000 + step, metric_group="training", partition_type="TRAINING",
                   metrics={"avg_metrics": {"loss": step / 8}, "batch_metrics": []})
    for step in range(100, STEPS + 1, 100):
        for id in (40, 12, 41):
            for archived in (False, True):
                db.add("raw_validations", trial_id=id * 10, end_time=TIME, total_batches=step, trial_run_id=3,
                       archived=archived, id=id * 1000 + step + archived, metric_group="validation",
                       metrics={"validation_metrics": {"loss": -1} if archived else validation_of(id, step)})
    db.add("generic_metrics", trial_id=400, end_time=TIME, metrics={"avg_metrics": {"temperature": 3.5, "word": "warm"}},
           total_batches=5, trial_run_id=3, archived=False, id=1, metric_group="weather", partition_type="GENERIC")
    db.add("storage_backend_directory", id=1, container_path=str(storage))
    db.add("storage_backend", id=3, directory_id=1)
    for number, (id, state) in enumerate(((40, "COMPLETED"), (12, "DELETED"))):
        db.add("checkpoints_v2", id=number, uuid=UUIDS[number], task_id=f"{id}.{uuid.UUID(int=id)}",
               allocation_id=f"{id}.x.3", report_time=TIME, state=state, resources={"weights.bin": 5},
               metadata={"steps_completed": STEPS, "framework": "torch"}, size=5, storage_id=3 if number == 0 else None)
        db.add("run_checkpoints", run_id=id * 10, checkpoint_id=UUIDS[number])
    db.add("models", id=3, name="classifier", description="the one", creation_time=TIME, last_updated_time=END,
           metadata={"k": 1}, labels=None, user_id=7, archived=False, notes="", workspace_id=2)
    db.add("model_versions", id=1, model_id=3, version=2, checkpoint_uuid=UUIDS[0], creation_time=TIME,
           last_updated_time=END, name="two", comment="good", metadata={}, notes="n", user_id=7)
    db.add("task_logs", id=1, task_id="40.x", log=b"COPY public.users (id) FROM stdin;", level="INFO")
    return db


def place_files(storage):
    folder = storage / UUIDS[0]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights.bin").write_bytes(b"12345")


class ImportDump(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.storage = pathlib.Path("det-storage").resolve()
        place_files(cls.storage)
        cls.db = make_database(cls.storage)
        cls.db.write_dump("dump.sql")
        cls.cluster = cls.enterClassContext(Cluster("dumped", slots=(1,), master_flags=("--checkpoint-dir", cls.storage)))
        cls.cluster.muster("login", "admin", "--password-file", cls.cluster.folder / "password")
        cls.first = cls.import_dump()

    @classmethod
    def import_dump(cls, path="dump.sql"):
        return cls.counts(cls.cluster.rows("import", "determined", path))

    @staticmethod
    def counts(summary):
        return {row.pop("kind"): row for row in summary["objects"]} | {"+": summary}

    def api(self, path):
        return json.loads(self.cluster.muster("api", "get", path))

    def test_counts(self):
        new = {kind: row["new"] for kind, row in self.first.items() if kind != "+"}
        self.assertEqual(new, {"user": 2, "workspace": 1, "project": 1, "experiment": 3, "trial": 3, "checkpoint": 2,
                               "model": 1, "model_version": 1, "metrics of trials": 3})
        self.assertEqual(self.first["user"]["unchanged"], 2, "admin and determined are those of this master")
        self.assertTrue(self.first["+"]["keepsIds"])
        self.assertEqual(self.first["+"]["withoutPassword"], ["bob"])
        self.assertEqual([(row["kind"], row["id"]) for row in self.first["+"]["skipped"]], [("experiment", "42")])

    def test_experiments(self):
        x = self.api("experiments/40")["experiment"]
        self.assertEqual((x["name"], x["state"], x["archived"], x["username"], x["projectName"]),
                         ("exp 40", "STATE_COMPLETED", True, "ann", "resnet"))
        self.assertEqual((x["startTime"], x["endTime"]), ("2025-02-03T04:05:06.789000Z", "2025-02-03T05:05:06.789000Z"))
        self.assertEqual(x["notes"], "tab\there, \\N and\nnewline")
        self.assertEqual(x["originalConfig"], "# as written\nname: exp 40\n")
        self.assertEqual(sorted(x["labels"]), ["old", "paper"])
        self.assertEqual(x["config"]["checkpoint_storage"]["container_path"], str(self.storage))
        self.assertEqual(self.cluster.muster("experiment", "files", 40, "train.py"), "print('from there')\n")
        running = self.api("experiments/41")["experiment"]
        self.assertEqual((running["state"], running["forkedFrom"]), ("STATE_CANCELED", 12))
        self.assertIn("had not ended", running["notes"])
        self.assertEqual(running["endTime"], "2025-02-03T04:45:06.789000Z", "its end is its newest report")
        self.assertEqual(self.api("trials/410")["trial"]["endTime"], "2025-02-03T04:45:06.789000Z")
        self.assertEqual(self.cluster.rows("experiment", "describe", 41)["duration"],
                         self.cluster.rows("trial", "describe", 410)["duration"])
        self.assertEqual(self.api("workspaces/2")["workspace"]["name"], "vision")

    def test_trials_and_metrics(self):
        trial = self.api("trials/400")["trial"]
        self.assertEqual((trial["experimentId"], trial["state"], trial["restarts"], trial["totalBatchesProcessed"]),
                         (40, "STATE_COMPLETED", 2, STEPS))
        self.assertEqual(trial["hparams"], {"lr": 0.1, "note": "a\tb"})
        best = validation_of(40, STEPS)["loss"]
        self.assertEqual(trial["bestValidation"]["metrics"]["avgMetrics"]["loss"], best)
        self.assertEqual(trial["latestTraining"]["totalBatches"], STEPS)
        self.assertEqual(trial["summaryMetrics"]["avg_metrics"]["loss"]["count"], STEPS)
        training = self.cluster.rows("trial", "metrics", 400, "--group", "training")
        self.assertEqual([(row["steps"], row["metrics"]["loss"]) for row in training],
                         [(step, step / 8) for step in range(1, STEPS + 1)])
        validation = self.cluster.rows("trial", "metrics", 400, "--group", "validation")
        self.assertEqual([row["metrics"] for row in validation],
                         [validation_of(40, step) for step in range(100, STEPS + 1, 100)])
        weather = self.cluster.rows("trial", "metrics", 400, "--group", "weather")
        self.assertEqual(weather[0]["metrics"], {"temperature": 3.5, "word": "warm"})
        self.assertIn("its groups: training, validation, weather",
                      self.cluster.run("trial", "metrics", 400, "--group", "wether").stderr)
        self.assertEqual(self.api("runs/400/metadata")["metadata"], {"dataset": "v2", "deep": {"er": 1}})
        listed = self.cluster.rows("experiment", "list", "--all", "--filter", "validation.loss < 13")
        self.assertEqual([row["id"] for row in listed], [12])

    def test_logs(self):
        """They are not imported, and the log says so once."""
        self.import_dump()
        for arguments in (("trial", "logs", 400), ("experiment", "logs", 40)):
            lines = self.cluster.muster(*arguments).splitlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertIn("this trial was imported without its log: it was trial 400 of the other cluster", lines[0])

    def test_checkpoints_and_models(self):
        checkpoint = self.api(f"checkpoints/{UUIDS[0]}")["checkpoint"]
        self.assertEqual((checkpoint["state"], checkpoint["training"]["trialId"]), ("STATE_COMPLETED", 400))
        self.assertEqual(checkpoint["training"]["validationMetrics"]["avgMetrics"], validation_of(40, STEPS))
        self.cluster.muster("checkpoint", "download", UUIDS[0], "--to", "got")
        self.assertEqual(pathlib.Path("got/weights.bin").read_bytes(), b"12345")
        version = self.api("models/classifier/versions/2")["modelVersion"]
        self.assertEqual((version["name"], version["checkpoint"]["uuid"]), ("two", UUIDS[0]))

    def records(self, *records):
        """Sends records as they are, as a hostile dump would bring them; returns the outcomes."""
        body = json.dumps({"records": records})
        answer = self.cluster.muster("api", "POST", "/api/v1/imports/1/records", "--body", body)
        return [result["outcome"] for result in json.loads(answer)["results"]]

    def test_zz_repeated_posts(self):
        """A call whose answer was lost comes again, and its reports are stored once."""
        self.records({"kind": "experiment", "old": "r", "owner": "7", "project": "5", "state": "COMPLETED", "name": "r",
                      "config": config_of("r", self.storage)})
        self.records({"kind": "trial", "old": "r", "experiment": "r", "state": "COMPLETED", "hparams": {}})
        self.assertEqual(self.records({"kind": "metrics_begin", "old": "r", "mark": "2"}), ["NEW"])
        for call, step in (("a.1", 1), ("a.1", 1), ("a.2", 2), ("a.2", 2)):
            post = {"trial": "r", "group": "training", "steps": [step], "times": ["2026-01-01T00:00:00Z"],
                    "metrics": {"loss": [step / 2]}}
            self.cluster.muster("api", "POST", "/api/v1/imports/1/metrics", "--body",
                                json.dumps({"posts": [post], "call": call}))
        self.records({"kind": "metrics_end", "old": "r", "mark": "2", "steps": 2})
        with contextlib.closing(sqlite3.connect(self.cluster.folder / "master" / "muster.db")) as store:
            trial = "(SELECT new_id FROM imported WHERE kind = 'trial' AND old_id = 'r')"
            self.assertEqual(store.execute(f"SELECT count(*) FROM metrics WHERE trial_id = {trial}").fetchone(), (2,))
        refused = self.cluster.run("api", "POST", "/api/v1/imports/1/metrics", "--body",
                                   json.dumps({"posts": [], "call": "x" * 65}))
        self.assertIn("call: longer than 64 bytes", refused.stderr)

    def test_zz_hostile_records(self):
        """Configurations that were never checked end nothing, also when something is reported later."""
        config = config_of("odd", self.storage)
        odd = [config | {"resources": {"slots_per_trial": slots}} for slots in ("many", 1.5, [1], {})]
        odd += [config | {"checkpoint_storage": "here"}]
        x = {"kind": "experiment", "owner": "7", "project": "5", "state": "COMPLETED", "labels": 5, "name": "odd"}
        self.assertEqual(self.records(*(x | {"old": f"x{i}", "config": c} for i, c in enumerate(odd))), ["SKIPPED"] * 5)
        halving = {"name": "async_halving", "metric": "loss", "max_trials": 2, "num_rungs": -1, "max_time": 4}
        adaptive = {"name": "adaptive_asha", "metric": "loss", "max_trials": 1 << 60, "divisor": 1, "max_rungs": 1 << 40}
        searchers = [halving, halving | {"num_rungs": 1 << 40}, adaptive, {"name": 5}, "none"]
        for i, searcher in enumerate(searchers):
            self.assertEqual(self.records(x | {"old": f"y{i}", "config": config | {"searcher": searcher, "resources": "all"}}),
                             ["NEW"])
            trial = {"kind": "trial", "old": f"y{i}", "experiment": f"y{i}", "state": "COMPLETED", "hparams": [1]}
            self.assertEqual(self.records(trial), ["NEW"])
            self.assertEqual(len(self.records(trial | {"old": f"z{i}"}, trial | {"old": f"z{i}"})), 2, "the same twice")
            uuid_text = str(uuid.UUID(int=100 + i))
            self.assertEqual(self.records({"kind": "checkpoint", "old": uuid_text, "trial": f"y{i}", "state": "COMPLETED",
                                           "resources": "x", "metadata": 5}), ["NEW"])
            experiment = self.api(f"checkpoints/{uuid_text}")["checkpoint"]["training"]["experimentId"]
            self.api(f"experiments/{experiment}")
            number = self.api(f"experiments/{experiment}/trials")["trials"][0]["id"]
            report = {"group": "training", "metrics": {"trialId": number, "stepsCompleted": 1, "trialRunId": 1,
                                                       "metrics": {"avgMetrics": {"loss": 1}}}}
            self.cluster.run("api", "POST", f"/api/v1/trials/{number}/metrics", "--body", json.dumps(report))
            self.cluster.run("experiment", "continue", experiment)
            self.cluster.muster("experiment", "delete", experiment, "--yes")

    def test_costly_password(self):
        """A hash whose check would take days is no password."""
        costly = crypt.crypt("a", "$2b$04$" + "abcdefghijklmnopqrstuu").replace("$04$", "$31$")
        self.assertEqual(self.records({"kind": "user", "old": "costly", "username": "costly", "active": True,
                                       "passwordHash": costly}), ["NEW"])
        pathlib.Path("wrong").write_text("not that one\n")
        start = time.monotonic()
        self.assertEqual(self.cluster.run("login", "costly", "--password-file", "wrong").returncode, 4)
        self.assertLess(time.monotonic() - start, 10)

    def test_password(self):
        """Twice: the first login stores the password's hash anew."""
        pathlib.Path("ann").write_text(SECRET + "\n")
        for _ in range(2):
            self.cluster.muster("login", "ann", "--password-file", "ann")
        pathlib.Path("wrong").write_text("not that one\n")
        self.assertEqual(self.cluster.run("login", "ann", "--password-file", "wrong").returncode, 4)
        self.assertEqual(self.cluster.run("login", "bob", "--password-file", "wrong").returncode, 4)
        self.assertEqual(self.cluster.run("import", "determined", "dump.sql").returncode, 4, "ann is no administrator")
        self.cluster.muster("login", "admin", "--password-file", self.cluster.folder / "password")

    def test_twice(self):
        before = self.everything()
        again = self.import_dump()
        for kind, row in again.items():
            if kind != "+":
                self.assertEqual((row["new"], row["changed"]), (0, 0), kind)
        self.assertEqual(again["+"]["reports"], 0)
        self.assertEqual(self.everything(), before)

    def everything(self):
        paths = ["users", "workspaces", "workspaces/2/projects", "experiments?limit=0", "experiments/40/checkpoints",
                 "models", "trials/400", "trials/120", "trials/410"]
        answers = [self.api(path) for path in paths]
        for user in answers[0]["users"]:
            user.pop("lastAuthAt", None)
            user.pop("modifiedAt", None)
        return answers + [self.cluster.rows("trial", "metrics", trial) for trial in (400, 120, 410)]

    def test_zz_growth(self):
        """The running experiment has ended there, and its trial has reported more."""
        for row in self.db.rows["experiments"]:
            row[1] = "COMPLETED" if row[0] == 41 else row[1]
        for row in self.db.rows["runs"]:
            row[2] = "COMPLETED" if row[0] == 410 else row[2]
        self.db.add("raw_steps", trial_id=410, end_time=END, total_batches=STEPS + 1, trial_run_id=3, archived=False,
                    id=999999, metrics={"avg_metrics": {"loss": 0.5}})
        self.db.write_dump("later.sql")
        later = self.import_dump("later.sql")
        self.assertEqual({kind: row["changed"] for kind, row in later.items() if kind != "+" and row["changed"]},
                         {"experiment": 1, "trial": 1, "metrics of trials": 1})
        self.assertEqual(self.api("trials/410")["trial"]["state"], "STATE_COMPLETED")
        self.assertEqual(self.api("experiments/41")["experiment"]["state"], "STATE_COMPLETED")
        self.assertEqual(len(self.cluster.rows("trial", "metrics", 410, "--group", "training")), STEPS + 1)

    def test_zz_continue(self):
        """An imported experiment starts again from its checkpoint, with its own files; new ids come
        behind the imported ones."""
        refused = self.cluster.run("experiment", "continue", 12)
        self.assertIn("its imported metrics would be lost; fork the experiment instead", refused.stderr)
        self.assertEqual(len(self.cluster.rows("trial", "metrics", 120, "--group", "training")), STEPS)
        ended = self.api("trials/400")["trial"]["endTime"]
        self.cluster.muster("experiment", "unarchive", 40)
        self.cluster.muster("experiment", "continue", 40)
        wait_for("the end", lambda: self.api("trials/400")["trial"]["endTime"] not in (None, ended), 60)
        self.assertEqual(self.api("trials/400")["trial"]["state"], "STATE_COMPLETED")
        self.assertEqual(len(self.cluster.rows("trial", "metrics", 400, "--group", "training")), STEPS)
        self.assertEqual(self.import_dump()["trial"]["changed"], 0)
        pathlib.Path("new.yaml").write_text("name: new\nentrypoint: 'true'\nresources: {slots_per_trial: 0}\n"
                                            "searcher: {name: single, metric: loss}\n")
        os.makedirs("empty", exist_ok=True)
        self.assertEqual(self.cluster.create("new.yaml", "empty"), 43)

    def test_restart(self):
        """A master that starts again knows everything as before."""
        before = self.everything()
        self.cluster.master.stop()
        self.cluster.start_master()
        self.assertEqual(self.everything(), before)


class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.db = make_database(pathlib.Path("nowhere").resolve())
        cls.cluster = cls.enterClassContext(Cluster("refusing", slots=()))
        cls.cluster.muster("login", "admin", "--password-file", cls.cluster.folder / "password")

    def refused(self, path, *words):
        done = self.cluster.run("import", "determined", path)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)
        return done

    def written(self, change):
        """A dump whose text was changed."""
        self.db.write_dump("dump.sql")
        pathlib.Path("changed.sql").write_text(change(pathlib.Path("dump.sql").read_text()))
        return "changed.sql"

    def test_formats(self):
        """Each message names the file and the command to use."""
        for name, begin, words in (("custom", b"PGDMP\x01\x0e\x00more", ("custom format", "pg_restore --file=dump.sql custom")),
                                   ("tar", b"toc.dat\0", ("tar format", "pg_restore --file=dump.sql tar")),
                                   ("d.gz", b"\x1f\x8b\x08", ("gzip", "gunzip --keep d.gz")),
                                   ("d.zst", b"\x28\xb5\x2f\xfd", ("zstd", "zstd --decompress d.zst")),
                                   ("d.xz", b"\xfd7zXZ\0", ("xz", "unxz --keep d.xz")),
                                   ("utf16", b"\xff\xfe-\0-\0", ("UTF-16", "pg_dump --format=plain --file")),
                                   ("inserts.sql", b"INSERT INTO public.users VALUES (1);\n", ("--inserts",)),
                                   ("text", b"hello\n", ("not a dump", "pg_dump --format=plain")),
                                   ("nothing", b"", ("is empty", "pg_dump --format=plain"))):
            pathlib.Path(name).write_bytes(begin)
            self.refused(name, name, *words)
        pathlib.Path("folder").mkdir()
        self.refused("folder", "folder is a folder; give the file")
        pathlib.Path("folder/toc.dat").touch()
        self.refused("folder", "directory format", "pg_restore --file=dump.sql folder")
        self.refused("missing.sql", "missing.sql")

    def test_standard_input(self):
        """A dump is read several times, so a pipe is refused, and a file is not."""
        self.db.write_dump("input.sql")
        command = [BIN / "muster", "import", "determined", "-", "-o", "json"]
        with open("input.sql", "rb") as file:
            done = subprocess.run(command, env=self.cluster.env, stdin=file, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["objects"]), 9)
        done = subprocess.run(command, env=self.cluster.env, input="--\n", capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("standard input is not a file", done.stderr)
        self.assertIn("> dump.sql", done.stderr)
        pathlib.Path("input.sql.gz").write_bytes(b"\x1f\x8b\x08")
        with open("input.sql.gz", "rb") as file:
            done = subprocess.run(command, env=self.cluster.env, stdin=file, capture_output=True, text=True)
        self.assertIn("standard input is compressed with gzip", done.stderr)
        self.assertIn("gunzip --keep FILE", done.stderr)

    def test_addresses(self):
        self.refused("old-master:8080", "write http://old-master:8080 or https://old-master:8080")
        self.refused("postgres://db/determined", "pg_dump --format=plain")
        self.refused("ftp://old-master/dump.sql", "begins with http:// or https://")
        for kind, body in (("text/html", b"<!DOCTYPE html><html></html>"), ("application/json", b'{"status": "ok"}')):
            url = self.serve(kind, body)
            self.refused(url, url, "does not answer as a Determined master", "check host, port")
        self.refused(url.replace("http:", "https:"), "write http:// instead of https://")

    def serve(self, kind, body):
        class Other(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def test_truncated(self):
        self.db.write_dump("end.sql", complete=False)
        self.refused("end.sql", "truncated", "line")
        self.refused(self.written(lambda text: text[:text.index("COPY public.raw_validations (") + 300]), "truncated",
                     "raw_validations", "line")

    def test_other_versions(self):
        self.refused(self.written(lambda text: text.replace("COPY public.runs ", "COPY public.trials ")), "table runs", "0.38")
        self.refused(self.written(lambda text: text.replace("COPY public.experiments ", "COPY public.others ")),
                     "no table experiments")

    def test_no_metrics(self):
        """They would replace those of an earlier import by none."""
        self.refused(self.written(lambda text: text.replace("COPY public.raw_steps ", "COPY public.other_steps ")),
                     "no data of table raw_steps", "--exclude-table-data")

    def test_broken_rows(self):
        """What came before the broken row is stored; the next import completes it."""
        broken = self.written(lambda text: text.replace('{"avg_metrics": {"loss": 0.125}', '{"avg_metrics": {"loss": ', 1))
        line = 1 + pathlib.Path(broken).read_text().splitlines().index(next(
            row for row in pathlib.Path(broken).read_text().splitlines() if '{"loss": ,' in row or '"loss": , ' in row))
        self.refused(broken, f"{broken}, line {line}", "broken JSON")
        self.refused(self.written(lambda text: text.replace("\tvision\t", "\tvision\tmore\t", 1)), "fields", "line")
        self.db.write_dump("dump.sql")
        counts = ImportDump.counts(self.cluster.rows("import", "determined", "dump.sql"))
        self.assertEqual(counts["metrics of trials"]["changed"] + counts["metrics of trials"]["new"], 3)
        self.assertEqual(len(self.cluster.rows("trial", "metrics", 400, "--group", "training")), STEPS)


class Summary(unittest.TestCase):
    def test_text(self):
        db = make_database(pathlib.Path("nowhere").resolve())
        for id in range(20, 31):
            db.add("users", id=id, username=f"person{id}", admin=False, active=True, modified_at=TIME)
        row = next(row for row in db.rows["experiments"] if row[columns_of("experiments").index("id")] == 12)
        row[columns_of("experiments").index("config")]["searcher"]["name"] = "x" + "\u00e4" * 40
        db.write_dump("dump.sql")
        with Cluster("summary", slots=()) as cluster:
            cluster.muster("login", "admin", "--password-file", cluster.folder / "password")
            text = cluster.muster("import", "determined", "dump.sql")
            shown = ", ".join(["bob", *(f"person{id}" for id in range(20, 29))])
            for line in ("Experiments and trials keep their ids.", f"{STEPS * 3 + 7 * 3 + 1} metric reports were imported.",
                         "1 experiment had not ended", f"12 users have no password here: {shown} and 2 more",
                         "muster user change-password NAME", "skipped experiment 42: it is being deleted"):
                self.assertIn(line, text)
            self.assertRegex(text, "configuration of experiment 12: .*x\u00e4\u00e4", "a limit cuts the name in a character")
            for word in ("sent", "model_version"):
                self.assertNotIn(word, text)
            self.assertNotIn("no password", cluster.muster("import", "determined", "dump.sql"))


class ManyWords(unittest.TestCase):
    """Reports with words are sent one by one, and no call has more of them than the master takes."""

    def test_words(self):
        db, count = make_database(pathlib.Path("nowhere").resolve()), 2100
        for step in range(1, count + 1):
            db.add("generic_metrics", trial_id=120, end_time=TIME, metrics={"avg_metrics": {"word": f"w{step}"}},
                   total_batches=step, trial_run_id=3, archived=False, id=10 + step, metric_group="words",
                   partition_type="GENERIC")
        db.write_dump("dump.sql")
        with Cluster("words", slots=()) as cluster:
            cluster.muster("login", "admin", "--password-file", cluster.folder / "password")
            cluster.muster("import", "determined", "dump.sql")
            rows = cluster.rows("trial", "metrics", 120, "--group", "words")
            self.assertEqual([row["metrics"]["word"] for row in rows], [f"w{step}" for step in range(1, count + 1)])
            for path, key in (("records", "records"), ("metrics", "posts")):
                body = pathlib.Path(f"{key}.json")
                body.write_text(json.dumps({key: [{"kind": "user"}] * 1001}))
                done = cluster.run("api", "POST", f"/api/v1/imports/1/{path}", "--body", f"@{body}")
                self.assertIn(f"{key}: not a list of up to", done.stderr)


class SecondCluster(unittest.TestCase):
    """A master that has experiments gives new ids, and names the old ones."""

    def test_new_ids(self):
        db = make_database(pathlib.Path("nowhere").resolve())
        db.write_dump("dump.sql")
        with Cluster("second", slots=()) as cluster:
            cluster.muster("login", "admin", "--password-file", cluster.folder / "password")
            pathlib.Path("one.yaml").write_text("name: one\nentrypoint: 'true'\nsearcher: {name: single, metric: loss}\n")
            os.makedirs("empty", exist_ok=True)
            self.assertEqual(cluster.create("one.yaml", "empty", "--paused"), 1)
            text = cluster.muster("import", "determined", "dump.sql")
            self.assertIn("have new ids", text)
            self.assertIn("3 experiments got a new id; the notes of each name the old one", text)
            summary = cluster.rows("import", "determined", "dump.sql")
            self.assertFalse(summary["keepsIds"])
            self.assertEqual(summary["withoutPassword"], [], "they came with the first import")
            found = cluster.rows("experiment", "list", "--all")
            self.assertEqual(sorted(row["id"] for row in found), [1, 2, 3, 4])
            notes = [json.loads(cluster.muster("api", "get", f"experiments/{id}"))["experiment"]["notes"] for id in (2, 3, 4)]
            self.assertIn("it was experiment 40 of the Determined cluster det-cluster-1", notes[0])
            self.assertIn("it was experiment 40", cluster.muster("experiment", "describe", 2))
            again = ImportDump.counts(cluster.rows("import", "determined", "dump.sql"))
            self.assertEqual(again["experiment"]["new"], 0)


class LaterImport(unittest.TestCase):
    """A later dump has new experiments. They keep their ids until this master has given one."""

    def add(self, id):
        for table, key in (("experiments", "id"), ("trials_v2", "run_id"), ("runs", "id")):
            columns = columns_of(table)
            old = next(row for row in self.db.rows[table] if row[columns.index(key)] == (12 if table == "experiments" else 120))
            row = dict(zip(columns, old))
            row[key] = id if table == "experiments" else id * 10
            if table == "runs":
                row["experiment_id"] = id
            self.db.add(table, **row)
        self.db.write_dump("later.sql")
        return self.cluster.rows("import", "determined", "later.sql")

    def notes(self, id):
        return json.loads(self.cluster.muster("api", "get", f"experiments/{id}"))["experiment"]["notes"]

    def test_ids(self):
        self.db = make_database(pathlib.Path("nowhere").resolve())
        self.db.write_dump("dump.sql")
        self.cluster = self.enterContext(Cluster("later", slots=()))
        self.cluster.muster("login", "admin", "--password-file", self.cluster.folder / "password")
        self.cluster.rows("import", "determined", "dump.sql")
        self.add(60)
        self.assertNotIn("it was experiment", self.notes(60))
        pathlib.Path("one.yaml").write_text("name: one\nentrypoint: 'true'\nsearcher: {name: single, metric: loss}\n")
        os.makedirs("empty", exist_ok=True)
        self.assertEqual(self.cluster.create("one.yaml", "empty", "--paused"), 61)
        summary = self.add(61)
        self.assertIn("it was experiment 61 of the Determined cluster", self.notes(62))
        self.assertTrue([note for note in summary["notes"] if "got a new id" in json.dumps(note)], summary)

    def test_own_cluster(self):
        with Cluster("own", slots=()) as cluster:
            cluster.muster("login", "admin", "--password-file", cluster.folder / "password")
            done = cluster.run("import", "determined", f"http://127.0.0.1:{cluster.port}", "--user", "admin",
                               "--password-file", cluster.folder / "password")
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertIn("this master's own cluster", done.stderr)


class OtherSearch(unittest.TestCase):
    """Experiments of which this master can make less than of its own."""

    def setUp(self):
        self.db = make_database(pathlib.Path("nowhere").resolve())
        self.cluster = self.enterContext(Cluster(self.id(), slots=()))
        self.cluster.muster("login", "admin", "--password-file", self.cluster.folder / "password")

    def configure(self, key, **values):
        for row in self.db.rows["experiments"]:
            row[columns_of("experiments").index("config")][key].update(values)
        self.db.write_dump("dump.sql")
        return ImportDump.counts(self.cluster.rows("import", "determined", "dump.sql"))

    def test_search(self):
        """The other cluster has numbered the trials of a search, so it can be forked, but not go on."""
        self.configure("searcher", name="random", max_trials=3)
        done = self.cluster.run("experiment", "continue", 12)
        self.assertIn("fork the experiment", done.stderr)
        self.assertEqual(self.cluster.rows("experiment", "describe", 12)["state"], "ERROR")

    def test_slots(self):
        """What the store could not hold is skipped, and does not end the master."""
        skipped = self.configure("resources", slots_per_trial="many")
        self.assertEqual((skipped["experiment"]["new"], skipped["experiment"]["skipped"]), (0, 4))
        self.assertEqual(self.cluster.rows("experiment", "list", "--all"), [])


class Interrupted(unittest.TestCase):
    """Imports are killed, and so is the master; the next import completes what is missing."""

    def test_kills(self):
        db = make_database(pathlib.Path("nowhere").resolve())
        more = 20000
        for step in range(STEPS + 1, more + 1):
            for id in (40, 12):
                db.add("raw_steps", trial_id=id * 10, end_time=TIME, total_batches=step, trial_run_id=3, archived=False,
                       id=id * 100000 + step, metrics={"avg_metrics": {"loss": step / 8}})
        db.write_dump("long.sql")
        with Cluster("interrupted", slots=()) as cluster:
            cluster.muster("login", "admin", "--password-file", cluster.folder / "password")
            for delay in (0.02, 0.1, 0.3, 0.5):
                importing = subprocess.Popen([BIN / "muster", "import", "determined", "long.sql"], env=cluster.env,
                                             stdout=subprocess.DEVNULL)
                time.sleep(delay)
                importing.kill()
                importing.wait()
            importing = subprocess.Popen([BIN / "muster", "import", "determined", "long.sql"], env=cluster.env,
                                         stdout=subprocess.DEVNULL)
            time.sleep(0.2)
            cluster.master.kill9()
            cluster.start_master()
            self.assertEqual(importing.wait(120), 0, "the import waits for the master")
            self.assertEqual(sorted(row["id"] for row in cluster.rows("experiment", "list", "--all")), [12, 40, 41])
            for trial, steps in ((400, more), (120, more), (410, STEPS)):
                rows = cluster.rows("trial", "metrics", trial, "--group", "training")
                self.assertEqual([row["steps"] for row in rows], list(range(1, steps + 1)), trial)
            again = ImportDump.counts(cluster.rows("import", "determined", "long.sql"))
            self.assertEqual([row["new"] + row["changed"] for kind, row in again.items() if kind != "+"], [0] * 9)


@unittest.skipUnless(POSTGRES and os.geteuid() == 0, "needs PostgreSQL's server and root, to start it as its own user")
class PostgresDump(unittest.TestCase):
    """A real server loads our schema and rows, and the real pg_dump writes the dump."""

    def setUp(self):
        self.bin = POSTGRES[-1].parent
        self.user = pwd.getpwnam("postgres")
        self.folder = pathlib.Path("postgres").resolve()
        self.folder.mkdir()
        os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        for parent in (self.folder, *self.folder.parents):
            if parent.stat().st_uid == 0 and parent != pathlib.Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
        self.run_as("initdb", "-D", self.folder / "data", "-A", "trust", "-N")
        self.run_as("pg_ctl", "-D", self.folder / "data", "-w", "-o", f"-k {self.folder} -c listen_addresses='' -F",
                    "-l", self.folder / "log", "start")
        self.addCleanup(lambda: self.run_as("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop"))

    def run_as(self, program, *arguments, **options):
        return subprocess.run([self.bin / program, *map(str, arguments)], check=True, user=self.user.pw_uid,
                              group=self.user.pw_gid, cwd=self.folder, capture_output=True,
                              env={"PATH": os.environ["PATH"], "TZ": "Asia/Kolkata", "LC_ALL": "C.UTF-8"}, **options)

    def test_import(self):
        storage = pathlib.Path("det-storage").resolve()
        place_files(storage)
        make_database(storage).write_dump("own.sql")
        self.run_as("psql", "-h", self.folder, "-v", "ON_ERROR_STOP=1", "-q", "postgres",
                    input=pathlib.Path("own.sql").read_bytes())
        dump = self.run_as("pg_dump", "-h", self.folder, "postgres").stdout
        pathlib.Path("dump.sql").write_bytes(dump)
        inserts = self.run_as("pg_dump", "--inserts", "-h", self.folder, "postgres").stdout
        pathlib.Path("inserts.sql").write_bytes(inserts)
        pathlib.Path("custom.dump").write_bytes(self.run_as("pg_dump", "-Fc", "-h", self.folder, "postgres").stdout)
        with Cluster("real", slots=()) as cluster:
            cluster.muster("login", "admin", "--password-file", cluster.folder / "password")
            for other, word in (("inserts.sql", "--inserts"), ("custom.dump", "pg_restore")):
                self.assertIn(word, cluster.run("import", "determined", other).stderr)
            counts = ImportDump.counts(cluster.rows("import", "determined", "dump.sql"))
            self.assertEqual((counts["experiment"]["new"], counts["metrics of trials"]["new"]), (3, 3))
            x = json.loads(cluster.muster("api", "get", "experiments/40"))["experiment"]
            self.assertEqual((x["startTime"], x["notes"]), ("2025-02-03T04:05:06.789000Z", "tab\there, \\N and\nnewline"))
            checkpoint = json.loads(cluster.muster("api", "get", f"checkpoints/{UUIDS[0]}"))["checkpoint"]
            self.assertEqual(checkpoint["reportTime"], "2025-02-03T04:05:06.789000Z")
            training = cluster.rows("trial", "metrics", 400, "--group", "training")
            self.assertEqual([row["metrics"]["loss"] for row in training], [step / 8 for step in range(1, STEPS + 1)])


class FakeDetermined(http.server.BaseHTTPRequestHandler):
    """The calls of Determined's API that an import makes, with two experiments, of which one runs."""

    calls = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        good = (body["username"], body["password"], body["isHashed"]) == ("admin", sent_password(SECRET), True)
        self.answer({"token": "T"} if good else {"message": "invalid credentials"}, 200 if good else 403)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        FakeDetermined.calls.append(url.path)
        if url.path != "/api/v1/master" and self.headers["Authorization"] != "Bearer T":
            return self.answer({"message": "no token"}, 401)
        if url.path == "/api/v1/trials/metrics/trial_metrics":
            return self.stream(query)
        found = self.objects().get(url.path)
        if isinstance(found, tuple):  # a list: one element a page
            key, rows = found
            at = int(query.get("offset", 0))
            found = {key: rows[at:at + 1], "pagination": {"total": len(rows), "offset": at, "limit": 1}}
        self.answer(found or {"message": "not found"}, 200 if found else 404)

    def objects(self):
        trial = {"id": 31, "experimentId": 9, "state": "STATE_COMPLETED", "hparams": {"lr": 1}, "restarts": 1,
                 "taskIds": ["9.abc"], "startTime": "2025-02-03T04:05:06Z", "endTime": "2025-02-03T05:05:06Z",
                 "totalBatchesProcessed": 3, "summaryMetrics": {"avg_metrics": {"loss": summary_of([1, 2, 3])}},
                 "bestValidation": {"metrics": {"avgMetrics": {"loss": 1}}, "totalBatches": 3, "endTime": "2025-02-03T05:05:06Z"}}
        experiment = {"id": 9, "name": "remote", "state": "STATE_COMPLETED", "config": config_of("remote", "/nowhere"),
                      "originalConfig": "name: remote\n", "startTime": "2025-02-03T04:05:06Z", "userId": 4,
                      "endTime": "2025-02-03T05:05:06Z", "projectId": 1, "archived": False, "notes": "n", "progress": 1.0}
        running = experiment | {"id": 10, "state": "STATE_ACTIVE", "endTime": None}
        running_trial = {"id": 32, "experimentId": 10, "state": "STATE_ACTIVE", "hparams": {}, "startTime": "2025-02-03T04:05:06Z",
                         "taskIds": ["10.abc"], "latestTraining": {"metrics": {"avgMetrics": {"loss": 1}}, "totalBatches": 1,
                                                                   "endTime": "2025-02-03T04:20:06Z"}}
        checkpoint = {"uuid": UUIDS[2], "taskId": "9.abc", "state": "STATE_COMPLETED", "reportTime": "2025-02-03T05:00:00Z",
                      "resources": {"a": "12"}, "metadata": {"steps_completed": 3}, "training": {"trialId": 31}}
        return {
            "/api/v1/master": {"version": "0.38.1", "clusterId": "remote-cluster"},
            "/api/v1/users": ("users", [{"id": 1, "username": "admin", "admin": True, "active": True},
                                        {"id": 4, "username": "eve", "admin": False, "active": True}]),
            "/api/v1/workspaces": ("workspaces", [{"id": 1, "name": "Uncategorized", "userId": 1, "archived": False}]),
            "/api/v1/workspaces/1/projects": ("projects", [{"id": 1, "name": "Uncategorized", "userId": 1, "workspaceId": 1}]),
            "/api/v1/experiments": ("experiments", [experiment, running]),
            "/api/v1/experiments/9": {"experiment": experiment, "config": experiment["config"]},
            "/api/v1/experiments/9/model_def": {"b64Tgz": base64.b64encode(code_archive()).decode()},
            "/api/v1/experiments/9/trials": ("trials", [trial]),
            "/api/v1/experiments/10": {"experiment": running, "config": experiment["config"]},
            "/api/v1/experiments/10/model_def": {"b64Tgz": ""},
            "/api/v1/experiments/10/trials": ("trials", [running_trial]),
            "/api/v1/experiments/10/checkpoints": ("checkpoints", []),
            "/api/v1/runs/32/metadata": {"metadata": {}},
            "/api/v1/experiments/9/checkpoints": ("checkpoints", [checkpoint]),
            "/api/v1/runs/31/metadata": {"metadata": {"k": "v"}},
            "/api/v1/models": ("models", [{"id": 2, "name": "far", "userId": 4, "workspaceId": 1, "labels": ["x"],
                                           "creationTime": "2025-02-03T05:00:00Z", "metadata": {}}]),
            "/api/v1/models/far/versions": ("modelVersions", [{"version": 1, "model": {"id": 2}, "userId": 4,
                                                               "checkpoint": {"uuid": UUIDS[2]}, "name": "v1"}]),
        }

    def stream(self, query):
        self.send_response(200)
        self.end_headers()
        for step in (1, 2, 3):
            report = {"trialId": 31, "endTime": "2025-02-03T04:30:00Z", "totalBatches": step, "group": query["group"],
                      "archived": False, "metrics": {"avg_metrics": {"loss": step}}}
            self.wfile.write(json.dumps({"result": {"metrics": [report]}}).encode() + b"\n")

    def answer(self, value, status):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class ImportRemote(unittest.TestCase):
    def test_import(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeDetermined)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        pathlib.Path("secret").write_text(SECRET + "\n")
        pathlib.Path("wrong").write_text("something else\n")
        with Cluster("remote", slots=()) as cluster:
            cluster.muster("login", "admin", "--password-file", cluster.folder / "password")
            refused = cluster.run("import", "determined", url, "--password-file", "wrong")
            self.assertIn("signing in to Determined as admin", refused.stderr)
            counts = ImportDump.counts(cluster.rows("import", "determined", url, "--password-file", "secret"))
            self.assertEqual({kind: row["new"] for kind, row in counts.items() if kind != "+"},
                             {"user": 1, "workspace": 0, "project": 0, "experiment": 2, "trial": 2, "checkpoint": 1,
                              "model": 1, "model_version": 1, "metrics of trials": 1})
            trial = json.loads(cluster.muster("api", "get", "trials/31"))["trial"]
            self.assertEqual((trial["experimentId"], trial["bestValidation"]["metrics"]["avgMetrics"]), (9, {"loss": 1}))
            rows = cluster.rows("trial", "metrics", 31)
            self.assertEqual([row["metrics"]["loss"] for row in rows], [1, 2, 3])
            for path, key in (("experiments/10", "experiment"), ("trials/32", "trial")):
                running = json.loads(cluster.muster("api", "get", path))[key]
                self.assertEqual((running["state"], running["endTime"]),
                                 ("STATE_CANCELED", "2025-02-03T04:20:06.000000Z"), "its newest known activity")
            FakeDetermined.calls.clear()
            again = ImportDump.counts(cluster.rows("import", "determined", url, "--password-file", "secret"))
            self.assertEqual([row["new"] + row["changed"] for kind, row in again.items() if kind != "+"], [0] * 9)
            self.assertNotIn("/api/v1/trials/metrics/trial_metrics", FakeDetermined.calls)
            self.assertEqual(cluster.muster("experiment", "files", 9, "train.py"), "print('from there')\n")
        server.shutdown()


if __name__ == "__main__":
    unittest.main(verbosity=2)
