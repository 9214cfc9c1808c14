// A set of changes, in the order in which each object was first marked as changed. Pure; one owner
// at a time.
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
    EVENT_AUDIT, // `name` holds what the row is about, audit_subject()
    EVENT_TOPICS
};

struct change {
    enum event_topic topic;
    int64_t experiment_id, trial_id; // 0: none
    int64_t workspace_id;            // its members may hear of the change; 0: not known yet
    char *name;                      // "": none; of a workspace or model: its id
    char *data;                      // JSON of the changed values; NULL: they are in the store
};

struct changes {
    struct change *items;
    size_t count, cap;
    uint32_t *table; // size is a power of two; 0: free, else index of an item + 1
    size_t table_size;
};

struct changes *changes_new(void);
void changes_free(struct changes *n); // NULL is fine

// The change of that object: the existing one, or a new one at the end. Valid until the next call.
struct change *changes_add(struct changes *n, enum event_topic topic, int64_t experiment_id,
                           int64_t trial_id, const char *name);
void change_set_data(struct change *note, char *data);                // takes `data`
void changes_merge(struct changes *into, const struct changes *from); // the newer data win

#endif
