#!/usr/bin/env python3
"""tests/bench/gpu, which runs where there is a GPU and time is short: what it concludes from what it is told."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"
sys.dont_write_bytecode = True
sys.path.insert(0, str(FOLDER))

import children  # noqa: E402
import curve  # noqa: E402
import models  # noqa: E402
import peer  # noqa: E402
import roofline  # noqa: E402


def program(name):
    """A module of a program without an ending."""
    loader = importlib.machinery.SourceFileLoader(name, str(FOLDER / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def quietly(what, *args, **more):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        result = what(*args, **more)
    return result, [json.loads(line) for line in out.getvalue().splitlines()]


class Search(unittest.TestCase):
    AXES = {"attention": ["a", "b"], "compile": ["none", "fast", "broken"]}
    SPEEDS = {("a", "none"): 10, ("b", "none"): 12, ("b", "fast"): 15, ("a", "fast"): 20}

    def setUp(self):
        self.asked = []
        self.model = types.SimpleNamespace(name="m", axes=self.AXES)
        self.bench = types.SimpleNamespace(torch_speed=self.speed)

    def speed(self, _model, setting, *_steps, **_limit):
        self.asked.append(setting)
        key = (setting["attention"], setting["compile"])
        if key not in self.SPEEDS:
            raise children.Failed("no such kernel")
        return {"per_second": self.SPEEDS[key], "memory_mb": 1.0}

    def test_one_thing_after_the_other(self):
        setting, lines = quietly(peer.find, self.bench, self.model, None, 1000, True)
        self.assertEqual(setting, {"attention": "b", "compile": "fast"})
        self.assertEqual(len(self.asked), 4)
        self.assertEqual([t.get("failed") for t in lines[0]["found"]["m"]["tried"]], [None, None, None, "no such kernel"])
        self.assertTrue(lines[0]["found"]["m"]["whole"])

    def test_what_was_tried_is_not_tried_again(self):
        _, lines = quietly(peer.find, self.bench, self.model, None, 0, True)
        self.assertEqual((self.asked, lines[0]["found"]["m"]["whole"]), ([], False))  # no time
        self.assertEqual(lines[0]["found"]["m"]["setting"], {"attention": "a", "compile": "none"})
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
            found = {"tried": [{"setting": {"attention": "b", "compile": "none"}, "per_second": 12.0}],
                     "setting": {"attention": "b", "compile": "none"}, "whole": False}
            f.write(json.dumps({"bench": "gpu", "measure": "x"}) + "\n" + json.dumps({"found": {"m": found}}) + "\n")
            f.flush()
            found = peer.read_found([pathlib.Path(f.name)])["m"]
        setting, lines = quietly(peer.find, self.bench, self.model, found, 1000, True)
        self.assertEqual(setting, {"attention": "b", "compile": "fast"})
        self.assertNotIn({"attention": "b", "compile": "none"}, self.asked)
        self.asked.clear()
        self.assertEqual(quietly(peer.find, self.bench, self.model, lines[0]["found"]["m"], 1000, True)[0], setting)
        self.assertEqual(self.asked, [])


class Curves(unittest.TestCase):
    def test_windows(self):
        self.assertEqual(curve.smooth([1.0, 3.0] * 50 + [5.0, 7.0] * 50), [2.0, 2.0, 6.0, 6.0])
        self.assertEqual(len(curve.smooth([0.0] * 2000)), 40)

    def test_spread_is_of_one_against_the_others(self):
        flat = [[1.0, 1.0], [1.0, 1.0], [1.3, 1.0]]
        self.assertAlmostEqual(curve.spread(flat), 0.3)
        self.assertAlmostEqual(curve.deviation(curve.mean(flat), [1.1, 1.2]), 0.2)

    def verdict(self, ours):
        lines = []
        got = {"ours": [ours], "PyTorch": [[2.0, 1.0], [2.1, 1.0], [1.9, 1.0]]}
        bench = types.SimpleNamespace(options=types.SimpleNamespace(loss_steps=100))
        quietly(curve.report, bench, lambda *a, **more: lines.append((a, more)), got)
        (_, apart, _, wide, ratio, goal), more = lines[0]
        self.assertTrue(more["at_most"])
        self.assertAlmostEqual(wide, 0.15)
        return apart, ratio <= goal

    def test_criterion(self):
        self.assertTrue(self.verdict([2.1, 1.1])[1])
        apart, met = self.verdict([2.0, 1.2])
        self.assertAlmostEqual(apart, 0.2)
        self.assertFalse(met)


    def test_fp8_is_compared_with_our_own_seeds(self):
        lines = []
        got = {"ours": [[2.0, 1.0], [2.2, 1.0]], "PyTorch": [], "fp8": [[2.1, 1.1], [2.1, 1.3]]}
        bench = types.SimpleNamespace(options=types.SimpleNamespace(loss_steps=100))
        quietly(curve.report, bench, lambda *a, **more: lines.append((a, more)), got)
        (measure, apart, _, wide, ratio, _), more = lines[0]
        self.assertEqual((len(lines), measure, more["seeds"]), (1, "loss curve, fp8 from bf16", [2, 2]))
        self.assertAlmostEqual(apart, 0.2)
        self.assertAlmostEqual(wide, 0.2)
        self.assertAlmostEqual(ratio, 1.0)

    def test_all_seeds_are_trained(self):
        """With the functions that train replaced: `run` and `curve` fit together."""
        asked = []

        def train(name):
            return lambda _bench, spec, seed: asked.append((name, spec, seed)) or [float(seed)] * 100

        run = program("run")
        options = types.SimpleNamespace(loss_seeds="1,2", loss_fp8=1, budget=100)
        bench = run.Bench.__new__(run.Bench)
        bench.options = options
        got = {"ours": [], "PyTorch": [], "fp8": []}
        with unittest.mock.patch.multiple(curve, theirs=train("PyTorch"), ours=train("ours"), ours_in_fp8=train("fp8")):
            quietly(curve.train_all, bench, "spec", got)
        self.assertEqual(asked, [("PyTorch", "spec", 1), ("ours", "spec", 1), ("fp8", "spec", 1), ("PyTorch", "spec", 2)])
        self.assertEqual([set(c) for c in got["PyTorch"]], [{1.0}, {2.0}])


class Told(unittest.TestCase):
    def test_what_a_sanitizer_says(self):
        check = program("check")
        own = check.own_kernels()
        self.assertIn("cross_entropy_kernel", own)
        text = """\
