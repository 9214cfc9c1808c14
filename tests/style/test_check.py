#!/usr/bin/env python3
"""Each rule of check.py at its limit and one past it."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import check
import names



def faults(path, text):
    return list(check.check_text(path, text))


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


class Top(unittest.TestCase):
    def test_leftovers_are_found(self):
        self.assertEqual(list(check.check_top(["README.md", "base/log.c"])), [])
        found = list(check.check_top(["base/log.c", "store.x/a", "store.x/b", "plain"]))
        self.assertEqual([name for name, _, _ in found], ["plain", "store.x"])


class Calls(unittest.TestCase):
    def test_each_is_found(self):
        for name in check.FORBIDDEN:
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
    accepted = [
        ("base/a.c", "base/b.h"),
        ("base/text/a.c", "base/b.h"),
        ("api/a.c", "base/text/b.h"),
        ("cli/a.c", "api/b.h"),
        ("cli/commands/backup.c", "db/b.h"),
        ("db/a.c", "db/statements/b.h"),
        ("agent/a.c", "agent/b.h"),
        ("trainer/ops/cuda/kernels/a.cu", "trainer/ops/cuda/device/b.h"),
        ("trainer/ops/cpu/a.c", "trainer/ops/b.h"),
        ("master/sched/a.c", "master/sched/b.h"),
        ("master/lifecycle/a.c", "master/kernel/b.h"),
        ("master/http/a.c", "master/kernel/core.h"),
        ("master/routes.c", "master/calls/b.h"),
        ("tests/unit/master/test_a.c", "master/kernel/b.h"),
        ("examples/a.c", "master/b.h"),
    ]
    refused = [
        ("base/a.c", "base/text/b.h"),
        ("base/a.c", "baseline/b.h"),
        ("api/a.c", "db/b.h"),
        ("cli/a.c", "db/b.h"),
        ("db/a.c", "agent/b.h"),
        ("agent/a.c", "db/b.h"),
        ("trainer/ops/cpu/a.c", "trainer/model/b.h"),
        ("trainer/ops/cpu/a.c", "trainer/ops/cuda/device/b.h"),
        ("master/sched/a.c", "api/b.h"),
        ("master/sched/a.c", "master/kernel/b.h"),
        ("master/kernel/a.c", "master/lifecycle/b.h"),
        ("master/http/a.c", "master/kernel/state.h"),
        ("master/views/a.c", "master/registry/b.h"),
        ("api/a.c", "b.h"),
    ]

    def test_table(self):
        for path, target in self.accepted:
            self.assertEqual(faults(path, f'#include "{target}"\n'), [], (path, target))
        for path, target in self.refused:
            found = faults(path, f'//\n#  include "{target}"\n')
            self.assertEqual([line for line, _ in found], [2], (path, target))

    def test_system_headers_and_generated_files_are_free(self):
        self.assertEqual(faults("base/a.c", '#include "made.inc"\n'), [])
        self.assertEqual(faults("base/a.c", "#include <master/b.h>\n"), [])

    def test_cycles_between_folders(self):
        inside = {"a/x.h": '#include "a/y.h"\n', "a/y.c": '#include "a/x.h"\n'}
        self.assertEqual(list(check.check_cycles(inside)), [])
        across = {"a/x.h": '#include "b/y.h"\n', "b/y.h": '#include "c/z.h"\n',
                  "c/z.c": '#include "a/x.h"\n'}
        self.assertEqual(len(list(check.check_cycles(across))), 3)

    def test_every_row_names_a_folder(self):
        root = Path(__file__).resolve().parents[2]
        for folder, owns, _ in check.folders.FOLDERS:
            self.assertTrue((root / folder).is_dir(), folder)
            self.assertTrue(owns, folder)


class Names(unittest.TestCase):
    def test_tags(self):
        found = list(names.check_tags({"a.c": "struct x {\n};\n", "b.c": "\nstruct x {\n"}))
        self.assertEqual([fault[:2] for fault in found], [("b.c", 2)])
        used = {"a.c": "struct x {\n};\n", "b.c": "struct x *y;\n"}
        self.assertEqual(list(names.check_tags(used)), [])
        backends = {"o/cpu/a.c": "struct x {\n};\n", "o/cuda/a.cu": "struct x {\n};\n"}
        self.assertEqual(list(names.check_tags(backends)), [])

    def test_functions_without_users(self):
        body = "int f(int x)\n{\n}\n"
        header = "int f(int x);\n"
        found = list(names.check_functions_used({"a.c": body, "a.h": header}))
        self.assertEqual([fault[:2] for fault in found], [("a.c", 1)])
        self.assertEqual(list(names.check_functions_used({"a.c": body, "b.c": "x = f(1);"})), [])
        self.assertEqual(list(names.check_functions_used({"a.c": "static " + body})), [])

    def test_files_that_texts_mention(self):
        tracked = ["base/a.c", "base/a.h", "docs/wire.md"]
        text = "// see a.h, base/a.c and base/b.c\nchar *x = \"c.h\";\n#include <d.h>\n"
        found = [fault[1:] for fault in names.check_mentions("base/a.c", text, tracked)]
        self.assertEqual(found, [(1, "there is no file base/b.c")])
        found = [fault[1] for fault in names.check_mentions("x.md", "`a.h`\n`gone.h`", tracked)]
        self.assertEqual(found, [2])


class Sql(unittest.TestCase):
    wrong = [
        'x("SELECT id FROM trials");', 'x("PRAGMA user_version");', 'a(" WHERE 1");',
        'b("FROM trials t");', 'c("x IN (1, 2)");', 'd("JOIN a");', 'e(" ORDER BY ");',
        'f("UPDATE trials SET a = 1");',
    ]
    right = [
        "// SELECT id FROM trials", '/* "SELECT 1" */', 'x("select a pool");', 'x("FROM..TO");',
        "x('\"');", 'error("WHEREABOUTS, SELECTED");', '#include "db/statements.h"',
    ]

    def test_literals(self):
        for line in self.wrong:
            found = faults("master/views/list.c", "\n" + line)
            self.assertEqual([number for number, _ in found], [2], line)
            self.assertEqual(faults("db/statements/trials.c", line), [], line)
        for line in self.right:
            self.assertEqual(faults("master/views/list.c", line), [], line)


@unittest.skipUnless(check.shutil.which("clang-format"), "clang-format is not installed")
class Format(unittest.TestCase):
    def test_place_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "good.c").write_text("int x;\n")
            (root / "bad.c").write_text("int x;\nint   y;\n")
            found = list(check.check_format(root, ["good.c", "bad.c"]))
        self.assertEqual([(path, line) for path, line, _ in found], [("bad.c", 2)])


if __name__ == "__main__":
    unittest.main()
