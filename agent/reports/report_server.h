// The report socket of a task, `report.sock` in its folder: programs in any language write JSON
// lines to it (docs/wire.md, Reports of programs). Each line is checked, appended to the report
// spool and answered; the agent ships the spool to the master. So a program never waits for the
// master, and its reports outlive it, the agent and the master.
//
// Belongs to the supervisor's thread, which polls report_server_fd().
#ifndef MUSTER_AGENT_REPORTS_REPORT_SERVER_H
#define MUSTER_AGENT_REPORTS_REPORT_SERVER_H

#include <jansson.h>

#include "base/error.h"

struct report_server; // opaque

// Receives a failure that a program reports of itself, {rank, text, place, traceback}. Borrowed.
typedef void report_failure_fn(void *ctx, const json_t *failure);

struct report_server_options {
    const char *dir;     // of the task
    const char *refusal; // why reports of this task are refused; NULL: they are accepted
    report_failure_fn *on_failure;
    void *ctx;
    int64_t disk_max; // bytes of reports that may wait to be sent; LIMIT_REPORT_SPOOL
    int64_t idle_us;  // a connection that is idle for so long gives its place to one that waits
};

// All strings of the options outlive the server.
int report_server_open(const struct report_server_options *options, struct report_server **out,
                       struct error *e);
int report_server_fd(const struct report_server *s); // readable: report_server_handle() has work
void report_server_handle(struct report_server *s);  // does not block
// To be called every few seconds: idle connections give their places to those that wait.
void report_server_check(struct report_server *s);
// Reads what programs have left in the socket, and closes all connections. Further ones are
// refused.
void report_server_drain(struct report_server *s);
void report_server_close(struct report_server *s); // NULL is allowed

#endif
