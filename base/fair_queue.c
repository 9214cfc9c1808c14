#include "base/fair_queue.h"

#include <stdlib.h>

#include "base/arena.h"

struct user_queue {
    int64_t user;
    struct fair_queue_item *head, *tail;
    size_t count;
    struct user_queue *next;
};

static struct user_queue *find_user(const struct fair_queue *q, int64_t user)
{
    struct user_queue *uq = q->first;
    while (uq && uq->user != user)
        uq = uq->next;
    return uq;
}

static void append_user(struct fair_queue *q, struct user_queue *uq)
{
    uq->next = NULL;
    if (q->first)
        q->last->next = uq;
    else
        q->first = uq;
    q->last = uq;
}

void fair_queue_push(struct fair_queue *q, struct fair_queue_item *item)
{
    struct user_queue *uq = find_user(q, item->user);
    if (!uq) {
        uq = xcalloc(1, sizeof *uq);
        uq->user = item->user;
        append_user(q, uq);
    }
    item->next = NULL;
    if (uq->head)
        uq->tail->next = item;
    else
        uq->head = item;
    uq->tail = item;
    uq->count++;
    q->count++;
}

struct fair_queue_item *fair_queue_pop(struct fair_queue *q)
{
    struct user_queue *uq = q->first;
    if (!uq)
        return NULL;
    struct fair_queue_item *item = uq->head;
    q->first = uq->next;
    uq->head = item->next;
    uq->count--;
    q->count--;
    if (uq->head)
        append_user(q, uq);
    else
        free(uq);
    return item;
}

size_t fair_queue_count_of(const struct fair_queue *q, int64_t user)
{
    const struct user_queue *uq = find_user(q, user);
    return uq ? uq->count : 0;
}
