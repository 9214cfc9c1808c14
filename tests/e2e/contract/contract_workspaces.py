"""det workspace and det project."""

from cluster import wait_for
from contract import Contract, PAGE


class Workspaces(Contract):
    def test_workspaces_and_projects(self):
        workspace = self.user.post("/workspaces", {
            "name": "team", "agentUserGroup": None, "checkpointStorageConfig": None, "clusterNamespaceMeta": None,
            "clusterQuotaPairs": None, "defaultAuxPool": None, "defaultComputePool": None},
            "workspace:Workspace namespaceBindings")["workspace"]["id"]
        self.user.get("/workspaces", f"workspaces:[Workspace] {PAGE}", limit=None, offset=0, pinned=None,
                      sortBy="SORT_BY_ID", orderBy="ORDER_BY_ASC")
        self.user.get(f"/workspaces/{workspace}", "workspace:Workspace")
        self.user.call("PATCH", f"/workspaces/{workspace}", {"name": "team two"}, "workspace:Workspace")
        project = self.user.post(f"/workspaces/{workspace}/projects", {
            "name": "study", "workspaceId": workspace, "description": "d", "key": None}, "project:Project")["project"]["id"]
        self.user.get(f"/workspaces/{workspace}/projects", f"projects:[Project] {PAGE}", limit=200, offset=0,
                      sortBy="SORT_BY_NAME", orderBy="ORDER_BY_ASC")
        self.user.get(f"/projects/{project}", "project:Project")
        self.user.get("/experiments", f"experiments:[Experiment] {PAGE}", projectId=project)
        self.user.call("PATCH", f"/projects/{project}", {"name": "study two", "description": None, "key": None},
                       "project:Project")
        other = self.user.post("/workspaces", {"name": "another team"})["workspace"]["id"]
        self.user.post(f"/projects/{project}/move", {"destinationWorkspaceId": other, "projectId": project})
        self.assertEqual(self.user.get(f"/projects/{project}")["project"]["workspaceId"], other)
        for path in (f"/projects/{project}", f"/workspaces/{workspace}", f"/workspaces/{other}"):
            self.user.post(path + "/archive")
            self.user.post(path + "/unarchive")
            self.user.call("DELETE", path, None, "completed")
            wait_for("the deletion", lambda: self.user.request("GET", "/api/v1" + path)[0] == 404, 30)

    def test_project_notes(self):
        workspace = self.user.post("/workspaces", {"name": "noted"})["workspace"]["id"]
        project = self.user.post(f"/workspaces/{workspace}/projects", {"name": "p", "workspaceId": workspace})["project"]["id"]
        for _ in range(2):
            self.assertEqual(self.user.post(f"/projects/{project}/notes", {"name": "one", "contents": "text"},
                                            "notes:[Note]")["notes"], [{"name": "one", "contents": "text"}])
        notes = self.user.call("PUT", f"/projects/{project}/notes", {
            "notes": [{"name": "two", "contents": "more"}], "projectId": project}, "notes:[Note]")["notes"]
        self.assertEqual(notes, [{"name": "two", "contents": "more"}])
        self.assertEqual(self.user.get(f"/projects/{project}", "project:Project")["project"]["notes"], notes)
