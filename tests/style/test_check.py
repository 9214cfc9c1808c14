#!/usr/bin/env python3
"""Each rule of check.py at its limit and one past it."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import check as check_style


def faults(path, text):
    return list(check_style.check_text(path, text))


def function(lines):
    body = "    x++;\n" * (lines - 4)
    return f"static int f(int x,\n             int y)\n{{\n{body}}}\n"


class Lengths(unittest.TestCase):
    def test_functions(self):
        self.assertEqual(faults("base/a.c", "int x;\n\n" + function(70)), [])
        found = faults("base/a.c", "int x;\n\n" + function(71))
        self.assertEqual(found, [(3, "a function of 71 lines; at most 70")])

    def test_what_stands_before_a_function_is_not_of_it(self):
        before = "// why\nstatic int table[] = {\n    1,\n};\n#define X 1\n"
        self.assertEqual(faults("base/a.c", before + function(70)), [])
        self.assertEqual(faults("base/a.c", "int x;\n" + function(70)), [])
        self.assertEqual(faults("base/a.c", function(70) + function(70)), [])

    def test_long_tables_are_no_functions(self):
        table = "static int table[] = {\n" + "    1,\n" * 200 + "};\n"
        self.assertEqual(faults("base/a.c", table), [])

    def test_files(self):
        self.assertEqual(faults("base/a.c", "//\n" * 1000), [])
        self.assertEqual(faults("base/a.c", "//\n" * 1001)[0][0], 1001)

    def test_headers(self):
        self.assertEqual(faults("base/a.h", "//\n" * 150), [])
        self.assertEqual(faults("base/a.h", "//\n" * 151)[0][0], 151)


class Calls(unittest.TestCase):
    def test_each_is_found(self):
        for name in check_style.FORBIDDEN:
            found = faults("base/a.c", f"int x;\nint y = {name} (z);\n")
            self.assertEqual(len(found), 1, name)
            self.assertEqual(found[0][0], 2)
            self.assertTrue(found[0][1].startswith(name + "()"))

    def test_only_whole_words_in_code_that_are_called(self):
        text = (
            'fgets(a);\nvsprintf_s(a);\nmy_system(a);\nint system;\n// system(1)\n'
            '/* gets(\n atoi( */\nputs("say \\" system(1)");\nchar c = \'"\'; // popen(\n'
        )
        self.assertEqual(faults("base/a.c", text), [])

    def test_lines_are_counted_through_comments(self):
        self.assertEqual(faults("base/a.c", "/* a\nb\n*/ gets(s);\n")[0][0], 3)


class Includes(unittest.TestCase):
    allowed = [
        ("base/a.c", "base/b.h"),
        ("api/a.c", "base/b.h"),
        ("cli/a.c", "api/b.h"),
        ("db/a.c", "api/b.h"),
        ("agent/a.c", "agent/b.h"),
        ("trainer/ops/cpu/a.c", "trainer/model/b.h"),
        ("master/sched/a.c", "master/sched/b.h"),
        ("master/search/a.c", "base/rng.h"),
        ("master/kernel/a.c", "master/sched/b.h"),
        ("master/main.c", "db/b.h"),
        ("tests/unit/master/test_a.c", "master/kernel/b.h"),
        ("examples/a.c", "base/b.h"),
    ]
    refused = [
        ("base/a.c", "api/b.h"),
        ("base/a.c", "baseline/b.h"),
        ("api/a.c", "db/b.h"),
        ("cli/a.c", "master/b.h"),
        ("db/a.c", "agent/b.h"),
        ("agent/a.c", "db/b.h"),
        ("trainer/a.c", "agent/b.h"),
        ("master/sched/a.c", "api/b.h"),
        ("master/sched/a.c", "master/search/b.h"),
        ("master/sched/a.c", "master/kernel/b.h"),
        ("master/search/a.c", "master/sched/b.h"),
        ("master/kernel/a.c", "agent/b.h"),
        ("examples/a.c", "master/b.h"),
        ("api/a.c", "b.h"),
    ]

    def test_arrows(self):
        for path, target in self.allowed:
            self.assertEqual(faults(path, f'#include "{target}"\n'), [], (path, target))
        for path, target in self.refused:
            found = faults(path, f'//\n#  include "{target}"\n')
            self.assertEqual([line for line, _ in found], [2], (path, target))

    def test_system_headers_and_what_the_build_makes_are_free(self):
        self.assertEqual(faults("base/a.c", '#include "made.inc"\n'), [])
        self.assertEqual(faults("base/a.c", "#include <master/b.h>\n"), [])


@unittest.skipUnless(check_style.shutil.which("clang-format"), "clang-format is not installed")
class Format(unittest.TestCase):
    def test_place_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "good.c").write_text("int x;\n")
            (root / "bad.c").write_text("int x;\nint   y;\n")
            found = list(check_style.check_format(root, ["good.c", "bad.c"]))
        self.assertEqual([(path, line) for path, line, _ in found], [("bad.c", 2)])


if __name__ == "__main__":
    unittest.main()
