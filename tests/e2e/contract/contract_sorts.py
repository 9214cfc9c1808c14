"""The orders that Determined's clients ask lists for."""

from contract import Contract, NEVER

SORTS = (
    ("/experiments", "sortBy", "ID DESCRIPTION START_TIME END_TIME STATE NUM_TRIALS PROGRESS USER NAME FORKED_FROM "
     "RESOURCE_POOL PROJECT_ID CHECKPOINT_SIZE CHECKPOINT_COUNT SEARCHER_METRIC_VAL"),
    ("/experiments/{experiment}/trials", "sortBy", "ID START_TIME END_TIME STATE BEST_VALIDATION_METRIC "
     "LATEST_VALIDATION_METRIC BATCHES_PROCESSED DURATION RESTARTS CHECKPOINT_SIZE LOG_RETENTION_DAYS"),
    ("/experiments/{experiment}/checkpoints", "sortByAttr", "UUID TRIAL_ID BATCH_NUMBER END_TIME STATE SEARCHER_METRIC"),
    ("/trials/{trial}/checkpoints", "sortByAttr", "UUID TRIAL_ID BATCH_NUMBER END_TIME STATE SEARCHER_METRIC"),
    ("/models", "sortBy", "NAME DESCRIPTION CREATION_TIME LAST_UPDATED_TIME NUM_VERSIONS WORKSPACE"),
    ("/models/sorted/versions", "sortBy", "VERSION CREATION_TIME"),
    ("/users", "sortBy", "DISPLAY_NAME USER_NAME ADMIN ACTIVE MODIFIED_TIME NAME LAST_AUTH_TIME REMOTE"),
    ("/workspaces", "sortBy", "ID NAME"),
    ("/workspaces/0/projects", "sortBy", "ID NAME DESCRIPTION CREATION_TIME LAST_EXPERIMENT_START_TIME"),
    ("/commands", "sortBy", "ID DESCRIPTION START_TIME WORKSPACE_ID"),
    ("/shells", "sortBy", "ID DESCRIPTION START_TIME WORKSPACE_ID"),
    ("/notebooks", "sortBy", "ID DESCRIPTION START_TIME WORKSPACE_ID"),
    ("/tensorboards", "sortBy", "ID DESCRIPTION START_TIME WORKSPACE_ID"),
    ("/templates", "sortBy", "NAME"),
    ("/tokens", "sortBy", "USER_ID EXPIRY CREATED_AT TOKEN_TYPE REVOKED DESCRIPTION"),
    ("/agents", "sortBy", "ID TIME"),
)


class Sorts(Contract):
    def test_every_order_is_accepted(self):
        """The names are those of Determined's API; an unknown one is still a 400."""
        experiment, task, caller = self.running()
        self.checkpoint(task, caller, NEVER.replace("0000-4000", "0001-4000"))
        self.user.post("/models", {"name": "sorted"})
        for path, parameter, words in SORTS:
            path = path.format(experiment=experiment, trial=task["trialId"])
            for word in ["UNSPECIFIED", *words.split()]:
                for way in ("ORDER_BY_ASC", "ORDER_BY_DESC"):
                    with self.subTest(path=path, word=word, way=way):
                        self.admin.call("GET", path, None, **{parameter: f"SORT_BY_{word}", "orderBy": way})
            self.admin.call("GET", path, None, expect=400, **{parameter: "SORT_BY_MOOD"})
            self.admin.call("GET", path, None, expect=400, orderBy="ORDER_BY_MOOD")
        for path in ("/job-queues", "/job-queues-v2"):
            self.admin.call("GET", path, None, orderBy="ORDER_BY_UNSPECIFIED")
            self.admin.call("GET", path, None, expect=400, orderBy="ORDER_BY_MOOD")

    def test_meaning(self):
        """Checkpoints, descriptions and the last submission order their lists."""
        first, task, caller = self.running()
        self.checkpoint(task, caller, NEVER.replace("0000-4000", "0002-4000"))
        self.checkpoint(task, caller, NEVER.replace("0000-4000", "0003-4000"), steps=30)
        second = self.create(activate=False)
        self.addCleanup(self.kill, second)

        def experiments(by, way):
            found = self.user.get("/experiments", None, sortBy=by, orderBy=way)["experiments"]
            return [one["id"] for one in found if one["id"] in (first, second)]
        for by in ("SORT_BY_CHECKPOINT_SIZE", "SORT_BY_CHECKPOINT_COUNT"):
            self.assertEqual(experiments(by, "ORDER_BY_DESC"), [first, second], by)
            self.assertEqual(experiments(by, "ORDER_BY_ASC"), [second, first], by)

        workspace = self.user.post("/workspaces", {"name": "sorts"})["workspace"]["id"]
        path = f"/workspaces/{workspace}/projects"
        ids = [self.user.post(path, {"name": name, "description": text})["project"]["id"]
               for name, text in (("a", "zebra"), ("b", "yak"))]
        for project in reversed(ids):
            self.addCleanup(self.kill, self.create(activate=False, projectId=project))

        def projects(by, way="ORDER_BY_ASC"):
            return [one["id"] for one in self.user.get(path, None, sortBy=by, orderBy=way)["projects"]]
        self.assertEqual(projects("SORT_BY_CREATION_TIME"), ids)
        self.assertEqual(projects("SORT_BY_CREATION_TIME", "ORDER_BY_DESC"), ids[::-1])
        self.assertEqual(projects("SORT_BY_DESCRIPTION"), ids[::-1])
        self.assertEqual(projects("SORT_BY_LAST_EXPERIMENT_START_TIME"), ids[::-1])
        self.assertEqual(projects("SORT_BY_LAST_EXPERIMENT_START_TIME", "ORDER_BY_DESC"), ids)

    def test_trials(self):
        """Trials are ordered by the size of their checkpoints and by the days for which their logs are kept."""
        config = self.config.replace("name: single", "name: random, max_trials: 2, max_concurrent_trials: 2")
        experiment, task, caller = self.running(config=config)
        self.checkpoint(task, caller, NEVER.replace("0000-4000", "0004-4000"))
        path = f"/experiments/{experiment}/trials"
        ids = sorted(trial["id"] for trial in self.user.get(path, None)["trials"])
        self.assertEqual(len(ids), 2)
        self.user.call("PUT", f"/trials/{ids[0]}/retain_logs", {"numDays": 30})
        self.user.call("PUT", f"/trials/{ids[1]}/retain_logs", {"numDays": 20})
        big = task["trialId"]
        for by, expected in (("CHECKPOINT_SIZE", [one for one in ids if one != big] + [big]),
                             ("LOG_RETENTION_DAYS", ids[::-1])):
            for way, order in (("ORDER_BY_ASC", expected), ("ORDER_BY_DESC", expected[::-1])):
                found = self.user.get(path, None, sortBy=f"SORT_BY_{by}", orderBy=way)["trials"]
                self.assertEqual([trial["id"] for trial in found], order, (by, way))
