"""det agent and det slot."""

import http.client
import json

from cluster import wait_for
from contract import Contract
from det import SimulatedAgent


class Agents(Contract):
    def test_protections_and_limits(self):
        def shown():
            return self.user.get("/agents/live", "agent:Agent")["agent"]
        self.assertNotIn("protections", shown())
        protections = [{"name": "files", "active": True, "reason": ""},
                       {"name": "devices", "active": False, "reason": "the kernel does not permit it"}]
        limits = {"processes": 100, "memory": 0, "disk": 5 << 30, "files": 7, "diskFloor": 1 << 30}
        self.addCleanup(setattr, self.agent, "more", {})
        self.agent.more = {"protections": protections, "limits": limits}
        agent = wait_for("the next call", lambda: "protections" in (now := shown()) and now, 30)
        self.assertEqual((agent["protections"], agent["taskLimits"]), (protections, limits))
        self.assertNotIn("protections", self.user.get("/agents", "agents:[Agent]")["agents"][0])
        self.agent.more = {}  # an agent of an older release
        wait_for("the next call", lambda: "protections" not in shown(), 30)

    def test_agents(self):
        self.user.get("/agents", "agents:[Agent]", excludeContainers=None, excludeSlots=None)
        self.user.get("/agents/live", "agent:Agent")
        self.admin.post("/agents/live/disable", {"agentId": "live", "drain": True}, "agent:Agent")
        self.user.get("/tasks", "allocationIdToSummary:{AllocationSummary}")
        self.admin.post("/agents/live/enable", None, "agent:Agent")
        self.admin.post("/agents/live/disable", {"agentId": "live", "drain": None}, "agent:Agent")
        self.admin.post("/agents/live/enable", None, "agent:Agent")
        self.user.call("POST", "/agents/live/enable", expect=403)

    def test_slots(self):
        _, task, _ = self.running()
        tasks = self.user.get("/tasks", "allocationIdToSummary:{AllocationSummary}")["allocationIdToSummary"]
        agents = self.user.get("/agents", "agents:[Agent]")["agents"]
        containers = {resources["containerId"]: summary["allocationId"] for summary in tasks.values()
                      for resources in summary["resources"]}
        busy = [containers[slot["container"]["id"]] for agent in agents for slot in agent["slots"].values()
                if slot["container"]]
        self.assertIn(task["allocationId"], busy)
        self.user.get("/agents/live/slots", "slots:[Slot]")
        self.user.get("/agents/live/slots/3", "slot:Slot")
        self.admin.post("/agents/live/slots/3/disable", {"agentId": "live", "slotId": "3", "drain": None}, "slot:Slot")
        self.assertFalse(self.user.get("/agents/live/slots/3")["slot"]["enabled"])
        self.admin.post("/agents/live/slots/3/enable", None, "slot:Slot")

    def test_agent_whose_connection_breaks(self):
        """The agent is shown as draining until it calls again."""
        agent = SimulatedAgent(self.cluster.port, self.agent.caller.token, "breaks", slots=1)
        shown = lambda: self.user.get("/agents/breaks", "agent:Agent")["agent"]
        self.addCleanup(self.admin.post, "/agents/breaks/disable")  # other tests do not use it
        for _ in range(2):
            agent.sync()  # it is answered at once, as it has a new agent's version
            self.assertEqual((shown()["enabled"], shown()["draining"]), (True, False))
            body = {"version": "0", "session": agent.session, "pool": "default", "hostname": "breaks",
                    "address": "127.0.0.1", "seen": agent.seen, "tasks": [], "slots": agent.slot_list()}
            connection = http.client.HTTPConnection("127.0.0.1", self.cluster.port)
            connection.request("POST", "/api/v1/agents/breaks/sync", json.dumps(body), agent.caller.headers())
            connection.close()
            wait_for("the loss", lambda: shown()["draining"], 5)
            self.assertFalse(shown()["enabled"])
            slot = shown()["slots"]["0"]
            self.assertEqual((slot["enabled"], slot["draining"]), (False, True))
            agent.seen = 0
