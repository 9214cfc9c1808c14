"""The muster command without a cluster: help, suggestions, formats and exit codes."""

import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import re
import ssl
import subprocess
import threading
import unittest

from cluster import BIN, SOURCE, Cluster, wait_for


def muster(*arguments, **options):
    return subprocess.run([str(BIN / "muster"), *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, stdin=subprocess.DEVNULL, **options)


@contextlib.contextmanager
def answering(status, body, tls=None):
    """A server that gives one answer to all calls; yields its address."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever).start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def should_stop(url, **env):
    """Runs `muster should-stop` as the program of a trial does."""
    env = {"DET_ALLOCATION_ID": "1.1.1", "DET_MASTER": url, "DET_SESSION_TOKEN": "token", **env}
    return muster("should-stop", env={**{key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}, **env})


class WithoutMaster(unittest.TestCase):
    def test_help_of_every_command(self):
        overview = muster("--help")
        self.assertEqual(overview.returncode, 0)
        self.assertLess(len(overview.stdout.splitlines()), 65)
        offered = [line.split("\t")[0] for line in muster("complete-words", "fish", "--", "").stdout.splitlines()]
        self.assertGreater(len(offered), 25)
        for noun in offered:
            if noun != "job":  # an alias of queue
                self.assertRegex(overview.stdout, rf"(?m)^  .*\b{noun}\b")
            shown = muster(noun, "--help")
            self.assertEqual((shown.returncode, shown.stdout), (0, muster("help", noun).stdout), noun)
            self.assertIn(f"muster {noun}", shown.stdout)
            self.assertIn("--output", shown.stdout)

    def test_help_of_one_command(self):
        one = muster("help", "experiment", "create")
        self.assertEqual((one.returncode, one.stdout), (0, muster("experiment", "create", "--help").stdout))
        self.assertEqual(muster("help", "ckpt", "ls").stdout, muster("checkpoint", "list", "--help").stdout)
        page = muster("man", "experiment", "create").stdout
        self.assertIn("muster experiment create", page)
        self.assertNotIn("muster experiment list", page)
        self.assertIn("muster login", muster("man", "login").stdout)
        self.assertIn("create", muster("complete-words", "bash", "--", "help", "experiment", "").stdout)
        for words, near in ((["help", "experimant"], "experiment"), (["help", "experiment", "craete"], "create"),
                            (["man", "experiment", "craete"], "create")):
            done = muster(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(near, done.stderr)

    def test_version(self):
        for program in ("muster", "muster-master", "muster-agent", "muster-supervisor", "muster-trainer"):
            shown = subprocess.run([str(BIN / program), "--version"], capture_output=True, text=True, timeout=60)
            self.assertRegex(shown.stdout, rf"^{program} \d+\.\d+\.\d+(\+[0-9a-f]{{7,}}(-dirty)?)?\n$")

    def test_should_stop_trusts_the_authority_of_programs(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain("cert.pem", "key.pem")
        with answering(200, b'{"preempt": true}', tls) as url:
            self.assertEqual(should_stop(url, DET_MASTER_CERT_FILE="cert.pem").returncode, 0)
            self.assertEqual(should_stop(url, MUSTER_CA_FILE="cert.pem").returncode, 0)
            self.assertEqual(should_stop(url, DET_MASTER_CERT_FILE="", MUSTER_CA_FILE="cert.pem").returncode, 0)
            done = should_stop(url)  # it stays so: the program must not go on without ever hearing of a stop
            self.assertNotIn(done.returncode, (0, 1))
            self.assertIn("no trusted connection", done.stderr)

    def test_should_stop_goes_on_without_a_master(self):
        for status in (502, 503):  # a proxy whose master is away
            with answering(status, b"<html>Bad Gateway</html>") as url:
                done = should_stop(url)
            self.assertEqual(done.returncode, 1)
            self.assertIn("the program goes on", done.stderr)
        done = should_stop(url)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the program goes on", done.stderr)
        with answering(200, b"<html>welcome</html>") as url:  # no master
            self.assertNotIn(should_stop(url).returncode, (0, 1))

    def test_large_libraries_are_loaded_on_demand(self):
        """Libraries with dozens of dependencies are loaded by the calls that need them, not at
        every start."""
        for program in ("muster", "muster-agent", "muster-supervisor"):
            loaded = subprocess.run([str(BIN / program)], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True,
                                    text=True, timeout=60).stdout
            self.assertIn("libc.so", loaded, program)
            self.assertNotRegex(loaded, "libcurl|libarchive|libgnutls|libicu|libxml", program)

    def test_the_program_of_tasks_answers_as_muster_does(self):
        """Tasks find a small program as `muster`, which reports by itself and leaves all else to the real one."""
        small = BIN.parent / "libexec" / "muster" / "muster"
        for words in ([], ["--version"], ["report", "--help"], ["help", "report"], ["report"], ["report", "a=1"],
                      ["report", "a=1", "--step", "x"], ["report", "a=1", "--step"], ["report", "a=1", "--stpe", "1"],
                      ["report", "a=1", "--step", "1"], ["report", "a", "--step", "1"], ["report", "", "--step", "1"],
                      ["report", "a=x", "--step=1", "-o", "csv"], ["report", "a=1", "--step", "1", "-o", "x"],
                      ["report", "--progress", "half"], ["report", "--progress", "nan"], ["-q", "report", "a=1"],
                      ["report", "a=1", "a=2", "--step", "1"], ["report", *[f"m{i}=1" for i in range(10001)], "--step=1"],
                      ["report", "x" * 100_000 + "=1", *[f"{i}{'x' * 100_000}=1" for i in range(15)], "--step=1"],
                      ["reprot", "a=1"], ["checkpoint", "latest"], ["should-stop"], ["experiment", "lits"]):
            answers = [subprocess.run([str(program), *words], capture_output=True, text=True, timeout=60)
                       for program in (BIN / "muster", small)]
            shown = [(done.returncode, done.stdout, done.stderr) for done in answers]
            self.assertEqual(*shown, [word[:20] for word in words[:9]])
            self.assertTrue(answers[0].stdout + answers[0].stderr)

    def test_typos_get_suggestions(self):
        for words, near in ((["experimnet", "list"], "experiment"), (["experiment", "lits"], "list"),
                            (["experiment", "list", "--stat", "x"], "--state")):
            done = muster(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(near, done.stderr)

    def test_words_of_other_tools_get_suggestions(self):
        for words, said in ((["trial", "list", "--experiment", "7"],
                             "unknown flag --experiment; write the EXPERIMENT without a flag: muster trial list 7"),
                            (["experiment", "describe", "--id=7"], "muster experiment describe 7"),
                            (["experiment", "delete", "--experiment-id", "7"], "muster experiment delete 7"),
                            (["experiment", "download-model-def", "7", "--out", "x"], "did you mean --to?"),
                            (["trial", "download", "7", "--folder", "x"], "did you mean --to?"),
                            (["checkpoint", "list", "--experiment-id", "7"], "did you mean --experiment?"),
                            (["trial", "describe", "7", "--filter", "x"], "muster trial list has such a flag"),
                            (["checkpoint", "list", "7"], "did you mean --experiment 7 or --trial 7?"),
                            (["experiment", "list", "--foo"], "unknown flag --foo; --help lists the flags"),
                            (["experiment", "stop", "7"], 'did you mean "experiment cancel"?'),
                            (["experiment", "qqqqqqqq", "7"], "muster experiment --help lists the commands"),
                            (["experiments", "list"], 'did you mean "experiment"?'),
                            (["list", "experiments"], 'did you mean "experiment list"?'),
                            (["describe", "trial", "3"], 'did you mean "trial describe"?'),
                            (["logs", "7"], '"experiment logs"'),
                            (["submit", "x.yaml"], 'did you mean "experiment create"?'),
                            (["sbatch", "x.sh"], 'did you mean "experiment create"?'),
                            (["squeue"], 'did you mean "queue list"?'),
                            (["ps"], 'did you mean "experiment list"?'),
                            (["experiment", "wait"], "for example: muster experiment wait 7")):
            done = muster(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)

    def test_wrong_arguments(self):
        self.assertIn("usage: muster experiment pause ID", muster("experiment", "pause").stderr)
        self.assertEqual(muster("experiment", "list", "-o", "xml").returncode, 2)
        for words, said in ((["checkpoint", "download", "a-uuid", "got/"],
                             'usage: muster checkpoint download UUID: "got/" is one argument too many; did you mean --to got/?'),
                            (["trial", "download", "3", "got"], "did you mean --to got?"),
                            (["trial", "logs", "3", "4"], "did you mean --rank 4 or --tail 4?"),
                            (["help", "filters", "state"], '"state" is one argument too many: muster help filters'),
                            (["help", "config", "searcher", "tpe"], '"tpe" is one argument too many'),
                            (["whoami", "me"], 'usage: muster whoami: "me" is one argument too many\n')):
            done = muster(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)

    def test_unreachable_master(self):
        done = muster("whoami", "--master", "http://127.0.0.1:1", "--token", "t")
        self.assertEqual(done.returncode, 6)
        self.assertIn("127.0.0.1:1", done.stderr)

    def test_reference_of_the_experiment_file(self):
        shown = muster("help", "config").stdout
        for line in ("\nresources: slots and other", "\n  slots_per_trial  ", "\n  global_batch_size  ", "\n  max_restarts  "):
            self.assertIn(line, shown)
        table = muster("help", "config", "all").stdout
        for key in ("trainer.global_batch_size", "resources.slots_per_trial", "max_restarts"):
            self.assertIn(f"`{key}`", table)
        self.assertIn("    resources:\n      min_slots: 2\n", muster("help", "config", "min_slots").stdout)
        unknown = muster("help", "config", "slots_per_trail")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn('did you mean "resources.slots_per_trial"?', unknown.stderr)
        offered = muster("complete-words", "fish", "--", "help", "config", "resources.min").stdout
        self.assertEqual(offered.split(), ["resources.min_slots"])
        self.assertIn("8  experiment failed", muster("help", "exit-codes").stdout)
        self.assertIn("min_slots", muster("help", "scheduling").stdout)
        self.assertIn("scheduling", muster("help", "sheduling").stderr)

    def test_examples_are_valid(self):
        for example in sorted(SOURCE.glob("examples/**/*.yaml")):
            done = muster("experiment", "create", example, "--master", "http://127.0.0.1:1")
            self.assertEqual(done.returncode, 6, f"{example}: {done.stderr}")  # valid, but there is no master to submit it to

    def test_unreachable_master_is_not_reported_as_not_signed_in(self):
        done = muster("experiment", "list", "--master", "http://127.0.0.1:1")
        self.assertEqual(done.returncode, 6)
        self.assertIn("cannot reach http://127.0.0.1:1", done.stderr)
        self.assertIn("Check that the master runs there", done.stderr)
        self.assertNotIn("sign", done.stderr)

    def test_examples_for_gpus_train_without_data(self):
        """As the comments at their heads say, but with sizes that suit a CPU."""
        small = ["trainer.global_batch_size=4", "trainer.micro_batch_size=2"]
        cases = {
            "gpt2-124m": ["trainer.data={format: synthetic, samples: 1000000, vocabulary: 50257}",
                          "trainer.model.layers=1", "trainer.model.width=24", "trainer.model.context=16", *small],
            "resnet50": ["trainer.data={format: synthetic, samples: 1281167, shape: [32, 32, 3], classes: 1000}",
                         *small],
        }
        for name, sets in cases.items():
            flags = [word for one in sets for word in ("--set", one)]
            for command in (["describe"], ["bench", "--steps", "1", "--warmup", "0"]):
                done = subprocess.run([BIN / "muster-trainer", *command, SOURCE / f"examples/{name}.yaml", "--slots", "2",
                                       *flags, "-o", "json"], capture_output=True, text=True, timeout=100)
                self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
                answer = json.loads(done.stdout)
                if command[0] == "bench":
                    self.assertGreater(answer["samples_per_second"], 0, name)


    def test_digest_of_the_files_of_a_program(self):
        folder = pathlib.Path("checkpoint-of-a-program")
        (folder / "sub").mkdir(parents=True)
        def digest():
            return subprocess.run([BIN / "muster", "checkpoint", "digest", folder, "-o", "json"], text=True,
                                  capture_output=True)
        self.assertIn("the folder has no files", digest().stderr)
        (folder / "a").write_text("one")
        (folder / "sub" / "b").write_text("two")
        hashed = hashlib.sha256()
        for name, content in (("a", b"one"), ("sub/b", b"two")):
            hashed.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        self.assertEqual(json.loads(digest().stdout), {"files": hashed.hexdigest(), "count": 2})


class WithMaster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("cluster", slots=(1,)).__enter__()
        hello = SOURCE / "examples" / "hello"
        cls.experiment = cls.cluster.create(hello / "experiment.yaml", hello,
                                            "--config", "resources.slots_per_trial=1")
        cls.cluster.wait(cls.experiment)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def test_formats(self):
        rows = self.cluster.rows("experiment", "list", "--state", "completed")
        self.assertEqual([(row["id"], row["name"], row["state"]) for row in rows],
                         [(self.experiment, "hello", "COMPLETED")])
        lines = self.cluster.muster("experiment", "list", "--state", "completed", "-o", "jsonl").splitlines()
        self.assertEqual([json.loads(line) for line in lines], rows)
        csv = self.cluster.muster("experiment", "list", "--state", "completed", "-o", "csv",
                                  "--columns", "id,name,state")
        self.assertEqual(csv.split(), ["id,name,state", f"{self.experiment},hello,COMPLETED"])
        table = self.cluster.muster("experiment", "list")
        self.assertIn("hello", table)

    def test_changed_configuration_keeps_its_comments(self):
        text = (self.cluster.folder / "comments.yaml")
        text.write_text("# why it is so\nname: noted # a name\nentrypoint: 'true'\nmax_restarts: 3  # many\n"
                        "searcher: {name: single, metric: loss}\n")
        number = self.cluster.create(text, self.cluster.folder / "config", "--config", "max_restarts=0", "--paused")
        shown = self.cluster.muster("experiment", "config", number)
        self.assertEqual(shown, text.read_text().replace("max_restarts: 3 ", "max_restarts: 0 "))

    def test_errors_of_a_flag_name_the_flag(self):
        path = self.cluster.folder / "plain.yaml"
        path.write_text("name: a\nentrypoint: 'true'\nsearcher: {name: single, metric: loss}\n")
        def error(*flags):
            done = self.cluster.run("experiment", "create", path, "--validate-only", *flags)
            self.assertEqual(done.returncode, 2, done.stdout)
            return done.stderr.strip().removeprefix("muster: ")
        self.assertRegex(error("-c", "max_restarts=x"), "^--config max_restarts=x: expected a whole number")
        self.assertRegex(error("-c", "name=a", "-c", "searcher.nam=x"), "^--config searcher.nam=x: unknown key")
        self.assertRegex(error("-c", "searcher=[1"), r"^--config searcher=\[1: did not find")
        self.assertRegex(error("-c", "max_restarts"), '^--config "max_restarts" has no value')
        self.assertRegex(error("--name", "x" * 300), "^--name: has 300 bytes")
        path.write_text(path.read_text() + "max_restart: 1\n")
        self.assertRegex(error("-c", "max_restarts=1"), r"plain\.yaml:4:1: max_restart: unknown key")
        for no_mapping in ("", "hello\n", "[1, 2]\n"):
            path.write_text(no_mapping)
            self.assertRegex(error("--name", "x"), r"^\S*plain\.yaml")

    def test_not_signed_in(self):
        done = subprocess.run([BIN / "muster", "experiment", "list"], capture_output=True, text=True, timeout=60,
                              env={**self.cluster.env, "XDG_CONFIG_HOME": str(self.cluster.folder / "nobody")})
        self.assertEqual(done.returncode, 4)
        self.assertIn(f"not signed in at {self.cluster.url}; run: muster login", done.stderr)

    def test_credentials_are_private(self):
        path = pathlib.Path(self.cluster.folder) / "config" / "muster" / "credentials.json"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)

    def test_missing_objects(self):
        self.assertEqual(self.cluster.run("experiment", "describe", 999).returncode, 3)
        self.assertEqual(self.cluster.run("trial", "describe", 999).returncode, 3)
        self.assertEqual(self.cluster.run("checkpoint", "describe", "no-such").returncode, 3)
        self.assertEqual(self.cluster.run("experiment", "describe", "seven").returncode, 2)

    def test_invalid_words(self):
        for words, said in (
                (["experiment", "list", "--state", "foo"], "--state takes one of active, queued,"),
                (["trial", "logs", 1, "--level", "loud"], "--level takes one of trace, debug,"),
                (["experiment", "describe", "99999999999999999999"], "ids are between 1 and 9223372036854775807"),
                (["experiment", "label", "add", self.experiment, ""], "LABEL of muster experiment label is empty"),
                (["model", "describe", ""], "NAME of muster model describe is empty")):
            done = self.cluster.run(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertNotIn("STATE_", done.stderr)
            self.assertNotIn("/api/", done.stderr)

    def test_waiting_and_repeated_state_changes(self):
        hello = SOURCE / "examples" / "hello"
        experiment = self.cluster.create(hello / "experiment.yaml", hello, "--paused")
        done = self.cluster.run("experiment", "wait", experiment, "--timeout", 1)
        self.assertEqual(done.returncode, 6)
        self.assertIn("has not reached the state after 1 seconds", done.stderr)
        for verb, said in (("pause", "is already paused"), ("kill", "kill done"), ("kill", "has already ended (CANCELED)"),
                           ("unarchive", "is not archived"), ("archive", "archive done"), ("archive", "is already archived")):
            wait = [] if "archive" in verb else ["--wait", "--timeout", "60"]
            out = self.cluster.muster("experiment", verb, experiment, *wait)
            self.assertIn(said if wait else said.replace("done", "accepted"), out)

    def test_config_as_submitted(self):
        text = (SOURCE / "examples" / "hello" / "experiment.yaml").read_text()
        hello = SOURCE / "examples" / "hello"
        experiment = self.cluster.create(hello / "experiment.yaml", hello, "--paused")
        self.assertEqual(self.cluster.muster("experiment", "config", experiment), text)
        self.cluster.muster("experiment", "kill", experiment, "--wait")

    def test_users(self):
        (pathlib.Path(self.cluster.folder) / "ada").write_text("a secret\n")
        done = self.cluster.run("user", "create", "ada", "--password-file", self.cluster.folder / "ada")
        self.assertEqual(done.returncode, 4, "only an administrator creates users")

    def test_a_follower_ends_when_nobody_reads_it(self):
        path = pathlib.Path("endless.yaml")
        path.write_text("entrypoint: while sleep 0.1; do echo line; done\n"
                        "resources: {slots_per_trial: 1}\nsearcher: {name: single, metric: loss}\n")
        experiment = self.cluster.create(path, self.cluster.folder / "config")
        try:
            follower = subprocess.Popen([str(BIN / "muster"), "experiment", "logs", str(experiment), "--follow"],
                                        env=self.cluster.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
            follower.stdout.readline()
            follower.stdout.close()
            self.assertEqual(follower.wait(timeout=60), 141)  # as other programs in `... | head`: 128 + SIGPIPE
            self.assertEqual(follower.stderr.read(), "")
            follower.stderr.close()
        finally:
            self.cluster.muster("experiment", "kill", str(experiment))

    def test_zz_followers_reconnect(self):
        """The master is killed and restarted: followers continue without repeating or losing a
        line."""
        path = pathlib.Path("count.yaml")
        path.write_text("entrypoint: [sh, -c, 'for i in $(seq 80); do echo line $i; sleep 0.1; done']\n"
                        "resources: {slots_per_trial: 1}\nsearcher: {name: single, metric: loss}\n")
        experiment = self.cluster.create(path, self.cluster.folder / "config")
        logs = ["experiment", "logs", str(experiment)]
        wait_for("its first lines", lambda: "line 3" in self.cluster.muster(*logs))
        followers = [subprocess.Popen([str(BIN / "muster"), *words], env=self.cluster.env, text=True, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                     for words in ([*logs, "--follow"], [*logs, "--follow", "--tail", "2"],
                                   ["events", "--topics", "experiments", "-o", "jsonl"])]
        wait_for("more lines", lambda: "line 20" in self.cluster.muster(*logs))
        self.cluster.master.kill9()
        self.cluster.start_master()
        try:
            for follower, first in zip(followers, (1, None)):
                out, err = follower.communicate(timeout=120)
                self.assertEqual(follower.returncode, 0, err)
                self.assertEqual(len(err.splitlines()), 1, err)
                self.assertIn("the master does not answer; waiting until it is back", err)
                numbers = [int(n) for n in re.findall(r"line (\d+)", out)]
                self.assertEqual(numbers, list(range(first or numbers[0], 81)))
        finally:
            for follower in followers:
                follower.terminate()
        out, err = followers[2].communicate(timeout=60)
        self.assertIn("the master does not answer", err)
        names = [json.loads(line)["event"] for line in out.splitlines()]
        self.assertIn("away", names)
        self.assertIn("experiment", names[names.index("away"):])


if __name__ == "__main__":
    unittest.main(verbosity=2)
