// A set of notes that something changed, in the order in which each thing was first noted. Pure;
// one owner at a time.
#ifndef MUSTER_MASTER_KERNEL_CHANGES_H
#define MUSTER_MASTER_KERNEL_CHANGES_H

#include <stddef.h>
#include <stdint.h>

enum event_topic {
    EVENT_EXPERIMENT,
    EVENT_TRIAL,
    EVENT_METRICS,
    EVENT_LOGS,
    EVENT_CHECKPOINT,
    EVENT_QUEUE,
    EVENT_AGENT,
    EVENT_WORKSPACE,
    EVENT_MODEL,
    EVENT_AUDIT, // its name: of what, audit_subject()
    EVENT_TOPICS
};

struct note {
    enum event_topic topic;
    int64_t experiment_id, trial_id; // 0: none
    int64_t workspace_id;            // whose members may hear of it; 0: not known here
    char *name;                      // "": none; of a workspace or model: its id
    char *data;                      // JSON of what changed; NULL: the store has it
};

struct notes {
    struct note *items;
    size_t count, cap;
    uint32_t *table; // of a power of two; 0: free, else the place of an item + 1
    size_t table_size;
};

struct notes *notes_new(void);
void notes_free(struct notes *n); // NULL is fine

// The note of that thing: the one that is there, or a new one at the end. Valid until the next
// call.
struct note *notes_add(struct notes *n, enum event_topic topic, int64_t experiment_id,
                       int64_t trial_id, const char *name);
void note_set_data(struct note *note, char *data);              // takes it
void notes_merge(struct notes *into, const struct notes *from); // the newer text wins

#endif
