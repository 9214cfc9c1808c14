"""The folders of the tree: what each owns, and which other folders it may include.

This table alone declares the dependencies. check.py compares every #include with it and generates
the table of ARCHITECTURE.md from it (`tests/style/check.py --write`).
"""

BASE = "base/*"
CONTRACT = BASE + " api/*"
MASTER = CONTRACT + " db/* master/common"

# (folder, what it owns, what it may include besides itself). "x" stands for the headers in folder
# x, "x/*" also for those in its subfolders, "x/y.h" for one header.
FOLDERS = [
    ("base", "errors, log, arena, capped buffers, clock, generators, limits", ""),
    ("base/text", "JSON, YAML, CSV, regular expressions, configuration tables", "base"),
    ("base/os", "durable files, child processes, mailboxes", "base"),
    ("api", "the contract between processes: names on the wire, the sorted walk over a folder",
     BASE),
    ("api/config", "the keys of the experiment file and of task files, their checks, templates",
     BASE + " api api/checkpoint"),
    ("api/archive", "the files of an experiment: folder, JSON list, tar.gz", BASE + " api"),
    ("api/checkpoint", "checkpoints on disk: safetensors files, manifest, digests", BASE + " api"),
    ("api/http", "HTTP client, server-sent events, the followed stream of events", BASE + " api"),
    ("api/filter", "the filter language of lists", BASE + " api"),
    ("db", "the experiment store: the file, migrations, one writer, readers, backups",
     CONTRACT + " db/statements"),
    ("db/statements", "every SQL statement, the types of its values and the names of its columns",
     CONTRACT + " db db/lists"),
    ("db/lists", "filters of lists as SQL", CONTRACT + " db db/statements"),
    ("db/metrics", "metric reports in packed columns; compaction", CONTRACT + " db"),
    ("db/logs", "log lines in compressed chunks", CONTRACT + " db"),
    ("simulate", "the scheduler under a virtual clock, fed by a trace or by a store's history",
     BASE + " master/sched"),
    ("cli", "the `muster` command: main, the table of commands", CONTRACT + " cli/*"),
    ("cli/commands", "the functions of the commands, by noun",
     CONTRACT + " cli cli/common cli/output"),
    ("cli/simulate", "`muster simulate`: input, tables, drawing",
     CONTRACT + " cli cli/common cli/output cli/commands cli/help simulate"),
    ("cli/import", "`muster import determined`: a dump or a running master as records, their way "
     "into the master", CONTRACT + " cli cli/common cli/output cli/commands/commands.h"),
    ("cli/cluster", "`muster cluster`: machines that become a cluster by SSH, their checks, upgrades",
     CONTRACT + " cli cli/common cli/output cli/commands/commands.h cli/cluster/ssh"),
    ("cli/cluster/ssh", "SSH connections, host keys", BASE),
    ("cli/task", "the commands that work in the program of a trial: its reports and checkpoints",
     CONTRACT + " cli cli/common cli/output cli/commands/commands.h"),
    ("cli/help", "help, topics of help, manual pages, completion",
     CONTRACT + " cli cli/common cli/output cli/commands"),
    ("cli/output", "tables, JSON, CSV, progress lines, wait reasons; filtered output to a terminal",
     CONTRACT + " cli"),
    ("cli/common", "session, flags, values of flags, names to ids, input files, followed events",
     CONTRACT + " cli cli/output cli/commands/commands.h"),
    ("agent", "the agent's event loop, its slots, and its connection to the master",
     CONTRACT + " agent/tasks agent/spool agent/logs agent/reports agent/gpu agent/quotas "
     "agent/isolation agent/supervisor/cgroup.h agent/supervisor/protections.h "
     "agent/supervisor/protection_probe.h"),
    ("agent/tasks", "tasks, their folders, and what to start and stop",
     CONTRACT + " agent agent/spool agent/logs agent/supervisor"),
    ("agent/supervisor", "the process of one task: ranks, pipes, their enclosure",
     CONTRACT + " agent/isolation agent/logs agent/reports agent/tasks agent/failures"),
    ("agent/isolation", "what separates a task from its machine: its account, its view of the "
     "files, its first process, refused system calls",
     CONTRACT + " agent/tasks agent/supervisor/cgroup.h agent/supervisor/protections.h"),
    ("agent/failures", "why a rank failed or hangs, in one sentence", "base/*"),
    ("agent/quotas", "the limits of a task; the files of all tasks on the disk",
     CONTRACT + " agent agent/tasks agent/failures/memory.h"),
    ("agent/spool", "lines on disk for the master, and the thread that ships them",
     CONTRACT + " agent agent/tasks"),
    ("agent/logs", "the output of tasks as lines of a spool", CONTRACT + " agent agent/spool "
     "agent/tasks"),
    ("agent/reports", "the socket to which programs report, and the calls to the master",
     CONTRACT + " agent agent/spool agent/tasks"),
    ("agent/gpu", "GPUs: discovery, health, utilization", CONTRACT + " agent"),
    ("master/common", "requests on their way between threads, audit trail, checkpoint storage, free "
     "space, meters, the master's own log", CONTRACT + " db/*"),
    ("master/sched", "the scheduler, pure", "base"),
    ("master/search", "the searchers (hyperparameter search), pure", "base base/text"),
    ("master/kernel", "the core thread's loop: turns, the commit barrier, timers, parked requests, "
     "workers, dispatch of events", MASTER + " master/sched master/search"),
    ("master/teams", "workspaces, members, roles, authorization, precedence of jobs",
     MASTER + " master/kernel"),
    ("master/lifecycle", "the state machines of experiments, trials, allocations and agents, and "
     "their effects", MASTER + " master/kernel master/teams"),
    ("master/retention", "removal of old checkpoints and logs by policy",
     MASTER + " master/kernel master/teams master/lifecycle"),
    ("master/ingest", "incoming metrics, logs and checkpoints",
     MASTER + " master/kernel master/teams master/lifecycle master/retention"),
    ("master/notify", "events for followers; webhooks and e-mails, and their outboxes",
     MASTER + " master/kernel master/teams master/lifecycle master/ingest master/http/stream.h"),
    ("master/watch", "the cluster's health: alerts, readiness, the cluster in numbers",
     MASTER + " master/kernel master/lifecycle master/notify"),
    ("master/calls/bulk", "requests that concern many experiments: verbs for all that are listed "
     "or selected; deletion of workspaces and projects",
     MASTER + " master/kernel master/teams master/lifecycle master/retention master/calls"),
    ("master/calls", "requests of users: submit, change, continue, queue, tasks, removal",
     MASTER + " master/kernel master/teams master/lifecycle master/retention master/ingest "
     "master/search master/sched master/registry/template_apply.h"),
    ("master/imports", "objects that are taken over from another cluster",
     MASTER + " master/kernel master/teams master/lifecycle master/ingest master/calls "
     "master/search"),
    ("master/tls", "the cluster's own certificate authority and the master's certificate", BASE),
    ("master/http", "the server: requests, streams, the web page",
     MASTER + " master/http/* master/kernel/core.h master/teams master/notify "
     "master/tls/serving.h master/watch/watch.h master/views/metrics/series_cache.h"),
    ("master/http/routing", "the types of the route table, matching of paths, OpenAPI",
     MASTER + " master/http/* master/http/limits master/kernel/core.h"),
    ("master/http/auth", "tokens, passwords, the session of the web page",
     MASTER + " master/http/routing master/teams"),
    ("master/http/limits", "limits for connections, bodies, answers and long calls",
     MASTER + " master/http/routing"),
    ("master/views", "answers read from the committed store; views never write",
     MASTER + " master/http/* master/notify master/teams master/search simulate "
     "master/retention/gc.h master/views/*"),
    ("master/views/lists", "lists with filters, an order and pages, as constant SQL",
     MASTER + " master/http/* master/teams master/views"),
    ("master/views/logs", "logs of tasks as streams: filters, following, searches in the text",
     MASTER + " master/http/* master/notify master/views"),
    ("master/views/metrics", "reported metrics: streams, charts, comparisons",
     MASTER + " master/http/* master/views master/views/lists"),
    ("master/views/monitoring", "metrics in the format of Prometheus, probes, alerts",
     MASTER + " master/http/* master/views master/watch"),
    ("master/views/live_state", "answers made from structs that the core thread filled",
     MASTER + " master/http/* master/views master/calls master/lifecycle"),
    ("master/registry", "models, templates, tokens, accounts, settings",
     MASTER + " master/http/* master/views master/views/lists master/notify master/teams "
     "master/tls/serving.h"),
    ("master", "the daemon: configuration, start and stop", MASTER + " master/* simulate"),
    ("trainer/ops", "the interface of the arithmetic", BASE),
    ("trainer/ops/cpu", "arithmetic on CPU slots", BASE + " trainer/ops"),
    ("trainer/ops/cuda", "arithmetic on GPU slots", BASE + " trainer/ops"),
    ("trainer/data", "samples: formats, order, augmentation, prefetch",
     CONTRACT + " trainer/ops trainer/reduction"),
    ("trainer/model", "layers and the graph of a model", CONTRACT + " trainer/ops trainer/data"),
    ("trainer/comm", "collectives between ranks: shared memory, TCP, NCCL",
     BASE + " trainer/ops trainer/ops/cuda/device"),
    ("trainer/optim", "optimizers and learning-rate schedules",
     CONTRACT + " trainer/ops trainer/model"),
    ("trainer/reduction", "exact reduction of gradients",
     CONTRACT + " trainer/ops trainer/model trainer/comm trainer/optim"),
    ("trainer/checkpoint", "checkpoints of a training",
     CONTRACT + " trainer/ops trainer/model trainer/optim trainer/reduction"),
    ("trainer/launcher", "how ranks start and find each other",
     CONTRACT + " trainer/comm trainer/checkpoint"),
    ("trainer/loop", "the training loop, evaluation, reports", CONTRACT + " trainer/*"),
    ("trainer/commands", "the commands of `muster-trainer`", CONTRACT + " trainer/*"),
    ("trainer", "the program `muster-trainer`", CONTRACT + " trainer/*"),
    ("sdk/python", "the package `muster` of Python programs: reports, media, checkpoints, stop requests, ranks; "
     "`muster.torch`, exact data parallelism for PyTorch", ""),
    ("tests", "`unit/` one program per file, `sim/` the master's core under a virtual clock with "
     "faults by seed, `sdk/` the Python package, `e2e/` real daemons, `ui/` the page in a browser, `fuzz/` hostile input, "
     "`packages/` the packages on machines of their own, `durability/` crashes and disk faults, `mutation/` planted bugs, "
     "`style/` these checks, `bench/` measurements",
     "base/* api/* db/* simulate cli/* agent/* master/* trainer/*"),
]

