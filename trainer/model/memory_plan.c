// Greedy placement: the largest tensor first, each at the lowest offset where it overlaps no tensor
// that is alive at the same time. The activations of a training pass nest (first made, last used),
// and for nested lifetimes this finds an optimum or comes close. Equal sizes keep their order of
// creation, so a plan is a function of the model alone.
#include "trainer/model/memory_plan.h"

#include <stdlib.h>

#include "base/arena.h"

enum { ALIGNMENT = 16 }; // floats in 64 bytes

int memory_plan_add(struct memory_plan *p, int64_t floats, int moment)
{
    if (p->count == p->capacity) {
        p->capacity = p->capacity ? 2 * p->capacity : 64;
        p->tensors = xrealloc(p->tensors, (size_t)p->capacity * sizeof *p->tensors);
    }
    int64_t padded = (floats + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    p->tensors[p->count] =
        (struct planned_tensor){.floats = padded, .first = moment, .last = moment};
    return p->count++;
}

void memory_plan_use(struct memory_plan *p, int tensor, int moment)
{
    struct planned_tensor *t = &p->tensors[tensor];
    if (moment < t->first)
        t->first = moment;
    if (moment > t->last)
        t->last = moment;
}

static int by_size(const void *left, const void *right)
{
    const struct planned_tensor *a = *(struct planned_tensor *const *)left,
                                *b = *(struct planned_tensor *const *)right;
    if (a->floats != b->floats)
        return a->floats > b->floats ? -1 : 1;
    return (a > b) - (a < b);
}

// The lowest free offset for `t` among `placed`, which is sorted by offset.
static size_t lowest_offset(const struct planned_tensor *t, struct planned_tensor *const *placed,
                            int count)
{
    size_t offset = 0;
    for (int i = 0; i < count; i++) {
        const struct planned_tensor *other = placed[i];
        if (other->last < t->first || t->last < other->first)
            continue;
        if (offset + (size_t)t->floats <= other->offset)
            break;
        size_t end = other->offset + (size_t)other->floats;
        if (end > offset)
            offset = end;
    }
    return offset;
}

static void insert_by_offset(struct planned_tensor **placed, int count, struct planned_tensor *t)
{
    int i = count;
    for (; i > 0 && placed[i - 1]->offset > t->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = t;
}

void memory_plan_place(struct memory_plan *p)
{
    struct planned_tensor **order = xcalloc((size_t)p->count + 1, sizeof *order);
    struct planned_tensor **placed = xcalloc((size_t)p->count + 1, sizeof *placed);
    for (int i = 0; i < p->count; i++)
        order[i] = &p->tensors[i];
    qsort(order, (size_t)p->count, sizeof *order, by_size);
    p->floats = 0;
    for (int i = 0; i < p->count; i++) {
        struct planned_tensor *t = order[i];
        t->offset = lowest_offset(t, placed, i);
        insert_by_offset(placed, i, t);
        size_t end = t->offset + (size_t)t->floats;
        if (end > p->floats)
            p->floats = end;
    }
    free(order);
    free(placed);
}

void memory_plan_free(struct memory_plan *p)
{
    free(p->tensors);
    *p = (struct memory_plan){0};
}
