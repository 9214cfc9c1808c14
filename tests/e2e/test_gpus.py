"""GPUs of an agent with a fake driver (tests/unit/agent/fake_nvml.c): detection as slots,
visibility in a task, usage and faults.
"""

import base64
import contextlib
import json
import pathlib
import unittest

from cluster import BIN, PASSWORD, Cluster, wait_for
from test_api import Api

PROGRAM = b"""\
import os, pathlib, time
print("rank", os.environ["RANK"], "sees", os.environ["CUDA_VISIBLE_DEVICES"], "slots", os.environ["DET_SLOT_IDS"],
      flush=True)
while not pathlib.Path(os.environ["END"]).exists():
    time.sleep(0.1)
"""

CONFIG = """\
name: on gpus
entrypoint: python3 task.py
environment: {{environment_variables: ["END={end}"]}}
resources: {{slots_per_trial: {slots}, resource_pool: {pool}}}
searcher: {{name: single, metric: loss}}
max_restarts: 0
"""

FILES = [{"path": "task.py", "type": 48, "content": base64.b64encode(PROGRAM).decode(), "mode": 420,
          "mtime": "1700000000", "uid": 0, "gid": 0}]


class GpusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        drivers = pathlib.Path("drivers").resolve()
        drivers.mkdir()
        (drivers / "libnvidia-ml.so.1").symlink_to(BIN.parent / "tests/unit/agent/libfake_nvml.so")
        cls.events = pathlib.Path("events").resolve()
        cls.events.touch()
        cls.driver = ["env", f"LD_LIBRARY_PATH={drivers}"]
        cls.whole = [*cls.driver, "FAKE_GPUS=4", "FAKE_LINKED=2", f"FAKE_NVML_EVENTS={cls.events}"]
        cls.cluster = Cluster("cluster", slots=(0,), prefixes=[cls.whole])
        cls.cluster.__enter__()
        cls.admin = Api(cls.cluster.port, Api(cls.cluster.port).post("/auth/login", {
            "username": "admin", "password": PASSWORD, "isHashed": False})["token"])

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def setUp(self):
        self.started = []
        self.end = pathlib.Path(f"end.{self.id()}").resolve()

    def tearDown(self):
        self.end.touch()
        for experiment in self.started:
            self.admin.call("POST", f"/api/v1/experiments/{experiment}/kill", {})
        self.restart_agent()

    # helpers

    def restart_agent(self):
        """Clears all faults, as after a repair."""
        agent = self.cluster.agents[0]
        agent.stop()
        self.events.write_text("")
        agent.start()
        wait_for("healthy slots", lambda: all(slot["enabled"] and "fault" not in slot for slot in self.slots().values())
                 and self.agent()["connected"], 30)

    def agent(self, name="agent-0"):
        return self.admin.get(f"/agents/{name}")["agent"]

    def slots(self, name="agent-0"):
        return self.agent(name)["slots"]

    def create(self, slots, pool="default"):
        config = CONFIG.format(slots=slots, pool=pool, end=self.end)
        experiment = self.admin.post("/experiments", {"config": config, "modelDefinition": FILES, "activate": True,
                                                      "projectId": 1})["experiment"]["id"]
        self.started.append(experiment)
        return experiment

    def log(self, experiment):
        trial = self.admin.get(f"/experiments/{experiment}/trials")["trials"][0]["id"]
        return "".join(line["message"] for line in self.admin.lines(f"/trials/{trial}/logs"))

    def running_on(self, experiment, name="agent-0"):
        """Returns the ids of its slots once the task has printed them."""
        held = [int(number) for number, slot in self.slots(name).items()
                if slot["container"] and slot["container"]["allocationId"].startswith(f"{experiment}.")
                and slot["container"]["state"] == "STATE_RUNNING"]
        return sorted(held) if "sees" in self.log(experiment) else []

    def strike(self, slot, xid):
        with open(self.events, "a") as events:
            events.write(f"{slot} {xid} -1\n")

    def fault(self, slot):
        return wait_for("a fault", lambda: self.slots()[str(slot)].get("fault"), 30)

    # the tests

    def test_slots(self):
        rows = self.cluster.rows("slot", "list", "--agent", "agent-0")
        self.assertEqual([row["device"] for row in rows], ["Fake GPU"] * 4)
        self.assertEqual([row["near"] for row in rows], [f"nvlink {n // 2}, node 0" for n in range(4)])
        self.assertEqual((rows[3]["type"], rows[3]["uuid"], rows[3]["bus"], rows[3]["driver"], rows[3]["memory"]),
                         ("CUDA", "GPU-0000-3", "00000000:04:00.0", "550.54.15", 80 << 30))
        self.assertIn("Fake GPU", self.cluster.muster("agent", "describe", "agent-0"))

    def test_devices_and_use_of_a_task(self):
        experiment = self.create(2)
        held = wait_for("its slots", lambda: self.running_on(experiment), 60)
        devices = ",".join(f"GPU-0000-{slot}" for slot in held)
        self.assertIn(f"sees {devices} slots {json.dumps(held, separators=(',', ':'))}", self.log(experiment))
        trial = self.admin.get(f"/experiments/{experiment}/trials")["trials"][0]["id"]

        def reports():
            lines = self.admin.lines(f"/trials/metrics/trial_metrics?trialIds={trial}&group=gpu")
            return [report for line in lines for report in line["metrics"]]
        first = wait_for("reports of use", reports, 40)[0]
        self.assertIsNone(first.get("stepsCompleted"), first)
        use = first["metrics"]["avg_metrics"]["agent-0"]
        means = {key: value for key, value in first["metrics"]["avg_metrics"].items() if key != "agent-0"}
        self.assertEqual(means, {"gpu_util": 40 + sum(held) / 2, "gpu_used_gib": 1, "gpu_temperature": 61, "gpu_power": 250.5})
        chart = self.admin.get(f"/trials/{trial}/series?group=gpu&metric=gpu_util")["series"][0]
        self.assertEqual(chart["values"][0], means["gpu_util"])
        self.assertEqual(sorted(use), [f"GPU-0000-{slot}" for slot in held])
        self.assertEqual(use[f"GPU-0000-{held[0]}"],
                         {"gpu_util": 40 + held[0], "gpu_free_memory": 79 << 30, "gpu_used_memory": 1 << 30,
                          "gpu_temperature": 61, "gpu_power": 250.5})
        self.assertIn("43 %, 1.0 of 80 GiB, 61 C, 250 W", self.cluster.muster("slot", "list"))
        self.assertEqual(self.slots()["3"]["use"]["gpu_util"], 43)
        described = self.cluster.rows("trial", "describe", trial)
        self.assertEqual(described["starts"][0]["placed"], f"agent-0 slots {held[0]}-{held[1]} (one NVLink group)")

    def test_fault_moves_the_trial_and_disables_the_slot(self):
        experiment = self.create(1)
        (slot,) = wait_for("its slot", lambda: self.running_on(experiment), 60)
        self.strike(slot, 79)
        other = wait_for("it to run elsewhere",
                         lambda: [held for held in self.running_on(experiment) if held != slot], 60)
        self.assertEqual(len(other), 1)
        self.assertIn(f"slot {slot} of agent agent-0 (GPU-0000-{slot}): Xid 79, the GPU has fallen off the bus",
                      self.log(experiment))
        self.assertEqual(self.admin.get(f"/experiments/{experiment}/trials")["trials"][0]["restarts"], 0)
        seen = self.slots()[str(slot)]
        self.assertFalse(seen["enabled"])
        self.assertEqual((seen["fault"]["grade"], seen["fault"]["overruled"]), ("ends", False))
        self.assertEqual([row["faults"] for row in self.cluster.rows("agent", "list")], [1])
        self.assertIn("Xid 79", self.cluster.muster("slot", "list"))

    def test_trial_waits_for_a_slot_with_a_fault(self):
        self.strike(1, 64)
        self.assertEqual(self.fault(1)["grade"], "drains")
        experiment = self.create(4)
        why = wait_for("the reason", lambda: next((row["reason"] for row in self.cluster.rows("queue", "list")
                                                   if "out of use" in (row.get("reason") or "")), None), 30)
        self.assertIn("slot 1 of agent agent-0 (Xid 64, ", why)
        self.admin.ok("POST", "/agents/agent-0/slots/1/enable", {})
        self.assertEqual(wait_for("its slots", lambda: self.running_on(experiment), 60), [0, 1, 2, 3])

    def test_operator_clears_one_fault(self):
        self.strike(2, 48)
        self.fault(2)
        self.admin.ok("POST", "/agents/agent-0/slots/2/enable", {})
        self.assertTrue(self.slots()["2"]["enabled"])
        self.cluster.master.kill9()
        self.cluster.start_master()
        wait_for("the agent", lambda: self.agent()["connected"], 30)
        self.assertTrue(self.slots()["2"]["enabled"])
        self.assertTrue(self.slots()["2"]["fault"]["overruled"])
        self.assertIn("(overruled)", self.cluster.muster("slot", "list"))
        self.strike(2, 79)
        wait_for("the next fault", lambda: not self.slots()["2"]["enabled"], 30)

    def test_program_error_is_only_noted(self):
        experiment = self.create(1)
        (slot,) = wait_for("its slot", lambda: self.running_on(experiment), 60)
        self.strike(slot, 31)
        wait_for("a line in its log", lambda: "Xid 31, the program used GPU memory" in self.log(experiment), 30)
        self.assertEqual(self.running_on(experiment), [slot])
        self.assertTrue(self.slots()[str(slot)]["enabled"])

    @contextlib.contextmanager
    def machine(self, name, *facts):
        """Starts another agent with other GPUs, in a pool of its own."""
        self.cluster.add_agent(f"agent-{name}", 0, [*self.driver, *facts], ["--pool", name])
        agent = self.cluster.agents.pop()
        try:
            wait_for("the agent", lambda: any(one["id"] == f"agent-{name}" for one in self.admin.get("/agents")["agents"]))
            yield f"agent-{name}"
        finally:
            agent.stop()

    def test_instances(self):
        with self.machine("mig", "FAKE_GPUS=2", "FAKE_INSTANCES=2") as agent:
            devices = [slot["device"] for slot in self.slots(agent).values()]
            self.assertEqual([one["uuid"] for one in devices], [f"MIG-0000-{gpu}-{n}" for gpu in (0, 1) for n in (1, 2)])
            self.assertEqual(devices[0]["brand"], "Fake GPU MIG 1g.10gb")
            experiment = self.create(1, "mig")
            (slot,) = wait_for("its slot", lambda: self.running_on(experiment, agent), 60)
            self.assertIn(f"sees {devices[slot]['uuid']} slots [{slot}]", self.log(experiment))

    def test_groups_of_a_large_machine_and_their_faults(self):
        """Eight GPUs in two groups; the last one is later split into MIG instances and then belongs
        to no group."""
        events, ran = pathlib.Path("events-large").resolve(), pathlib.Path("ran").resolve()
        events.touch()
        with self.machine("large", "FAKE_GPUS=8", "FAKE_LINKED=4", "FAKE_CUT_GPU=7", "FAKE_INSTANCES=2",
                          f"FAKE_NVML_EVENTS={events}") as agent:
            near = [row["near"] for row in self.cluster.rows("slot", "list", "--agent", agent)]
            self.assertEqual(near, ["nvlink 0, node 0"] * 4 + ["nvlink 1, node 1"] * 3 + ["node 1"] * 2)
            command = self.cluster.muster("command", "run", "--detach", "-q", "--pool", "large", "--slots", "2", "--", "sh",
                                          "-c", f"echo begun >> {ran}; sleep 600").strip()
            wait_for("the command", ran.exists, 60)
            experiment = self.create(4, "large")
            self.assertEqual(wait_for("its slots", lambda: self.running_on(experiment, agent), 60), [0, 1, 2, 3])
            self.assertEqual([row["allocation"][:len(command)] for row in
                              self.cluster.rows("slot", "list", "--agent", agent) if row["slot"] in ("4", "5")], [command] * 2)
            with events.open("a") as file:
                file.write("0 79 -1\n")
            wait_for("it to run elsewhere", lambda: self.running_on(experiment, agent) == [1, 2, 3, 6], 60)
            trial = self.cluster.trial(experiment)["id"]
            self.assertEqual([start["placed"] for start in self.cluster.rows("trial", "describe", trial)["starts"]],
                             [f"{agent} slots 0-3 (one NVLink group)",
                              f"{agent} slots 1-3,6 (no group had room for all)"])
            with events.open("a") as file:
                file.write("5 79 -1\n")
            described = wait_for("the command's end", lambda: (d := self.cluster.rows("command", "describe", command))
                                 ["state"] == "TERMINATED" and d, 60)
            self.assertIn("slot 5 of agent agent-large (GPU-0000-5): Xid 79, the GPU has fallen off the bus",
                          described["exit_status"])
            self.assertIn("not started again", described["exit_status"])
            self.assertIn("Xid 79", self.cluster.muster("command", "logs", command))
            self.assertEqual(ran.read_text(), "begun\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
