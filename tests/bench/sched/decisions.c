// Measures how long the scheduler takes to decide: 1,250 agents with 8 slots in two groups, always
// 10,000 waiting gangs, a tree of 10 workspaces with 5 users each, priorities, elastic gangs,
// preemption. A seeded generator ends and submits gangs at random. Each event (an end, a
// submission, the end of a drain) is decided at once; the master would collect events over 5 ms.
// Prints one JSON object.
//
//   bench_sched_decisions [POLICY [EVENTS [SEED [WORKSPACES USERS]]]]
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/rng.h"
#include "master/sched/sched.h"

enum {
    AGENTS = 1250,
    SLOTS = 8,
    RACK = 40,         // agents
    TEAMS_MAX = 10000, // users of workspaces
    QUEUE = 10000,
    GANGS_MAX = 65536,
    WARM_UP = 2000, // events that are not measured
    LIMIT_S =
        30, // limit for the warm-up and for the measurement; a slow machine measures fewer events
};
static const int64_t second = 1000000;

struct gang {
    int job, handle, team;
    struct sched_gang_spec spec;
    bool leaving;
    int running; // index in bench.running; SCHED_NONE: it waits
};

struct departure { // a gang that drains
    int64_t at;
    int64_t tag;
};

struct bench {
    struct sched *sched;
    struct rng rng;
    int64_t now, order;
    uint32_t workspaces, users; // users per workspace
    int teams[TEAMS_MAX];
    struct gang *gangs;
    int free_gangs[GANGS_MAX], free_count;
    int running[GANGS_MAX], running_count;
    int waiting;
    struct departure departures[GANGS_MAX]; // a ring, ordered by time
    size_t first, last;
    size_t starts, drains[SCHED_CAUSES];
    uint64_t digest; // of all decisions; unchanged when a change of the scheduler decides the same
};

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void add_teams(struct bench *b)
{
    for (uint32_t w = 0; w < b->workspaces; w++) {
        struct sched_team_spec team = {.weight = SCHED_WEIGHT_ONE * (1 + rng_below(&b->rng, 4))};
        team.guaranteed = w % 5 == 0 ? 160 : 0;
        team.maximum = w % 7 == 3 ? 600 : 0;
        int workspace = sched_team_add(b->sched, SCHED_ROOT, &team);
        for (uint32_t u = 0; u < b->users; u++) {
            struct sched_team_spec user = {.weight = SCHED_WEIGHT_ONE,
                                           .maximum = u % 9 == 4 ? 64 : 0};
            b->teams[w * b->users + u] = sched_team_add(b->sched, workspace, &user);
        }
    }
}

// The sizes of real clusters: most gangs want one slot, some a few, one in ten more than an agent
// has.
static struct sched_gang_spec any_gang(struct bench *b)
{
    static const int sizes[] = {1, 1, 1, 1, 1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 12, 16, 32, 64, 128};
    int slots = sizes[rng_below(&b->rng, sizeof sizes / sizeof *sizes)];
    bool is_elastic = slots > 1 && rng_below(&b->rng, 5) == 0;
    return (struct sched_gang_spec){.min_slots = is_elastic ? (slots + 3) / 4 : slots,
                                    .max_slots = slots,
                                    .one_agent =
                                        slots > 1 && slots <= SLOTS && rng_below(&b->rng, 4) == 0};
}

static void wait_again(struct bench *b, int64_t tag)
{
    struct gang *g = &b->gangs[tag];
    g->running = SCHED_NONE;
    g->leaving = false;
    g->handle = sched_gang_add(b->sched, &g->spec, b->now);
    b->waiting++;
}

static void arrive(struct bench *b)
{
    must(b->free_count > 0);
    int tag = b->free_gangs[--b->free_count];
    uint32_t luck = rng_below(&b->rng, 20);
    // Some workspaces want far more than others, so that preemption has victims.
    uint32_t workspace = rng_below(&b->rng, 1 + rng_below(&b->rng, b->workspaces));
    struct sched_job_spec job = {.team =
                                     b->teams[workspace * b->users + rng_below(&b->rng, b->users)],
                                 .priority = luck == 0  ? 10
                                             : luck < 3 ? 60
                                                        : SCHED_PRIORITY_DEFAULT,
                                 .order = b->order++,
                                 .weight = SCHED_WEIGHT_ONE};
    struct gang *g = &b->gangs[tag];
    *g = (struct gang){.job = sched_job_add(b->sched, &job), .spec = any_gang(b)};
    g->spec.job = g->job;
    g->spec.tag = tag;
    wait_again(b, tag);
}

static void leave_slots(struct bench *b, int64_t tag)
{
    struct gang *g = &b->gangs[tag];
    int last = b->running[--b->running_count];
    b->running[g->running] = last;
    b->gangs[last].running = g->running;
    sched_gang_remove(b->sched, g->handle, b->now);
}

static void end_any(struct bench *b)
{
    int tag = b->running[rng_below(&b->rng, (uint32_t)b->running_count)];
    struct gang *g = &b->gangs[tag];
    if (g->leaving)
        return;
    leave_slots(b, tag);
    sched_job_remove(b->sched, g->job);
    b->free_gangs[b->free_count++] = tag;
}

static void digest_add(struct bench *b, int64_t value)
{
    b->digest = (b->digest ^ (uint64_t)value) * UINT64_C(0x100000001b3); // FNV-1a's prime
    b->digest ^= b->digest >> 32;
}

static void note(struct bench *b, const struct sched_command *c)
{
    digest_add(b, c->kind);
    digest_add(b, c->tag);
    digest_add(b, c->beneficiary);
    for (size_t i = 0; c->places && i < c->count; i++)
        digest_add(b, c->places[i].agent * SLOTS + c->places[i].slot);
}

