"""det model."""

from contract import Contract, PAGE


class Models(Contract):
    def test_models(self):
        _, task, caller = self.running()
        uuid = "00000000-0000-4000-8000-000000000300"
        self.checkpoint(task, caller, uuid)
        model = self.user.post("/models", {
            "name": "net one", "description": "a model", "labels": ["x"], "metadata": {"k": "v"}, "notes": None,
            "workspaceId": None, "workspaceName": None}, "model:Model")["model"]
        self.user.get("/models", f"models:[Model] {PAGE}", archived=None, labels=None, limit=100, offset=0,
                      sortBy="SORT_BY_NAME", orderBy="ORDER_BY_ASC")
        self.user.get("/models/net%20one", "model:Model")
        self.user.call("POST", "/models", {"name": "net one", "description": "a model", "labels": ["x"],
                                           "metadata": {"k": "v"}}, expect=409)  # even if all words are the same
        version = self.user.post("/models/net%20one/versions", {
            "checkpointUuid": uuid, "modelName": "net one", "name": "first", "comment": None, "labels": None,
            "metadata": None, "notes": None}, "modelVersion:ModelVersion")["modelVersion"]
        self.user.get("/models/net%20one/versions", f"model:Model modelVersions:[ModelVersion] {PAGE}", offset=0)
        self.user.get(f"/models/net%20one/versions/{version['version']}", "modelVersion:ModelVersion")
        self.user.call("PATCH", f"/models/net%20one/versions/{version['version']}", {"name": "second", "notes": "n"},
                       "modelVersion:ModelVersion")
        self.user.call("PATCH", "/models/net%20one", {"description": "other", "metadata": {"k": "w"}, "labels": ["y"]},
                       "model:Model")
        self.assertIn("y", self.user.get("/model/labels", "labels")["labels"])
        self.user.post("/models/net%20one/archive")
        self.user.post("/models/net%20one/unarchive")
        self.user.post("/models/net%20one/move", {"destinationWorkspaceId": model["workspaceId"], "modelName": "net one"})
        self.user.call("DELETE", f"/models/net%20one/versions/{version['version']}")
        self.user.call("DELETE", "/models/net%20one")
        self.user.call("GET", "/models/net%20one", expect=404)

    def test_models_of_workspaces(self):
        for name in ("one", "two"):
            self.user.post("/workspaces", {"name": f"models {name}"})
            self.user.post("/models", {"name": f"of {name}", "workspaceName": f"models {name}"})

        def found(*names):
            models = self.user.get("/models", f"models:[Model] {PAGE}", workspaceNames=list(names), sortBy="SORT_BY_NAME")
            return [model["name"] for model in models["models"]]
        self.assertEqual(found("models one"), ["of one"])
        self.assertEqual(found("models one", "models two"), ["of one", "of two"])
        self.assertEqual(found("models three"), [])
