// For tests that fork ranks: checks inside a rank, and collection of the ranks' outcomes.
#ifndef MUSTER_TESTS_TRAINER_RANKS_H
#define MUSTER_TESTS_TRAINER_RANKS_H

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text/json.h"
#include "trainer/launcher/gang.h"

enum { RANKS_MAX = 16, SECOND = 1000 * 1000 };

// In a rank: a failed check ends the rank with exit code 1 and prints its location.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

// The outcomes that the parent received from each rank.
struct rank_outcomes {
    char errors[RANKS_MAX][ERROR_TEXT_MAX];
    int codes[RANKS_MAX];
    int64_t at[RANKS_MAX]; // time of the outcome
};

static inline void outcome_receive(void *ctx, int rank, const json_t *message)
{
    struct rank_outcomes *outcomes = ctx;
    snprintf(outcomes->errors[rank], ERROR_TEXT_MAX, "%s", jget_string(message, "error", ""));
    outcomes->codes[rank] = (int)jget_int(message, "code", 0);
    outcomes->at[rank] = clock_mono_us();
}

// In a rank: sends an outcome to the parent.
static inline int report_outcome(struct gang_member *seat, int err, const char *text)
{
    json_t *message = json_pack("{s:s, s:i}", "error", text, "code", err);
    int sent = gang_send(seat, message, NULL);
    json_decref(message);
    return sent;
}

static inline struct gang_result run_ranks(int world, int (*rank)(struct gang_member *, void *),
                                           struct rank_outcomes *outcomes)
{
    struct gang_result result;
    struct error e = {0};
    const struct gang_spec spec = {.world = world,
                                   .rank = rank,
                                   .message = outcome_receive,
                                   .ctx = outcomes,
                                   .grace_us = 10 * SECOND};
    must(gang_run(&spec, &result, &e) == 0);
    return result;
}

#endif
