// Finds the exception of a Python program in its last lines: its text, the line of code that raised
// it, and the place of both in the output. Knows tracebacks of threads, worker processes, chained
// exceptions, exception groups, syntax errors, DataLoader and torchrun. Pure; any thread.
#ifndef MUSTER_AGENT_FAILURES_TRACEBACK_H
#define MUSTER_AGENT_FAILURES_TRACEBACK_H

#include "agent/failures/lines.h"

enum { TRACEBACK_TEXT = 400, TRACEBACK_PLACE = 200 };

struct traceback {
    char text[TRACEBACK_TEXT];   // "KeyError: 'lr'"
    char place[TRACEBACK_PLACE]; // "train.py:31": the last frame outside of libraries
    size_t end;                  // the number of lines up to the end of the exception
    size_t after; // lines that follow it, without those of launchers: a handled exception has many
};

// `work_dir` is removed from paths. Returns whether there is a traceback.
bool traceback_find(const struct output_lines *lines, const char *work_dir, struct traceback *out);

// Shortens the path of a source file: without `work_dir`, and below site-packages.
void traceback_shorten_path(char *path, const char *work_dir);

// Reads `File "PATH", line N` as "PATH:N". Returns whether the line is a frame.
bool traceback_read_frame(const struct output_line *line, const char *work_dir, char *place,
                          size_t cap, bool *of_library);

#endif
