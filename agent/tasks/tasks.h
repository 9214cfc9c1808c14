// The tasks of this machine: starts them, follows their supervisors, ends and forgets them. All
// that is known about a task lies in its folder too (taskdir.h), so a new agent takes up what the
// last one left. Belongs to the event loop's thread.
#ifndef MUSTER_AGENT_TASKS_TASKS_H
#define MUSTER_AGENT_TASKS_TASKS_H

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/inbox.h"
#include "agent/logs/shipper.h"
#include "agent/slots.h"
#include "agent/tasks/file_worker.h"
#include "agent/tasks/reconcile.h"
#include "base/error.h"

struct tasks; // opaque

struct tasks_options {
    const char *work_dir; // absolute
    const char *agent_id;
    const char *token_file; // absolute
    const struct slots *slots;
    struct worker *worker;
    struct shipper *shipper;
};

// Takes up what is in the work folder.
int tasks_open(const struct tasks_options *options, struct tasks **out, struct error *e);
void tasks_close(struct tasks *t); // the tasks themselves go on

void tasks_apply(struct tasks *t, const struct desired *desired); // reconciles
void tasks_note(struct tasks *t, const struct note *note);
void tasks_tick(struct tasks *t, int64_t now);  // what was to be tried again later
int64_t tasks_next_tick(const struct tasks *t); // monotonic; INT64_MAX: none
size_t tasks_poll_count(const struct tasks *t); // most descriptors to wait for
unsigned tasks_poll(const struct tasks *t, struct curl_waitfd *fds); // fills, gives the number
void tasks_read(struct tasks *t);                                    // what the supervisors say

// The observed set for the master; and whether it has changed since the last call.
json_t *tasks_report(struct tasks *t);
bool tasks_changed(const struct tasks *t);

#endif
