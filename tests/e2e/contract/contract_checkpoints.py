"""det checkpoint."""

import gzip
import io
import tarfile

from cluster import wait_for
from contract import Contract, NEVER


class Checkpoints(Contract):
    def test_checkpoints(self):
        experiment, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000200"
        self.checkpoint(task, caller, uuid, files=(("model.bin", b"weights"), ("state.json", b"{}")))
        checkpoint = self.user.get(f"/checkpoints/{uuid}", "checkpoint:Checkpoint")["checkpoint"]
        self.assertEqual(checkpoint["resources"], {"model.bin": "7", "state.json": "2"})
        self.assertEqual(checkpoint["metadata"], {"steps_completed": 20, "camelCase": "kept"})
        self.assertEqual(checkpoint["training"]["experimentId"], experiment)
        connection, response = self.user.open("GET", f"/checkpoints/{uuid}")
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(response.read()))) as tar:
            self.assertIn("model.bin", [name.removeprefix("./").removeprefix(uuid + "/") for name in tar.getnames()])
        connection.close()
        self.user.call("GET", f"/checkpoints/{NEVER}", expect=404)

    def test_sums_of_checkpoints(self):
        """Experiments and trials show the number and the size of their checkpoints, as texts of digits."""
        experiment, task, caller = self.running(config=self.config.replace("container_path", "save_trial_latest: 5, container_path"))
        uuids = [f"00000000-0000-4000-8000-00000000024{n}" for n in range(2)]
        self.assertEqual(self.sums(experiment, task["trialId"]), (0, "0"))
        for steps, uuid in enumerate(uuids):
            self.checkpoint(task, caller, uuid, 20 + steps, files=(("model.bin", b"weights"), ("state.json", b"{}")))
            self.checkpoint(task, caller, uuid, 20 + steps, files=(("model.bin", b"weights"), ("state.json", b"{}")))
        self.assertEqual(self.sums(experiment, task["trialId"]), (2, "18"))
        storage = {self.user.get(f"/checkpoints/{uuid}", "checkpoint:Checkpoint")["checkpoint"]["storageId"] for uuid in uuids}
        started = caller.post("/runs/start", {"runId": task["trialId"], "checkpointStorage": None}, "storageId?")["storageId"]
        self.assertEqual(storage, {started})
        self.kill(experiment)
        self.user.post("/checkpoints/rm", {"checkpointGlobs": ["*.json"], "checkpointUuids": uuids[:1]})
        wait_for("the file to be removed", lambda: self.sums(experiment, task["trialId"]) == (2, "16"), 30)
        self.user.call("DELETE", "/checkpoints", {"checkpointUuids": uuids[1:]})
        wait_for("the checkpoint to be removed", lambda: self.sums(experiment, task["trialId"]) == (1, "7"), 30)

    def test_sizes_of_any_kind(self):
        """A program may report any number as a size: it harms neither the master nor the sums."""
        experiment, task, caller = self.running(config=self.config.replace("container_path", "save_trial_latest: 5, container_path"))
        uuid = "00000000-0000-4000-8000-000000000250"
        for size in (1e308, -1e308, 1e308, "5"):
            caller.post("/checkpoints", {
                "uuid": uuid, "taskId": task["taskId"], "allocationId": task["allocationId"], "state": "STATE_COMPLETED",
                "metadata": {"steps_completed": 20}, "resources": {"a": size, "b": size}})
        self.assertEqual(self.sums(experiment, task["trialId"]), (1, "10"))
        self.kill(experiment)

    def sums(self, experiment, trial):
        """Every call that shows the experiment or the trial says the same."""
        shown = [self.user.get(f"/experiments/{experiment}")["experiment"]]
        light = self.user.request("GET", "/api/v1/experiments?omit=config,description,notes")[1]["experiments"]
        shown += [x for x in self.user.get("/experiments")["experiments"] + light if x["id"] == experiment]
        found = {(x["checkpointCount"], x["checkpointSize"]) for x in shown}
        for shown in (self.user.get(f"/trials/{trial}")["trial"], self.user.get(f"/experiments/{experiment}/trials")["trials"][0]):
            found.add((shown["checkpointCount"], shown["totalCheckpointSize"]))
        self.assertEqual(len(found), 1, found)
        return found.pop()

    def test_checkpoint_metadata(self):
        _, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000210"
        self.checkpoint(task, caller, uuid)
        self.user.post(f"/checkpoints/{uuid}/metadata", {"checkpoint": {
            "uuid": uuid, "metadata": {"steps_completed": 20, "added": 1}, "resources": {}, "training": {},
            "state": "STATE_UNSPECIFIED"}}, "checkpoint?:Checkpoint")
        self.assertEqual(self.user.get(f"/checkpoints/{uuid}")["checkpoint"]["metadata"]["added"], 1)

    def test_checkpoint_remove_files(self):
        experiment, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000220"
        self.checkpoint(task, caller, uuid, files=(("keep.bin", b"k"), ("drop.txt", b"d")))
        self.kill(experiment)  # otherwise its trial would restart from it
        self.user.post("/checkpoints/rm", {"checkpointGlobs": ["*.txt"], "checkpointUuids": [uuid]})
        wait_for("the file to be removed", lambda: not (self.storage / uuid / "drop.txt").exists(), 30)
        wait_for("the row", lambda: self.user.get(f"/checkpoints/{uuid}", "checkpoint:Checkpoint")[
            "checkpoint"]["state"] == "STATE_PARTIALLY_DELETED", 30)

    def test_checkpoint_delete(self):
        experiment, task, caller = self.running()
        uuids = [f"00000000-0000-4000-8000-00000000023{n}" for n in range(2)]
        for uuid in uuids:
            self.checkpoint(task, caller, uuid)
        self.kill(experiment)
        self.user.call("DELETE", "/checkpoints", {"checkpointUuids": uuids[:1]})
        wait_for("the files to be removed", lambda: not (self.storage / uuids[0]).exists(), 30)
        wait_for("the row", lambda: self.user.get(f"/checkpoints/{uuids[0]}", "checkpoint:Checkpoint")[
            "checkpoint"]["state"] == "STATE_DELETED", 30)
