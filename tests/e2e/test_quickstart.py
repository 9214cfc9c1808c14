"""packaging/quickstart as a new user runs it, in a folder of its own and on a free port."""

import pathlib
import re
import subprocess
import unittest

from cluster import SOURCE


class QuickStart(unittest.TestCase):
    def test_trains_and_stops(self):
        home = pathlib.Path("home").resolve()
        done = subprocess.run([SOURCE / "packaging" / "quickstart", "--stop-after", "--port", "0",
                               "--home", home], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=1100)
        print(done.stdout)
        self.assertEqual(done.returncode, 0)
        before, after = map(float, re.search(r"([\d.]+) before the first step, ([\d.]+) after the last",
                                             done.stdout).groups())
        self.assertLess(after, before / 2)
        for name in ("master", "agent"):
            pid = (home / f"{name}.pid").read_text().strip()
            self.assertFalse(pathlib.Path(f"/proc/{pid}/exe").exists(), f"the {name} was stopped")


if __name__ == "__main__":
    unittest.main(verbosity=2)
