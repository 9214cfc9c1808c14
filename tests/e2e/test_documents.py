"""Every command that the documents show works.

The test runs the blocks of README.md and docs/*.md that are marked as `sh`, page by page and in
order, in one shell per page, in a folder that looks like a clone of the repository with a started
quick start. A comment before a block says more about it:

    <!-- not run: REASON -->   it cannot run here; the reason is for the readers of the source, too
    <!-- file: NAME -->        it is the content of a file that the next commands use

PAGES holds what a page's reader has or chooses: files, and values instead of placeholders. Commands
in the running text are only compared with the help.
"""

import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import unittest

from cluster import BIN, SOURCE, Cluster, write_corpus

FENCE = re.compile(r"^( *)```(\w*)$")
MARK = re.compile(r"^ *<!-- (not run|file): (.+) -->$")
LANGUAGES = {"c", "diff", "json", "py", "python", "sh", "sql", "text", "yaml"}
DAEMON = re.compile(r"^(muster-master|muster-agent) (?!--init).*", re.MULTILINE)
DOCUMENTS = ["README.md", *sorted(f"docs/{path.name}" for path in (SOURCE / "docs").glob("*.md"))]


@dataclasses.dataclass
class Page:
    """`before` makes what the page takes for granted, `after` uses what it has made; both are scripts.
    `replace` holds pairs of a text of the page and the text to run instead."""
    before: str = ""
    replace: tuple = ()
    after: str = ""


