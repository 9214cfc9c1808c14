"""Every command of muster with a real cluster. The test reads the commands from the program, so a
new command without a line here fails."""

import csv
import functools
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import unittest

import determined_db
import trainings
from cluster import BIN, PASSWORD, SOURCE, Cluster, wait_for
from tls_server import TlsRecorder, make_certificates
from webhook_receiver import WebhookReceiver

MUSTER = str(BIN / "muster")
LONG = 100000  # steps of a training that does not end by itself
NEW_PASSWORD = "another secret"


@functools.cache
def words(*typed):
    """Returns the completions that the program offers after these words."""
    done = subprocess.run([MUSTER, "complete-words", "fish", "--", *typed], capture_output=True, text=True, check=True)
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def words_with(env, *typed):
    """The same, if it may ask the master."""
    done = subprocess.run([MUSTER, "complete-words", "fish", "--", *typed], capture_output=True, text=True, env=env)
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@functools.cache
def explained(*command):
    return subprocess.run([MUSTER, *command, "--help"], capture_output=True, text=True, check=True).stdout


@functools.cache
def commands():
    """Returns all commands: ("experiment", "list"), ("login",)."""
    found = []
    for noun in words(""):
        one_word = not explained(noun).startswith("Commands of")
        found += [(noun,)] if one_word else [(noun, verb) for verb in words(noun, "")]
    return found


class Help(unittest.TestCase):
    def test_every_command_is_explained(self):
        all_commands = commands()
        self.assertGreater(len(all_commands), 100)
        for command in all_commands:
            shown = explained(*command)
            with self.subTest(command):
                self.assertIn("muster " + " ".join(command), shown)
                self.assertIn("Example:\n  ", shown)
                flags = words(*command, "--")
                self.assertIn("--output", flags)
                for flag in flags:
                    self.assertRegex(shown, rf"(?m)^ .*{flag}\b")
                for flag in re.findall(r"(?m)^  (?:-\w,|   ) (--[a-z-]+)", shown):
                    self.assertIn(flag, flags)

    def test_examples_are_valid(self):
        """An example belongs to its command and uses only flags that the command has."""
        for command in commands():
            shown = explained(*command)
            example = re.search(r"Example:\n  (.*)", shown)[1]
            with self.subTest(example):
                self.assertIn("muster " + " ".join(command), example)
                for flag in re.findall(r" (--[a-z-]+)", re.sub(r"'[^']*'| -- .*", "", example)):
                    self.assertIn(flag, words(*command, "--"))

    def test_topics(self):
        for topic in words("help", ""):
            self.assertGreater(len(subprocess.run([MUSTER, "help", topic], capture_output=True, text=True,
                                                  check=True).stdout), 200)
        self.assertIn("editor", subprocess.run([MUSTER, "help", "teams"], capture_output=True, text=True).stdout)

    def test_manual_pages(self):
        subprocess.run([MUSTER, "man", "--to", "man"], check=True)
        pages = sorted(pathlib.Path("man").iterdir())
        nouns = {c[0] for c in commands() if len(c) == 2}
        self.assertEqual({p.name for p in pages},
                         {"muster.1", "muster-master.8", "muster-agent.8", "muster-trainer.1"}
                         | {f"muster-{noun}.1" for noun in nouns})
        groff = any((pathlib.Path(d) / "groff").exists() for d in os.environ["PATH"].split(":"))
        for page in pages:
            text = page.read_text()
            self.assertTrue(text.startswith('.\\"'), page)
            if groff:
                done = subprocess.run(["groff", "-mandoc", "-ww", "-Tutf8", page], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), page)
                self.assertIn("SEE ALSO", re.sub(".\x08", "", done.stdout))
        experiment = (pathlib.Path("man") / "muster-experiment.1").read_text()
        for command in (c for c in commands() if c[0] == "experiment"):
            self.assertIn("muster experiment " + command[1].replace("-", "\\-"), experiment)
        self.assertIn("log\\-retention\\-days", (pathlib.Path("man") / "muster-master.8").read_text())
        self.assertEqual(subprocess.run([MUSTER, "man", "nothing"], capture_output=True).returncode, 2)

    def test_installing(self):
        """All programs are installed, with their manual pages and completion."""
        if not (BIN.parent / "cmake_install.cmake").exists():
            self.skipTest("these programs were not built by CMake here")
        subprocess.run(["cmake", "--install", BIN.parent, "--prefix", "installed"], check=True, capture_output=True)
        there = pathlib.Path("installed")
        expected = {"muster", "muster-master", "muster-agent", "muster-supervisor", "muster-trainer"}
        if (BIN / "muster-trainer-cuda").exists():  # only with the CUDA toolkit
            expected.add("muster-trainer-cuda")
        self.assertEqual({path.name for path in (there / "bin").iterdir()}, expected)
        self.assertEqual([path.name for path in (there / "libexec" / "muster").iterdir()], ["muster"])
        for name in ("man1/muster.1", "man1/muster-experiment.1", "man1/muster-trainer.1", "man8/muster-master.8"):
            self.assertTrue((there / "share" / "man" / name).exists(), name)
        for name in ("bash-completion/completions/muster", "zsh/site-functions/_muster", "fish/vendor_completions.d/muster.fish"):
            self.assertTrue((there / "share" / name).exists(), name)
        for program in (there / "bin" / "muster", there / "libexec" / "muster" / "muster"):
            shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            self.assertEqual(shown, subprocess.run([MUSTER, "--version"], capture_output=True, text=True).stdout)

    def test_hyperparameters_are_explained(self):
        for text in (explained("experiment", "create"), subprocess.run(
                [MUSTER, "man", "experiment", "create"], capture_output=True, text=True).stdout,
                (SOURCE / "examples" / "README.md").read_text()):
            self.assertIn("${lr}", text)


