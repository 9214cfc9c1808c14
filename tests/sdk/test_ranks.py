"""Several ranks as processes of their own: meetings, sharded checkpoints, stop requests, disagreement."""

import contextlib
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import unittest

import muster
from muster import environment, ranks
from supervisor import Supervisor


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        return listener.accept()[0], client


class StandInMaster:
    """Answers the questions about stopping: `stop` is the answer, `acknowledged` counts."""

    def __init__(self):
        self.stop, self.acknowledged, self.asked, self.down, self.ended = False, 0, 0, False, False
        self.cut = 0  # so many answers end too early
        master = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, status, body):
                data = json.dumps(body).encode()
                with contextlib.suppress(OSError):  # the program has ended
                    self.send_response(status)
                    cut = 5 if master.cut > 0 else 0
                    master.cut -= 1
                    self.send_header("Content-Length", str(len(data) + cut))
                    self.close_connection = True
                    self.end_headers()
                    self.wfile.write(data)

            def do_GET(self):
                master.asked += 1
                end = time.monotonic() + 0.2
                while not master.stop and time.monotonic() < end:
                    time.sleep(0.005)
                if master.ended:
                    self.answer(403, {"error": {"error": "allocation has ended"}})
                elif master.down:
                    self.answer(503, {})
                else:
                    self.answer(200, {"preempt": master.stop})

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if master.down:
                    self.answer(503, {})
                else:
                    master.acknowledged += self.path.endswith("/signals/ack_preemption")
                    self.answer(200, {})

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Ranks(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path.cwd() / self._testMethodName
        self.storage = self.folder / "storage"
        self.supervisor = Supervisor(self.folder / "task")
        self.addCleanup(self.supervisor.__exit__)
        self.master = StandInMaster()
        self.addCleanup(self.master.close)

    def start(self, program, ranks=3):
        """Starts a program on several ranks."""
        path = self.folder / "program.py"
        path.write_text("import muster, time, sys, os\n" + textwrap.dedent(program))
        port, started = free_port(), []
        for rank in range(ranks):
            variables = self.supervisor.environment(
                self.storage, DET_MASTER=self.master.url, RANK=str(rank), LOCAL_RANK=str(rank),
                WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", INTER_TRAIN_PROCESS_COMM_PORT_1=str(port))
            started.append(subprocess.Popen([sys.executable, path], env={**os.environ, **variables},
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            self.addCleanup(started[-1].stdout.close)
            self.addCleanup(started[-1].stderr.close)
            self.addCleanup(started[-1].kill)
        return started

    def finish(self, started):
        """The (exit code, output, errors) of each rank."""
        texts = [process.communicate(timeout=60) for process in started]
        return [(process.returncode, *text) for process, text in zip(started, texts)]

    def run_ranks(self, program, ranks=3):
        results = self.finish(self.start(program, ranks))
        for code, _, errors in results:
            self.assertEqual(code, 0, errors)
        return [output for _, output, _ in results]

    def test_meetings(self):
        outputs = self.run_ranks("""
            with muster.init() as run:
                print(run.gather({"rank": run.rank, "x": [1.5, None]}))
                print(run.broadcast(["from", run.rank]))
                run.barrier()
                run.report(1, loss=float(run.rank))
            """)
        self.assertEqual(len(set(outputs)), 1)
        self.assertIn("'rank': 2", outputs[0])
        self.assertIn("['from', 0]", outputs[0])
        self.assertEqual(self.supervisor.curve("loss"), [(1, 0)])  # rank 0 alone reports

    def test_values_that_are_too_large_together(self):
        """Each fits, but not the answer with all of them: every rank gets the exception and goes on."""
        outputs = self.run_ranks("""
            muster.ranks.MESSAGE_BYTES = 1000
            with muster.init() as run:
                try:
                    run.gather("x" * 400)
                except muster.RankError as error:
                    print(error)
                print(run.gather(1))
            """)
        for output in outputs:
            self.assertRegex(output, r"run.gather\(\): the values of all ranks have 12\d\d bytes together.*at most 1000.*file")
            self.assertIn("[1, 1, 1]", output)

    def test_a_value_that_is_too_large(self):
        results = self.finish(self.start("""
            muster.ranks.MESSAGE_BYTES = 1000
            with muster.init() as run:
                run.gather("x" * 1000 * (run.rank == 1))
            """, ranks=2))
        self.assertEqual([code for code, _, _ in results], [1, 1])
        self.assertRegex(results[1][2], r"run.gather\(\): 10\d\d bytes; ranks exchange at most 1000")

    def test_a_program_with_many_files(self):
        """The sockets of the ranks have descriptors beyond 1023, the limit of select()."""
        outputs = self.run_ranks("""
            import resource
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, most) if most > 0 else 2048, most))
            files = [open("/dev/null") for _ in range(1100)]
            with muster.init() as run:
                print(run.gather(run.rank))
            """)
        self.assertEqual(outputs, ["[0, 1, 2]\n"] * 3)

    def test_sharded_checkpoint(self):
        self.run_ranks("""
            with muster.init() as run:
                with run.checkpoint(5, sharded=True) as folder:
                    (folder / "shards").mkdir()
                    (folder / "shards" / f"{run.rank}.bin").write_bytes(bytes(run.rank + 1))
            """)
        record, = self.supervisor.of_kind("checkpoint")
        sizes = {path: size for path, size in record["resources"].items() if path != "metadata.json"}
        self.assertEqual(sizes, {"shards/0.bin": 1, "shards/1.bin": 2, "shards/2.bin": 3})
        self.assertEqual(os.listdir(self.storage), [record["uuid"]])
        self.assertEqual(sorted(os.listdir(self.storage / record["uuid"])), ["metadata.json", "shards"])

    def test_failed_sharded_checkpoints(self):
        """Every rank gets the exception, nothing is left, and the training goes on."""
        outputs = self.run_ranks("""
            with muster.init() as run:
                for name, fails in (("model", -1), ("rank", 1), ("nothing", -1)):
                    try:
                        with run.checkpoint(5, sharded=True) as folder:
                            if name == "model":
                                (folder / name).write_text("1")
                            if run.rank == fails:
                                raise OSError("disk is broken")
                    except (muster.CheckpointError, OSError) as error:
                        print(error)
                run.barrier()
                print("goes on")
            """)
        for output in outputs:
            self.assertIn("ranks 0 and 1 both wrote model", output)
            self.assertIn("disk is broken", output)
            self.assertIn("save at least one file", output)
            self.assertIn("goes on", output)
        self.assertEqual(os.listdir(self.storage), [])

    def test_plain_checkpoint_on_all_ranks(self):
        self.run_ranks("""
            with muster.init() as run:
                with run.checkpoint(5) as folder:
                    (folder / "model").write_text(str(run.rank))
            """)
        record, = self.supervisor.of_kind("checkpoint")
        self.assertEqual((self.storage / record["uuid"] / "model").read_text(), "0")

    def test_all_ranks_stop_at_the_same_step(self):
        started = self.start("""
            import random
            with muster.init() as run:
                generator = random.Random(run.rank)
                for step in run.steps(0, 1000000):
                    time.sleep(generator.random() / 2000)
                    if run.due(step, every=1000001):
                        print("last", step, run.stopping)
            """)
        deadline = time.monotonic() + 60
        while not self.supervisor.of_kind("progress") and time.monotonic() < deadline:
            time.sleep(0.01)
        self.master.stop = True
        results = self.finish(started)
        self.assertEqual([code for code, _, _ in results], [0, 0, 0], results)
        self.assertEqual(len({output for _, output, _ in results}), 1, results)
        self.assertRegex(results[0][1], r"^last \d+ True\n$")
        self.assertEqual(self.master.acknowledged, 1)

    def test_a_second_loop_stops_too(self):
        started = self.start("""
            with muster.init() as run:
                for step in run.steps(0, 3000):
                    pass
                for step in run.steps(0, 1000000):
                    time.sleep(0.001)
                print(step, run.stopping)
            """, ranks=2)
        time.sleep(1.5)
        self.master.stop = True
        results = self.finish(started)
        self.assertEqual(len({output for _, output, _ in results}), 1, results)
        self.assertRegex(results[0][1], r"^\d+ True\n$")

    def test_should_stop(self):
        started = self.start("""
            with muster.init() as run:
                step = 0
                while not run.should_stop(step):
                    step += 1
                    time.sleep(0.001)
                print(step)
            """, ranks=2)
        time.sleep(0.5)
        self.master.stop = True
        results = self.finish(started)
        self.assertEqual(len({output for _, output, _ in results}), 1, results)
        self.assertEqual(self.master.acknowledged, 1)

    def test_a_master_that_is_away(self):
        """The program goes on, and its acknowledgement arrives when the master is back."""
        self.master.down = True
        started = self.start("""
            with muster.init() as run:
                for step in run.steps(0, 1000000):
                    time.sleep(0.001)
            """, ranks=1)
        time.sleep(1)
        self.assertIsNone(started[0].poll())
        self.master.down, self.master.stop = False, True
        self.assertEqual(self.finish(started)[0][0], 0)
        self.assertEqual(self.master.acknowledged, 1)

    def test_answers_that_break_off(self):
        """The program goes on asking, whatever the answer was."""
        for down in (False, True):
            self.master.cut, self.master.down, self.master.stop = 2, down, False
            before = self.master.acknowledged
            started = self.start("""
                with muster.init() as run:
                    for step in run.steps(0, 1000000):
                        time.sleep(0.001)
                """, ranks=1)
            deadline = time.monotonic() + 30
            while self.master.cut > 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            self.master.down, self.master.stop = False, True
            code, _, errors = self.finish(started)[0]
            self.assertEqual((code, errors), (0, ""))
            self.assertEqual(self.master.acknowledged, before + 1)

    def test_an_allocation_that_has_ended(self):
        self.master.ended = True
        results = self.finish(self.start("""
            with muster.init() as run:
                for step in run.steps(0, 1000000):
                    time.sleep(0.001)
            """, ranks=2))
        self.assertEqual([code for code, _, _ in results], [80, 80], results)
        self.assertEqual(self.supervisor.of_kind("failure"), [])

    def test_a_program_that_does_not_listen_is_not_asked(self):
        self.run_ranks("""
            with muster.init() as run:
                run.report(1, loss=1.0)
                time.sleep(0.5)
            """, ranks=1)
        self.assertEqual(self.master.asked, 0)

    def test_nobody_asks_after_the_end(self):
        """A process that goes on after its run holds no call at the master."""
        for stop in (False, True):
            self.master.stop = stop
            self.run_ranks("""
                import threading
                run = muster.init()
                run.should_stop(0)
                time.sleep(0.5)
                run.finish()
                end = time.monotonic() + 10
                while "muster-stop" in [thread.name for thread in threading.enumerate()] and time.monotonic() < end:
                    time.sleep(0.01)
                assert time.monotonic() < end
                """, ranks=1)

    def test_ranks_that_disagree(self):
        for program, expected in (
                ("list(run.steps(0 if run.rank == 0 else 500, 1000))", r"rank 1 is at run.steps\(500, 1000\)"),
                ("run.barrier() if run.rank else run.gather(1)", "rank 1 is at run.barrier"),
                ("[run.should_stop(step) for step in range(run.rank, 10)]", "every rank must make the same"),
                ("run.should_stop(0)\n    run.should_stop(1) if run.rank else run.barrier()",
                 "rank 1 is at step 1 and rank 0 at run.barrier")):
            with self.subTest(program):
                results = self.finish(self.start(
                    f"with muster.init() as run:\n    {program}\n    run.barrier()\n", ranks=2))
                self.assertTrue(all(code == 1 for code, _, _ in results), results)
                self.assertRegex(" ".join(errors for _, _, errors in results), expected)

    def test_a_lost_rank_is_named(self):
        started = self.start("""
            with muster.init() as run:
                run.barrier()
                if run.rank == 1:
                    print("joined", flush=True)
                    time.sleep(60)
                run.barrier()
            """)
        self.assertEqual(started[1].stdout.readline(), "joined\n")
        started[1].send_signal(signal.SIGKILL)
        results = self.finish(started)
        self.assertIn("rank 1", results[0][2])
        self.assertNotEqual(results[2][0], 0)

    def test_odd_strangers_are_refused(self):
        """Whatever a stranger sends, rank 0 refuses it and waits for its ranks."""
        deep = b"[" * 4000 + b"\n"
        for sent in (deep, b"x" * 5000, b"\xff\n", b"1\n", b'{"rank": [1], "nonce": "a"}\n',
                     b'{"rank": 1, "nonce": "\\udc80", "proof": "\\udc80"}\n', b'{"rank": true}\n',
                     b'{"rank": 1, "nonce": "a", "proof": "\xc3\xa9"}\n'):
            ours, theirs = tcp_pair()
            told, found = [], {}
            with ours, theirs:
                theirs.sendall(sent)
                ranks.Ranks(environment.RankAddress(0, 2), told.append)._welcome(ours, found)
            self.assertEqual((len(told), found), (1, {}), sent[:60])
            self.assertIn("refuses a connection", told[0])

    def test_a_slow_stranger_is_refused(self):
        """Single bytes do not extend the time."""
        ours, theirs = tcp_pair()
        with ours, theirs:
            peer = ranks.Peer(ours, "a stranger", print)
            theirs.sendall(b"{")
            with self.assertRaisesRegex(muster.RankError, "has sent 0 bytes"):
                peer.receive("its first message", -1.0)

    def test_strangers_are_refused(self):
        """A program without the token of the task cannot join."""
        started = self.start("""
            with muster.init() as run:
                print(run.gather(run.rank))
            """, ranks=2)
        self.finish(started)
        code = "import muster.ranks, muster.environment as e\n" \
               "muster.ranks.JOIN_S = 0.5\n" \
               "r = muster.ranks.Ranks(e.RankAddress(1, 2, 1, '127.0.0.1', {port}, b'{secret}'), print)\n" \
               "print(r.gather('x', 1))"
        port = free_port()
        honest = subprocess.Popen([sys.executable, "-c", code.format(port=port, secret="a").replace(
            "e.RankAddress(1,", "e.RankAddress(0,").replace("JOIN_S = 0.5", "JOIN_S = 2")],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        stranger = subprocess.run([sys.executable, "-c", code.format(port=port, secret="b")],
                                  capture_output=True, text=True, timeout=60)
        self.assertIn("RankError", stranger.stderr)
        self.assertIn("not a rank of this run", honest.communicate(timeout=60)[0])


if __name__ == "__main__":
    unittest.main()