========= COMPUTE-SANITIZER
step 1/3  loss 2.3 at forward_kernel
========= Invalid __global__ write of size 4 bytes
=========     at void forward_kernel<__nv_bfloat16, (int)8>(long, long, const T1 *)+0x70
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Uninitialized __global__ memory read of size 2 bytes
=========     at void cutlass::Kernel2<cutlass_80_tensorop>(T1::Params)+0x8a0
========= Error: Race reported between Write access at cross_entropy_kernel(float*)+0x90
=========     and Read access at cross_entropy_kernel(float*)+0xa0 [4 hazards]
========= Invalid __shared__ read of size 4 bytes
=========     at nobody_knows(float*)+0x90
========= ERROR SUMMARY: 4 errors
"""
        ours, others = check.faults(text, own)
        self.assertEqual(len(ours), 3)
        self.assertIn("forward_kernel", ours[0])
        self.assertIn("nobody_knows", ours[2])
        self.assertEqual(len(others), 1)

    def test_what_run_says(self):
        check = program("check")
        lines = "".join(f"step {i}/20  loss {i / 10:.4f}  learning rate 1\n" for i in range(1, 21))
        self.assertEqual(check.losses_of(lines)[:2], [0.1, 0.2])
        self.assertRaises(check.Wrong, check.losses_of, "step 1/20  loss 1\n")
        told = f"checkpoint  x\n  weights   {'a' * 64}\n  state     {'b' * 64}\n"
        self.assertEqual(check.digests_of(told), ("a" * 64, "b" * 64))
        self.assertRaises(check.Wrong, check.digests_of, "checkpoint  x\n")

    def test_what_a_trace_and_ncu_say(self):
        profile = program("profile")
        kernel = {"cat": "kernels", "ph": "X", "ts": 0.0}
        events = [{"name": "thread_name", "ph": "M"}, {"cat": "phases", "name": "forward", "dur": 3000.0}]
        events += [kernel | {"name": "void a_kernel<float, (int)4>(long)", "dur": d, "args": {"grid": [4, 1, 1]}}
                   for d in (1000.0, 3000.0)]
        events += [kernel | {"name": "gemm", "dur": 500.0, "args": {"grid": [8, 2, 1]}}]
        kernels, phases = profile.read_trace(events, 2)
        self.assertEqual(phases, {"forward": 1.5})
        self.assertEqual(kernels["gemm", "8x2x1"], [0.5, 0.25])
        head = '"ID","Kernel Name","Grid Size","Metric Name","Metric Unit","Metric Value"\n'
        row = '"{}","a_kernel(long)","(4, 1, 1)","dram__bytes_{}.sum","byte","{}"\n'
        text = "ts=1 level=info\n==PROF== Connected\n" + head + row.format(0, "read", "2,000,000") \
            + row.format(0, "write", "1,000,000") + row.format(3, "read", "3000000") + row.format(3, "write", "0") + "9\n"
        moved = profile.read_bytes(text)
        self.assertEqual(moved, {("a_kernel", "4x1x1"): 3e6})
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            profile.show(kernels, phases, moved, 3e9)
        lines = out.getvalue().splitlines()
        self.assertIn("2.25 ms of 2 kernels", lines[1])  # 1.5
        self.assertRegex(lines[3], r"2\.000 +88\.9% +1\.0 +2000\.0 +3\.0 +50\.0% +4x1x1 +void a_kernel")
        self.assertRegex(lines[4], r"0\.250 +11\.1% +0\.5 +500\.0 +8x2x1 +gemm")

    def test_flop_are_those_of_describe(self):
        table = models.full({})
        self.assertEqual(table["gpt2"].flops * 1024, 875_166_695_424)
        self.assertEqual(table["resnet50"].flops, 24_299_077_632)
        self.assertEqual(models.full({"gpt2": "32"})["gpt2"].sets["trainer.micro_batch_size"], 32)


class Larger(unittest.TestCase):
    # flops_per_sample of `muster-trainer describe`
    FLOPS = {"gpt-350m": 2_481_148_919_808, "gpt-1.3b": 8_673_149_583_360, "llama-350m": 13_635_447_422_976}
    PARAMETERS = {"gpt-350m": 354_871_296, "gpt-1.3b": 1_313_722_368, "llama-350m": 353_551_360}

    def test_sizes(self):
        table = models.full({"gpt-1.3b": "8"})
        self.assertEqual(table["gpt-1.3b"].sets["trainer.micro_batch_size"], 8)
        for name, flops in self.FLOPS.items():
            spec = table[name].spec
            self.assertEqual(table[name].flops * spec["context"], flops)
            self.assertEqual(roofline.GPTS[name].parameters(), self.PARAMETERS[name])
            self.assertTrue(table[name].recomputes)
            for micro in [spec["micro"], *table[name].axes["micro"]]:
                self.assertEqual(spec["global"] % micro, 0)

    def test_list_of_layers(self):
        model = models.full({})["llama-350m"]
        layers = models.llama_layers(model.spec)
        self.assertEqual(len(layers), 1 + 2 * 24 + 2)
        kinds = [[part["layer"] for part in layer.get("layers", [])] for layer in layers[1:3]]
        self.assertEqual(kinds, [["rms_norm", "linear", "attention", "linear", "dropout"],
                                 ["rms_norm", "linear", "silu", "linear", "dropout"]])
        self.assertIn("context: 4096", model.sets["trainer.model"])

    def test_memory(self):
        """In GiB, as the trainer's plan has it for the sizes of a GPU."""
        planned = {("gpt2", 64): (28.27, 11.39), ("gpt-350m", 32): (34.52, 12.02), ("gpt-1.3b", 16): (48.72, 26.22),
                   ("gpt-1.3b", 32): (74.98, 29.98), ("llama-350m", 4): (22.59, 10.59)}
        for (name, micro), both in planned.items():
            for recompute, gib in zip((False, True), both):
                text = roofline.memory_text(roofline.GPTS[name], micro, recompute)
                self.assertAlmostEqual(float(text.split("all ")[1].rstrip(".")), gib, delta=0.02 * gib)


