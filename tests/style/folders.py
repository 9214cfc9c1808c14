"""The folders of the tree: what each owns, and the folders whose headers it may include.

This table is the only place where the dependencies are declared. check.py holds every #include to
it and generates the table of ARCHITECTURE.md from it (tests/style/check.py --write).
"""

BASE = "base base/text base/os"

# folder, what it owns, folders whose headers it may include beside its own
FOLDERS = [
    ("base", "errors, log, arena, capped buffers, clock, generators, limits", ""),
]

# The files of these folders may include everything that a rule above does not forbid.
TESTS = ("tests",)

# A file with a rule of its own, and the reason.
FILES = {}
