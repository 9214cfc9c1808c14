"""Kills and stops random processes while experiments train; the experiments must end as in an
undisturbed run.

MUSTER_CHAOS_SEED determines the cluster, the experiments and the faults of a round. The same
seed gives the same faults at the same times; the state that they hit depends on the machine. For
a long search:

    MUSTER_CHAOS_ROUNDS=50 MUSTER_CHAOS_SECONDS=30 tests/run release -R chaos -V
"""

import collections
import contextlib
import heapq
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
import unittest
import zlib

from cluster import BIN, Cluster, wait_for, write_corpus

SEED = int(os.environ.get("MUSTER_CHAOS_SEED", "1"))
ROUNDS = int(os.environ.get("MUSTER_CHAOS_ROUNDS", "1"))
SECONDS = float(os.environ.get("MUSTER_CHAOS_SECONDS", "12"))  # length of the fault period of a round
STEPS = int(SECONDS) * 200  # so that most faults hit a running training
REPORT_EVERY, VALIDATE_EVERY, LINES = 10, 200, 30

NATIVE = f"""\
name: chaos
searcher: {{name: single, metric: validation_loss}}
max_restarts: 1000
reproducibility: {{experiment_seed: 5}}
trainer:
  model: {{family: gpt, layers: 1, heads: 2, width: 16, context: 32, dropout: 0.1}}
  data: {{format: bytes, path: text.txt, validation_fraction: 0.02}}
  global_batch_size: 12
  micro_batch_size: 1
  steps: {STEPS}
  optimizer: {{name: adamw, learning_rate: 3.0e-3}}
  clip_norm: 1.0
  validate_every: {VALIDATE_EVERY}
  checkpoint_every: 100
  report_every: {REPORT_EVERY}
"""

PROGRAM = f"""\
name: lines
entrypoint: sh lines.sh
launch: per_slot
searcher: {{name: single, metric: none}}
max_restarts: 1000
preemption_timeout: 2
"""

LINES_SH = f"""\
i=0
while [ $i -lt {LINES} ]; do
    echo "line $i"
    sleep 0.2
    i=$((i + 1))
done
"""

Process = collections.namedtuple("Process", "pid parent start program agent allocation rank slots")


def read_process(pid, folder):
    """Returns the facts of /proc about a rank or supervisor whose agent works below `folder`, or
    None if the process is neither."""
    entry = pathlib.Path("/proc") / str(pid)
    try:
        cwd = os.readlink(entry / "cwd")
        if not cwd.startswith(f"{folder}/agent-"):
            return None
        program = pathlib.Path(os.readlink(entry / "exe")).name
        stat = (entry / "stat").read_text().rpartition(")")[2].split()
        environment = dict(word.partition("=")[::2]
                           for word in (entry / "environ").read_text(errors="replace").split("\0"))
        agent, kind, allocation = pathlib.Path(cwd).relative_to(folder).parts[:3]
    except (OSError, ValueError):
        return None
    if kind != "tasks":
        return None
    rank = int(environment["RANK"]) if "MUSTER_RUN_DIR" in environment else None
    slots = json.loads(environment["DET_SLOT_IDS"]) if rank is not None else []
    return Process(int(pid), int(stat[1]), stat[19], program, agent, allocation, rank, slots)


def processes(folder):
    found = (read_process(name, folder) for name in os.listdir("/proc") if name.isdigit())
    return sorted(process for process in found if process)


