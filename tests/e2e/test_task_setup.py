"""The surroundings of a user program, with a real master and agent: its startup hook, its storage
of type shared_fs, bind mounts, and the token of its user."""

import base64
import io
import json
import pathlib
import shutil
import tarfile
import unittest
import uuid

from cluster import BIN, PASSWORD, Cluster, wait_for
from test_api import Api

TERMINAL = ("STATE_COMPLETED", "STATE_ERROR", "STATE_CANCELED")
CONFIG = """\
name: surroundings
entrypoint: sh -c '{line}'
resources: {{slots_per_trial: 1}}
searcher: {{name: single, metric: loss}}
max_restarts: 0
{more}
"""


def file(path, text, mode=420):
    return {"path": path, "type": 48, "content": base64.b64encode(text.encode()).decode(), "mode": mode,
            "mtime": "1700000000", "uid": 0, "gid": 0}


class TaskTest(unittest.TestCase):
    """A cluster with one agent, and experiments that run one shell line."""
    master_flags = ()

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster-" + cls.__name__, slots=(2,), master_flags=cls.master_flags)
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.admin, cls.user = cls.login("admin"), cls.login("determined")

    @classmethod
    def login(cls, name, password=PASSWORD):
        token = Api(cls.cluster.port).ok("POST", "/auth/login", {"username": name, "password": password})["token"]
        return Api(cls.cluster.port, token)

    def submit(self, line, more="", files=(), user=None):
        return (user or self.user).ok("POST", "/experiments", {
            "config": CONFIG.format(line=line, more=more), "modelDefinition": list(files), "activate": True})

    def create(self, line, more="", files=(), user=None):
        return self.submit(line, more, files, user)["experiment"]["id"]

    def end(self, experiment, state="STATE_COMPLETED"):
        """Waits for the end of the experiment and returns its trial."""
        found = wait_for(f"experiment {experiment} to end", lambda: next(
            (state for state in [self.state(experiment)] if state in TERMINAL), None), 60)
        self.assertEqual(found, state, self.said(experiment))
        return self.user.ok("GET", f"/experiments/{experiment}/trials")["trials"][0]

    def state(self, experiment):
        return self.user.ok("GET", f"/experiments/{experiment}")["experiment"]["state"]

    def said(self, experiment):
        """The text of its log lines, in their order."""
        return self.log(self.user.ok("GET", f"/experiments/{experiment}/trials")["trials"][0]["taskIds"][0])

    def log(self, task):
        """The text of the log lines of a task that has ended, which may arrive after its end; the last one names its exit
        code."""
        read = lambda: [line["log"] for line in self.user.lines(f"/tasks/{task}/logs")]
        wait_for("the end of the log", lambda: any("exit code" in line for line in read()), 60)
        return read()


class UsersToken(TaskTest):
    def test_muster_works_inside_a_task(self):
        experiment = self.create("echo nothing")
        self.end(experiment)
        command = self.user.ok("POST", "/commands", {"config": {
            "entrypoint": [f"{BIN}/muster whoami; {BIN}/muster experiment list -o csv; echo $DET_USER_TOKEN"],
            "resources": {"slots": 0}}})["command"]["id"]
        wait_for("the command", lambda: self.user.ok("GET", f"/commands/{command}")["command"]["state"] == "STATE_TERMINATED", 60)
        said = self.log(command)
        self.assertIn(["username", "determined"], [line.split() for line in said])
        self.assertIn(["master", self.cluster.url], [line.split() for line in said])
        self.assertTrue([line for line in said if line.startswith(f"{experiment},")], said)
        token = next(line for line in said if len(line) == 64 and " " not in line)
        self.assertEqual(Api(self.cluster.port, token).call("GET", "/api/v1/me")[0], 401)

    def test_token_after_a_restart_of_the_master(self):
        experiment = self.create("while [ ! -e stop ]; do sleep 0.1; done; echo $DET_USER_TOKEN")
        wait_for("its start", lambda: self.state(experiment) == "STATE_RUNNING", 60)
        self.cluster.master.kill9()
        self.cluster.start_master()
        work = wait_for("its folder", lambda: next(iter(self.cluster.folder.glob("agent-0/tasks/*/work")), None), 30)
        token = json.loads((work.parent / "task.json").read_bytes().split(b"\n")[0])["env"]["DET_USER_TOKEN"]
        self.assertEqual(Api(self.cluster.port, token).get("/me")["user"]["username"], "determined")
        (work / "stop").touch()
        self.end(experiment)
        self.assertEqual(Api(self.cluster.port, token).call("GET", "/api/v1/me")[0], 401)


