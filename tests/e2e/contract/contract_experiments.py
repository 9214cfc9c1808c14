"""det experiment."""

import base64
import io
import json
import tarfile

from cluster import wait_for
from contract import Contract, EXPERIMENT, FILES, PAGE, TERMINAL, hashed


class Experiments(Contract):
    def test_experiment_create(self):
        self.user.post("/experiments", {"config": self.config, "validateOnly": True, "modelDefinition": FILES,
                                        "activate": True, "parentId": None, "projectId": None, "template": None,
                                        "unmanaged": None}, f"{EXPERIMENT} config")
        experiment = self.create(activate=False)
        self.assertEqual(self.state_of(experiment), "STATE_PAUSED")
        self.user.post("/experiments", {"config": self.config, "model_definition": FILES, "activate": False,
                                        "validate_only": True}, f"{EXPERIMENT} config")
        self.user.get(f"/experiments/{experiment}/trials", f"trials:[Trial] {PAGE}", offset=0)
        self.kill(experiment)

    def test_experiment_lifecycle(self):
        experiment, task, caller = self.running()
        self.poll(task, caller)
        self.user.post(f"/experiments/{experiment}/pause")
        self.assertEqual(caller.get(f"/allocations/{task['allocationId']}/signals/preemption", "preempt",
                                    timeout_seconds=20)["preempt"], True)
        caller.report(f"/allocations/{task['allocationId']}/signals/ack_preemption",
                      {"allocationId": task["allocationId"]})
        self.agent.end(task)
        self.wait_for_state(experiment, "STATE_PAUSED")
        self.user.post(f"/experiments/{experiment}/activate")
        self.agent.task_of(experiment)
        self.user.post(f"/experiments/{experiment}/cancel")
        self.kill(experiment)
        self.user.post(f"/experiments/{experiment}/kill")  # it is active already
        self.user.post(f"/experiments/{experiment}/archive")
        self.user.post(f"/experiments/{experiment}/unarchive")
        self.user.call("DELETE", f"/experiments/{experiment}")
        wait_for("the deletion", lambda: self.user.request("GET", f"/api/v1/experiments/{experiment}")[0] == 404, 30)
        replacement = self.create(activate=False)  # for the cleanup of the test
        self._cleanups[-1] = (self.kill, (replacement,), {})

    def test_experiment_verbs_in_the_wrong_state(self):
        """Determined calls it FailedPrecondition, which is HTTP 400."""
        def refused(words, method, path, body=None):
            answer = self.user.call(method, path, body, expect=400)
            self.assertEqual((answer["error"]["code"], answer["error"]["reason"]), (9, "FailedPrecondition"))
            self.assertIn(words, answer["message"])
        experiment = self.create(activate=False)
        path = f"/experiments/{experiment}"
        refused("only experiments that have ended", "POST", "/experiments/continue", {"id": experiment})
        refused("only experiments that have ended", "POST", f"{path}/archive")
        refused("before it has ended", "DELETE", path)
        self.kill(experiment)
        for verb in ("pause", "activate"):
            refused("CANCELED", "POST", f"{path}/{verb}")
        for verb in ("kill", "cancel", "archive"):
            self.user.post(f"{path}/{verb}")
        refused("archived", "POST", "/experiments/continue", {"id": experiment})
        workspace = self.admin.post("/workspaces", {"name": "verbs"}, "workspace:Workspace")["workspace"]["id"]
        project = self.admin.post(f"/workspaces/{workspace}/projects", {"name": "p"}, "project:Project")["project"]["id"]
        self.admin.post(f"/experiments/{experiment}/move", {"experimentId": experiment, "destinationProjectId": project})
        self.admin.post(f"/projects/{project}/archive")
        answer = self.admin.call("POST", f"{path}/move", {"destinationProjectId": 1}, expect=400)
        self.assertIn("archived", answer["message"])

    def test_experiment_pause_of_a_program_that_never_polls(self):
        """The program is ended at once. Whatever its exit code is, its trial is paused."""
        for code in (0, 3):
            experiment, task, _ = self.running()
            self.agent.exit_code_of_killed = code
            self.user.post(f"/experiments/{experiment}/pause")
            self.wait_for_state(experiment, "STATE_PAUSED")
            trial = self.user.get(f"/experiments/{experiment}/trials", offset=0)["trials"][0]
            self.assertEqual((trial["state"], trial["restarts"]), ("STATE_PAUSED", 0))
            lines = self.user.lines(f"/trials/{trial['id']}/logs", "id level:LogLevel message timestamp trialId")
            self.assertTrue(any("SIGTERM" in line["message"] for line in lines), lines)
            wait_for("free slots", lambda: not any(
                slot["container"] for slot in self.user.get("/agents/live")["agent"]["slots"].values()), 10)
        self.agent.exit_code_of_killed = 137

    def test_experiment_read(self):
        experiment, task, caller = self.running()
        self.metrics(task, caller, "validation", 20, {"validation_loss": 0.5})
        listed = self.user.get("/experiments", f"experiments:[Experiment] {PAGE}", archived="false", limit=200,
                               offset=0, users=["determined"])
        self.assertIn(experiment, [row["id"] for row in listed["experiments"]])
        self.user.get(f"/experiments/{experiment}", f"{EXPERIMENT} jobSummary?:JobSummary config?")
        trials = self.user.get(f"/experiments/{experiment}/trials", f"trials:[Trial] {PAGE}", offset=0)["trials"]
        self.user.get(f"/trials/{trials[0]['id']}/workloads", f"workloads:[WorkloadContainer] {PAGE}", limit=500,
                      includeBatchMetrics="false", offset=0)
        self.user.get(f"/experiments/{experiment}/checkpoints", f"checkpoints:[Checkpoint] {PAGE}", limit=10,
                      sortByAttr="SORT_BY_SEARCHER_METRIC", orderBy="ORDER_BY_ASC",
                      states=["STATE_COMPLETED", "STATE_PARTIALLY_DELETED"])
        archive = self.user.get(f"/experiments/{experiment}/model_def", "b64Tgz")["b64Tgz"]
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive)), mode="r:gz") as tar:
            self.assertIn("train.py", [name.removeprefix("./") for name in tar.getnames()])
        self.assertEqual(self.user.get(
            f"/experiments/{experiment}/searcher/best_searcher_validation_metric")["metric"], 0.5)
        self.user.call("GET", "/experiments/999999", expect=404)

    def test_experiments_by_id(self):
        """The SDK lists experiments by their ids."""
        first, second, third = (self.create(activate=False) for _ in range(3))

        def listed(**tests):
            found = self.user.get("/experiments", f"experiments:[Experiment] {PAGE}", sortBy="SORT_BY_ID", orderBy="ORDER_BY_ASC",
                                  **{f"experimentIdFilter.{name}": value for name, value in tests.items()})
            return [row["id"] for row in found["experiments"] if row["id"] >= first]
        for tests, ids in (({"incl": [first, third]}, [first, third]), ({"incl": second}, [second]),
                           ({"notIn": [second, third]}, [first]), ({"notIn": second}, [first, third]),
                           ({"gt": second}, [third]), ({"gte": second}, [second, third]), ({"lt": second}, [first]),
                           ({"lte": second, "gt": first}, [second])):
            self.assertEqual(listed(**tests), ids, tests)
        self.user.call("GET", "/experiments", expect=400, **{"experimentIdFilter.gt": "x"})
        for experiment in (first, second, third):
            self.kill(experiment)

    def test_experiment_files(self):
        experiment = self.create(activate=False)
        tree = self.user.get(f"/experiments/{experiment}/file_tree", "files:[FileNode]")["files"]
        self.assertEqual(sorted(node["path"] for node in tree), ["lib", "train.py"])
        found = self.user.post(f"/experiments/{experiment}/file", {"experimentId": experiment, "path": "lib/a.py"}, "file")
        self.assertEqual(base64.b64decode(found["file"]), b"x = 1\n")
        self.kill(experiment)

    def test_experiment_set(self):
        experiment = self.create(activate=False)
        for change in ({"name": "renamed"}, {"description": "new"}, {"labels": ["three"]}, {"notes": "a note"},
                       {"resources": {"priority": 10}}, {"resources": {"weight": 2.5}},
                       {"resources": {"max_slots": 3}}, {"resources": {"slotsPerTrial": 2, "minSlots": 1}},
                       {"checkpointStorage": {"saveExperimentBest": 1, "saveTrialBest": 2, "saveTrialLatest": 3}}):
            self.admin.call("PATCH", f"/experiments/{experiment}", {
                "id": experiment, "checkpointStorage": None, "description": None, "labels": None, "name": None,
                "notes": None, "resources": None, **change}, EXPERIMENT)
        found = self.user.get(f"/experiments/{experiment}", EXPERIMENT)["experiment"]
        self.assertEqual((found["name"], found["description"], found["labels"], found["notes"]),
                         ("renamed", "new", ["three"], "a note"))
        resources = found["config"]["resources"]
        self.assertEqual((resources["slots_per_trial"], resources["min_slots"]), (2, 1))
        self.kill(experiment)

    def test_experiment_labels(self):
        experiment = self.create(activate=False)
        self.assertEqual(sorted(self.user.call("PUT", f"/experiments/{experiment}/labels/four%20more", None,
                                               "labels")["labels"]), ["four more", "one", "two"])
        self.user.call("PUT", f"/experiments/{experiment}/labels/four%20more", None, "labels")
        self.assertEqual(sorted(self.user.call("DELETE", f"/experiments/{experiment}/labels/one", None,
                                               "labels")["labels"]), ["four more", "two"])
        self.assertIn("four more", self.user.get("/experiment/labels", "labels")["labels"])
        self.kill(experiment)

    def test_experiment_gc_policy(self):
        experiment, task, caller = self.running()
        for number in range(3):
            self.checkpoint(task, caller, f"00000000-0000-4000-8000-0000000001{number:02}", number + 1)
        preview = self.user.get(f"//experiments/{experiment}/preview_gc", "checkpoints metric_name",
                                save_experiment_best=0, save_trial_best=0, save_trial_latest=1)
        self.assertEqual(len(preview["checkpoints"]), 2)
        for checkpoint in preview["checkpoints"]:
            for key in "TrialID StepsCompleted State UUID Resources ReportTime step".split():
                self.assertIn(key, checkpoint)

    def test_experiment_continue_and_fork(self):
        experiment, task, _ = self.running()
        self.agent.end(task)
        self.wait_for_state(experiment, "STATE_COMPLETED")
        self.user.post("/experiments/continue", {"id": experiment, "overrideConfig": "{max_restarts: 1}"}, EXPERIMENT)
        again = self.agent.task_of(experiment)
        self.assertEqual(again["trialId"], task["trialId"])
        forked = self.create(parentId=experiment, activate=False, modelDefinition=None)
        self.assertEqual(self.user.get(f"/experiments/{forked}")["experiment"]["forkedFrom"], experiment)
        self.kill(forked)

    def test_experiment_move(self):
        workspace = self.user.post("/workspaces", {"name": "moved to"}, "workspace:Workspace")["workspace"]["id"]
        project = self.user.post(f"/workspaces/{workspace}/projects", {
            "name": "target", "workspaceId": workspace, "description": None, "key": None}, "project:Project")["project"]
        experiment = self.create(activate=False)
        self.user.get("/workspaces", f"workspaces:[Workspace] {PAGE}", name="moved to")
        self.user.get(f"/workspaces/{workspace}/projects", f"projects:[Project] {PAGE}", name="target")
        self.user.post(f"/experiments/{experiment}/move", {"destinationProjectId": project["id"],
                                                           "experimentId": experiment})
        self.assertEqual(self.user.get(f"/experiments/{experiment}")["experiment"]["projectId"], project["id"])
        self.kill(experiment)

    def test_experiments_of_archived_projects(self):
        workspace = self.user.post("/workspaces", {"name": "of old"})["workspace"]["id"]
        project = self.user.post(f"/workspaces/{workspace}/projects", {"name": "closed"})["project"]["id"]
        experiment = self.create(activate=False, projectId=project)

        def shown(**query):
            answer = self.user.get("/experiments", f"experiments:[Experiment] {PAGE}", **query)
            self.assertEqual(answer["pagination"]["total"], len(answer["experiments"]))
            return experiment in [x["id"] for x in answer["experiments"]]
        self.assertTrue(shown(archived="false"))
        for path in (f"/projects/{project}", f"/workspaces/{workspace}"):
            self.user.post(f"{path}/archive")
            self.assertFalse(shown(archived="false"), path)
            self.assertTrue(shown(), path)
            self.assertTrue(shown(archived="false", projectId=project), path)
            self.assertFalse(shown(archived="true"), path)
            self.user.post(f"{path}/unarchive")
        self.kill(experiment)

    def test_pool_of_an_experiment(self):
        """det experiment list prints it."""
        experiment = self.create(activate=False)
        listed = {x["id"]: x for x in self.user.get("/experiments", f"experiments:[Experiment] {PAGE}")["experiments"]}
        for found in (listed[experiment], self.user.get(f"/experiments/{experiment}", EXPERIMENT)["experiment"]):
            self.assertEqual(found["resourcePool"], "default")
        self.assertIn(experiment, [x["id"] for x in self.user.get(
            "/experiments", f"experiments:[Experiment] {PAGE}", filter="resource_pool = default")["experiments"]])
        self.kill(experiment)

    def test_experiments_of_a_project(self):
        self.many_of_project(1)

    def test_experiments_without_a_pool_are_in_the_default_one(self):
        made = [self.create(self.config.replace("slots_per_trial: 1", f"slots_per_trial: 1, resource_pool: {pool}"), activate=False)
                for pool in ("''", "null", "default")]
        for experiment in made:
            self.addCleanup(self.kill, experiment)
        found = [shown["id"] for shown in self.user.get("/experiments", filter="resource_pool = default")["experiments"]]
        self.assertEqual(sorted(set(made) & set(found)), made)

    def test_experiments_of_every_project(self):
        """-1 stands for every project that the caller may see."""
        self.many_of_project(-1)
        experiment = self.create(activate=False)
        nobody = self.admin.post("/users", {"isHashed": True, "password": hashed("p"), "user": {
            "username": "stranger", "active": True, "admin": False}})["user"]
        stranger = self.login("stranger", "p")
        answer = stranger.post("/projects/-1/experiments/kill", {"experimentIds": [experiment, 999999], "projectId": -1})
        errors = {r["id"]: r["error"] for r in answer["results"]}
        self.assertIn("role", errors[experiment])
        self.assertIn("experiment '999999' not found", errors[999999])
        found = self.user.post("/projects/-1/experiments/kill", {"filters": {"name": "contract", "states": ["STATE_PAUSED"]}})
        self.assertIn({"id": experiment, "error": ""}, found["results"])
        self.user.call("GET", "/projects/-1", expect=404)
        self.admin.call("PATCH", f"/users/{nobody['id']}", {"active": False})

    def many_of_project(self, project):
        ids = [self.create(activate=False) for _ in range(2)]

        def many(method, verb, **more):
            results = self.user.call(method, f"/projects/{project}/experiments/{verb}", {
                "experimentIds": ids, "projectId": project, "filters": None, **more}, "results:[ActionResult]")["results"]
            self.assertEqual(sorted((r["id"], r["error"]) for r in results), sorted((i, "") for i in ids), verb)
        many("POST", "activate")
        many("POST", "pause")
        many("POST", "cancel")
        many("POST", "kill")
        for experiment in ids:
            self.wait_for_state(experiment, *TERMINAL)
        many("POST", "archive")
        many("POST", "unarchive")
        many("POST", "move", destinationProjectId=1)
        many("DELETE", "delete")

    def test_searches_and_runs(self):
        """A search is an experiment, and a run is its trial; the only action on a single one of
        several runs is a kill."""
        results = "results:[ActionResult]"
        experiment = self.create()
        run = self.agent.task_of(experiment)["trialId"]
        several = self.create(config=self.config.replace("name: single", "name: random, max_trials: 2"), activate=False)

        def ask(noun, verb, ids, **more):
            body = {f"{'search' if noun == 'searches' else 'run'}Ids": ids, "projectId": 1, "filter": None, **more}
            return [r["error"] for r in self.user.post(f"/{noun}/{verb}", body, results)["results"]]
        self.assertEqual(ask("searches", "pause", [experiment, several]), ["", ""])
        self.wait_for_state(experiment, "STATE_PAUSED")
        self.assertEqual(ask("runs", "resume", [run], skipMultitrial=False), [""])
        self.assertIn("run '999999' not found", ask("runs", "pause", [999999])[0])
        self.assertIn("not found in project", ask("runs", "pause", [run], projectId=7)[0])
        self.assertIn("'999999' not found", ask("searches", "kill", [999999])[0])
        self.user.call("POST", "/runs/kill", {"runIds": None, "projectId": 1}, expect=400)
        self.user.call("POST", "/searches/kill", {"projectId": 1, "filter": "{}"}, expect=400)
        self.assertEqual(ask("searches", "resume", [several]), [""])
        runs = wait_for("two runs", lambda: (lambda t: len(t) == 2 and [x["id"] for x in t])(
            self.user.get(f"/experiments/{several}/trials")["trials"]), 30)
        self.assertIn("has more runs than", ask("runs", "archive", runs[:1])[0])
        self.assertEqual(ask("runs", "kill", runs + [run]), ["", "", ""])
        for ended in (experiment, several):
            self.wait_for_state(ended, *TERMINAL)
        self.assertEqual(ask("runs", "kill", [run]), [""])  # it has ended already
        self.assertEqual(ask("runs", "archive", [run]), [""])
        self.assertEqual(ask("runs", "unarchive", [run]), [""])
        self.assertEqual(ask("searches", "archive", [several]), [""])
        self.assertEqual(ask("searches", "unarchive", [several]), [""])
        self.assertEqual(ask("runs", "move", [run], sourceProjectId=1, destinationProjectId=1), [""])
        self.assertEqual(ask("searches", "move", [several], sourceProjectId=1, destinationProjectId=1), [""])
        self.assertEqual(ask("searches", "cancel", [several]), [""])
        self.assertEqual(ask("runs", "delete", [run]), [""])
        self.assertEqual(ask("searches", "delete", [several]), [""])

    def test_searches_and_runs_by_filter(self):
        """The web client sends its filter when it selects all rows of a table."""
        workspace = self.user.post("/workspaces", {"name": "filtered"})["workspace"]["id"]
        project, other = (self.user.post(f"/workspaces/{workspace}/projects", {"name": name, "workspaceId": workspace})["project"]["id"]
                          for name in ("filtered", "target"))
        first, second = (self.create(config=self.config.replace("name: contract", f"name: {name}"), projectId=project)
                         for name in ("first", "second"))
        runs = [self.agent.task_of(experiment)["trialId"] for experiment in (first, second)]

        def tree(*tests, archived=False):
            return json.dumps({"filterGroup": {"kind": "group", "conjunction": "and", "children": [
                {"kind": "field", "columnName": column, "operator": operator, "value": value, "location": "any", "type": "any",
                 "id": "any"} for column, operator, value in tests]}, "showArchived": archived})

        def ask(noun, verb, filter, expect=200, caller=self.user, **more):
            ids = "searchIds" if noun == "searches" else "runIds"
            body = {ids: [], "projectId": project, "filter": filter, **more}
            answer = caller.call("POST", f"/{noun}/{verb}", body, "results:[ActionResult]" if expect == 200 else None,
                                 expect=expect)
            return [(r["id"], r["error"]) for r in answer["results"]] if expect == 200 else answer
        both, done = tree(), [(first, ""), (second, "")]
        self.assertEqual(ask("searches", "pause", tree(("name", "=", "second"))), [(second, "")])
        self.wait_for_state(second, "STATE_PAUSED")
        self.assertEqual(ask("searches", "resume", both), done)
        self.wait_for_state(second, "STATE_RUNNING")  # the simulated agent knows only tasks that it has run
        for test in (("experimentId", "=", second), ("experimentName", "contains", "SECO"), ("id", "=", runs[1]),
                     ("experimentDescription", "=", "by the test of the contract"), ("state", "!=", "COMPLETED"),
                     ("experimentProgress", "=", 0), ("tags", "=", "two"), ("user", "=", "determined"), ("userId", ">", 0),
                     ("startTime", ">", "2020-01-01"), ("endTime", "isEmpty", None), ("duration", ">=", 0),
                     ("numTrials", "=", 1), ("resourcePool", "!=", "other"), ("searcherType", "=", "single"),
                     ("searcherMetricsVal", "isEmpty", None), ("forkedFrom", "isEmpty", None), ("projectId", "=", project),
                     ("archived", "=", False), ("unmanaged", "=", False), ("hp.width", "=", 64),
                     ("validation.loss.min", "isEmpty", None), ("training.loss", "isEmpty", None)):
            found = ask("runs", "pause", tree(test, ("experimentName", "!=", "first")))
            self.assertEqual(found, [(runs[1], "")], test)
        self.assertEqual(ask("runs", "resume", tree(("hp.width", ">", 64))), [])
        self.assertEqual(ask("runs", "kill", both), [(run, "") for run in runs])
        for experiment in (first, second):
            self.wait_for_state(experiment, *TERMINAL)
        self.assertEqual(ask("runs", "archive", tree(("id", "=", runs[0]))), [(runs[0], "")])
        self.assertEqual(ask("searches", "archive", both), done[1:])  # the filter leaves out what is archived
        self.assertEqual(ask("searches", "unarchive", tree(archived=True)), done)
        self.assertEqual(ask("searches", "cancel", tree(("projectId", "=", project)), projectId=-1), done)
        nobody = self.admin.post("/users", {"isHashed": True, "password": hashed("p"), "user": {
            "username": "filtering", "active": True, "admin": False}})["user"]
        stranger = self.login("filtering", "p")
        for _, error in ask("searches", "delete", both, caller=stranger):
            self.assertIn("role", error)
        self.user.call("PATCH", f"/workspaces/{workspace}", {"defaultRole": "none"})
        self.assertEqual(ask("searches", "delete", both, caller=stranger), [])  # it sees nothing of them
        self.admin.call("PATCH", f"/users/{nobody['id']}", {"active": False})
        self.assertEqual(ask("searches", "move", both, sourceProjectId=project, destinationProjectId=other), done)
        self.assertEqual(ask("runs", "delete", both, projectId=other), [(run, "") for run in runs])
        ask("searches", "kill", both, expect=400, searchIds=[first])
        for wrong in ("{}", "no JSON", tree(("nothing", "=", 1)), tree(("experimentName", "=", "x"))):
            ask("searches", "kill", wrong, expect=400)

    def test_search_of_experiments(self):
        """Uses the filters and orders of the web client."""
        experiment, task, caller = self.running(config=self.config.replace("name: contract", "name: needle"))
        self.metrics(task, caller, "validation", 10, {"validation_loss": 0.25})

        def field(column, operator, value=None, location="LOCATION_TYPE_EXPERIMENT"):
            return {"columnName": column, "kind": "field", "location": location, "operator": operator,
                    "type": "COLUMN_TYPE_TEXT", "value": value, "id": "any"}

        def search(*children, expect=200, sort="id=desc", archived=True, **more):
            tree = {"filterGroup": {"kind": "group", "conjunction": "and", "children": children}, "showArchived": archived}
            answer = self.user.call("POST", "/experiments-search", {
                "projectId": None, "limit": 5, "offset": 0, "sort": sort, "filter": json.dumps(tree), **more},
                f"experiments:[FoundExperiment] {PAGE}" if expect == 200 else None, expect=expect)
            return [row["experiment"]["id"] for row in answer["experiments"]] if expect == 200 else answer
        for test in (field("name", "=", "needle"), field("id", "=", experiment), field("tags", "contains", "tw"),
                     field("name", "notContains", "\"quoted\" \\"), field("description", "!=", None),
                     field("validation.validation_loss.min", "<", 0.5, "LOCATION_TYPE_VALIDATIONS"),
                     field("hp.width", "=", 64, "LOCATION_TYPE_HYPERPARAMETERS"), field("endTime", "isEmpty"),
                     {"kind": "group", "conjunction": "or", "children": [field("id", "=", 0), field("name", "contains", "NEED")]},
                     {"kind": "group", "conjunction": "and", "children": []}):
            self.assertIn(experiment, search(test, field("name", "=", "needle")), test)
        for test in (field("name", "=", "hay"), field("endTime", "notEmpty"), field("numTrials", ">", 1)):
            self.assertEqual(search(test, field("id", "=", experiment)), [], test)
        self.assertEqual(search(field("id", "=", experiment), archived=False, projectId=1), [experiment])
        found = self.user.post("/experiments-search", {"sort": "validation.validation_loss.min=asc,id=desc", "limit": 1})
        self.assertEqual(found["experiments"][0]["bestTrial"]["id"], task["trialId"])
        for wrong in (field("nothing", "=", 1), field("name", "like", "x"), field("name", "=", [1]), field("id", "<", "x"),
                      field("validation.loss.mean", "<", 1), {"kind": "group", "conjunction": "xor", "children": []}):
            search(wrong, expect=400)
        for sort in ("id", "id=up", "nothing=asc", "=asc"):
            search(sort=sort, expect=400)
        self.user.call("POST", "/experiments-search", {"filter": "no JSON"}, expect=400)
