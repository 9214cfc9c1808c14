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
