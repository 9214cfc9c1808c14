"""The environment of the UI tests: the built programs, a browser, and the npm packages."""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
PACKAGES = ("package.json", "package-lock.json", ".npmrc")
CANNOT = 77


def leave(why):
    print(f"tests/ui: skipped: {why}", file=sys.stderr)
    raise SystemExit(CANNOT)


def prepare(bin_folder=None):
    """Exits with status 77 if the tests cannot run here. Afterwards, cluster.py can be imported."""
    found = pathlib.Path(bin_folder or os.environ.get("MUSTER_BIN") or SOURCE / "build" / "bin").resolve()
    if os.environ.get("MUSTER_WEBUI", "1") != "1":
        leave("this master was built without the web page")
    if not (found / "muster-master").exists():
        leave(f"there is no muster-master in {found}; build it, or name another folder with --bin")
    for program in ("chromium", "node", "npm"):
        if not shutil.which(program):
            leave(f"{program} is not installed; packaging/setup installs it")
    os.environ.update(MUSTER_BIN=str(found), MUSTER_SOURCE=str(SOURCE))
    sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
    fetch_packages(found.parent / "ui")


def fetch_packages(folder):
    """Installs the packages of package-lock.json, again when it has changed."""
    os.environ["NODE_PATH"] = str(folder / "node_modules")
    wanted = [(HERE / name).read_bytes() for name in PACKAGES]
    stamp = folder / "node_modules" / "complete"
    if stamp.exists() and stamp.read_bytes() == b"".join(wanted):
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        shutil.copy(HERE / name, folder)
    done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-progress", "--loglevel=error"], cwd=folder, check=False)
    if done.returncode != 0:
        raise SystemExit("tests/ui: npm could not fetch playwright-core and axe-core. Check the network.")
    stamp.write_bytes(b"".join(wanted))


def command(program, *arguments, **settings):
    """The command line and the environment of a program of this folder; it gets `settings` as MUSTER_UI_NAME."""
    names = {f"MUSTER_UI_{name.upper()}": str(value) for name, value in settings.items()}
    return ["node", str(HERE / program), *map(str, arguments)], {**os.environ, **names}


def node(program, *arguments, **settings):
    """Runs a program of this folder and returns its exit status."""
    words, environment = command(program, *arguments, **settings)
    return subprocess.run(words, env=environment, check=False).returncode