class ProcessWatcher(threading.Thread):
    """Checks repeatedly that no slot is used by two processes and no rank runs twice.

    A trial may have two starts at once only where the master gave up an agent (`apart`).
    """

    def __init__(self, folder, apart):
        super().__init__(daemon=True)
        self.folder, self.apart, self.ended, self.faults = folder, apart, threading.Event(), []
        self.most = 0  # largest number of slots in use at once

    def run(self):
        while not self.ended.wait(0.05):
            self.look()

    def look(self):
        used = {}
        ranks = [process for process in processes(self.folder) if process.rank is not None]
        pids = [process.pid for process in ranks]  # excludes child processes, which sanitizers fork
        for process in ranks:
            trial = process.allocation.rpartition(".")[0]
            if not self.apart:
                self.claim(used, ("trial", trial), process, process.allocation)
            for slot in process.slots:
                self.claim(used, ("slot", process.agent, slot), process, process.allocation)
            if process.program == "muster-trainer" and process.parent not in pids:
                self.claim(used, ("rank", process.allocation, process.rank), process, process.pid)
        self.most = max(self.most, sum(what[0] == "slot" for what in used))

    def claim(self, used, what, process, owner):
        """A slot has one owner at a time. The first owner was seen before the second: if the first
        still exists, both use the slot."""
        first, first_owner = used.setdefault(what, (process, owner))
        if owner != first_owner:
            still = read_process(first.pid, self.folder)
            if still and still.start == first.start:
                self.faults.append(f"{what} is held by {first} and {process}")

    def finish(self):
        self.ended.set()
        self.join()


