"""The programs that `run` starts: their JSON output, their failures and their time limits."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

CHILD_S = 420  # limit of a measurement, including compilation by PyTorch


class Failed(Exception):
    pass


class OutOfTime(Exception):
    pass


class Clock:
    def __init__(self, budget):
        self.end = time.monotonic() + budget

    def left(self):
        return max(0.0, self.end - time.monotonic())


def say(text):
    print(text, file=sys.stderr, flush=True)


def output_of(argv, clock, limit=CHILD_S):
    """Standard output of a program in its own process group, which is killed when time is up. The output goes to
    files, because processes that the program leaves behind (PyTorch's compilers) would keep a pipe open."""
    limit = min(limit, clock.left())
    if limit < 1:
        raise OutOfTime
    argv = [str(a) for a in argv]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(argv, stdout=out, stderr=err, start_new_session=True)
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            kill_group(child)
        out.seek(0)
        err.seek(0)
        said, complaint = out.read(), err.read().strip()[-1500:]
    if code is None and clock.left() < 1:
        raise OutOfTime
    if code is None:
        raise Failed(f"{' '.join(argv[:3])} took more than {limit:.0f} s: {complaint}")
    if code:
        raise Failed(f"{' '.join(argv[:3])} ended with {code}: {complaint}")
    return said


def kill_group(child):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def json_of(argv, clock, limit=CHILD_S):
    """The last line of a program's standard output, as JSON."""
    out = output_of(argv, clock, limit).strip()
    try:
        return json.loads(out)
    except ValueError:
        pass
    try:
        return json.loads(out.splitlines()[-1])
    except (ValueError, IndexError) as e:
        raise Failed(f"{argv[0]}: no JSON: {out[-300:]}") from e
