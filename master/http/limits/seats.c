#include "master/http/limits/seats.h"

#include "base/clock.h"
#include "base/log.h"

int seats_take(struct seats *s, int64_t user, int most, int most_user, const char *what,
               struct error *e)
{
    int rc = 0, taken = 0, own = 0, at = -1;
    must(most <= SEATS_MAX);
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < most; i++) {
        taken += s->users[i] != 0;
        own += s->users[i] == user + 1;
        at = s->users[i] ? at : i;
    }
    if (own >= most_user)
        rc = error_set(e, ERR_BUSY, "%d %s of yours are being sent already; try again in a while",
                       own, what);
    else if (at < 0)
        rc = error_set(e, ERR_BUSY, "%d %s are being sent already; try again in a while", taken,
                       what);
    else
        s->users[at] = user + 1;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void seats_leave(struct seats *s, int64_t user)
{
    int i = 0;
    pthread_mutex_lock(&s->lock);
    while (i < SEATS_MAX - 1 && s->users[i] != user + 1)
        i++;
    must(s->users[i] == user + 1);
    s->users[i] = 0;
    pthread_mutex_unlock(&s->lock);
}

void seats_wait(struct seats *s)
{
    for (int taken = 1; taken; clock_sleep_us(taken ? 1000 : 0)) {
        taken = 0;
        pthread_mutex_lock(&s->lock);
        for (int i = 0; i < SEATS_MAX; i++)
            taken += s->users[i] != 0;
        pthread_mutex_unlock(&s->lock);
    }
}
