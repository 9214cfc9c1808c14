#!/usr/bin/env python3
"""Checks the C sources of the tree against the house style; prints faults as file:line: text.

    check.py            checks all files that git tracks
    check.py --write    also writes the table of folders into ARCHITECTURE.md

The rules: format (clang-format); the length of functions, files and headers; forbidden calls; which
folder may include which, and how many files it holds (folders.py); what is at the top of the tree;
cycles between files of different folders; unique struct tags, functions without users, files named
in texts (names.py); SQL outside db/statements (sql.py).
"""

import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import folders
import names
import sql

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

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
SOURCES = (".c", ".h", ".cu")

# A comment, a string or a character constant: what calls are not looked for in.
NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)


def blank_out(text):
    """The text with comments and literals made blank, every line still in its place."""
    return NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


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
    for number, line in enumerate(lines):
        found = INCLUDE.match(line)
        if not found or found.group(1).endswith((".inc", ".def")):
            continue
        if not folders.allowed(path, found.group(1)):
            places = ", ".join(folders.rule_of(path))
            yield number + 1, f'"{found.group(1)}" may not be included here, only {places}'


def check_text(path, text):
    """The faults of one file, as (line, what)."""
    lines = text.splitlines()
    code = blank_out(text).splitlines()
    yield from check_length(path, lines)
    yield from check_functions(code)
    yield from check_calls(code)
    yield from check_includes(path, lines)
    yield from sql.check_sql(path, text)


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


def check_folder_sizes(paths):
    """Folders of the product hold at most FOLDER_FILES sources."""
    sizes = Counter(str(Path(p).parent) for p in paths if not p.startswith("tests/"))
    for folder, count in sorted(sizes.items()):
        if count > folders.FOLDER_FILES:
            text = f"{count} source files; a folder has at most {folders.FOLDER_FILES}"
            yield folder, 0, text


def check_top(tracked):
    """Only the files and folders of folders.TOP are at the top of the tree."""
    for name in sorted({path.split("/")[0] for path in tracked} - folders.TOP):
        yield name, 0, "a leftover of a test, or missing in TOP of folders.py"


def modules_of(texts):
    """The graph of modules (a header and its source count as one): {module: modules included}."""
    graph = defaultdict(set)
    for path, text in texts.items():
        for found in INCLUDE.finditer(text):
            target = found.group(1).rsplit(".", 1)[0]
            if target != path.rsplit(".", 1)[0]:
                graph[path.rsplit(".", 1)[0]].add(target)
    return graph


def reachable(graph, start):
    seen, stack = set(), [start]
    while stack:
        for module in graph.get(stack.pop(), ()):
            if module not in seen:
                seen.add(module)
                stack.append(module)
    return seen


def check_cycles(texts):
    """No cycle of includes crosses the boundary of a folder."""
    graph = modules_of(texts)
    reach = {module: reachable(graph, module) for module in list(graph)}
    for module in sorted(graph):
        for target in sorted(graph[module]):
            if module in reach.get(target, ()) and Path(module).parent != Path(target).parent:
                yield module, 0, f"includes {target}, which includes it through other files"


BEGIN, END = "<!-- folders: generated by tests/style/check.py --write -->", "<!-- end of folders -->"


def check_architecture(root, write):
    """The table of folders in ARCHITECTURE.md is the one of folders.py."""
    path = root / "ARCHITECTURE.md"
    text = path.read_text(encoding="utf-8")
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < 0:
        yield "ARCHITECTURE.md", 1, f"the lines {BEGIN} and {END} are missing"
        return
    table = BEGIN + "\n" + "\n".join(folders.table()) + "\n"
    if write:
        path.write_text(text[:begin] + table + text[end:], encoding="utf-8")
    elif text[begin:end] != table:
        line = text.count("\n", 0, begin) + 1
        yield "ARCHITECTURE.md", line, "the table is outdated; run tests/style/check.py --write"


def tracked_files(root):
    command = ["git", "ls-files", "-z"]
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        print("style: NOTHING WAS CHECKED:", answer.stderr.strip())
        sys.exit(SKIPPED)
    # Git still lists files that were deleted but not committed.
    return [path for path in answer.stdout.split("\0") if path and (root / path).exists()]


def check_tree(root, tracked):
    """The faults of the whole tree, as (path, line, text)."""
    paths = [path for path in tracked if path.endswith(SOURCES)]
    texts = {p: (root / p).read_text(encoding="utf-8", errors="replace") for p in paths}
    code = {path: blank_out(text) for path, text in texts.items()}
    product = {path: text for path, text in texts.items() if not path.startswith("tests/")}
    yield from check_format(root, paths)
    yield from check_folder_sizes(paths)
    yield from check_top(tracked)
    yield from check_cycles(product)
    yield from names.check_tags(code)
    yield from names.check_functions_used(code)
    for path, text in texts.items():
        yield from ((path, line, fault) for line, fault in check_text(path, text))
        yield from names.check_mentions(path, text, tracked)
    for path in tracked:
        if path.endswith(".md"):
            text = (root / path).read_text(encoding="utf-8", errors="replace")
            yield from names.check_mentions(path, text, tracked)


def main():
    root = Path(__file__).resolve().parents[2]
    tracked = tracked_files(root)
    faults = list(check_architecture(root, "--write" in sys.argv[1:]))
    faults += check_tree(root, tracked)
    for path, line, fault in sorted(faults):
        print(f"{path}:{line}: {fault}")
    print(f"style: {len(tracked)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
