"""Searches for the best settings of PyTorch: starts from the most promising ones, changes one setting after the other
and keeps what is faster. Prints all trials, so that a later run need not repeat them."""

import json

from children import Clock, Failed, say

STEPS, WARMUP = 3, 2
TRIAL_S = 240  # mostly compilation


def key_of(setting):
    return json.dumps(setting, sort_keys=True)


def read_found(paths):
    """{model: settings found} from the outputs of earlier runs; the last one counts."""
    found = {}
    for path in paths:
        for line in path.read_text().splitlines():
            if line.startswith("{") and "found" in json.loads(line):
                found |= json.loads(line)["found"]
    return found


def find(bench, model, found, seconds, search):
    setting = {axis: values[0] for axis, values in model.axes.items()}
    if not found:
        found = {"setting": setting, "tried": [], "whole": False}
    if search and not found["whole"]:
        hunt = Hunt(bench, model, found["tried"], seconds)
        whole = hunt.go(setting)
        found = {"setting": hunt.best or found["setting"], "tried": hunt.tried, "whole": whole}
    print(json.dumps({"bench": "gpu", "found": {model.name: found}}), flush=True)
    say(f"{model.name}: PyTorch with {found['setting']}")
    return found["setting"]


class Hunt:
    def __init__(self, bench, model, tried, seconds):
        self.bench, self.model = bench, model
        self.tried = list(tried)
        self.clock = Clock(seconds)
        self.best, self.speed = None, 0.0
        for t in self.tried:
            self.judge(t)

    def judge(self, t):
        if t.get("per_second", 0) > self.speed:
            self.best, self.speed = t["setting"], t["per_second"]

    def attempt(self, setting):
        """Returns False if there is no time left."""
        if any(key_of(t["setting"]) == key_of(setting) for t in self.tried):
            return True
        if self.clock.left() < 1:
            return False
        one = {"setting": dict(setting)}
        try:
            result = self.bench.torch_speed(self.model, setting, STEPS, WARMUP, limit=TRIAL_S)
            one |= {k: round(result[k], 1) for k in ("per_second", "memory_mb")}
        except Failed as e:
            one["failed"] = str(e)[-200:]
        say(f"{self.model.name}: tried {one}")
        self.tried.append(one)
        self.judge(one)
        return True

    def go(self, first):
        """Returns whether all settings have been tried."""
        if not self.attempt(first):
            return False
        for axis, values in self.model.axes.items():
            for value in values:
                if not self.attempt({**(self.best or first), axis: value}):
                    return False
        return True
