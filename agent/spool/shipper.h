// A shipper: a thread that sends the spools of one kind of all tasks to the master in batches, a
// fifth of a second behind the programs. The agent has one for output and one for reports.
//
// The cursor of a task moves, durably, after the master has acknowledged a batch. A batch that is
// sent again after a crash holds the same lines, and the master ignores what it knows. The shipper
// holds one batch in memory.
#ifndef MUSTER_AGENT_SPOOL_SHIPPER_H
#define MUSTER_AGENT_SPOOL_SHIPPER_H

#include <jansson.h>
#include <stdint.h>

#include "agent/inbox.h"
#include "agent/master_client.h"
#include "base/error.h"

struct shipper; // opaque

struct shipment {
    struct client *client; // with the agent's token
    const struct master_endpoint *master;
    const char *id;     // of the task (its allocation)
    const json_t *spec; // of the task (agent/tasks/task_spec.h)
    const json_t *lines;
    int64_t *refused;       // for `send`: counts what the master has refused of this task
    int64_t *failing_since; // for `send`: monotonic; 0: the master can take what the task sends
};

// Sends the lines of a shipment. A permanent refusal of the master is not an error: `send` skips
// these lines and says so. Any other error makes the shipper repeat the whole batch later. Called
// by the shipper's thread.
typedef int shipper_send(const struct shipment *s, struct error *e);

// Called by the shipper's thread when all lines of a task are sent; `lines` is NULL.
typedef void shipper_end(const struct shipment *s);

struct shipper_kind {
    const char *noun;                // of the lines, for messages: "log lines"
    const char *spool, *cursor;      // files in the folder of a task
    enum inbox_message_kind shipped; // sent when a spool is finished
    shipper_send *send;
    shipper_end *finish; // NULL: nothing is to be done
};

// `kind` is static.
int shipper_start(const struct shipper_kind *kind, const struct master_endpoint *master,
                  struct inbox *inbox, struct shipper **out, struct error *e);
void shipper_stop(struct shipper *s); // cancels a call within a second and waits for the thread

// Starts to ship the spool of the task in DIR, whose specification is written.
void shipper_add(struct shipper *s, const char *dir);
// Ships the rest of a spool that is complete, then sends the message `shipped`.
void shipper_finish(struct shipper *s, const char *id);

#endif