class StartupHook(TaskTest):
    def test_hook_prepares_the_program(self):
        hook = file("startup-hook.sh", "echo prepares >prepared\nexport PREPARED=\"$DET_TASK_TYPE here\"\necho hooked\n")
        experiment = self.create("cat prepared; echo $PREPARED", files=[hook])
        self.end(experiment)
        said = self.said(experiment)
        self.assertLess(said.index("hooked"), said.index("prepares"))
        self.assertIn("TRIAL here", said)
        command = self.user.ok("POST", "/commands", {
            "config": {"entrypoint": ["echo \"$PREPARED\"; cat prepared"], "resources": {"slots": 0}}, "files": [hook]})["command"]["id"]
        wait_for("the command", lambda: self.user.ok("GET", f"/commands/{command}")["command"]["state"] == "STATE_TERMINATED", 60)
        said = self.log(command)
        self.assertIn("COMMAND here", said)
        self.assertIn("prepares", said)

    def test_failing_hook_counts_as_a_failure(self):
        hook = file("startup-hook.sh", "echo no such package >&2\nfalse\necho goes on\n")
        experiment = self.create("echo program", files=[hook])
        trial = self.end(experiment, "STATE_ERROR")
        said = self.said(experiment)
        self.assertIn("startup-hook.sh: exit 1; the program does not start", said)
        self.assertNotIn("goes on", said)
        self.assertNotIn("program", said)
        described = self.cluster.run("trial", "describe", trial["id"]).stdout
        self.assertIn("startup-hook.sh: exit 1: no such package", described)

    def test_failing_hook_is_tried_again(self):
        hook = file("startup-hook.sh", "echo try $DET_TRIAL_RUN_ID\n[ $DET_TRIAL_RUN_ID = 2 ]\n")
        config = CONFIG.format(line="echo program", more="").replace("max_restarts: 0", "max_restarts: 2")
        experiment = self.user.ok("POST", "/experiments", {
            "config": config, "modelDefinition": [hook], "activate": True})["experiment"]["id"]
        trial = self.end(experiment)
        self.assertEqual(trial["restarts"], 1)
        self.assertEqual([line for line in self.said(experiment) if line.startswith(("try", "program"))],
                         ["try 1", "try 2", "program"])


SHARED_PROGRAM = """\
import json, os, pathlib, urllib.request

def post(path, body):
    request = urllib.request.Request(os.environ["DET_MASTER"] + "/api/v1" + path, json.dumps(body).encode(), method="POST")
    request.add_header("Authorization", "Bearer " + os.environ["DET_SESSION_TOKEN"])
    return urllib.request.urlopen(request).read()

storage = json.loads(os.environ["DET_EXPERIMENT_CONFIG"])["checkpoint_storage"]
folder = pathlib.Path("/determined_shared_fs") / (storage.get("storage_path") or "") / UUID
if os.environ.get("DET_LATEST_CHECKPOINT"):
    print("found", (folder / "state").read_text())
else:
    folder.mkdir(parents=True)
    (folder / "state").write_text("weights")
    post("/checkpoints", {"uuid": UUID, "taskId": os.environ["DET_TASK_ID"], "allocationId": os.environ["DET_ALLOCATION_ID"],
                          "metadata": {"steps_completed": 5}, "resources": {"state": "7"}, "state": "STATE_COMPLETED"})
    raise SystemExit("starts again")
"""


