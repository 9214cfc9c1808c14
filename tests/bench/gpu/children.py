"""Programs that `run` starts: their JSON, their failures, and the time they may take."""

import json
import os
import signal
import subprocess
import sys
import time

CHILD_S = 420  # no measurement takes longer, compilation by PyTorch included


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
    """Standard output of a program in a process group of its own, which is killed when time is up."""
    limit = min(limit, clock.left())
    if limit < 1:
        raise OutOfTime
    argv = [str(a) for a in argv]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired as e:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        if clock.left() < 1:
            raise OutOfTime from e
        raise Failed(f"{' '.join(argv[:3])} took more than {limit:.0f} s") from e
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        raise
    if child.returncode:
        raise Failed(f"{' '.join(argv[:3])} ended with {child.returncode}: {err.strip()[-1500:]}")
    return out


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
