#include "master/http/limits/answers.h"

#include "base/hash.h"
#include "base/limits.h"

static size_t held_by(const struct answer_account *a,
                      int64_t user) // needs the lock, like the next function
{
    size_t own = 0;
    for (const struct answer_hold *h = a->first; h; h = h->next)
        own += h->user == user ? h->bytes : 0;
    return own;
}

static size_t room(const struct answer_account *a, int64_t user)
{
    size_t own = held_by(a, user), left = a->held < LIMIT_RESPONSES ? LIMIT_RESPONSES - a->held : 0;
    size_t most = !own                         ? LIMIT_RESPONSE
                  : own < LIMIT_RESPONSES_USER ? LIMIT_RESPONSES_USER - own
                                               : 0;
    most = most < left ? most : left;
    return most > ANSWER_SMALL ? most : ANSWER_SMALL;
}

size_t answers_room(struct answer_account *a, int64_t user)
{
    pthread_mutex_lock(&a->lock);
    size_t bytes = room(a, user);
    pthread_mutex_unlock(&a->lock);
    return bytes;
}

int answers_refuse(struct error *e)
{
    return error_set(e, ERR_UNAVAILABLE,
                     "other answers of yours, or of many users, wait to be read; read them, or try "
                     "again in a moment");
}

int answers_check(struct answer_account *a, int64_t user, struct error *e)
{
    pthread_mutex_lock(&a->lock);
    bool full = held_by(a, user) >= LIMIT_RESPONSES_USER;
    pthread_mutex_unlock(&a->lock);
    return full ? answers_refuse(e) : 0;
}

int answers_hold(struct answer_account *a, struct answer_hold *h, int64_t user, size_t bytes,
                 bool done, struct error *e)
{
    if (bytes <= ANSWER_SMALL)
        return 0;
    pthread_mutex_lock(&a->lock);
    bool fits = done || bytes <= room(a, user);
    if (fits) {
        *h = (struct answer_hold){user, bytes, a->first, &a->first};
        if (a->first)
            a->first->link = &h->next;
        a->first = h;
        a->held += bytes;
    }
    pthread_mutex_unlock(&a->lock);
    return fits ? 0 : answers_refuse(e);
}

void answers_release(struct answer_account *a, struct answer_hold *h)
{
    if (!h->bytes)
        return;
    pthread_mutex_lock(&a->lock);
    a->held -= h->bytes;
    *h->link = h->next;
    if (h->next)
        h->next->link = h->link;
    pthread_mutex_unlock(&a->lock);
    *h = (struct answer_hold){0};
}

static atomic_int_least64_t *paid_of(struct answer_account *a, int64_t user)
{
    return &a->paid[hash64(&user, sizeof user) % READERS];
}

void answers_took(struct answer_account *a, int64_t user, int64_t now, int64_t us)
{
    atomic_int_least64_t *paid = paid_of(a, user);
    int_least64_t until = atomic_load(paid), next;
    do
        next = (until > now ? until : now) + us * READS_COST;
    while (!atomic_compare_exchange_weak(paid, &until, next));
}

bool answers_is_heavy(struct answer_account *a, int64_t user, int64_t now)
{
    return atomic_load(paid_of(a, user)) - now > (int64_t)READS_BURST_US * READS_COST;
}
