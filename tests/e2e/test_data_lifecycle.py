"""The lifecycle of data: garbage collection and deletion of checkpoints, backups, export and import
of experiments."""

import hashlib
import io
import json
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tarfile
import urllib.request
import unittest
import zipfile

import trainings
from cluster import BIN, Cluster, wait_for

LARGE = 16 << 20  # bytes of an item of media; four of them fit into a call
SLOW = 3000  # steps of a training that is observed while it runs


class DataLifecycle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = pathlib.Path("data")
        cls.data.mkdir()
        trainings.write_images(cls.data)
        cls.cluster = Cluster("cluster", slots=(2,)).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def submit(self, steps=60, every=10, more="", *flags):
        path = pathlib.Path("config.yaml")
        path.write_text(trainings.config("mlp", 2, steps=steps, every=every) + more)
        return self.cluster.create(path, self.data, *flags)

    def checkpoints(self, experiment):
        rows = self.cluster.rows("checkpoint", "list", "--experiment", experiment)
        return {row["steps"]: row for row in rows}

    def states(self, experiment):
        return {steps: row["state"] for steps, row in self.checkpoints(experiment).items()}

    def folders(self):
        return {p.name for p in (self.cluster.folder / "master" / "checkpoints").iterdir()}

    def refused(self, code, words, *arguments):
        done = self.cluster.run(*arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(words, done.stderr)

    def call(self, path, accept=None):
        token = json.loads((self.cluster.folder / "config/muster/credentials.json").read_text())
        request = urllib.request.Request(self.cluster.url + path)
        request.add_header("Authorization", "Bearer " + token["tokens"][self.cluster.url])
        if accept:
            request.add_header("Accept", accept)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read()

    def api(self, path):
        return json.loads(self.call("/api/v1" + path)[1])

    def test_end_of_an_experiment_collects_checkpoints(self):
        experiment = self.submit()
        self.cluster.wait(experiment)
        wait_for("the policy", lambda: "DELETED" in self.states(experiment).values())
        kept = {s: r for s, r in self.checkpoints(experiment).items() if r["state"] == "COMPLETED"}
        self.assertIn(60, kept)  # the latest checkpoint
        self.assertLessEqual(len(kept), 2)
        wait_for("the files", lambda: all(
            (row["uuid"] in self.folders()) == (row["state"] == "COMPLETED")
            for row in self.checkpoints(experiment).values()))
        for row in kept.values():  # the kept checkpoints are complete
            self.cluster.muster("checkpoint", "digest", row["uuid"])

    def test_collection_during_training(self):
        experiment = self.submit(SLOW, 20, "", "--config", "checkpoint_storage.save_trial_best=0",
                                 "--config", "max_restarts=3")
        wait_for("some checkpoints", lambda: len(self.states(experiment)) > 4)
        as_det = json.loads(self.call(f"/experiments/{experiment}/preview_gc?save_experiment_best=0"
                                      "&save_trial_best=0&save_trial_latest=1")[1])
        self.assertEqual(as_det["metric_name"], "validation_loss")
        for row in as_det["checkpoints"]:
            self.assertLessEqual({"UUID", "TrialID", "StepsCompleted", "State", "ValidationMetrics", "Resources",
                                  "ReportTime", "step"}, row.keys())
        preview = self.cluster.rows("checkpoint", "gc", experiment, "--dry-run")
        self.assertGreater(len(preview), 0)
        self.assertNotIn("DELETED", self.states(experiment).values())
        for _ in range(5):
            self.cluster.muster("checkpoint", "gc", experiment, "--yes", "--save-trial-latest", 0)
            newest = max(s for s, state in self.states(experiment).items() if state == "COMPLETED")
            self.assertIn(self.checkpoints(experiment)[newest]["uuid"], self.folders())
        wait_for("older checkpoints to be deleted", lambda: "DELETED" in self.states(experiment).values())
        for pid in self.cluster.ranks():
            subprocess.run(["kill", "-9", str(pid)], check=False)
        trial = self.cluster.trial(experiment)["id"]
        wait_for("the trial to continue", lambda: self.cluster.rows("trial", "describe", trial)["restarts"] >= 1)
        before = max(self.states(experiment))
        wait_for("new checkpoints", lambda: max(self.states(experiment)) > before)
        self.cluster.muster("experiment", "kill", experiment, "--wait")

    def test_deletion_of_a_checkpoint_that_a_fork_needs(self):
        parent = self.submit(40, 10, "", "--config", "checkpoint_storage.save_trial_latest=2")
        self.cluster.wait(parent)
        rows = wait_for("the policy", lambda: [r for r in self.checkpoints(parent).values()
                                               if r["state"] == "COMPLETED"])
        source = max(rows, key=lambda row: row["steps"])
        fork = self.submit(SLOW, 500, "", "--config", f"searcher.source_checkpoint_uuid={source['uuid']}")
        self.refused(5, f"experiment {fork} starts from it", "checkpoint", "delete", source["uuid"], "--yes")
        self.refused(5, f"experiment {fork} starts from it", "checkpoint", "rm", source["uuid"], "--files",
                     "**", "--yes")
        self.cluster.muster("checkpoint", "gc", parent, "--yes", "--save-trial-latest", 0, "--save-trial-best", 0)
        wait_for("the policy", lambda: sum(s == "COMPLETED" for s in self.states(parent).values()) == 1)
        self.assertIn(source["uuid"], self.folders())
        self.cluster.muster("experiment", "kill", fork, "--wait")
        self.cluster.muster("experiment", "delete", fork, "--yes")
        self.cluster.muster("checkpoint", "delete", source["uuid"], "--yes")
        wait_for("its files to be deleted", lambda: source["uuid"] not in self.folders())
        self.cluster.muster("checkpoint", "delete", source["uuid"], "--yes")  # a repeated call

    def test_partial_deletion_and_downloads(self):
        experiment = self.submit(10, 10)
        self.cluster.wait(experiment)
        uuid = self.checkpoints(experiment)[10]["uuid"]
        names = set(self.cluster.rows("checkpoint", "describe", uuid)["files"])
        self.assertIn("manifest.json", names)
        kind, data = self.call(f"/checkpoints/{uuid}", "application/x-tar")
        self.assertEqual(kind, "application/x-tar")
        self.assertEqual(set(tarfile.open(fileobj=io.BytesIO(data), mode="r:").getnames()), names)
        kind, data = self.call(f"/checkpoints/{uuid}", "application/zip, application/gzip")
        self.assertEqual(kind, "application/zip")
        self.assertEqual(set(zipfile.ZipFile(io.BytesIO(data)).namelist()), names)
        self.assertIsNone(zipfile.ZipFile(io.BytesIO(data)).testzip())
        kind, data = self.call(f"/checkpoints/{uuid}", "application/gzip")
        self.assertEqual(set(tarfile.open(fileobj=io.BytesIO(data), mode="r:gz").getnames()), names)
        self.cluster.muster("checkpoint", "rm", uuid, "--files", "optimizer*", "--yes")
        wait_for("the files to be deleted", lambda: not any(
            name.startswith("optimizer") for name in self.cluster.rows("checkpoint", "describe", uuid)["files"]))
        left = set(self.cluster.rows("checkpoint", "describe", uuid)["files"])
        self.assertEqual(left, {name for name in names if not name.startswith("optimizer")})
        self.assertEqual(self.states(experiment)[10], "PARTIALLY_DELETED")
        self.refused(2, "no files within", "checkpoint", "rm", uuid, "--files", "../*", "--yes")

    def report_media(self, experiment):
        """Reports the same text at two steps, large ones, and one whose content is removed; returns the items that
        are left."""
        trial, cluster = self.cluster.trial(experiment)["id"], self.api("/master")["clusterId"]
        folder = self.cluster.folder / "master" / "checkpoints" / "media" / cluster / str(experiment)
        folder.mkdir(parents=True)
        items = []
        large = [(20 + i, str(i).encode() * LARGE) for i in range(1, 6)]
        for step, content in ((10, b"of a test"), (20, b"of a test"), *large, (30, b"gone")):
            digest = hashlib.sha256(content).hexdigest()
            (folder / digest).write_bytes(content)
            items.append({"step": step, "name": "words", "type": "text", "digest": digest, "size": len(content)})
        self.cluster.muster("api", "POST", f"trials/{trial}/media", "--body", json.dumps({"items": items}))
        (folder / items[-1]["digest"]).unlink()
        return [item for item in self.api(f"/trials/{trial}/media")["media"] if item["step"] < 30]

    def test_export_and_import_of_an_experiment(self):
        experiment = self.submit(30, 10)
        self.cluster.wait(experiment)
        wait_for("the policy", lambda: "DELETED" in self.states(experiment).values())
        media = self.report_media(experiment)
        out = pathlib.Path("experiment.tar").resolve()
        self.cluster.muster("experiment", "export", experiment, out, "--checkpoints")
        self.refused(5, "exists already", "experiment", "export", experiment, out)
        with tarfile.open(out) as tar:
            names = set(tar.getnames())
            trial = self.cluster.trial(experiment)["id"]
            self.assertEqual({name for name in names if name.startswith("media/")},
                             {f"media/{item['digest']}" for item in media})
            for name in ("manifest.json", "config.yaml", "config.json", "experiment.json", "trials.jsonl",
                         "checkpoints.jsonl", f"trials/{trial}/metrics.jsonl", f"trials/{trial}/training.csv",
                         f"trials/{trial}/validation.csv", f"trials/{trial}/logs.jsonl",
                         "model_definition/images.idx"):
                self.assertIn(name, names)
            table = tar.extractfile(f"trials/{trial}/training.csv").read().decode().splitlines()
            self.assertTrue(table[0].startswith("steps,time,run,"))
            self.assertGreaterEqual(len(table), 30)
        new = self.cluster.rows("experiment", "import", out)["id"]
        self.assertNotEqual(new, experiment)
        copied = self.api(f"/trials/{self.cluster.trial(new)['id']}/media")["media"]
        self.assertEqual([{**item, "trialRunId": 1} for item in copied], [{**item, "trialRunId": 1} for item in media])
        self.cluster.muster("trial", "media", self.cluster.trial(new)["id"], "--to", "copied")
        self.assertEqual(pathlib.Path("copied/words/10.txt").read_bytes(), b"of a test")
        there, here = (self.cluster.rows("experiment", "describe", id) for id in (experiment, new))
        for key in ("name", "state", "started", "ended"):
            self.assertEqual(there[key], here[key], key)
        self.assertEqual(self.api(f"/experiments/{new}")["experiment"]["progress"], 1)
        there, here = (self.api(f"/experiments/{id}/trials")["trials"] for id in (experiment, new))
        for key in ("progress", "restarts", "seed", "hparams"):
            self.assertEqual([trial[key] for trial in there], [trial[key] for trial in here], key)
        # The import stored all reports as columns, as the audit trail shows.
        with sqlite3.connect(f"file:{self.cluster.folder}/master/muster.db?mode=ro", uri=True) as store:
            told = [path.split("/metrics")[1] for path, in store.execute(
                "SELECT path FROM audit WHERE path LIKE ?", (f"/api/v1/trials/{here[0]['id']}/metrics%",))]
            posts = store.execute("SELECT count(*) FROM audit WHERE method = 'POST' AND path = ?",
                                  (f"/api/v1/trials/{here[0]['id']}/media",)).fetchone()
        self.assertEqual(posts, (2,))
        self.assertEqual(set(told), {"/columns"})
        for group in ("training", "validation"):
            rows = [self.cluster.rows("experiment", "metrics", id, "--group", group) for id in (experiment, new)]
            self.assertEqual(rows[0], rows[1])
            self.assertGreater(len(rows[0]), 0)
        logs = [[json.loads(line)["log"] for line in
                 self.cluster.muster("experiment", "logs", id, "-o", "jsonl").splitlines()]
                for id in (experiment, new)]
        self.assertEqual(logs[0], logs[1])
        old_kept, new_kept = ({s for s, state in self.states(id).items() if state == "COMPLETED"}
                              for id in (experiment, new))
        self.assertEqual(old_kept, new_kept)
        self.assertEqual(self.cluster.digest(experiment), self.cluster.digest(new))

    def test_hostile_and_broken_files_leave_nothing_behind(self):
        listed = len(self.cluster.rows("experiment", "list", "--all"))

        def archive(name, *entries):
            with tarfile.open(name, "w") as tar:
                for path, data, kind in entries:
                    info = tarfile.TarInfo(path)
                    info.size, info.type = len(data), kind
                    info.linkname = "/etc/passwd" if kind != tarfile.REGTYPE else ""
                    tar.addfile(info, io.BytesIO(data))
            return pathlib.Path(name).resolve()

        manifest = ("manifest.json", b'{"format":"muster-experiment","version":1}', tarfile.REGTYPE)
        self.refused(2, "is outside its folder", "experiment", "import",
                     archive("up.tar", ("../evil", b"x", tarfile.REGTYPE)))
        self.refused(2, "a link or special file", "experiment", "import",
                     archive("link.tar", ("trials.jsonl", b"", tarfile.SYMTYPE)))
        self.refused(2, "not an export", "experiment", "import",
                     archive("other.tar", ("hello", b"x", tarfile.REGTYPE)))
        self.refused(9, "version 7", "experiment", "import", archive(
            "newer.tar", ("manifest.json", b'{"format":"muster-experiment","version":7}', tarfile.REGTYPE)))
        config = ("config.yaml", trainings.config("mlp", 2).encode(), tarfile.REGTYPE)
        done = self.cluster.run("experiment", "import", archive(
            "half.tar", manifest, config, ("experiment.json", b"{}", tarfile.REGTYPE),
            ("trials.jsonl", b'{"id": 1, "hparams": {}}\n', tarfile.REGTYPE),
            ("trials/1/metrics.jsonl", b'{"group": "training", "steps": 1, "time": "soon", "metrics": {"a": 1}}\n',
             tarfile.REGTYPE)))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("trials.jsonl:1", done.stderr)
        wait_for("the partial import to be deleted",
                 lambda: len(self.cluster.rows("experiment", "list", "--all")) == listed)
        self.assertFalse(pathlib.Path("evil").exists())


class Backup(unittest.TestCase):
    def sign_in_as_admin(self, cluster):
        cluster.muster("login", "admin", "--password-file", cluster.folder / "password")

    def test_backup_under_load_can_be_restored(self):
        data = pathlib.Path("backup-data")
        data.mkdir()
        trainings.write_images(data)
        with Cluster("backup", slots=(2,)) as cluster:
            self.sign_in_as_admin(cluster)
            pathlib.Path("first.yaml").write_text(trainings.config("mlp", 2, steps=30, every=10))
            first = cluster.create(pathlib.Path("first.yaml"), data)
            cluster.wait(first)
            pathlib.Path("long.yaml").write_text(trainings.config("mlp", 2, steps=SLOW, every=20))
            running = cluster.create(pathlib.Path("long.yaml"), data)
            cluster.wait_for_checkpoint(running)

            online, local = (pathlib.Path(name).resolve() for name in ("online.db", "local.db"))
            report = cluster.rows("master", "backup", online)
            self.assertEqual(report["experiments"], 2)
            done = cluster.run("master", "backup", online)
            self.assertEqual(done.returncode, 5, done.stderr)
            cluster.muster("master", "backup", local, "--data-dir", cluster.folder / "master")
            with sqlite3.connect(online) as copy:
                self.assertEqual(copy.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            self.assertEqual(online.stat().st_mode & 0o777, 0o600)
            metrics = cluster.rows("experiment", "metrics", first)

            done = cluster.run("master", "restore", online, "--data-dir", cluster.folder / "master")
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("in use by another master", done.stderr)
            after = cluster.create(pathlib.Path("first.yaml"), data)  # is not in the backup
            cluster.master.process.send_signal(signal.SIGKILL)
            cluster.master.process.wait()
            text = cluster.muster("master", "restore", online, "--data-dir", cluster.folder / "master")
            kept = list((cluster.folder / "master").glob("muster.db.replaced-*"))
            self.assertIn(str(kept[0]), text)
            with sqlite3.connect(kept[0]) as old:
                self.assertEqual(old.execute("SELECT count(*) FROM experiments").fetchone(), (3,))
            cluster.start_master()
            ids = {row["id"] for row in cluster.rows("experiment", "list")}
            self.assertEqual(ids, {first, running})
            self.assertEqual(cluster.rows("experiment", "metrics", first), metrics)
            again = cluster.create(pathlib.Path("first.yaml"), data)
            self.assertGreater(again, after)
            steps = cluster.trial(running)["steps"]
            wait_for("the training to continue", lambda: cluster.trial(running)["steps"] > steps)
            cluster.muster("experiment", "kill", running, "--wait")
            cluster.wait(again)

    def test_damaged_and_newer_backups_are_refused(self):
        with Cluster("refusals", slots=()) as cluster:
            self.sign_in_as_admin(cluster)
            path = pathlib.Path("good.db").resolve()
            cluster.muster("master", "backup", path)
            cluster.muster("login", "determined", "--password-file", cluster.folder / "password")
            done = cluster.run("master", "backup", "mine.db")
            self.assertEqual(done.returncode, 4, done.stderr)  # administrators only
            newer = pathlib.Path("newer.db")
            shutil.copy(path, newer)
            with sqlite3.connect(newer) as db:
                db.execute("PRAGMA user_version = 99")
            done = cluster.run("master", "restore", newer, "--data-dir", "elsewhere")
            self.assertEqual(done.returncode, 9, done.stderr)
            damaged = pathlib.Path("damaged.db")
            damaged.write_bytes(path.read_bytes()[:-9000])
            done = cluster.run("master", "restore", damaged, "--data-dir", "elsewhere")
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertFalse(pathlib.Path("elsewhere/muster.db").exists())
            cluster.muster("master", "restore", path, "--data-dir", "elsewhere")
            self.assertTrue(pathlib.Path("elsewhere/muster.db").exists())

    def test_automatic_backups(self):
        with Cluster("own", slots=(), master_flags=("--backup-every", "1", "--backup-keep", "2")) as cluster:
            folder = cluster.folder / "master" / "backups"
            made = wait_for("a backup", lambda: folder.exists() and list(folder.glob("muster-*.db")))
            with sqlite3.connect(made[0]) as copy:
                self.assertEqual(copy.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        done = subprocess.run([str(BIN / "muster-master"), "--backup-keep", "0"], text=True, capture_output=True)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