class EveryCommand(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.ran = set()
        cls.data = pathlib.Path("data")
        cls.data.mkdir()
        trainings.write_images(cls.data)
        cls.cluster = Cluster("cluster", slots=(2, 1), master_flags=("--agent-reconnect", "2")).__enter__()
        cls.cluster.muster("login", "admin", "--password-file", cls.cluster.folder / "password")
        cls.config = pathlib.Path("config.yaml").resolve()
        cls.config.write_text(trainings.config("mlp", 2, steps=40, every=10))
        cls.trained = cls.cluster.create(cls.config, cls.data)
        cls.cluster.wait(cls.trained)
        cls.trial = cls.cluster.trial(cls.trained)["id"]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    # how this test runs commands

    def note(self, arguments):
        plain = [str(a) for a in arguments if not str(a).startswith("-")]
        self.ran.add(tuple(plain[:2]))
        self.ran.add(tuple(plain[:1]))

    def muster(self, *arguments):
        self.note(arguments)
        return self.cluster.muster(*arguments)

    def says(self, text, *arguments):
        out = self.muster(*arguments)
        self.assertIn(str(text), out)
        return out

    def json(self, *arguments):
        self.note(arguments)
        return json.loads(self.cluster.muster(*arguments, "-o", "json"))

    def table(self, *arguments):
        """Returns the rows of a listing command and checks that they are the same in every format.
        """
        rows = self.json(*arguments)
        self.assertIsInstance(rows, list)
        lines = self.cluster.muster(*arguments).splitlines()
        as_csv = list(csv.reader(io.StringIO(self.cluster.muster(*arguments, "-o", "csv"))))
        self.assertGreaterEqual(len(rows) + 1, len(lines))
        self.assertEqual(len(as_csv), len(rows) + 1)
        lines = [json.loads(line) for line in self.cluster.muster(*arguments, "-o", "jsonl").splitlines()]
        self.assertEqual([list(line) for line in lines], [list(row) for row in rows])  # relative times may have changed
        for row in rows:
            for column in as_csv[0]:
                self.assertIn(column, row)
        return rows

    def media(self):
        """Reports a text by names of which most cannot be folders as they are, then lists and downloads them."""
        content = "of a test".encode()
        digest = hashlib.sha256(content).hexdigest()
        storage = pathlib.Path(self.json("checkpoint", "list", "--trial", self.trial)[0]["path"]).parent
        cluster = json.loads(self.muster("api", "get", "/info"))["cluster_id"]
        folder = storage / "media" / cluster / str(self.trained)
        folder.mkdir(parents=True)
        (folder / digest).write_bytes(content)
        long = "a" * 256
        names = ("%2E.%2Fout", "..", "../out", long, "notes", "notes/10.txt", "notes/a")
        item = {"step": 10, "type": "text", "digest": digest, "size": len(content)}
        self.muster("api", "POST", f"trials/{self.trial}/media", "--body",
                    json.dumps({"items": [{**item, "name": name} for name in names]}))
        rows = self.table("trial", "media", self.trial)
        self.assertEqual([(row["name"], row["step"], row["type"]) for row in rows],
                         [(name, 10, "text") for name in names])
        self.assertEqual(self.json("trial", "media", self.trial, "--name", "notes/a", "--type", "text", "--step", 10),
                         rows[-1:])
        self.assertEqual(self.json("trial", "media", self.trial, "--type", "image"), [])
        self.refused(2, "none of image, histogram, table and text", "trial", "media", self.trial, "--type", "img")
        self.says("7 files are in pictures", "trial", "media", self.trial, "--to", "pictures")
        files = [path for path in pathlib.Path("pictures").rglob("*") if path.is_file()]
        self.assertEqual(sorted(str(path.relative_to("pictures")) for path in files),
                         ["%252E.%252Fout/10.txt", "%2E.%2Fout/10.txt", "%2E./10.txt", long[:200] + "%-fd2916200943d825/10.txt",
                          "notes%2F10.txt/10.txt", "notes/10.txt", "notes/a/10.txt"])
        self.assertEqual(pathlib.Path("pictures/notes/a/10.txt").read_bytes(), content)

    def shown(self, *arguments):
        """Describes one object; returns the object and the text form."""
        thing = self.json(*arguments)
        self.assertIsInstance(thing, dict)
        return thing, self.cluster.muster(*arguments)

    def refused(self, code, text, *arguments):
        done = self.cluster.run(*arguments)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(text, done.stderr)

    def submit(self, *flags, steps=LONG):
        path = pathlib.Path("long.yaml")
        path.write_text(trainings.config("mlp", 2, steps=steps, every=50))
        return self.cluster.create(path, self.data, *flags)

    def state(self, experiment):
        return self.cluster.rows("experiment", "describe", experiment)["state"]

    # the commands

    def test_accounts(self):
        who, text = self.shown("whoami")
        self.assertEqual((who["username"], who["admin"]), ("admin", True))
        secret = pathlib.Path("secret")
        secret.write_text(NEW_PASSWORD + "\n")
        made = self.json("user", "create", "ann", "--display-name", "Ann Smith", "--password-file", secret)
        self.assertEqual((made["username"], made["display_name"], made["admin"]), ("ann", "Ann Smith", False))
        self.assertIn("ann", [row["username"] for row in self.table("user", "list")])
        self.assertIn("Ann Smith", self.shown("user", "describe", "ann")[1])
        self.assertTrue(self.json("user", "set", "ann", "--admin")["admin"])
        self.assertFalse(self.json("user", "edit", "ann", "--no-admin", "--display-name", "A.")["admin"])
        self.refused(2, "nothing to change", "user", "set", "ann")
        self.says("is now anna", "user", "rename", "ann", "anna")
        self.refused(3, 'did you mean "anna"', "user", "describe", "annna")
        self.says("can no longer sign in", "user", "deactivate", "anna")
        self.refused(4, "", "login", "anna", "--password-file", secret)
        self.says("can sign in again", "user", "activate", "anna")
        secret.write_text("1234567\n")
        self.refused(2, "at least 8 characters", "user", "change-password", "anna", "--password-file", secret)
        self.refused(2, "at least 8 characters", "user", "create", "bob", "--password-file", secret)
        secret.write_text("a third one\n")
        self.says("changed", "user", "change-password", "anna", "--password-file", secret)
        other = {**self.cluster.env, "XDG_CONFIG_HOME": str(pathlib.Path("anna").resolve())}

        def as_anna(*arguments, text=None):
            return subprocess.run([MUSTER, *arguments], env=other, input=text, capture_output=True, text=True,
                                  timeout=60)
        self.assertEqual(as_anna("login", "anna", "--password-stdin", text=NEW_PASSWORD + "\n").returncode, 4)
        done = as_anna("login", "anna", "--password-stdin", text="a third one\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.note(["login"])
        done = as_anna("user", "change-password", "--password-stdin", text="a fourth\n")
        self.assertEqual(done.returncode, 0, done.stderr)  # his own token
        self.assertEqual(as_anna("master", "config").returncode, 4)
        self.assertEqual(as_anna("logout").returncode, 0)
        self.note(["logout"])
        self.assertIn("muster login", as_anna("whoami").stderr)

    def test_tokens(self):
        self.note(["token", "create"])
        done = self.cluster.run("token", "create", "--expires", "2h", "--description", "nightly")
        self.assertEqual(done.returncode, 0, done.stderr)
        token = done.stdout.strip()
        self.assertNotIn(" ", token)
        self.assertEqual(json.loads(self.cluster.muster("whoami", "--token", token, "-o", "json"))["username"], "admin")
        rows = [row for row in self.table("token", "list") if row["description"] == "nightly"]
        self.assertEqual((rows[0]["user"], rows[0]["state"], rows[0]["type"]), ("admin", "good", "access"))
        number = rows[0]["id"]
        self.assertEqual(self.json("token", "set", number, "--description", "daily")["description"], "daily")
        for_determined = self.json("token", "create", "--user", "determined", "--expires", "never")
        self.says("revoked", "token", "revoke", for_determined["id"])
        self.says("revoked", "token", "revoke", number)
        self.assertEqual(self.cluster.run("whoami", "--token", token).returncode, 4)
        self.assertNotIn(number, [row["id"] for row in self.json("token", "list")])
        self.assertIn("revoked", [row["state"] for row in self.json("token", "list", "--all")])
        self.refused(2, "--expires takes", "token", "create", "--expires", "soon")

    def test_teams_and_projects(self):
        out = self.says("Created team", "team", "create", "42: \"x\" team", "--weight", "0.5", "--project", "yes")
        self.assertIn('workspace: "42: \\"x\\" team"\n  project: "yes"', out)
        self.muster("team", "create", "vision", "--guaranteed", "1", "--default-role", "viewer")
        team, text = self.shown("team", "describe", "vision")
        self.assertEqual((team["guaranteed"], [p["name"] for p in team["project_list"]]), (1, ["default"]))
        self.assertIn("Projects", text)
        self.assertIn("vision", [row["name"] for row in self.table("team", "list")])
        self.says("Changed", "team", "set", "vision", "--user", "determined", "--role", "editor", "--weight", "2")
        self.assertEqual([(m["user"], m["role"]) for m in self.table("team", "members", "vision")
                          if m["user"] == "determined"], [("determined", "editor")])
        self.assertIn("default", [row["pool"] for row in self.table("team", "shares")])
        self.refused(3, "muster pool list", "team", "shares", "--pool", "nowhere-at-all")
        self.refused(3, 'did you mean "default"', "queue", "list", "--pool", "defautl")
        self.says("(", "project", "create", "vision", "cats", "--description", "cats and dogs")
        self.assertEqual([row["name"] for row in self.table("project", "list", "vision")], ["default", "cats"])
        self.assertIn("Uncategorized", [row["team"] for row in self.table("project", "list")])
        self.says("Changed", "project", "set", "vision", "cats", "--name", "felines")
        self.says("Added a note", "project", "note", "vision", "felines", "the data moved", "--name", "Data")
        project, text = self.shown("project", "describe", "vision", "felines")
        self.assertEqual((project["notes"][0]["contents"], project["description"]), ("the data moved", "cats and dogs"))
        self.assertIn("the data moved", text)
        self.refused(3, 'did you mean "felines"', "project", "describe", "vision", "feline")
        self.says("archived", "project", "archive", "vision", "felines")
        self.assertEqual([row["name"] for row in self.json("project", "list", "vision")], ["default"])
        self.says("unarchived", "project", "unarchive", "vision", "felines")
        self.muster("team", "create", "animals")
        self.assertEqual(self.json("project", "move", "vision", "felines", "animals")["team"], "animals")
        self.refused(3, "no project", "project", "move", "vision", "felines", "animals")
        self.assertEqual([row["name"] for row in self.json("project", "list", "vision")], ["default"])
        self.says("is in team vision", "project", "move", "animals", "felines", "vision")
        self.muster("team", "delete", "animals", "--yes")
        self.says("Deleted", "project", "delete", "vision", "felines", "--yes")
        self.says("archived", "team", "archive", "vision")
        self.assertNotIn("vision", [row["name"] for row in self.json("team", "list")])
        self.says("unarchived", "team", "unarchive", "vision")
        self.says("Deleted", "workspace", "delete", "vision", "--yes")  # Determined's word
        self.muster("team", "delete", "42: \"x\" team", "--yes")

    def test_models(self):
        newest = self.cluster.rows("checkpoint", "list", "--experiment", self.trained, "--latest")[0]["uuid"]
        self.json("model", "create", "digits", "--description", "reads digits", "--label", "a", "--metadata", "lr=0.1")
        self.assertEqual([row["name"] for row in self.table("model", "list", "--label", "a")], ["digits"])
        self.refused(5, 'a model "digits" exists already', "model", "create", "digits", "--description", "reads digits",
                     "--label", "a", "--metadata", "lr=0.1")
        version = self.json("model", "register-version", "digits", newest, "--comment", "first")
        self.assertEqual((version["version"], version["checkpoint"], version["experiment"]), (1, newest, self.trained))
        self.refused(5, "is already version 1 of model digits", "model", "register-version", "digits", newest,
                     "--comment", "first")
        self.assertEqual([row["comment"] for row in self.table("model", "versions", "digits")], ["first"])
        self.json("model", "set-version", "digits", 1, "--comment", "the one", "--name", "v1")
        self.assertEqual(self.json("model", "set", "digits", "--description", "reads")["description"], "reads")
        self.assertEqual(self.json("model", "label", "add", "digits", "b", "c")["labels"], ["a", "b", "c"])
        self.assertEqual(self.json("model", "label", "remove", "digits", "a", "c")["labels"], ["b"])
        model, text = self.shown("model", "describe", "digits")
        self.assertEqual((model["metadata"], model["version_list"][0]["name"]), ({"lr": 0.1}, "v1"))
        self.assertIn("the one", text)
        self.cluster.muster("team", "create", "models")
        self.says("is in team models", "model", "move", "digits", "models")
        self.assertEqual(self.json("model", "describe", "digits")["team"], "models")
        self.says("archived", "model", "archive", "digits")
        self.assertEqual(self.json("model", "list"), [])
        self.says("unarchived", "model", "unarchive", "digits")
        self.refused(2, "is not a version", "model", "delete-version", "digits", "first", "--yes")
        self.says("Deleted", "model", "delete-version", "digits", 1, "--yes")
        self.says("Deleted", "model", "delete", "digits", "--yes")
        self.refused(3, "", "model", "describe", "digits")

    def test_templates(self):
        small = pathlib.Path("small.yaml")
        small.write_text("description: of a template\nresources: {slots_per_trial: 1}\n")
        self.says("--template", "template", "create", "small", small)
        self.refused(5, 'a template "small" exists already', "template", "create", "small", small)
        small.write_text("description: of the template\nresources: {slots_per_trial: 1}\n")
        self.refused(5, "small", "template", "create", "small", small)
        self.json("template", "set", "small", small)
        self.assertEqual([(row["name"], row["team"]) for row in self.table("template", "list")],
                         [("small", "Uncategorized")])
        template, text = self.shown("template", "describe", "small")
        self.assertEqual(template["config"], json.loads(text))
        experiment = self.cluster.create(self.config, self.data, "--template", "small", "--paused")
        self.assertEqual(self.json("experiment", "describe", experiment)["description"], "of the template")
        self.cluster.muster("experiment", "kill", experiment, "--wait")
        small.write_text("- a list\n")
        self.refused(2, "a template is", "template", "set", "small", small)
        self.says("Deleted", "template", "delete", "small", "--yes")

    def test_webhooks(self):
        receiver = WebhookReceiver()
        self.addCleanup(receiver.close)
        url = receiver.url
        made = self.json("webhook", "create", url, "--name", "pager", "--on", "error", "--on", "val_loss<0.5",
                         "--on", "log:out of memory")
        self.assertEqual(made["on"], ["ERROR", "val_loss<0.5", "log:out of memory"])
        self.refused(5, 'a webhook "pager" exists already', "webhook", "create", url, "--name", "pager", "--on", "error",
                     "--on", "val_loss<0.5", "--on", "log:out of memory")
        self.assertEqual([(row["name"], row["url"]) for row in self.table("webhook", "list")], [("pager", url)])
        self.assertIn(url, self.shown("webhook", "describe", "pager")[1])
        self.says("delivered", "webhook", "test", "pager")
        self.assertEqual(len(receiver.requests), 1)
        self.says("now posts to", "webhook", "set", made["id"], url + "/2")
        self.says("Deleted", "webhook", "delete", "pager", "--yes")
        self.refused(2, "--on takes", "webhook", "create", url, "--on", "whenever")
        self.refused(3, "muster webhook list", "webhook", "test", "pager")

    def test_agents_and_slots(self):
        self.assertEqual(sorted(row["id"] for row in self.table("agent", "list")), ["agent-0", "agent-1"])
        agent, text = self.shown("agent", "describe", "agent-0")
        self.assertEqual((agent["slots"], len(agent["slot_list"])), (2, 2))
        self.assertEqual(agent["task_limits"]["files"], 2000000)
        self.assertIn("Limits of each task", text)
        self.assertRegex(text, r"files +2000000")
        self.says("takes no new tasks", "agent", "disable", "agent-1", "--drain")
        self.assertFalse(self.json("agent", "describe", "agent-1")["enabled"])
        self.says("enabled", "agent", "enable", "agent-1")
        self.says("disabled", "slot", "disable", "agent-0", 1, "--drain")
        self.assertEqual([row["enabled"] for row in self.table("slot", "list", "--agent", "agent-0")], [True, False])
        self.says("enabled", "slot", "enable", "agent-0", 1)
        self.assertEqual([(row["name"], row["slots"]) for row in self.table("pool", "list")], [("default", 3)])

    def test_enrolment(self):
        line = self.json("agent", "enroll", "--name", "joiner", "--pool", "default", "--ttl", "2d", "--count", 1)
        self.assertRegex(line["enrolment"], r"^muster1:127\.0\.0\.1:\d+:plain:[0-9a-f]{64}$")
        agent = self.cluster.folder / "joiner"
        done = subprocess.run([BIN / "muster-agent", "--work-dir", agent, "--id", "joiner", "--enroll-only",
                               "--enroll-file", "-"], input=line["enrolment"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["agent"] for row in self.table("agent", "credentials")], ["joiner"])
        self.says("has ended", "agent", "revoke", "joiner")
        self.refused(3, "credential of agent 'joiner' not found", "agent", "revoke", "joiner")
        self.refused(2, "lifespan", "agent", "enroll", "--ttl", "31d")
        self.refused(2, "only a master with https", "trust", self.cluster.url)
        fingerprint = make_certificates(self.cluster.folder / "other")
        with TlsRecorder(self.cluster.folder / "other") as server:
            self.refused(6, fingerprint, "trust", server.url)  # nobody at a terminal can compare it
            self.says("is trusted by its authority", "trust", server.url, "--fingerprint", fingerprint)

    def test_lost_agent(self):
        agent = self.cluster.add_agent("spare", 1)
        wait_for("the agent", lambda: len(self.cluster.rows("agent", "list")) == 3)
        self.refused(5, "stop it first", "agent", "forget", "spare")
        agent.kill9()
        wait_for("its loss", lambda: self.json("agent", "describe", "spare")["lost"])
        self.assertEqual(len(self.cluster.rows("agent", "list")), 3)  # it stays visible
        self.says("is removed from the list", "agent", "forget", "spare")
        self.assertEqual(len(self.cluster.rows("agent", "list")), 2)

    def test_master(self):
        self.assertEqual(self.shown("master", "info")[0]["address"], self.cluster.url)
        self.assertEqual(json.loads(self.muster("master", "config"))["scheduler"], "fair_share")
        self.says("debug", "master", "set", "--log-level", "debug")
        self.cluster.muster("master", "set", "--log-level", "info")
        self.refused(2, "nothing to change", "master", "set")
        self.assertEqual(len(self.muster("master", "logs", "--tail", "3").splitlines()), 3)
        self.assertIn("message", json.loads(self.cluster.muster("master", "logs", "-o", "jsonl").splitlines()[0]))
        self.says("no notice", "master", "message", "get")
        self.says("down at noon", "master", "message", "set", "down at noon", "--for", "2h")
        self.assertEqual(self.json("master", "message", "get")["message"], "down at noon")
        self.says("cleared", "master", "message", "clear")
        self.refused(2, "TEXT", "master", "message", "set")
        self.assertEqual(self.json("master", "alerts"), [])
        self.refused(2, "limit", "master", "alerts", "--limit", "1001")
        self.muster("master", "backup", "copy.db")
        self.muster("master", "restore", "copy.db", "--data-dir", "restored")
        self.assertTrue(pathlib.Path("restored/muster.db").exists())
        rows = self.table("audit", "list", "--user", "admin", "--method", "post", "--path", "login")
        self.assertTrue(all(row["path"] == "/api/v1/auth/login" and row["method"] == "POST" for row in rows) and rows)
        self.assertEqual(self.json("audit", "list", "--until", "2020-01-01"), [])
        self.refused(2, "--since takes", "audit", "list", "--since", "yesterday")
        self.assertIn(self.trained, [row["experiment"] for row in self.json("resources", "raw")])
        for period in ("daily", "monthly"):
            days = self.json("resources", "aggregated", "--period", period)
            self.assertGreater(sum(day["slot_hours"] for day in days), 0)
        self.assertIn("admin", self.muster("resources", "aggregated"))
        answer = json.loads(self.muster("api", "get", "me"))
        self.assertEqual(answer["user"]["username"], "admin")
        answer = self.muster("api", "POST", "/api/v1/workspaces", "--body", '{"name": "made by hand"}')
        self.assertIn("made by hand", answer)

    def test_cluster(self):
        """Without a machine that answers; test_cluster_up has some."""
        pathlib.Path("release.tar").write_text("no tarball")
        pathlib.Path("hosts.yaml").write_text("master: {host: 127.0.0.1}\nagents: [{host: 127.0.0.1}]\n"
                                              "install: {tarball: release.tar}\nssh: {port: 1}\n")
        for verb in ("up", "status", "doctor", "down"):
            self.note(["cluster", verb])
            done = self.cluster.run("cluster", verb, "hosts.yaml")
            self.assertEqual(done.returncode, 6, done.stdout + done.stderr)
            self.assertIn("port 1 does not answer (Connection refused)", done.stdout + done.stderr)
        self.note(["cluster", "upgrade"])
        self.refused(2, "--to is missing", "cluster", "upgrade", "hosts.yaml")
        self.refused(3, "there is no file none.tar", "cluster", "upgrade", "hosts.yaml", "--to", "none.tar")
        self.refused(3, "none.yaml", "cluster", "up", "none.yaml")

    def test_import(self):
        pathlib.Path("no-dump.sql").write_text("nothing\n")
        self.refused(2, "not a dump", "import", "determined", "no-dump.sql")
        database = determined_db.Database()
        database.add("users", id=5, username="moved", admin=False, active=False)
        database.write_dump("dump.sql")
        self.assertIn("user", self.muster("import", "determined", "dump.sql"))
        summary = {row["kind"]: row for row in self.json("import", "determined", "dump.sql")["objects"]}
        self.assertEqual((summary["user"]["new"], summary["user"]["unchanged"]), (0, 1))

    def test_simulate(self):
        pathlib.Path("jobs.csv").write_text("submit_s,gpus,duration_s,user\n0,1,60,ann\n5,2,60,bob\n")
        trace = ["simulate", "--trace", "jobs.csv", "--nodes", "1", "--slots-per-node", "2"]
        figures = self.json(*trace, "--policy", "fair_share,fifo")
        self.assertEqual([result["policy"] for result in figures["results"]], ["fair_share", "fifo"])
        pathlib.Path("odd.csv").write_text("submit_s,gpus,duration_s,usr\n0,1,60,ann\n")
        self.refused(2, 'did you mean "user"', "simulate", "--trace", "odd.csv", "--nodes", "1")
        pathlib.Path("odd.csv").write_text("submit_s,gpus,duration_s,colour\n0,1,60,red\n")
        done = self.cluster.run("simulate", "--trace", "odd.csv", "--nodes", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('"colour" is ignored', done.stderr)
        self.refused(2, "--racks", *trace, "--racks", "2")
        self.refused(3, "no-such-folder", *trace, "--plot", "no-such-folder/x.svg")

    def test_commands_of_programs(self):
        """They work in the program of a trial alone; test_reports runs them there."""
        remedy = "this command works in the program of a trial"
        self.refused(5, remedy, "report", "loss=0.5", "--step", 1)
        self.refused(5, remedy, "should-stop")
        self.refused(5, remedy, "checkpoint", "latest")
        self.refused(5, remedy, "checkpoint", "save", ".", "--step", 1)
        self.ran |= {("report",), ("should-stop",), ("checkpoint", "latest"), ("checkpoint", "save")}

    def test_resize(self):
        experiment = self.submit("--paused")
        self.muster("experiment", "resize", experiment, "--slots", 2)
        self.assertEqual(self.json("experiment", "config", experiment)["resources"]["slots_per_trial"], 2)
        self.muster("experiment", "kill", experiment)

    def test_help_commands(self):
        self.says("The order in which trials get slots", "help", "scheduling")
        self.says("complete", "completion", "fish")
        self.says(".TH", "man", "experiment")

    def test_reading_an_experiment(self):
        experiment = self.trained
        self.assertIn(experiment, [row["id"] for row in self.table("experiment", "list", "--state", "completed")])
        described, text = self.shown("experiment", "describe", experiment)
        self.assertEqual((described["state"], len(described["trials"])), ("COMPLETED", 1))
        self.says("COMPLETED", "experiment", "wait", experiment)
        self.muster("experiment", "follow", experiment)
        self.assertTrue(self.muster("experiment", "logs", experiment))
        metrics = self.json("experiment", "metrics", experiment, "--group", "validation")
        self.assertEqual(metrics[-1]["steps"], 40)
        self.assertEqual(self.muster("experiment", "config", experiment), self.config.read_text())
        self.refused(3, 'no metrics of group "foo"; its groups: ', "experiment", "metrics", experiment, "--group", "foo")
        rows = self.json("experiment", "list", "--columns", "id,validation.validation_loss,training.loss.min")
        row = next(row for row in rows if row["id"] == experiment)
        self.assertEqual(row["validation.validation_loss"], metrics[-1]["metrics"]["validation_loss"])
        self.assertLessEqual(row["training.loss.min"], 10)
        self.refused(3, "validation.validation_loss", "trial", "list", experiment, "--columns", "id,validation.los")
        offered = words_with(self.cluster.env, "trial", "list", str(experiment), "--columns", "id,training.lo")
        self.assertEqual(offered, ["id,training.loss"])
        files = self.table("experiment", "files", experiment)
        self.assertEqual({row["path"] for row in files}, {"images.idx", "labels.idx"})
        labels = subprocess.run([MUSTER, "experiment", "files", str(experiment), "labels.idx"], env=self.cluster.env,
                                capture_output=True, check=True).stdout
        self.assertEqual(labels, (self.data / "labels.idx").read_bytes())
        self.says("model-def", "experiment", "download-model-def", experiment, "--to", "model-def")
        self.assertEqual(sorted(p.name for p in pathlib.Path("model-def").iterdir()), ["images.idx", "labels.idx"])
        self.muster("experiment", "export", experiment, "out.tar")
        self.muster("experiment", "import", "out.tar", "--name", "from elsewhere")
        self.assertEqual([t["id"] for t in self.table("trial", "list", experiment)], [self.trial])
        self.assertIn("starts", self.shown("trial", "describe", self.trial)[0])
        training = self.json("trial", "metrics", self.trial, "--group", "training", "--metric", "loss")
        self.assertEqual([list(row["metrics"]) for row in training], [["loss"]] * 40)
        self.refused(3, 'did you mean "validation_loss"', "trial", "metrics", self.trial, "--metric", "validation_los")
        self.refused(3, "in group training", "experiment", "metrics", experiment, "--all", "--group", "training",
                     "--metric", "validation_loss")
        lines = self.muster("trial", "logs", self.trial).splitlines()
        self.assertEqual(self.cluster.muster("trial", "logs", self.trial, "--tail", "2").splitlines(), lines[-2:])
        self.assertEqual(self.cluster.muster("trial", "logs", self.trial, "--until", "2020-01-01"), "")
        self.assertEqual(self.cluster.muster("trial", "logs", self.trial, "--agent", "no-such"), "")
        self.assertEqual(self.cluster.muster("trial", "logs", self.trial, "--search", "^[^a]$x", "--regex"), "")
        self.media()
        fields = self.json("trial", "log-fields", self.trial)
        self.assertTrue(set(fields["agents"]) <= {"agent-0", "agent-1"})
        self.assertEqual(self.cluster.muster("trial", "logs", self.trial, "--agent", fields["agents"][0]).splitlines(),
                         lines)
        self.says("changed", "trial", "set", self.trial, "--log-retention", "forever")
        self.says("changed", "trial", "set", self.trial, "--metadata", "a=1", "--metadata", "bc=words")
        self.says("changed", "trial", "set", self.trial, "--metadata", "a=null", "--metadata", "d=true")
        self.assertEqual(self.json("trial", "describe", self.trial)["metadata"], {"bc": "words", "d": True})
        checkpoints = self.table("checkpoint", "list", "--experiment", experiment)
        uuid = next(row["uuid"] for row in checkpoints if row["state"] == "COMPLETED" and row["steps"] == 40)
        self.assertIn(uuid, self.shown("checkpoint", "describe", uuid)[1])
        before = self.json("checkpoint", "describe", uuid)["metadata"]
        self.assertIn("steps_completed", before)
        self.says("changed", "checkpoint", "set", uuid, "--metadata", "note=the one in use", "--metadata", "n=1")
        self.json("checkpoint", "set", uuid, "--metadata", "n=null")
        self.assertEqual(self.json("checkpoint", "describe", uuid)["metadata"], {**before, "note": "the one in use"})
        self.refused(2, "nothing to change", "checkpoint", "set", uuid)
        whole = self.json("checkpoint", "digest", uuid)
        self.muster("checkpoint", "download", uuid, "--to", "fetched")
        self.assertEqual(self.json("checkpoint", "digest", "fetched")["state"], whole["state"])
        self.says("weights-of-trial", "trial", "download", self.trial, "--to", "weights-of-trial")
        self.assertEqual(self.cluster.rows("checkpoint", "digest", "weights-of-trial")["state"], whole["state"])
        self.cluster.muster("trial", "download", self.trial, "--best", "--to", "best")
        self.muster("events", "--limit", "1", "--since", "1")

    def test_a_search_has_several_trials(self):
        path = pathlib.Path("search.yaml")
        text = trainings.config("mlp", 1, steps=20, every=10)
        path.write_text(text.replace("searcher: {name: single,", "searcher: {name: random, max_trials: 2,")
                        + "hyperparameters: {seed: {type: int, minval: 1, maxval: 9}}\n")
        experiment = self.cluster.create(path, self.data)
        self.cluster.wait(experiment)
        one, two = [row["id"] for row in self.json("trial", "list", experiment)]
        best = self.json("experiment", "describe", experiment)["best_trial"]
        shown = self.cluster.run("experiment", "metrics", experiment, "--group", "validation", "-o", "json")
        self.assertIn(f"has 2 trials; this is trial {best}, the best", shown.stderr)
        self.assertEqual(json.loads(shown.stdout), self.json("trial", "metrics", best, "--group", "validation"))
        other = two if best == one else one
        self.assertEqual(self.json("experiment", "metrics", experiment, "--trial", other), self.json("trial", "metrics", other))
        self.assertEqual({row["trial"] for row in self.json("experiment", "metrics", experiment, "--all")}, {one, two})
        self.assertIn(f"trial {best}, the best", self.cluster.run("experiment", "logs", experiment).stderr)
        told = self.says(f"trial {two}: [", "experiment", "logs", experiment, "--all").splitlines()
        times = [line[line.index("[") + 1:line.index("]")] for line in told if re.match(r"trial \d+: \[", line)]
        self.assertEqual(times, sorted(times))
        self.assertEqual(len(told), sum(len(self.muster("trial", "logs", trial).splitlines()) for trial in (one, two)))
        self.refused(3, "does not belong to experiment", "experiment", "logs", experiment, "--trial", self.trial)
        rows = self.json("experiment", "list", "--columns", "id,hparams.seed")
        self.assertIn(next(row for row in rows if row["id"] == experiment)["hparams.seed"], range(1, 10))

    def test_files_that_are_not_sent(self):
        path = pathlib.Path("wrong.yaml")
        path.write_text(trainings.config("mlp", 1).replace("images: images.idx", "images: image.idx"))
        line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "image.idx" in text)
        self.refused(2, f"wrong.yaml:{line}:", "experiment", "create", path, self.data)
        self.refused(2, 'trainer.data.images: there is no file "image.idx" in data; did you mean "images.idx"?',
                     "experiment", "create", path, self.data)
        self.refused(2, "no folder is uploaded", "experiment", "create", path)
        self.assertIn("is valid", self.cluster.muster("experiment", "create", path, "--validate-only"))
        self.says("at most 1 x", "experiment", "preview", path)

    def test_changing_an_experiment(self):
        experiment = self.cluster.create(self.config, self.data)
        self.cluster.wait(experiment)
        self.says("changed", "experiment", "set", experiment, "--name", "renamed", "--notes", "n", "--description", "d",
                  "--log-retention", "30", "--save-trial-latest", "2")
        self.refused(2, "nothing to change", "experiment", "set", experiment)
        self.refused(2, "--log-retention takes", "experiment", "set", experiment, "--log-retention", "soon")
        self.refused(2, "give the number of slots", "experiment", "resize", experiment)
        self.refused(5, "has ended", "experiment", "resize", experiment, "--slots", "1")
        self.assertEqual(self.json("experiment", "label", "add", experiment, "a b", "c")["labels"], ["a b", "c"])
        self.assertEqual(self.json("e", "label", "remove", experiment, "c")["labels"], ["a b"])
        described = self.json("experiment", "describe", experiment)
        self.assertEqual((described["name"], described["labels"], described["description"]),
                         ("renamed", ["a b"], "d"))
        self.cluster.muster("team", "create", "there")
        self.says("is in project default", "experiment", "move", experiment, "there", "default")
        self.assertEqual(self.json("experiment", "describe", experiment)["workspace"], "there")
        fork = self.json("experiment", "fork", experiment, "--config", "trainer.steps=20", "--name", "less")
        self.assertNotEqual(fork["id"], experiment)
        self.cluster.wait(fork["id"])
        self.assertEqual(self.cluster.trial(fork["id"])["steps"], 20)
        self.says("continues", "experiment", "continue", fork["id"], "--config", "trainer.steps=30")
        self.cluster.wait(fork["id"])
        self.assertEqual(self.cluster.trial(fork["id"])["steps"], 30)
        self.json("checkpoint", "gc", experiment, "--dry-run", "--save-trial-latest", "1")
        self.says("deleted", "checkpoint", "gc", experiment, "--save-trial-latest", "1", "--yes")
        kept = [row for row in self.cluster.rows("checkpoint", "list", "--experiment", experiment)
                if row["state"] == "COMPLETED"]
        self.says("reduced", "checkpoint", "rm", kept[0]["uuid"], "--files", "*optimizer*", "--yes")
        self.says("1 checkpoint deleted", "checkpoint", "delete", kept[0]["uuid"], "--yes")
        again = self.cluster.run("checkpoint", "delete", kept[0]["uuid"], "--yes")
        self.assertEqual((again.returncode, again.stdout), (0, ""))
        self.assertIn("is already deleted", again.stderr)
        self.muster("experiment", "archive", experiment, fork["id"])
        self.assertNotIn(experiment, [row["id"] for row in self.json("experiment", "list")])
        self.muster("experiment", "unarchive", experiment, fork["id"])
        self.assertIn(experiment, [row["id"] for row in self.json("experiment", "list")])
        self.says(f"Deleted experiment {experiment}", "experiment", "delete", experiment, fork["id"], "--yes")
        self.refused(3, "", "experiment", "describe", fork["id"])

    def test_steering(self):
        self.note(["experiment", "create"])
        one, two = self.submit(), self.submit("--paused")
        wait_for("the first steps", lambda: self.cluster.trial(one)["steps"] > 0)
        self.assertEqual([row["state"] for row in self.table("queue", "list") if row["id"] == str(one)], ["SCHEDULED"])
        self.assertIn("id", self.table("job", "list")[0])
        self.says("paused", "queue", "why", two)
        done = self.cluster.run("experiment", "pause", one, "--wait")
        self.note(["experiment", "pause"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("save their work", done.stderr)
        self.assertIn("pause done", done.stdout)
        self.says("activate", "experiment", "activate", one, two, "--wait")
        self.says("priority 60", "queue", "move", two, "--priority", "60")
        self.says("cancel done", "experiment", "cancel", one, "--wait")
        self.assertEqual(self.state(one), "CANCELED")
        self.says("kill accepted", "trial", "kill", self.cluster.trial(two)["id"])
        self.muster("experiment", "kill", two)  # may have ended with its trial
        self.cluster.run("experiment", "wait", two)
        self.refused(5, f"experiment {one}", "experiment", "pause", one, two)

    def test_commands_and_tasks(self):
        self.note(["command", "run"])
        done = self.cluster.run("command", "run", "--slots", "0", "--", "sh", "-c", "echo hello; exit 3", timeout=60)
        self.assertEqual((done.returncode, done.stdout), (3, "hello\n"), done.stderr)
        sleeper = self.json("command", "run", "--slots", "0", "--detach", "sleep", "600")["id"]
        self.assertIn(sleeper, [row["id"] for row in self.table("command", "list")])
        self.assertIn(sleeper, self.shown("command", "describe", sleeper)[1])
        self.assertEqual(self.json("command", "set", sleeper, "--priority", "60")["priority"], 60)
        self.says(sleeper, "command", "kill", sleeper)
        wait_for("its end", lambda: self.json("command", "describe", sleeper)["state"] == "TERMINATED")
        self.muster("command", "logs", sleeper)
        self.says(sleeper, "command", "delete", sleeper, "--yes")
        pathlib.Path("task.yaml").write_text("entrypoint: sleep 600\nresources: {slots: 0}\n")
        task = self.json("task", "run", "task.yaml", "--detach")["id"]
        self.assertIn(task, [row["id"] for row in self.table("task", "list")])
        self.says(task, "task", "pause", task)
        wait_for("the pause", lambda: self.json("task", "describe", task)["state"] == "PAUSED")
        self.says(task, "task", "unpause", task)
        wait_for("its start", lambda: self.json("task", "describe", task)["state"] not in ("PAUSED", "PAUSING"))
        self.muster("task", "logs", task)
        self.says(task, "task", "kill", task, "--tree")
        wait_for("its end", lambda: self.cluster.run("task", "delete", task, "--yes").returncode == 0)
        self.note(["task", "delete"])

    def test_symbolic_links_are_reported(self):
        folder = pathlib.Path("with-link")
        folder.mkdir()
        (folder / "there.txt").write_text("x")
        (folder / "link.txt").symlink_to("there.txt")
        hello = SOURCE / "examples" / "hello" / "experiment.yaml"
        done = self.cluster.run("experiment", "create", hello, folder, "--paused", "--config",
                                "resources.slots_per_trial=1")
        self.assertIn("1 symbolic link is left out (link.txt)", done.stderr)
        (folder / ".musterignore").write_text("link.txt\n")
        done = self.cluster.run("experiment", "create", hello, folder, "--paused", "--config",
                                "resources.slots_per_trial=1")
        self.assertEqual(done.stderr, "")

    def test_zz_every_command_was_run(self):
        self.assertEqual(sorted(set(commands()) - self.ran), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
