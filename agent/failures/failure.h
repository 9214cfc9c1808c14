// Explains in one sentence why a rank failed, from its last lines, the way it ended and facts of
// the machine. Pure; any thread.
#ifndef MUSTER_AGENT_FAILURES_FAILURE_H
#define MUSTER_AGENT_FAILURES_FAILURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/failures/memory.h"

enum failure_kind {
    FAILURE_EXIT,          // it ended with an exit code; the text is its last line
    FAILURE_EXCEPTION,     // an exception of its language, or a failed assertion
    FAILURE_OUT_OF_MEMORY, // of the machine or of a GPU
    FAILURE_SIGNAL,        // a signal killed it
    FAILURE_KINDS,
};

struct failure_facts {
    int wait_status;                    // of waitpid(2)
    const char *err_lines, *out_lines;  // the last lines of stderr and stdout
    const char *last_line;              // the last one of them that says something; "": none
    bool last_of_stdout;                // .. is of stdout: rather progress than an error
    const char *work_dir;               // the program's folder, which is omitted from paths
    enum memory_verdict memory;         // whether the kernel has killed for lack of memory
    int64_t peak_bytes, memory_bytes;   // the largest process of the rank; of the machine
    int64_t memory_limit;               // that the task may use; 0: no limit
    const char *told_text, *told_place; // the program's own report of its exception; NULL: none
};

struct failure {
    enum failure_kind kind;
    char text[512];     // "KeyError: 'lr'", "killed by SIGSEGV (segmentation fault)"
    char place[200];    // "train.py:31"; "": unknown
    char sentence[768]; // "exit 1: KeyError: 'lr' (train.py:31)"
    bool of_stdout;     // the explanation is in out_lines
    size_t end_line;    // .. and ends before this line of them; 0: at the last line
};

void failure_explain(const struct failure_facts *facts, struct failure *out);

// The word of the kind, as tests and logs write it: "exception".
const char *failure_kind_word(enum failure_kind kind);

#endif
