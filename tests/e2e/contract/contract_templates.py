"""det template."""

from contract import Contract, PAGE


class Templates(Contract):
    def test_templates(self):
        template = {"name": "base", "config": {"max_restarts": 3}, "workspaceId": 1}
        self.user.post("/templates/base", template, "template:Template")
        self.user.get("/templates", f"templates:[Template] {PAGE}", sortBy="SORT_BY_NAME", workspaceIds=None)
        self.user.get("/templates/base", "template:Template")
        self.user.call("PATCH", "/templates/base", {"max_restarts": 4, "labels": ["templated"]}, "template:Template")
        experiment = self.create(config=self.config.replace("max_restarts: 0\n", ""), template="base", activate=False)
        self.assertEqual(self.user.get(f"/experiments/{experiment}")["experiment"]["config"]["max_restarts"], 4)
        self.kill(experiment)
        self.user.post("/templates/other", {**template, "name": "other"}, "template:Template")
        renamed = self.user.call("PATCH", "/template/rename", {"oldName": "base", "newName": "renamed"}, "template:Template")
        self.assertEqual((renamed["template"]["name"], renamed["template"]["config"]["max_restarts"]), ("renamed", 4))
        self.user.call("GET", "/templates/base", expect=404)
        for body, status in (({"oldName": "base", "newName": "x"}, 404), ({"oldName": "renamed", "newName": "other"}, 409),
                             ({"oldName": "renamed", "newName": "a/b"}, 400), ({"oldName": "renamed"}, 400)):
            self.user.call("PATCH", "/template/rename", body, expect=status)
        self.user.call("PATCH", "/template/rename", {"oldName": "renamed", "newName": "base"}, "template:Template")
        self.user.call("DELETE", "/templates/other")
        self.user.call("DELETE", "/templates/base")
        self.user.call("GET", "/templates/base", expect=404)
