// For tests of the communicator over several machines. All ranks run on one machine; each pretends
// to be on the machine that its test names. A placement such as "AAB" has a letter for the machine
// of each rank.
#ifndef MUSTER_TESTS_TRAINER_PLACED_RANKS_H
#define MUSTER_TESTS_TRAINER_PLACED_RANKS_H

#include <string.h>

#include "tests/unit/trainer/ranks.h"
#include "trainer/comm/comm.h"

enum { ARENA = 8 << 20 };

// Set before the ranks are forked.
static const char *placement;
static bool encrypted;

struct placed_rank {
    struct gang_member *seat;
    void (*places_known)(struct placed_rank *p, json_t *all); // may be NULL
};

static inline int gather(void *ctx, const json_t *mine, json_t **all, struct error *e)
{
    struct placed_rank *p = ctx;
    json_t *changed = json_deep_copy(mine);
    if (jget(changed, "machine"))
        json_object_set_new(changed, "machine", json_stringn(placement + p->seat->rank, 1));
    int err = gang_all_gather(p->seat, changed, all, e);
    json_decref(changed);
    if (!err && p->places_known && jget(json_array_get(*all, 0), "port"))
        p->places_known(p, *all);
    return err;
}

static inline int open_comm(struct placed_rank *p, int64_t timeout_us, struct comm **c,
                            struct error *e)
{
    const struct comm_config config = {
        .rank = p->seat->rank,
        .world = p->seat->world,
        .arena_bytes = ARENA,
        .timeout_us = timeout_us,
        .rendezvous = {.all_gather = gather, .ctx = p},
        .encrypt = encrypted,
        .allocation = "1.1.1",
    };
    return comm_open(&config, c, e);
}

static inline struct gang_result run_placed(const char *where,
                                            int (*rank)(struct gang_member *, void *),
                                            struct rank_outcomes *outcomes)
{
    struct gang_result result;
    struct error e = {0};
    struct rank_outcomes silence = {0};
    placement = where;
    const struct gang_spec spec = {.world = (int)strlen(where),
                                   .rank = rank,
                                   .message = outcome_receive,
                                   .ctx = outcomes ? outcomes : &silence,
                                   .grace_us = 10 * SECOND};
    must(gang_run(&spec, &result, &e) == 0);
    return result;
}

static inline int64_t of_rank(int rank, size_t i)
{
    return (int64_t)((i * 31 + (size_t)rank * 17) % 1009) - 500;
}

static inline int64_t of_all(int world, size_t i, enum comm_op op)
{
    int64_t sum = 0, most = INT64_MIN;
    for (int r = 0; r < world; r++) {
        sum += of_rank(r, i);
        most = of_rank(r, i) > most ? of_rank(r, i) : most;
    }
    return op == COMM_SUM ? sum : most;
}

static inline void element_set(const struct comm_work *w, size_t i, int64_t x)
{
    if (w->type == COMM_INT64)
        ((int64_t *)w->data)[i] = x;
    else if (w->type == COMM_INT32)
        ((int32_t *)w->data)[i] = (int32_t)x;
    else
        ((float *)w->data)[i] = (float)x;
}

static inline int64_t element_get(const struct comm_work *w, size_t i)
{
    if (w->type == COMM_INT64)
        return ((int64_t *)w->data)[i];
    return w->type == COMM_INT32 ? ((int32_t *)w->data)[i] : (int64_t)((float *)w->data)[i];
}

static inline int check_all_reduce(struct comm *c, struct comm_work w)
{
    struct error e = {0};
    for (size_t i = 0; i < w.count; i++)
        element_set(&w, i, of_rank(comm_rank(c), i));
    CHECK(comm_run(c, &w, &e) == 0);
    for (size_t i = 0; i < w.count; i++)
        CHECK(element_get(&w, i) == of_all(comm_world(c), i, w.op));
    return 0;
}

// All ranks leave the last barrier before any of them continues, so a fault that follows does not
// disturb the barrier.
static inline int open_and_warm(struct placed_rank *place, int64_t timeout_us, struct comm **c)
{
    struct error e = {0};
    CHECK(open_comm(place, timeout_us, c, &e) == 0);
    for (int i = 0; i < 20; i++)
        CHECK(comm_barrier(*c, &e) == 0);
    json_t *all = NULL;
    CHECK(gang_all_gather(place->seat, json_true(), &all, &e) == 0);
    json_decref(all);
    return 0;
}

#endif
