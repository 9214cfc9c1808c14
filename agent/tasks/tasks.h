// The tasks of this machine: starts them, follows their supervisors, ends and forgets them. The
// folders of the tasks hold all of their state (taskdir.h), so a new agent continues where the last
// one stopped. Belongs to the event loop's thread.
#ifndef MUSTER_AGENT_TASKS_TASKS_H
#define MUSTER_AGENT_TASKS_TASKS_H

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/inbox.h"
#include "agent/slots.h"
#include "agent/spool/shipper.h"
#include "agent/tasks/file_worker.h"
#include "agent/tasks/reconcile.h"
#include "base/error.h"

struct tasks; // opaque

struct tasks_options {
    const char *work_dir; // absolute
    const char *agent_id;
    const char *token_file;    // absolute
    const json_t *protections; // see task_spec.h
    const char *task_account, *task_group;
    bool tasks_as_root;
    const char *ca_file; // of the master's authority, for tasks; NULL: none
    const struct slots *slots;
    const json_t *limits; // see task_spec.h
    struct file_worker *file_worker;
    struct file_worker *remover; // millions of files of a task do not delay the start of others
    struct shipper *logs, *reports;
};

// Recovers the tasks in the work folder.
int tasks_open(const struct tasks_options *options, struct tasks **out, struct error *e);
void tasks_close(struct tasks *t); // the tasks keep running

// Starts, ends and forgets tasks to reach the desired state.
void tasks_apply(struct tasks *t, const struct desired_state *desired);
// The master does not answer at present: reports of tasks that it has ended get more time.
void tasks_wait_for_master(struct tasks *t);
void tasks_handle_message(struct tasks *t, const struct inbox_message *message);
void tasks_tick(struct tasks *t, int64_t now);  // makes the retries that are due
int64_t tasks_next_tick(const struct tasks *t); // monotonic; INT64_MAX: no retry is due
size_t tasks_poll_count(const struct tasks *t); // maximum of descriptors to wait for
unsigned tasks_poll(const struct tasks *t, struct curl_waitfd *fds); // returns their number
void tasks_read(struct tasks *t);                                    // reads from the supervisors

// The observed state for the master, and whether it has changed since the last tasks_report().
json_t *tasks_report(struct tasks *t);
bool tasks_changed(const struct tasks *t);

#endif
