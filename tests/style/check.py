#!/usr/bin/env python3
"""Holds the C of the whole tree to the house style; prints each fault as file:line: what.

Checked are the files git tracks: format (clang-format), the length of functions, files and headers,
calls we do not make, and which folder may include which (ARCHITECTURE.md, "The house").
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

FUNCTION_LINES = 70
FILE_LINES = 1000
HEADER_LINES = 150
SKIPPED = 77  # ctest reads this exit status as "skipped"

FORBIDDEN = {
    "strcpy": "use snprintf or struct buf",
    "strcat": "use snprintf or struct buf",
    "sprintf": "use snprintf",
    "strtok": "use strcspn",
    "gets": "use fgets",
    "atoi": "use strtol and look at its end",
    "system": "use proc_spawn",
    "popen": "use proc_spawn",
}
CALL = re.compile(r"\b(%s)\s*\(" % "|".join(FORBIDDEN))

# What a folder may include, the longest name that fits first. Folders that are not here (tests, and
# whatever comes) are only held to EVERYWHERE_ELSE.
ARROWS = {
    "base": {"base"},
    "api": {"base", "api"},
    "cli": {"base", "api", "simulate", "cli"},
    "cli/backup.c": {"base", "api", "db", "cli"},
    "db": {"base", "api", "db"},
    "agent": {"base", "api", "agent"},
    "trainer": {"base", "api", "trainer"},
    "master/sched": {"base", "master/sched"},
    "master/search": {"base", "master/search"},
    "simulate": {"base", "master/sched", "simulate"},
    "simulate/history.c": {"base", "db", "simulate", "master/sched"},
    "master": {"base", "api", "db", "simulate", "master"},
    "tests": {"base", "api", "db", "agent", "trainer", "simulate", "cli", "master", "tests"},
}
EVERYWHERE_ELSE = {"base", "api", "db", "agent", "trainer"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')

# A comment, a string or a character constant: what calls are not looked for in.
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)


def blank_out(text):
    """The text with comments and literals made blank, every line still in its place."""
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def is_below(path, folder):
    return path == folder or path.startswith(folder + "/")


def check_length(path, lines):
    if len(lines) > FILE_LINES:
        yield FILE_LINES + 1, f"{len(lines)} lines; a file has at most {FILE_LINES}"
    if path.endswith(".h") and len(lines) > HEADER_LINES:
        yield HEADER_LINES + 1, f"{len(lines)} lines; a header has at most {HEADER_LINES}"


def first_line_of_function(lines, brace):
    """The line where the declaration begins whose body opens at line `brace` (both from 0)."""
    first = brace
    while first > 0 and re.match(r"[^\s#/}]|\s+\S", lines[first - 1]):
        if lines[first - 1].rstrip().endswith((";", "}")):
            break
        first -= 1
    return first


def check_functions(lines):
    """In our format only the body of a function has braces alone at the start of a line."""
    brace = None
    for number, line in enumerate(lines):
        if line.rstrip() == "{":
            brace = number
        elif line.rstrip() == "}" and brace is not None:
            first = first_line_of_function(lines, brace)
            length = number - first + 1
            if length > FUNCTION_LINES:
                yield first + 1, f"a function of {length} lines; at most {FUNCTION_LINES}"
            brace = None


def check_calls(lines):
    for number, line in enumerate(lines):
        for found in CALL.finditer(line):
            name = found.group(1)
            yield number + 1, f"{name}() is not used here; {FORBIDDEN[name]}"


def check_includes(path, lines):
    holder = max((f for f in ARROWS if is_below(path, f)), key=len, default=None)
    allowed = ARROWS.get(holder, EVERYWHERE_ELSE)
    for number, line in enumerate(lines):
        found = INCLUDE.match(line)
        if not found or found.group(1).endswith(".inc"):  # the build makes those
            continue
        target = found.group(1)
        if not any(is_below(target, folder) for folder in allowed):
            places = ", ".join(sorted(allowed))
            yield number + 1, f'"{target}" may not be included here, only what is in {places}'


def check_text(path, text):
    """The faults of one file, as (line, what)."""
    lines = text.splitlines()
    code = blank_out(text).splitlines()
    yield from check_length(path, lines)
    yield from check_functions(code)
    yield from check_calls(code)
    yield from check_includes(path, lines)


def check_format(root, paths):
    """The faults of all files that clang-format sees, as (path, line, what)."""
    if not shutil.which("clang-format"):
        print("style: NOTE: clang-format is not installed, THE FORMAT WAS NOT CHECKED")
        return
    command = ["clang-format", "--dry-run", "-Werror", *paths]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    places = re.findall(r"^(.+?):(\d+):\d+: error:", answer.stderr, re.MULTILINE)
    for path, line in sorted(set(places)):
        yield path, int(line), "not as clang-format writes it; run clang-format -i on the file"
    if answer.returncode != 0 and not places:
        yield ".clang-format", 1, answer.stderr.strip() or "clang-format failed"


def tracked_files(root):
    command = ["git", "ls-files", "-z", "*.c", "*.h", "*.cu"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        print("style: NOTHING WAS CHECKED:", answer.stderr.strip())
        sys.exit(SKIPPED)
    # What was deleted but not yet committed is still listed.
    return [path for path in answer.stdout.split("\0") if path and (root / path).exists()]


def main():
    root = Path(__file__).resolve().parents[2]
    paths = tracked_files(root)
    faults = list(check_format(root, paths))
    for path in paths:
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        faults += [(path, line, what) for line, what in check_text(path, text)]
    for path, line, what in sorted(faults):
        print(f"{path}:{line}: {what}")
    print(f"style: {len(paths)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
