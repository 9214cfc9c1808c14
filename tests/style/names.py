"""Checks on names: unique struct tags, functions without users, and files that texts mention."""

import os
import re
from collections import defaultdict

TAG = re.compile(r"\bstruct\s+(\w+)\s*\{")
WORD = re.compile(r"\b[A-Za-z_]\w*\b")

# The first name before a parenthesis in the declaration of a function.
DECLARED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")

# A file name in a comment or a document. Python scripts and data files of readers' own are often
# examples, so only the extensions of this tree's sources count.
MENTIONED = re.compile(r"(?<![\w./${<*-])((?:[\w-]+/)*[\w-]+\.(?:c|h|cu|cuh|mjs|tsx|def|inc))\b(?![\w(*/])")
OUTSIDE = {  # files that texts name and that are not tracked: of libraries, of other projects, generated
    "sys/wait.h", "stdio.h", "nettle/sha2.h", "expf.c", "tanhf.c", "tcp_ep.c", "llm.c",
    "page_files.inc", "migrations.inc",
}


def backend_of(path):
    """The CPU and the CUDA backend of the trainer implement the same opaque types."""
    return "cuda" if "/cuda/" in path or "/gpu/" in path else ""


def check_tags(sources):
    """A struct tag is defined in one file. `sources`: {path: text without comments}."""
    places = defaultdict(list)
    for path, code in sources.items():
        for found in TAG.finditer(code):
            place = (path, code.count("\n", 0, found.start()) + 1)
            places[found.group(1), backend_of(path)].append(place)
    for (tag, _), where in sorted(places.items()):
        first = where[0]
        for path, line in where[1:]:
            yield path, line, f"struct {tag} is also defined in {first[0]}:{first[1]}"


def global_functions(code):
    """The functions of one source that are not static, as (name, line of the body's brace)."""
    lines = code.splitlines()
    for number, line in enumerate(lines):
        if line.rstrip() != "{":
            continue
        first = number
        while first > 0 and re.match(r"[^\s#/}]|\s+\S", lines[first - 1]):
            if lines[first - 1].rstrip().endswith((";", "}", ",\\")):
                break
            first -= 1
        declaration = " ".join(lines[first:number])
        name = DECLARED.search(re.sub(r"__attribute__\s*\(\(.*?\)\)", "", declaration))
        if name and not re.search(r"\b(static|typedef)\b|=|^[A-Z_]+\b", declaration):
            yield name.group(1), first + 1


def check_functions_used(sources):
    """A function that is not static is used in another file than its own."""
    users = defaultdict(set)
    for path, code in sources.items():
        if path.endswith(".h"):  # prototypes are no uses, but macros and inline functions are
            code = re.sub(r"^[^#\s}].*?;", "", code, flags=re.MULTILINE | re.DOTALL)
        for word in set(WORD.findall(code)):
            users[word].add(path)
    for path, code in sources.items():
        if not path.endswith((".c", ".cu")) or path.startswith("tests/"):
            continue
        for name, line in global_functions(code):
            if name != "main" and not users[name] - {path}:
                yield path, line, f"{name}() is used in no other file: make it static or delete it"


def comments_of(text):
    """The comments of a C source, every line in its place."""
    kept = re.sub(
        r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
        lambda found: found.group() if found.group().startswith("/") else "",
        text,
        flags=re.DOTALL,
    )
    return "\n".join(
        line[line.index("//") :] if "//" in line else "" for line in kept.splitlines()
    )


def check_mentions(path, text, tracked):
    """Files that a comment or a document names exist. `tracked`: all paths of the tree."""
    names = tracked_names(tracked)
    body = text if path.endswith(".md") else comments_of(text)
    for number, line in enumerate(body.splitlines()):
        if "<" in line and "#include" in line:
            continue
        for found in MENTIONED.finditer(line):
            name = found.group(1)
            beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
            if name in OUTSIDE or name in names or beside in names or "NAME" in name:
                continue
            yield path, number + 1, f"there is no file {name}"


_NAMES = {}


def tracked_names(tracked):
    """Every way to name a tracked file: its path and each end of that path."""
    key = len(tracked)
    if key not in _NAMES:
        ends = set()
        for path in tracked:
            parts = path.split("/")
            ends.update("/".join(parts[i:]) for i in range(len(parts)))
        _NAMES.clear()
        _NAMES[key] = ends
    return _NAMES[key]
