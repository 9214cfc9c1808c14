"""det job and det resource-pool."""

from contract import Contract, PAGE


class Queue(Contract):
    def test_jobs(self):
        experiment, _, _ = self.running()
        pools = self.user.get("/resource-pools", f"resourcePools:[ResourcePool] {PAGE}")["resourcePools"]
        self.assertEqual([pool["name"] for pool in pools if pool["defaultComputePool"]], ["default"])
        jobs = self.user.get("/job-queues-v2", f"jobs:[RBACJob] {PAGE}", resourcePool="default", limit=10, offset=0,
                             orderBy="ORDER_BY_ASC")["jobs"]
        job = [row["full"] for row in jobs if row["full"]["entityId"] == str(experiment)][0]
        back = self.user.get("/job-queues-v2", resourcePool="default", limit=0, orderBy="ORDER_BY_DESC")["jobs"]
        older = self.user.get("/job-queues", f"jobs:[Job] {PAGE}", resourcePool="default", limit=0)["jobs"]
        self.assertEqual([row["jobId"] for row in older], [row["full"]["jobId"] for row in reversed(back)])
        self.admin.post("/job-queues", {"updates": [{
            "jobId": job["jobId"], "aheadOf": None, "behindOf": None, "priority": 7, "resourcePool": None,
            "weight": None}]})
        self.admin.post("/job-queues", {"updates": [{"job_id": job["jobId"], "weight": 2.0}]})
        self.user.get("/job-queues/stats", "results:[PoolQueueStats]", resourcePools=["default"])
