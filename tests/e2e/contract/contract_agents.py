"""det agent and det slot."""

from contract import Contract


class Agents(Contract):
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
