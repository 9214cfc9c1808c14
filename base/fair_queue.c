#include "base/fair_queue.h"

#include <stdlib.h>

#include "base/arena.h"

struct lane {
    int64_t user;
    struct fair_queue_item *head, *tail;
    size_t count;
    struct lane *next;
};

static struct lane *find(const struct fair_queue *l, int64_t user)
{
    struct lane *lane = l->first;
    while (lane && lane->user != user)
        lane = lane->next;
    return lane;
}

static void append(struct fair_queue *l, struct lane *lane)
{
    lane->next = NULL;
    if (l->first)
        l->last->next = lane;
    else
        l->first = lane;
    l->last = lane;
}

void fair_queue_push(struct fair_queue *l, struct fair_queue_item *item)
{
    struct lane *lane = find(l, item->user);
    if (!lane) {
        lane = xcalloc(1, sizeof *lane);
        lane->user = item->user;
        append(l, lane);
    }
    item->next = NULL;
    if (lane->head)
        lane->tail->next = item;
    else
        lane->head = item;
    lane->tail = item;
    lane->count++;
    l->count++;
}

struct fair_queue_item *fair_queue_pop(struct fair_queue *l)
{
    struct lane *lane = l->first;
    if (!lane)
        return NULL;
    struct fair_queue_item *item = lane->head;
    l->first = lane->next;
    lane->head = item->next;
    lane->count--;
    l->count--;
    if (lane->head)
        append(l, lane);
    else
        free(lane);
    return item;
}

size_t fair_queue_count_of(const struct fair_queue *l, int64_t user)
{
    const struct lane *lane = find(l, user);
    return lane ? lane->count : 0;
}
