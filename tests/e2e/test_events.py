"""Events of changes: a complete run is reported as it happens, streams resume after a broken
connection, and only callers who may see an object receive its events."""

import http.client
import json
import pathlib
import signal
import subprocess
import threading
import time
import unittest

from cluster import BIN, SOURCE, Cluster, wait_for, write_corpus

HELLO = SOURCE / "examples" / "hello"
STEPS = 200
CONFIG = f"""\
name: told
resources: {{slots_per_trial: 2}}
searcher: {{name: single, metric: validation_loss}}
trainer:
  model: {{family: gpt, layers: 2, heads: 2, width: 32, context: 32}}
  data: {{format: bytes, path: text.txt, validation_fraction: 0.05}}
  global_batch_size: 12
  micro_batch_size: 1
  steps: {STEPS}
  optimizer: {{name: adamw, learning_rate: 3.0e-3}}
  validate_every: {STEPS // 2}
  checkpoint_every: {STEPS // 2}
  report_every: 5
"""
ENDED = ("STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR")


class Follower(threading.Thread):
    """A connection to /events, read to its end in the background."""

    def __init__(self, cluster, query="", last=None, token=None):
        super().__init__(daemon=True)
        self.events, self.ended = [], None
        self.connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=60)
        headers = {"Authorization": f"Bearer {token or token_of(cluster)}"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        self.connection.request("GET", f"/api/v1/events?{query}", headers=headers)
        self.answer = self.connection.getresponse()
        if self.answer.status == 200:
            self.start()

    def run(self):
        event = {}
        try:
            while line := self.answer.readline():
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key == "":
                    if "id" in event:  # the event that ends a stream has no id
                        self.events.append((int(event["id"]), event["event"], json.loads(event["data"])))
                    event = {}
                elif key != ":":
                    event[key] = value
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass
        self.ended = time.monotonic()

    def cut(self):
        """Breaks the connection at an arbitrary moment; returns the id of the last event."""
        self.connection.sock.shutdown(2)
        self.close()
        return self.events[-1][0] if self.events else None

    def close(self):
        if self.answer.status == 200:
            self.join(10)
        self.answer.close()
        self.connection.close()

    def of(self, name, **members):
        return [data for _, event, data in self.events
                if event == name and all(data.get(key) == value for key, value in members.items())]

    def changes(self):
        return [event for event in self.events if event[1] not in ("start", "reset")]


def token_of(cluster):
    saved = json.loads((pathlib.Path(cluster.env["XDG_CONFIG_HOME"]) / "muster" / "credentials.json").read_text())
    return saved["tokens"][cluster.url]


class Events(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path("experiment").resolve()
        cls.folder.mkdir()
        write_corpus(cls.folder / "text.txt")
        cls.config = pathlib.Path("told.yaml").resolve()
        cls.config.write_text(CONFIG)
        cls.cluster = Cluster("cluster", slots=(2,)).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def setUp(self):
        self.followers = []
        wait_for("free slots", lambda: not self.cluster.ranks())

    def tearDown(self):
        for follower in self.followers:
            if follower.is_alive():
                follower.cut()
            follower.close()

    def follow(self, *arguments, **options):
        follower = Follower(self.cluster, *arguments, **options)
        self.followers.append(follower)
        self.assertEqual(follower.answer.status, 200, follower.answer.read() if follower.answer.status != 200 else "")
        wait_for("the start of the stream", lambda: follower.events)
        self.assertEqual(follower.events[0][1], "start")
        return follower

    def train(self):
        return self.cluster.create(self.config, self.folder)

    def end_of(self, follower, experiment):
        wait_for(f"the end of experiment {experiment}",
                 lambda: any(data["state"] in ENDED for data in follower.of("experiment", id=experiment)))

    def test_a_whole_life_in_order(self):
        follower = self.follow()
        self.assertEqual(follower.answer.getheader("Content-Type"), "text/event-stream")
        experiment = self.train()
        self.end_of(follower, experiment)
        wait_for("the slots to be free", lambda: follower.of("agent") and follower.of("agent")[-1]["slotsUsed"] == 0)
        numbers = [number for number, _, _ in follower.changes()]
        self.assertEqual(numbers, sorted(set(numbers)), "every event has its own id, and ids grow")

        states = [data["state"] for data in follower.of("experiment", id=experiment)]
        order = ["STATE_ACTIVE", "STATE_QUEUED", "STATE_PULLING", "STATE_STARTING", "STATE_RUNNING",
                 "STATE_STOPPING_COMPLETED", "STATE_COMPLETED"]
        self.assertEqual(states, sorted(states, key=order.index), "a state never returns to an earlier one")
        self.assertIn("STATE_RUNNING", states)
        self.assertEqual(states[-1], "STATE_COMPLETED")

        trial = self.cluster.trial(experiment)["id"]
        self.assertEqual(follower.of("trial", id=trial)[-1]["state"], "STATE_COMPLETED")
        self.assertEqual(follower.of("trial", id=trial)[-1]["steps"], STEPS)
        training = follower.of("metrics", trialId=trial, group="training")
        steps = [data["steps"] for data in training]
        self.assertEqual(steps, sorted(steps))
        reports = self.cluster.rows("trial", "metrics", trial, "--group", "training")
        self.assertEqual(training[-1]["steps"], reports[-1]["steps"])
        self.assertEqual(training[-1]["metrics"]["loss"], reports[-1]["metrics"]["loss"])
        self.assertLessEqual(len(training), len(reports), "changes close together are merged into one event")
        best = follower.of("experiment", id=experiment)[-1]["bestMetric"]
        self.assertIn(best, [data["metrics"]["validation_loss"]
                             for data in follower.of("metrics", trialId=trial, group="validation")])

        saved = {data["uuid"]: data["state"] for data in follower.of("checkpoint", trialId=trial)}
        self.assertEqual(saved[self.cluster.rows("checkpoint", "list", "--trial", trial, "--latest")[0]["uuid"]],
                         "STATE_COMPLETED")
        lines = [data["lastId"] for data in follower.of("logs", trialId=trial)]
        self.assertTrue(lines and lines == sorted(lines))
        self.assertIn(2, [data["slotsUsed"] for data in follower.of("agent", id="agent-0")])
        self.assertIn(1, [data["scheduled"] for data in follower.of("queue", resourcePool="default")])

    def test_event_filters(self):
        everything = self.follow()
        first = self.cluster.create(HELLO / "experiment.yaml", HELLO)
        self.cluster.wait(first)
        second = self.cluster.create(HELLO / "experiment.yaml", HELLO)
        since = everything.events[0][0]
        states = self.follow(f"topics=experiments&experimentIds={second}", last=since)
        trials = self.follow(f"topics=trials,logs&topics=agents&experimentIds={first},{second}&since={since}")
        self.end_of(everything, second)
        self.end_of(states, second)
        wait_for("the trial's end", lambda: trials.of("trial", experimentId=second, state="STATE_COMPLETED"))
        self.assertEqual({(event, data["id"]) for _, event, data in states.changes()}, {("experiment", second)})
        self.assertEqual({event for _, event, _ in trials.changes()}, {"trial", "logs", "agent"})
        self.assertEqual({data["experimentId"] for data in trials.of("trial")}, {first, second})
        for query, words in (("topics=expriments", "there are experiments, trials"),
                             ("experimentIds=1,x", "experimentIds"), ("since=1x", "1x")):
            refused = Follower(self.cluster, query)
            self.assertEqual(refused.answer.status, 400)
            self.assertIn(words, json.loads(refused.answer.read())["message"])
            refused.close()

    def test_nothing_is_lost_when_connections_break(self):
        whole = self.follow()
        experiment = self.train()
        pieces, last, cuts = [], whole.events[0][0], 0
        while not pieces or not any(event == "experiment" and data["id"] == experiment and data["state"] in ENDED
                                    for _, event, data in pieces):
            piece = self.follow(last=last)
            wait_for("some events", lambda: len(piece.events) > 3 or whole.of("experiment", id=experiment)
                     and whole.of("experiment", id=experiment)[-1]["state"] in ENDED)
            last, cuts = piece.cut(), cuts + 1
            self.assertEqual([event for event in piece.events if event[1] == "reset"], [])
            pieces += piece.changes()
        self.assertGreater(cuts, 3)
        self.end_of(whole, experiment)
        until = pieces[-1][0]
        self.assertEqual(pieces, [event for event in whole.changes() if event[0] <= until])

    def test_new_master_reports_missed_events(self):
        follower = self.follow()
        experiment = self.cluster.create(HELLO / "experiment.yaml", HELLO)
        self.end_of(follower, experiment)
        last = follower.events[-1][0]
        self.cluster.master.kill9()
        self.cluster.start_master()
        again = self.follow(last=last)
        wait_for("the reset", lambda: again.of("reset"))
        number, name, data = again.events[1]
        self.assertEqual((name, data["sequence"]), ("reset", number))
        self.assertGreater(number, last, "ids grow across restarts")
        experiment = self.cluster.create(HELLO / "experiment.yaml", HELLO)
        self.end_of(again, experiment)
        self.assertGreater(again.events[-1][0], number)

    def test_events_only_reach_callers_who_may_see_them(self):
        user_env = self.cluster.env
        admin_env = {**user_env, "XDG_CONFIG_HOME": str(self.cluster.folder / "admin")}
        listening = self.follow()
        self.cluster.env = admin_env
        try:
            self.cluster.muster("login", "admin", "--password-file", self.cluster.folder / "password")
            self.cluster.muster("team", "create", "closed", "--default-role", "none")
            admin = self.follow("topics=experiments,trials,logs,metrics,checkpoints,workspaces")

            def submit():
                return self.cluster.create(HELLO / "experiment.yaml", HELLO, "--config", "workspace=closed",
                                           "--config", "project=default")

            hidden = submit()
            self.end_of(admin, hidden)
            time.sleep(0.5)
            for _, _, data in listening.changes():
                self.assertNotIn(hidden, (data.get("experimentId"), data.get("id")), data)
                self.assertNotEqual(data.get("name"), "closed")

            self.cluster.muster("team", "set", "closed", "--user", "determined", "--role", "viewer")
            time.sleep(2.5)
            shown = submit()
            self.end_of(admin, shown)
            self.end_of(listening, shown)

            self.cluster.muster("team", "set", "closed", "--user", "determined", "--role", "none")
            time.sleep(2.5)
            hidden = submit()
            self.end_of(admin, hidden)
            time.sleep(0.5)
            self.assertEqual(listening.of("experiment", id=hidden), [])
        finally:
            self.cluster.env = user_env

        token = token_of(self.cluster)
        self.cluster.muster("logout")
        left = time.monotonic()
        listening.join(10)
        self.assertFalse(listening.is_alive(), "a revoked token ends the stream")
        self.assertLess(listening.ended - left, 5)
        self.assertEqual(Follower(self.cluster, token=token).answer.status, 401)
        self.cluster.muster("login", "determined", "--password-file", self.cluster.folder / "password")

    def start(self, *arguments):
        process = subprocess.Popen([str(BIN / "muster"), *map(str, arguments)], env=self.cluster.env, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    def test_cli_follows_events(self):
        printing = self.start("events", "--topics", "experiments", "-o", "jsonl")
        lines = []
        threading.Thread(target=lambda: lines.extend(printing.stdout), daemon=True).start()
        wait_for("the start", lambda: lines)
        watching = self.start("experiment", "list", "--watch", "-o", "jsonl", "--columns", "id,state")
        rows = []
        threading.Thread(target=lambda: rows.extend(watching.stdout), daemon=True).start()
        time.sleep(0.5)
        experiment = self.train()
        wait_for("the experiment to be shown", lambda: any(json.loads(row)["id"] == experiment for row in rows))
        self.cluster.muster("experiment", "pause", experiment, "--wait")
        self.cluster.muster("experiment", "kill", experiment, "--wait")
        wait_for("its end in the list", lambda: any(json.loads(row) == {"id": experiment, "state": "CANCELED"}
                                                    for row in rows))
        wait_for("its end in the events", lambda: "STATE_CANCELED" in lines[-1])
        for process in (printing, watching):
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(20), 0, process.stderr.read())

    def test_follow_survives_a_restart_of_the_master(self):
        follow = self.start("experiment", "create", self.config, self.folder, "--follow")
        wait_for("running ranks", self.cluster.ranks)
        self.cluster.master.kill9()
        time.sleep(0.5)
        self.cluster.start_master()
        out, err = follow.communicate(timeout=120)
        self.assertEqual(follow.returncode, 0, out + err)
        self.assertIn("completed", out)


if __name__ == "__main__":
    unittest.main()