class SharedFs(TaskTest):
    """Programs write where Determined's client writes: below /determined_shared_fs."""

    @classmethod
    def setUpClass(cls):
        cls.host = pathlib.Path("shared").resolve()
        cls.host.mkdir()
        cls.master_flags = ("--storage-allow", cls.host)
        super().setUpClass()

    def storage(self, below):
        return f"checkpoint_storage: {{type: shared_fs, host_path: {self.host}, storage_path: {below}}}"

    def run_program(self, below):
        """Returns the id of a checkpoint that a program has written, and read after a restart."""
        name = str(uuid.uuid4())
        program = file("train.py", f"UUID = {name!r}\n" + SHARED_PROGRAM)
        config = CONFIG.format(line="python3 train.py", more=self.storage(below)).replace("max_restarts: 0", "max_restarts: 1")
        status, answer = self.user.call("POST", "/api/v1/experiments", {
            "config": config, "modelDefinition": [program], "activate": True})
        if status == 400 and "can show host_path" in answer["error"]["error"]:
            self.skipTest(answer["error"]["error"])
        experiment = answer["experiment"]["id"]
        self.end(experiment)
        self.assertIn("found weights", self.said(experiment))
        self.assertEqual((self.host / below / name / "state").read_text(), "weights")
        return experiment, name

    def test_checkpoint_is_read_downloaded_and_deleted(self):
        _, name = self.run_program("below")
        data = self.user.call("GET", f"/checkpoints/{name}")[1]
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            self.assertEqual(archive.extractfile("state").read(), b"weights")
        self.user.ok("DELETE", "/checkpoints", {"checkpointUuids": [name]})
        wait_for("the removal of its files", lambda: not (self.host / "below" / name).exists(), 30)
        self.assertEqual(self.user.ok("GET", f"/checkpoints/{name}")["checkpoint"]["state"], "STATE_DELETED")

    def test_deletion_of_the_experiment(self):
        experiment, name = self.run_program("deleted")
        self.user.ok("DELETE", f"/experiments/{experiment}")
        wait_for("its deletion", lambda: self.user.call("GET", f"/api/v1/experiments/{experiment}")[0] == 404, 30)
        self.assertFalse((self.host / "deleted" / name).exists())


    def deleted_state(self, name, state):
        return wait_for(f"checkpoint {name} to be {state}", lambda: (
            found := self.user.ok("GET", f"/checkpoints/{name}")["checkpoint"])["state"] == state and found, 30)

    def test_deletion_that_cannot_remove_the_files_is_an_error(self):
        _, name = self.run_program("away")
        away, there = self.host / "away", self.host / "elsewhere"
        away.rename(there)  # as a file system that is not mounted
        self.user.ok("DELETE", "/checkpoints", {"checkpointUuids": [name]})
        found = self.deleted_state(name, "STATE_ERROR")
        self.assertIn(f"the master does not see {away}", found["removalError"])
        listed = self.user.ok("GET", f"/trials/{found['training']['trialId']}/checkpoints?states=STATE_ERROR")["checkpoints"]
        self.assertEqual([one["uuid"] for one in listed], [name])
        there.rename(away)
        self.user.ok("DELETE", "/checkpoints", {"checkpointUuids": [name]})  # tries again at once
        self.assertNotIn("removalError", self.deleted_state(name, "STATE_DELETED"))
        self.assertFalse((away / name).exists())

    def test_files_that_are_reported_as_gone(self):
        experiment, name = self.run_program("gone")
        shutil.rmtree(self.host / "gone")
        self.user.ok("DELETE", "/checkpoints", {"checkpointUuids": [name]})
        self.deleted_state(name, "STATE_ERROR")
        self.user.ok("PATCH", "/checkpoints", {"checkpoints": [{"uuid": name, "resources": {"resources": {}}}]})
        self.deleted_state(name, "STATE_DELETED")
        self.user.ok("DELETE", f"/experiments/{experiment}")
        wait_for("its deletion", lambda: self.user.call("GET", f"/api/v1/experiments/{experiment}")[0] == 404, 30)

    def test_experiment_whose_files_cannot_be_removed(self):
        experiment, name = self.run_program("far")
        far, there = self.host / "far", self.host / "farther"
        far.rename(there)
        self.user.ok("DELETE", f"/experiments/{experiment}")
        wait_for("the failure", lambda: self.state(experiment) == "STATE_DELETE_FAILED", 30)
        self.assertIn(f"the files of checkpoint {name} cannot be removed", self.cluster.master.tail(100))
        there.rename(far)
        self.user.ok("DELETE", f"/experiments/{experiment}")
        wait_for("its deletion", lambda: self.user.call("GET", f"/api/v1/experiments/{experiment}")[0] == 404, 30)
        self.assertFalse((far / name).exists())


class BindMounts(TaskTest):
    def test_program_sees_folders_under_other_names(self):
        here = pathlib.Path("bound").resolve()
        (here / "data").mkdir(parents=True)
        (here / "data" / "word").write_text("bound")
        (here / "at").mkdir()
        mounts = (f"bind_mounts: [{{host_path: {here}/data, container_path: {here}/at}}, "
                  f"{{host_path: {here}/data, container_path: inside, read_only: true}}]")
        answer = self.submit(f"cat {here}/at/word; echo; cat inside/word; echo; echo x >inside/y || echo refused", more=mounts)
        if answer["warningTexts"]:
            self.skipTest(answer["warningTexts"][0])
        self.end(answer["experiment"]["id"])
        said = self.said(answer["experiment"]["id"])
        self.assertEqual([text for text in said if text in ("bound", "refused")], ["bound", "bound", "refused"])
        self.assertEqual(list((here / "at").iterdir()), [])
        command = self.user.ok("POST", "/commands", {"config": {
            "entrypoint": [f"cat {here}/at/word"], "resources": {"slots": 0},
            "bind_mounts": [{"host_path": f"{here}/data", "container_path": f"{here}/at"}]}})["command"]["id"]
        wait_for("the command", lambda: self.user.ok("GET", f"/commands/{command}")["command"]["state"] == "STATE_TERMINATED", 60)
        self.assertIn("bound", self.log(command))


if __name__ == "__main__":
    unittest.main(verbosity=2)
