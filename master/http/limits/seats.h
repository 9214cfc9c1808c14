// Limits the number of long answers (streams, downloads), in total and per user. Any thread.
#ifndef MUSTER_MASTER_HTTP_LIMITS_SEATS_H
#define MUSTER_MASTER_HTTP_LIMITS_SEATS_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"

enum { SEATS_MAX = 512 };

struct seats { // initialized by zeroing
    pthread_mutex_t lock;
    int64_t users[SEATS_MAX]; // the user id + 1 of its holder; 0: free
};

// ERR_BUSY: `most` seats are taken, or `most_user` by this user. `what`: "downloads".
int seats_take(struct seats *s, int64_t user, int most, int most_user, const char *what,
               struct error *e);
void seats_leave(struct seats *s, int64_t user);
void seats_wait(struct seats *s); // until all are free

#endif