static void carry_out(struct bench *b, const struct sched_command *c)
{
    note(b, c);
    struct gang *g = &b->gangs[c->tag];
    if (c->kind == SCHED_START) {
        must(g->running == SCHED_NONE);
        g->running = b->running_count;
        b->running[b->running_count++] = (int)c->tag;
        b->waiting--;
        b->starts++;
        return;
    }
    must(g->running != SCHED_NONE && !g->leaving);
    g->leaving = true;
    b->departures[b->last++ % GANGS_MAX] = (struct departure){b->now + 5 * second, c->tag};
    b->drains[c->cause]++;
}

static void pass(struct bench *b)
{
    const struct sched_command *commands;
    size_t count = sched_pass(b->sched, b->now, &commands);
    for (size_t i = 0; i < count; i++)
        carry_out(b, &commands[i]);
}

// Handles one event at its time.
static void event(struct bench *b)
{
    int64_t next = b->now + 1 + rng_below(&b->rng, (uint32_t)(2 * second));
    bool is_departure = b->first < b->last && b->departures[b->first % GANGS_MAX].at <= next;
    b->now = is_departure ? b->departures[b->first % GANGS_MAX].at : next;
    if (is_departure) {
        int64_t tag = b->departures[b->first++ % GANGS_MAX].tag;
        leave_slots(b, tag);
        wait_again(b, tag);
    } else if (b->waiting < QUEUE || !b->running_count) {
        arrive(b);
    } else {
        end_any(b);
    }
}

static void add_agent(struct bench *b, int pool, int rack)
{
    int groups[SLOTS], all[SLOTS] = {0}, agent = sched_agent_add(b->sched, pool, SLOTS, rack);
    for (int i = 0; i < SLOTS; i++)
        groups[i] = i / (SLOTS / 2);
    sched_agent_set_nearness(b->sched, agent, groups, groups, all);
    sched_agent_set(b->sched, agent, true);
}

static struct bench *make(enum sched_policy policy, uint64_t seed, uint32_t workspaces,
                          uint32_t users)
{
    struct bench *b = xcalloc(1, sizeof *b);
    must(workspaces && users && workspaces <= TEAMS_MAX / users);
    b->workspaces = workspaces;
    b->users = users;
    b->sched = sched_new(NULL);
    b->now = second;
    rng_seed(&b->rng, seed, 0);
    b->gangs = xcalloc(GANGS_MAX, sizeof *b->gangs);
    for (int i = GANGS_MAX; i-- > 0;)
        b->free_gangs[b->free_count++] = i;
    int pool = sched_pool_add(b->sched, policy);
    for (int i = 0; i < AGENTS; i++)
        add_agent(b, pool, i / RACK);
    add_teams(b);
    while (b->waiting < QUEUE)
        arrive(b);
    pass(b);
    while (b->waiting < QUEUE)
        arrive(b);
    return b;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static enum sched_policy policy_of(const char *name)
{
    for (int i = 0; i < SCHED_POLICIES; i++)
        if (strcmp(sched_policy_names[i], name) == 0)
            return (enum sched_policy)i;
    fprintf(stderr, "no policy %s\n", name);
    exit(2);
}

// Nanoseconds of each event with its decision. Returns the number of events that were measured.
static size_t measure(struct bench *b, int64_t *times, size_t count)
{
    int64_t begin = clock_ns(), before = begin;
    size_t i = 0;
    while (i < count && before - begin < LIMIT_S * INT64_C(1000000000)) {
        event(b);
        pass(b);
        int64_t now = clock_ns();
        times[i++] = now - before;
        before = now;
    }
    return i;
}

int main(int argc, char **argv)
{
    enum sched_policy policy = argc > 1 ? policy_of(argv[1]) : SCHED_POLICY_FAIR_SHARE;
    size_t count = argc > 2 ? strtoul(argv[2], NULL, 10) : 20000;
    must(count > 0);
    struct bench *b = make(policy, argc > 3 ? strtoul(argv[3], NULL, 10) : 1,
                           argc > 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 10,
                           argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 5);
    int64_t *times = xcalloc(count, sizeof *times), sum = 0;
    size_t commands = 0;
    int64_t begin = clock_ns();
    for (size_t i = 0; i < WARM_UP && clock_ns() - begin < LIMIT_S * INT64_C(1000000000); i++) {
        event(b);
        pass(b);
    }
    count = measure(b, times, count);
    for (size_t i = 0; i < count; i++)
        sum += times[i];
    sched_check(b->sched);
    qsort(times, count, sizeof *times, compare);
    for (int i = 0; i < SCHED_CAUSES; i++)
        commands += b->drains[i];
    printf("{\"policy\": \"%s\", \"events\": %zu, \"mean_us\": %.1f, \"p50_us\": %.1f, "
           "\"p99_us\": %.1f, \"worst_us\": %.1f, \"waiting\": %d, \"running\": %d, "
           "\"starts\": %zu, \"drains\": %zu, \"shrunk\": %zu, \"grown\": %zu, \"moved\": %zu, "
           "\"digest\": \"%016" PRIx64 "\"}\n",
           sched_policy_names[policy], count, (double)sum / (double)count / 1e3,
           (double)times[count / 2] / 1e3, (double)times[count * 99 / 100] / 1e3,
           (double)times[count - 1] / 1e3, b->waiting, b->running_count, b->starts, commands,
           b->drains[SCHED_TO_SHRINK], b->drains[SCHED_TO_GROW], b->drains[SCHED_TO_MOVE],
           b->digest);
    sched_free(b->sched);
    free(b->gangs);
    free(times);
    free(b);
    return 0;
}