class Children(unittest.TestCase):
    def test_json_is_the_last_line(self):
        clock = children.Clock(60)
        self.assertEqual(children.json_of(["sh", "-c", "echo hello; echo '{\"a\": 1}'"], clock), {"a": 1})
        self.assertRaises(children.Failed, children.json_of, ["echo", "hello"], clock)
        self.assertRaisesRegex(children.Failed, "ended with 3.*why", children.output_of,
                               ["sh", "-c", "echo why >&2; exit 3"], clock)

    def test_what_a_program_leaves_running_is_not_waited_for(self):
        begin = time.monotonic()
        self.assertEqual(children.json_of(["sh", "-c", "sleep 30 & echo 1"], children.Clock(60)), 1)
        self.assertLess(time.monotonic() - begin, 20)

    def test_time(self):
        self.assertRaises(children.OutOfTime, children.output_of, ["true"], children.Clock(0))
        self.assertRaises(children.Failed, children.output_of, ["sleep", "60"], children.Clock(60), 1)

    def test_words(self):
        for name in ("run", "check", "profile", "roofline.py"):
            done = subprocess.run([sys.executable, FOLDER / name, "--help"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
        for words in (["gpt-1.3b", "--recompute"], ["llama-350m"], ["gpt2", "--unfused"]):
            done = subprocess.run([sys.executable, FOLDER / "roofline.py", *words], capture_output=True, text=True,
                                  timeout=60)
            self.assertIn("Memory, GiB", done.stdout)
        done = subprocess.run([sys.executable, FOLDER / "run", "--build", "nowhere"], capture_output=True, text=True,
                              timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("muster-trainer-cuda is missing", done.stderr)


if __name__ == "__main__":
    unittest.main()