# Files with rules of their own, which replace the rule of their folder.
FILES = {
    "cli/commands/backup.c": CONTRACT + " cli/* db/*",  # copies a store that no master has open
    "simulate/history.c": BASE + " db/* master/sched simulate",  # jobs from a master's store
    "master/routes.c": "base/* master/*",  # the table of all calls
    "master/views/simulate.c": MASTER + " master/* simulate",
}

FOLDER_FILES = 26  # sources in one folder, without its subfolders


def below(path, folder):
    return path.startswith(folder + "/")


def rule_of(path):
    """What the file may include, as entries like those of FOLDERS; None: no rule covers it."""
    if path in FILES:
        return FILES[path].split()
    covering = [row for row in FOLDERS if below(path, row[0])]
    if not covering:
        return None
    folder, _, uses = max(covering, key=lambda row: len(row[0]))
    divided = any(below(row[0], folder) for row in FOLDERS)
    return [folder if divided else folder + "/*", *uses.split()]


def allowed(path, target):
    """Whether the file `path` may include the header `target`."""
    rule = rule_of(path)
    return rule is None or any(covers(entry, target) for entry in rule)


def covers(entry, target):
    if entry.endswith(".h"):
        return target == entry
    if entry.endswith("/*"):
        return below(target, entry[:-2])
    return target.rpartition("/")[0] == entry


def table():
    """The table of ARCHITECTURE.md, as lines of Markdown."""
    yield "| folder | owns | may include, besides `base` and `api` |"
    yield "| --- | --- | --- |"
    for folder, owns, uses in FOLDERS:
        names = [use.removesuffix("/*") for use in uses.split() if not use.startswith("base")]
        if "api" in names:
            names.remove("api")
        elif not folder.startswith(("base", "api", "sdk")):
            names.append("not `api`")
        shown = ", ".join(f"`{name}`" if not name.startswith("not") else name for name in names)
        yield f"| `{folder}/` | {owns} | {shown} |"

# Every name at the top of the tree. A test that runs in the source folder leaves files there, and
# `git add` takes them.
TOP = set("""
    .ci .clang-format .gitignore ARCHITECTURE.md CMakeLists.txt CMakePresets.json CONTRIBUTING.md
    GLOSSARY.md LICENSE README.md agent api base cli cmake db docs examples master packaging
    sdk simulate tests trainer webui
""".split())
