"""Checks the typed calls of the store (db/db.h): correct calls compile, and the compiler refuses each
mistake with a message that names it.

Usage: test_db_types.py COMPILER ROOT"""

import subprocess
import sys

COMPILER, ROOT = sys.argv[1:]
FLAGS = ["-std=gnu17", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsyntax-only", "-x", "c"]

FRAME = """
#include "db/db.h"
void call(struct db_batch *batch, struct db_reader *reader, struct db_rows *rows, int64_t id,
          const char *text, double number, size_t size);
void call(struct db_batch *batch, struct db_reader *reader, struct db_rows *rows, int64_t id,
          const char *text, double number, size_t size)
{
    (void)batch, (void)reader, (void)rows, (void)id, (void)text, (void)number, (void)size;
    %s;
}
"""

COMPILES = """
    const int64_t *unknown = NULL;
    char word[] = "RUNNING";
    DB_ADD(batch, TRIAL_SET_STATE, word, 7);
    DB_ADD(batch, TRIAL_SET_STATE, NULL, id);
    DB_ADD(batch, EXPERIMENT_ADD_SERVICE, 0, true);
    DB_ADD(batch, CLUSTER_MESSAGES_DELETE);
    DB_ADD(batch, WORKSPACE_INSERT, unknown, text, id, 1);
    DB_ADD(batch, WORKSPACE_INSERT, DB_NOT_NULL(id), text, id, 1);
    DB_ADD(batch, MODEL_DEFINITION_INSERT, text, DB_BLOB(text, size));
    rows = DB_QUERY(reader, LOG_SENDERS, text);
    int64_t last = DB_GET(rows, LOG_SENDERS, last_sequence);
    const char *agent = DB_GET(rows, LOG_SENDERS, agent_id);
    double best = DB_GET(rows, EXPERIMENT_VIEW, best_metric);
    struct db_blob data = DB_GET(rows, LOG_CHUNK_DATA, data);
    const char *name = DB_GET(rows, MODEL_VERSION, version.name);
    (void)last, (void)agent, (void)best, (void)data, (void)name;
    rows = DB_QUERY(reader, AGENTS)"""

REFUSED = {
    "a value too few": ("DB_ADD(batch, TRIAL_SET_STATE, text)", "missing initializer for field 'id'"),
    "no values": ("rows = DB_QUERY(reader, LOG_SENDERS)", "missing initializer for field 'task_id'"),
    "a value too many": ("DB_ADD(batch, TRIAL_SET_STATE, text, id, id)", "excess elements in struct initializer"),
    "a value for a query without values": ("rows = DB_QUERY(reader, AGENTS, id)", "excess elements in struct initializer"),
    "a number for a text": ("DB_ADD(batch, TRIAL_SET_STATE, id, id)", "makes pointer from integer"),
    "0 for a text": ("DB_ADD(batch, TRIAL_SET_STATE, 0, id)", "makes pointer from integer"),
    "a text for a number": ("DB_ADD(batch, TRIAL_SET_STATE, text, text)", "makes integer from pointer"),
    "NULL for a number": ("DB_ADD(batch, TRIAL_SET_STATE, text, NULL)", "makes integer from pointer"),
    "a real for an integer": ("DB_ADD(batch, TRIAL_SET_STATE, text, number)", "-Werror=float-conversion"),
    "an integer for a real": ("DB_ADD(batch, EXPERIMENT_ADD_SERVICE, id, id)", "-Werror=conversion"),
    "a size for an integer": ("DB_ADD(batch, TRIAL_SET_STATE, text, size)", "-Werror=sign-conversion"),
    "a number for a nullable integer": ("DB_ADD(batch, WORKSPACE_INSERT, id, text, id, 1)",
                                      "makes pointer from integer"),
    "a text for a blob": ("DB_ADD(batch, MODEL_DEFINITION_INSERT, text, text)", "missing braces around initializer"),
    "the values in another order": ("DB_ADD(batch, TRIAL_SET_STATE, id, text)", "makes pointer from integer"),
    "an unknown column": ("id = DB_GET(rows, LOG_SENDERS, sequence)", "has no member named 'sequence'"),
    "a column of another query": ("id = DB_GET(rows, AGENTS, last_sequence)", "has no member named 'last_sequence'"),
    "the null of an unknown column": ("if (DB_IS_NULL(rows, AGENTS, nobody)) id++", "has no member named 'nobody'"),
    "a text column as a number": ("id = DB_GET(rows, LOG_SENDERS, agent_id)", "makes integer from pointer"),
    "a real column as an integer": ("id = DB_GET(rows, EXPERIMENT_VIEW, progress)", "-Werror=float-conversion"),
    "an unknown statement": ("DB_ADD(batch, TRIAL_SET_STATES, text, id)", "'STMT_TRIAL_SET_STATES' undeclared"),
    "a query as a write": ("DB_ADD(batch, LOG_SENDERS, text)", "struct db_write_LOG_SENDERS"),
    "a write as a query": ("rows = DB_QUERY(reader, TRIAL_SET_STATE, text, id)", "struct db_read_TRIAL_SET_STATE"),
}


def compile_body(body):
    run = subprocess.run([COMPILER, *FLAGS, f"-I{ROOT}", "-"], input=FRAME % body, capture_output=True, text=True,
                         env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    return run.returncode == 0, run.stderr


def main():
    faults = []
    fine, messages = compile_body(COMPILES)
    if not fine:
        faults.append(f"the correct calls do not compile:\n{messages}")
    for name, (body, expected) in REFUSED.items():
        fine, messages = compile_body(body)
        if fine:
            faults.append(f"{name}: compiles: {body}")
        elif expected not in messages:
            faults.append(f"{name}: the compiler does not say \"{expected}\" of {body}:\n{messages}")
    print("\n".join(faults) or f"{len(REFUSED)} mistakes are refused")
    sys.exit(bool(faults))


main()
