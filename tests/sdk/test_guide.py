"""The first program of docs/programs.md runs as it is printed there, and goes on from its checkpoint."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"  # python3-torch belongs to this one


class Guide(unittest.TestCase):
    def run_program(self, **variables):
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "sdk" / "python"), **variables}
        return subprocess.run([PYTHON, "train.py"], env=environment, capture_output=True, text=True)

    def test_first_program(self):
        guide = (SOURCE / "docs" / "programs.md").read_text(encoding="utf-8")
        program = re.search(r"```python\n(.*?)```", guide, re.DOTALL)[1]
        self.assertIn("10_000", program)
        for end in ("600", "700"):
            pathlib.Path("train.py").write_text(program.replace("10_000", end))
            done = self.run_program(MUSTER_RESUME=str(int(end == "700")), MUSTER_RUN_NAME="guide")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("goes on from step 600", done.stdout)
        lines = pathlib.Path("muster-runs/guide/metrics.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), 700 + 3)  # validated at 500, 600 and 700
        self.assertGreater(float(re.search(r'"accuracy": ([0-9.]+)', lines[-1])[1]), 0.8)


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode:
        print("skipped: python3-torch is not installed")
        sys.exit(77)
    unittest.main()
