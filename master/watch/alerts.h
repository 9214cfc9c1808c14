// The alerts of the cluster: trouble that people should hear about once when it begins and once
// when it has ended. Pure: it reads no clock and writes nothing. Its owner is the core thread.
//
// An alert is identified by its kind and its subject. It begins when its trouble is seen for the
// first time, and ends when the trouble has not been seen for the calm time. So trouble that comes
// and goes is one alert, and two messages about the same subject are at least the calm time apart.
#ifndef MUSTER_MASTER_WATCH_ALERTS_H
#define MUSTER_MASTER_WATCH_ALERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum alert_kind {
    ALERT_AGENT_LOST,
    ALERT_STORE_SLOW,
    ALERT_DISK_FILLING,
    ALERT_BACKUP_OVERDUE,
    ALERT_KINDS
};
// Words of the store and of messages: "AGENT_LOST".
extern const char *const alert_words[ALERT_KINDS];
bool alert_kind_of(const char *word, enum alert_kind *out); // false: no such kind

struct trouble { // that exists now
    enum alert_kind kind;
    const char *subject; // an agent, a place; "": the cluster
    const char *text;    // a sentence for people
};

struct alert {
    int64_t id;
    enum alert_kind kind;
    char *subject, *text; // the text of its beginning
    int64_t began_at;     // wall
    int64_t seen_at;      // monotonic: when the trouble was last seen
    struct alert *next;
};

struct alerts {
    struct alert *open; // oldest first
    int64_t next_id;
};

struct alerts *alerts_new(int64_t next_id);
void alerts_free(struct alerts *all); // accepts NULL

// Adds an open alert of the store. Its calm time starts now.
void alerts_load(struct alerts *all, int64_t id, enum alert_kind kind, const char *subject,
                 const char *text, int64_t began_at, int64_t now);

// Hears of an alert that begins, or, with `ended`, ends; the alert is freed after its end.
typedef void alert_hearer(void *ctx, const struct alert *alert, bool ended);

// Compares the trouble of this moment with the open alerts. `now` is monotonic, `wall` the wall
// clock, `calm` the calm time, all in microseconds.
void alerts_step(struct alerts *all, const struct trouble *list, size_t count, int64_t now,
                 int64_t wall, int64_t calm, alert_hearer *hear, void *ctx);

int64_t alerts_open(const struct alerts *all, enum alert_kind kind); // their number

#endif
