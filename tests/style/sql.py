"""The check that SQL stands in db/statements alone."""

import re

# Keywords of SQL, which the code writes in capitals, in forms that no other text has.
SQL = re.compile(
    r"\bSELECT\b|\bINSERT (OR \w+ )?INTO\b|\bUPDATE \w+ SET\b|\bDELETE FROM\b|\bWHERE\b"
    r"|\bORDER BY\b|\bGROUP BY\b|\bPRAGMA\b|\bJOIN\b"
    r"|\bCREATE (TEMP )?(TABLE|INDEX|TRIGGER|VIEW|VIRTUAL)\b"
    r"|\b(FROM|AND|IN|LIMIT|OFFSET) [(?]|^ ?FROM [a-z]| FROM $"
)
ALLOWED = ("db/statements/", "tests/")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL
)


def blank_out_comments(text):
    """The text without comments; lines keep their numbers, and literals stay."""

    def replaced(found):
        token = found.group()
        return token if token[0] in "\"'" else re.sub(r"[^\n]", " ", token)

    return TOKEN.sub(replaced, text)


def check_sql(path, text):
    """String literals of a C source that contain SQL, as (line, fault)."""
    if path.startswith(ALLOWED):
        return
    for number, line in enumerate(blank_out_comments(text).split("\n"), 1):
        if line.startswith("#include"):
            continue
        for literal in LITERAL.findall(line):
            if SQL.search(literal):
                yield number, f'SQL outside db/statements: "{literal}"'