PAGES = {
    "README.md": Page(
        before="mkdir poems; mv $MINE/input.txt poems; muster experiment create $MINE/spirals.yaml $MINE --follow -q",
        replace=(("steps: 2000", "steps: 40"), ("warmup_steps: 100", "warmup_steps: 10"), ("validate_every: 250", "validate_every: 20"),
                 ("checkpoint_every: 250", "checkpoint_every: 20"),
                 ("muster login determined ", "muster login determined --password-file .quickstart/password "),
                 ("--experiment 2", "--experiment $(newest)"),
                 ("digest UUID", "digest $(muster checkpoint list --experiment $(newest) --latest -o csv --columns uuid |"
                  " tail -1)"))),
    "docs/debugging.md": Page(
        before="id=$(muster experiment create $MINE/spirals.yaml $MINE -q); muster experiment wait $id; mkdir data; "
               "muster login admin --password-file .quickstart/password; muster master backup backup.db",
        replace=(("alloc=4\\.5d0c8f3e", "alloc=1\\."), ("DATA_DIR/muster.db", ".quickstart/master/muster.db"),
                 ("-d DATA_DIR", "-d data"), ("/tmp/e2e", "$HOME/e2e"), ("--preset release", "--test-dir build"),
                 ("level=error", "level=info"))),
    "docs/operating.md": Page(
        before="muster experiment create $MINE/spirals.yaml $MINE --follow -q; "
               "muster login admin --password-file .quickstart/password; mkdir $HOME/restored; "
               "muster user create ann --password-file .quickstart/password; muster master backup operating.db; "
               "export MUSTER_INITIAL_PASSWORD=$(cat .quickstart/password)",
        replace=(("--prefix /usr/local", "--prefix $HOME/local"), ("/var/lib/muster-agent", "$HOME/agent"),
                 ("/var/lib/muster/muster.db.before-N", "operating.db"), ("backup.db", "operating.db"),
                 ("-d /var/lib/muster", "-d $HOME/restored"), ("/var/lib/muster", "$HOME/data"),
                 ("--port 8080", "--port $PORT"), ("MASTER:8080", "127.0.0.1:$PORT"),
                 ("muster login admin --master", "muster login admin --password-file .quickstart/password --fingerprint "
                  "$(muster-master --init --data-dir $HOME/data | sed -n 's/^fingerprint: //p') --master"),
                 ("AGENT", "agent-0"), (" ID", " $(newest)"),
                 ("change-password USER", "change-password ann --password-file .quickstart/password"))),
    "docs/programs.md": Page(
        before="mkdir FOLDER; mv $MINE/train.py FOLDER",
        after="mkdir script; mv $MINE/simulate simulate.sh script; "
              "muster experiment create simulation.yaml script --follow; "
              "muster experiment describe $(newest)"),
}
# Files of a clone's user, which the scripts above put where the page has them.
FILES = {
    "spirals.yaml": """\
name: spirals
resources: {slots_per_trial: 2}
searcher: {name: single, metric: validation_loss}
trainer:
  model: {family: mlp, hidden: [8]}
  data: {format: csv, path: spirals.csv, label: spiral, standardize: true, validation_count: 500}
  global_batch_size: 64
  micro_batch_size: 32
  steps: 20
  optimizer: {name: adamw, learning_rate: 0.001}
""",
    # The program of the guide needs PyTorch, and tests/sdk/test_guide.py runs it.
    "train.py": """\
import muster
with muster.init(hparams={"learning_rate": 0.1}) as run:
    for step in run.steps(0, 20):
        run.report(step, loss=1 / step)
    run.validate(20, accuracy=0.5)
""",
    "simulate": """\
#!/bin/sh
echo 0.5
""",
}
# Runs before the blocks of every page.
START = """\
newest() { muster experiment list -o csv --columns id --limit 1 | tail -1; }
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT   # the daemons of the page
await() {   # await TEXT FILE: until the daemon has written TEXT
    timeout 120 sh -c 'until grep -q "$1" "$2"; do sleep 0.1; done' wait "$1" "$2" || { cat "$2"; return 1; }
}
muster login determined --password-file .quickstart/password
set -x
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def blocks(document):
    """Yields (line, language, mark, argument, text) for every fenced block of a document."""
    lines = (SOURCE / document).read_text(encoding="utf-8").split("\n")
    number = 0
    while number < len(lines):
        found = FENCE.match(lines[number])
        number += 1
        if not found:
            continue
        start, indent = number, found[1]
        while lines[number].rstrip() != indent + "```":
            number += 1
        mark = MARK.match(lines[start - 2]) if start > 1 else None
        text = "".join(line[len(indent):] + "\n" for line in lines[start:number])
        number += 1
        yield start, found[2], mark[1] if mark else "", mark[2] if mark else "", text


def beside(text):
    """A daemon in a script would end it: it runs beside the script, which goes on when it is ready."""
    def start(found):
        said = "master is up" if found[1] == "muster-master" else "connected to the master"
        return f"{found[0].split(' #')[0]} >$HOME/{found[1]}.log 2>&1 &\nawait '{said}' $HOME/{found[1]}.log"
    return DAEMON.sub(start, text)


def script(document):
    """Returns what a reader of the page runs, and the number of its blocks of commands."""
    page = PAGES.get(document, Page())
    lines, count = [START, page.before], 0
    for number, language, mark, argument, text in blocks(document):
        for old, new in page.replace:
            text = text.replace(old, new)
        if mark == "file":
            lines.append(f"cat >{shlex.quote(argument)} <<'END OF FILE'\n{text}END OF FILE")
        elif language == "sh" and not mark:
            count += 1
            lines.append(f'cd "$CLONE"; echo "--- {document}:{number}"\n{beside(text)}')
    return "\n".join([*lines, 'cd "$CLONE"', page.after]), count


def commands_in_text():
    """Yields (document, command) for the commands of muster in the running text and in blocks that do not
    run. The command of docs/first-change.md is the change itself."""
    for document in DOCUMENTS:
        if document == "docs/first-change.md":
            continue
        text = (SOURCE / document).read_text(encoding="utf-8")
        for found in re.findall(r"`(muster [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            yield document, " ".join(found.split())
        for _, language, mark, _, block in blocks(document):
            if language == "sh" and mark == "not run":
                yield from ((document, line) for line in block.split("\n") if line.startswith("muster "))


class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.clone = pathlib.Path("clone").resolve()
        cls.mine = pathlib.Path("mine").resolve()
        cls.clone.mkdir()
        cls.mine.mkdir()
        for path in SOURCE.iterdir():
            if path.name != "build":
                (cls.clone / path.name).symlink_to(path)
        (cls.clone / "build").symlink_to(BIN.parent)
        for name, content in FILES.items():
            (cls.mine / name).write_text(content)
            (cls.mine / name).chmod(0o755)
        write_corpus(cls.mine / "input.txt")
        spirals = subprocess.run(["python3", SOURCE / "examples" / "spirals.py"], capture_output=True, check=True)
        (cls.mine / "spirals.csv").write_bytes(spirals.stdout)
        cls.cluster = cls.enterClassContext(Cluster(cls.clone / ".quickstart", slots=(2,)))
        for name in ("agent", "agent.log"):
            (cls.clone / ".quickstart" / name).symlink_to(name.replace("agent", "agent-0"))

    def follow(self, document):
        """Runs the commands of a page; a failure names the block."""
        home = pathlib.Path("home", pathlib.Path(document).stem).resolve()
        home.mkdir(parents=True)
        (home / "muster").symlink_to(self.clone)
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MUSTER_", "XDG_"))}
        environment |= {"HOME": str(home), "CLONE": str(self.clone), "MINE": str(self.mine), "MUSTER_MASTER": self.cluster.url,
                        "PATH": f"{BIN}:{os.environ['PATH']}", "PORT": str(free_port())}
        text, count = script(document)
        if "sqlite3 -readonly" in text and not shutil.which("sqlite3"):
            self.skipTest("sqlite3 is not installed")
        done = subprocess.run(["bash", "-e", "-o", "pipefail"], input=text, cwd=self.clone, env=environment, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        print(f"{document}: {count} blocks of commands")
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])

    def test_every_block_is_marked(self):
        """A block says its language; one of commands runs, or says why it does not."""
        skipped = 0
        for document in DOCUMENTS:
            for number, language, mark, argument, _ in blocks(document):
                self.assertIn(language, LANGUAGES, f"{document}:{number}: say whether the block is sh, text, ...")
                skipped += mark == "not run"
                self.assertTrue(mark != "not run" or len(argument) > 15, f"{document}:{number}: give a reason")
        print(f"{skipped} blocks of commands cannot run here")

    def test_commands_in_the_text_exist(self):
        seen = 0
        for document, command in commands_in_text():
            words = re.findall(r"[^\s'\"]+", command.split("#")[0])[1:]
            name = [word for word in words[:2] if re.fullmatch(r"[a-z][a-z-]+", word)]
            words = [word for word in words if not re.fullmatch(r"[A-Z]+", word)]
            if not name or name[0] in ("api", "report"):
                continue
            with self.subTest(document=document, command=command):
                asked = words if name[0] == "help" else [*name, "--help"]
                done = subprocess.run([BIN / "muster", *asked], capture_output=True, text=True, check=False)
                if done.returncode and len(name) == 2 and name[0] != "help":  # the second word was an argument
                    done = subprocess.run([BIN / "muster", name[0], "--help"], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                for flag in (word for word in words if re.fullmatch(r"--[a-z-]+", word)):
                    self.assertRegex(done.stdout, rf"(^|\s){flag}\b")
                seen += 1
        self.assertGreater(seen, 50)

    def test_the_first_change_fits(self):
        """The lines that docs/first-change.md replaces, and those that it names as places, exist."""
        text = (SOURCE / "docs/first-change.md").read_text(encoding="utf-8")
        files = re.findall(r"`([a-z_]+/[\w./]+\.(?:c|def|h|py))`", text)
        sources = {path: " ".join((SOURCE / path).read_text(encoding="utf-8").split()) for path in files}
        places = re.findall(r"`([\w./]+)`,\s+(?:after|before)\s+the\s+line\s+`([^`]+)`", text)
        places += [(path, line) for path, block in re.findall(r"`(\w+/[\w./]+)`[^\n]*:\n\n```diff\n(.*?)```", text, re.DOTALL)
                   for line in re.findall(r"^-(.+)$", block, re.MULTILINE)]
        self.assertGreater(len(places), 12)
        for path, line in places:
            self.assertIn(" ".join(line.split()), sources[path], f"docs/first-change.md, {path}")


def add_page(document):
    setattr(Documents, f"test_{pathlib.Path(document).stem.lower().replace('-', '_')}",
            lambda self: self.follow(document))


for each in DOCUMENTS:
    if script(each)[1]:
        add_page(each)

if __name__ == "__main__":
    unittest.main()
