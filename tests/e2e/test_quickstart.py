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
        losses = [float(loss) for loss in re.findall(r"^ +validation,\d+,([\d.]+)", done.stdout, re.M)]
        self.assertEqual(len(losses), 2, "before and after")
        self.assertLess(losses[1], losses[0] / 2)
        for name in ("master", "agent"):
            pid = (home / f"{name}.pid").read_text().strip()
            self.assertFalse(pathlib.Path(f"/proc/{pid}/exe").exists(), f"the {name} was stopped")


if __name__ == "__main__":
    unittest.main(verbosity=2)
