// Everything that separates the processes of a task from the machine and from other tasks: its
// account, its first process with namespaces and view of the files, and the confinement of each
// process. It applies the protections that the specification lists as active. Belongs to the
// supervisor's thread.
#ifndef MUSTER_AGENT_SUPERVISOR_ENCLOSURE_H
#define MUSTER_AGENT_SUPERVISOR_ENCLOSURE_H

#include <jansson.h>
#include <stdbool.h>

#include "agent/isolation/confine.h"
#include "agent/isolation/task_init.h"
#include "base/error.h"

struct enclosure {
    struct confinement confinement;
    struct task_init init;
    unsigned protections;         // 1 << enum protection_id
    char warning[ERROR_TEXT_MAX]; // what the task has to do without; "": nothing
};

// Prepares the folder DIR of the task with the specification `spec`, whose environment it may
// change, and starts the first process. On an error the task cannot run; the caller closes the
// enclosure in any case.
int enclosure_open(const char *dir, json_t *spec, struct enclosure *out, struct error *e);
void enclosure_close(struct enclosure *c);

// The protections that `spec` lists as active. Pure.
unsigned enclosure_protections(const json_t *spec);

#endif
