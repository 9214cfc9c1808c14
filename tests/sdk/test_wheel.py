"""The wheel of the build holds the whole package, and works from its own folder."""

import os
import pathlib
import subprocess
import sys
import unittest
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "sdk" / "python"
BUILD = os.environ.get("MUSTER_BUILD", "")


class Wheel(unittest.TestCase):
    def test_content(self):
        wheel, = pathlib.Path(BUILD, "sdk").glob("muster-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = {name for name in archive.namelist() if name.startswith("muster/")}
            archive.extractall("site")
        expected = {str(path.relative_to(SOURCE)) for path in (SOURCE / "muster").rglob("*.py")}
        self.assertEqual(names, expected | {"muster/py.typed"})
        code = "import muster; run = muster.init(quiet=True); run.report(1, loss=1.0); run.finish(); print(muster.__file__)"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": "site"},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("site/muster/__init__.py", done.stdout)


if __name__ == "__main__":
    if not BUILD or not list(pathlib.Path(BUILD, "sdk").glob("*.whl")):
        print("skipped: the build made no wheel, because python3-setuptools or python3-wheel is missing")
        sys.exit(77)
    unittest.main()