class Chaos:
    """A cluster, its experiments, and the faults that are applied to it."""

    def __init__(self, seed, folder):
        self.random = random.Random(seed)
        slots = self.random.choice([(2, 2), (3, 2), (2, 3, 2)])
        self.impatient = self.random.random() < 0.5  # the master gives up agents while their tasks still run
        flags = ("--agent-silence", 3, "--agent-reconnect", 2) if self.impatient else ()
        self.cluster = Cluster(folder, slots=slots, master_flags=flags)
        self.folder = self.cluster.folder
        self.natives, self.programs, self.commands, self.story = [], [], [], []
        self.due, self.order = [], itertools.count()
        self.rank_kills = 0
        self.began = time.monotonic()

    def tell(self, text):
        self.story.append(f"{time.monotonic() - self.began:7.2f} {text}")

    def submit(self, files):
        """Submits more experiments than there are slots; the program needs two machines."""
        biggest = max(self.cluster.slots)
        for slots in [biggest, *self.random.choices(range(1, biggest + 1), k=2)]:
            self.natives.append(self.create(files, "native.yaml", slots))
        self.programs.append(self.create(files, "lines.yaml", biggest + 1))
        self.tell(f"agents with {self.cluster.slots} slots, experiments {self.natives} {self.programs}"
                  f"{', agents are given up soon' if self.impatient else ''}")

    def create(self, files, config, slots):
        return self.cluster.create(files / config, files, "--config",
                                   f"resources.slots_per_trial={slots}")

    # scheduled actions

    def at(self, seconds, what, *arguments):
        heapq.heappush(self.due, (time.monotonic() + seconds, next(self.order), what, arguments))

    def play(self, seconds):
        """Runs the actions that are due until the time is over, then all remaining actions at once.
        """
        end = time.monotonic() + seconds
        while self.due:
            when, _, what, arguments = heapq.heappop(self.due)
            if when < end:
                time.sleep(max(0, when - time.monotonic()))
            elif what in self.faults():
                continue
            what(*arguments)
            self.check_daemons()

    def plan(self, seconds):
        """Draws all faults beforehand, so that a seed means the same on fast and slow machines."""
        now = 0.0
        while now < seconds:
            fault = self.random.choices(list(self.faults()), list(self.faults().values()))[0]
            self.at(now, fault, self.random.randrange(1000), self.random.random())
            now += self.random.choice([0.05, 0.3, 0.7, 1.5])

    def faults(self):
        """Returns the kinds of faults with their weights."""
        return {self.kill_rank: 5, self.kill_supervisor: 3, self.kill_agent: 3, self.kill_master: 3,
                self.kill_machine: 1, self.stop_agent: 2, self.stop_master: 1, self.pause: 3}

    # faults: `which` chooses the target, `much` (0 to 1) scales the duration

    def ranks(self):
        return [p for p in processes(self.folder) if p.rank is not None and p.program != "sleep"]

    def supervisors(self):
        return [p for p in processes(self.folder) if p.rank is None]

    def kill_process(self, process):
        kind = "supervisor" if process.rank is None else f"rank {process.rank}"
        self.tell(f"kill -9 {kind} of {process.allocation} on {process.agent}, pid {process.pid}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)

    def kill_rank(self, which, _):
        ranks = self.ranks()
        if ranks:
            self.kill_process(ranks[which % len(ranks)])
            self.rank_kills += 1

    def kill_supervisor(self, which, _):
        supervisors = self.supervisors()
        if supervisors:
            self.kill_process(supervisors[which % len(supervisors)])

    def kill_agent(self, which, much):
        agent = self.cluster.agents[which % len(self.cluster.agents)]
        if agent.process.poll() is None:
            self.tell(f"kill -9 {agent.log_path.stem}")
            agent.kill9()
            self.at(3 * much * (which % 3 > 0), self.restart_agent, agent)

    def kill_machine(self, which, much):
        """Kills the agent and all its processes at once; ranks die with their supervisors."""
        self.kill_agent(which, much)
        for process in self.supervisors():
            if process.agent == self.cluster.agents[which % len(self.cluster.agents)].log_path.stem:
                self.kill_process(process)

    def restart_agent(self, agent):
        self.tell(f"start {agent.log_path.stem}")
        agent.start()

    def kill_master(self, which, much):
        if self.cluster.master.process.poll() is None:
            self.tell("kill -9 master")
            self.cluster.master.kill9()
            self.at(3 * much * (which % 3 > 0), self.restart_master)

    def restart_master(self):
        self.tell("start master")
        self.cluster.start_master()

    def stop_agent(self, which, much):
        self.stop(self.cluster.agents[which % len(self.cluster.agents)], much)

    def stop_master(self, _, much):
        self.stop(self.cluster.master, much)

    def stop(self, daemon, much):
        if daemon.process.poll() is None:
            self.tell(f"stop {daemon.log_path.stem} for {1 + 11 * much ** 2:.1f} s")
            daemon.process.send_signal(signal.SIGSTOP)
            self.at(1 + 11 * much ** 2, self.go_on, daemon.log_path.stem, daemon.process)

    def go_on(self, name, process):
        self.tell(f"continue {name}")
        process.send_signal(signal.SIGCONT)  # no effect if the daemon was killed meanwhile

    def pause(self, which, much):
        experiment = (self.natives + self.programs)[which % (len(self.natives) + 1)]
        self.command("pause", experiment)
        self.at(2 * much, self.command, "activate", experiment)

    def command(self, verb, experiment):
        """Runs the command without waiting: the master may be down. It may fail: the experiment may
        have ended."""
        self.tell(f"{verb} experiment {experiment}")
        self.commands.append(subprocess.Popen(
            [BIN / "muster", "experiment", verb, str(experiment)], env=self.cluster.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def check_daemons(self):
        """Checks that each missing daemon was killed by this test and waits for its restart."""
        waiting = [arguments for _, _, what, arguments in self.due if what == self.restart_agent]
        for agent in self.cluster.agents:
            if agent.process.poll() is not None and (agent,) not in waiting:
                raise AssertionError(f"an agent ended by itself:\n{agent.tail()}")
        waits = any(what == self.restart_master for _, _, what, _ in self.due)
        if self.cluster.master.process.poll() is not None and not waits:
            raise AssertionError(f"the master ended by itself:\n{self.cluster.master.tail()}")

    # checks after the faults

    def settle(self):
        """Waits without faults until all experiments are active and end."""
        for command in self.commands:
            command.wait(120)
        self.tell("no more faults")
        for experiment in self.natives + self.programs:
            if self.state(experiment) == "PAUSED":
                self.cluster.muster("experiment", "activate", experiment)
        for experiment in self.natives + self.programs:
            self.cluster.wait(experiment)
        self.tell("all experiments ended")

    def state(self, experiment):
        return self.cluster.rows("experiment", "describe", experiment)["state"]

    def left_behind(self):
        """Checks that no tasks and no task folders are left soon after the end."""
        return [str(path) for agent in self.cluster.agents for place in ("tasks", "trash")
                for path in (self.folder / agent.log_path.stem / place).iterdir()]


class Blob:
    """Numbers and bytes of a log chunk, in the format of db/logs/loglines.h."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self):
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def text(self):
        return self.take(self.number()).decode()


def chunk_lines(origins, data):
    head, body = Blob(origins[1:]), Blob(data[1:])
    texts = [head.text() for _ in range(head.number())]
    fields = 6  # allocation, agent, container, source, stdtype, level
    known = [([texts[head.number()] for _ in range(fields)], head.signed()) for _ in range(head.number())]
    length = body.number()
    rest = body.data[body.at:]
    lines = Blob(zlib.decompress(rest) if data[0] == 2 else rest)
    while lines.at < length:
        (allocation, agent, *_), rank = known[lines.number()]
        lines.signed()  # time
        text = lines.text()
        lines.take(1)
        yield allocation, agent, rank, text


class Store:
    """The master's database, opened as a file."""

    def __init__(self, folder):
        self.sql = sqlite3.connect(f"file:{folder}/master/muster.db?mode=ro", uri=True)

    def rows(self, query, *values):
        return self.sql.execute(query, values).fetchall()

    def log_lines(self):
        """Returns allocation, agent, rank and text of every line, in the order of each task."""
        for origins, data in self.rows("SELECT origins, data FROM log_chunks ORDER BY task_id, last_id"):
            yield from chunk_lines(origins, data)


def metrics(cluster, experiment, group):
    """Returns [(steps, {name: value})] ordered by steps, without the metrics of time and memory."""
    measured = ("_ms", "_per_second", "_share", "_mb", "mfu")
    return [(row["steps"], {name: value for name, value in row["metrics"].items()
                            if not name.endswith(measured)})
            for row in cluster.rows("experiment", "metrics", experiment, "--group", group)]


class ChaosTest(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.files = pathlib.Path("files").resolve()
        cls.files.mkdir()
        write_corpus(cls.files / "text.txt", 20000)
        (cls.files / "native.yaml").write_text(NATIVE)
        (cls.files / "lines.yaml").write_text(PROGRAM)
        (cls.files / "lines.sh").write_text(LINES_SH)
        with Cluster("undisturbed", slots=(1,)) as cluster:
            experiment = cluster.create(cls.files / "native.yaml", cls.files)
            cluster.wait(experiment)
            cls.digest = cluster.digest(experiment)
            cls.training = metrics(cluster, experiment, "training")
            cls.validation = metrics(cluster, experiment, "validation")

    def test_chaos(self):
        self.assertEqual([steps for steps, _ in self.training],
                         list(range(REPORT_EVERY, STEPS + 1, REPORT_EVERY)))
        self.assertEqual([steps for steps, _ in self.validation],
                         list(range(0, STEPS + 1, VALIDATE_EVERY)))
        for seed in range(SEED, SEED + ROUNDS):
            with self.subTest(MUSTER_CHAOS_SEED=seed):
                self.round(seed)

    def test_dead_agent_is_shown(self):
        with Cluster("shown", slots=(1,)) as cluster:
            def connected():
                return [agent["connected"] for agent in cluster.rows("agent", "list")]
            self.assertEqual(connected(), [True])
            cluster.agents[0].kill9()
            wait_for("the agent to be shown as not connected", lambda: connected() == [False], 30)
            cluster.agents[0].start()
            wait_for("the agent to be shown as connected", lambda: connected() == [True], 30)

    def test_idle_agent_is_not_reported_as_silent(self):
        with Cluster("impatient", slots=(1,), master_flags=("--agent-silence", 2)) as cluster:
            time.sleep(7)
            silences = cluster.master.tail().count("agent not connected")
            self.assertLess(silences, 2, "a busy machine can cause one of these messages")

    def round(self, seed):
        print(f"MUSTER_CHAOS_SEED={seed}", flush=True)
        chaos = Chaos(seed, f"seed-{seed}")
        with chaos.cluster:
            watch = ProcessWatcher(chaos.folder, chaos.impatient)
            watch.start()
            try:
                chaos.submit(self.files)
                chaos.plan(SECONDS)
                chaos.play(SECONDS)
                chaos.settle()
                self.check_end(chaos)
                self.assertEqual(watch.faults, [])
                self.assertGreaterEqual(watch.most, max(chaos.cluster.slots), "the watcher recorded nothing")
                self.check_store(chaos, Store(chaos.folder))
            except BaseException:
                print("\n".join(chaos.story), flush=True)
                print(f"master:\n{chaos.cluster.master.tail(60)}", flush=True)
                raise
            finally:
                watch.finish()
        shutil.rmtree(chaos.folder)

    def check_end(self, chaos):
        """Checks the visible results, and that no logs, folders and processes are left over."""
        for experiment in chaos.natives:
            self.assertEqual(chaos.cluster.digest(experiment), self.digest)
            self.assertEqual(metrics(chaos.cluster, experiment, "training"), self.training)
            self.assertEqual(metrics(chaos.cluster, experiment, "validation"), self.validation)
        wait_for("the agents to forget all tasks", lambda: not chaos.left_behind(), 60)
        for daemon in [*chaos.cluster.agents, chaos.cluster.master]:
            daemon.stop()
            self.assertEqual(daemon.process.returncode, 0, daemon.tail())
        chaos.cluster.agents.clear()
        self.assertEqual(chaos.cluster.processes_below(), [])

    def check_store(self, chaos, store):
        self.assertEqual(store.rows("SELECT id, state FROM allocations WHERE state <> 'TERMINATED'"), [])
        self.assertEqual(store.rows("SELECT id, state FROM trials WHERE state <> 'COMPLETED'"), [])
        self.assertEqual(store.rows("SELECT * FROM tokens WHERE kind = 'allocation'"), [])
        self.assertLessEqual(store.rows("SELECT sum(restarts) FROM trials")[0][0], chaos.rank_kills,
                             "only failures of the program itself count as restarts")
        self.check_allocations(store)
        self.check_logs(chaos, store)

    def check_allocations(self, store):
        """Checks that the starts of a trial follow one another."""
        for (trial,) in store.rows("SELECT id FROM trials"):
            starts = store.rows("SELECT epoch, queued_at, ended_at FROM allocations WHERE trial_id = ?"
                                " ORDER BY rowid", trial)
            self.assertEqual([epoch for epoch, _, _ in starts], list(range(1, len(starts) + 1)))
            for (_, _, ended), (_, queued, _) in itertools.pairwise(starts):
                self.assertLessEqual(ended, queued)

    def check_logs(self, chaos, store):
        """Checks that every written line is stored exactly once; for a killed program, that its
        first lines are stored."""
        counts = collections.Counter()
        lines = collections.defaultdict(list)
        for allocation, agent, rank, text in store.log_lines():
            counts[allocation, agent] += bool(agent)
            if text.startswith("line "):
                lines[allocation, rank].append(text)
        for allocation, agent, last in store.rows("SELECT allocation_id, agent_id, last_sequence FROM log_senders"):
            self.assertEqual(counts[allocation, agent], last, (allocation, agent))
        for key, found in lines.items():
            self.assertEqual(found, [f"line {i}" for i in range(len(found))], key)
        for experiment in chaos.programs:
            last, ranks = store.rows(
                "SELECT a.id, a.slots FROM allocations a JOIN trials t ON t.id = a.trial_id"
                " WHERE t.experiment_id = ? ORDER BY a.epoch DESC", experiment)[0]
            self.assertEqual([len(lines[last, rank]) for rank in range(ranks)], [LINES] * ranks)


if __name__ == "__main__":
    unittest.main(verbosity=2)
