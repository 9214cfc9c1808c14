#include "simulate/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

void trace_free(struct trace *t)
{
    arena_free(&t->arena);
    free(t->teams);
    free(t->jobs);
    free(t->index);
    *t = (struct trace){0};
}

// --- teams and users -----------------------------------------------------------------------------

static size_t first_place(const struct trace *t, int parent, const char *name)
{
    uint64_t hash = hash64(name, strlen(name)) ^ (uint64_t)(parent + 1) * 0x9e3779b97f4a7c15;
    return (size_t)(hash ^ hash >> 32) % t->index_cap;
}

// The position of `name` below `parent` in the index, or the empty position where it belongs.
static int *place_of(const struct trace *t, int parent, const char *name)
{
    size_t at = first_place(t, parent, name);
    for (; t->index[at] >= 0; at = (at + 1) % t->index_cap) {
        const struct simulate_team *team = &t->teams[t->index[at]];
        if (team->parent == parent && strcmp(team->name, name) == 0)
            break;
    }
    return &t->index[at];
}

static void widen_index(struct trace *t)
{
    if (2 * (t->team_count + 1) < t->index_cap)
        return;
    t->index_cap = t->index_cap ? 4 * t->index_cap : 64;
    t->index = xrealloc(t->index, t->index_cap * sizeof *t->index);
    for (size_t i = 0; i < t->index_cap; i++)
        t->index[i] = -1;
    for (size_t i = 0; i < t->team_count; i++)
        *place_of(t, t->teams[i].parent, t->teams[i].name) = (int)i;
}

static int find_or_add(struct trace *t, int parent, const char *name)
{
    widen_index(t);
    int *place = place_of(t, parent, name);
    if (*place >= 0)
        return *place;
    if (t->team_count == t->team_cap) {
        t->team_cap = t->team_cap ? 2 * t->team_cap : 16;
        t->teams = xrealloc(t->teams, t->team_cap * sizeof *t->teams);
    }
    t->teams[t->team_count] = (struct simulate_team){
        .name = arena_strdup(&t->arena, name), .parent = parent, .weight = SCHED_WEIGHT_ONE};
    return *place = (int)t->team_count++;
}

int trace_team(struct trace *t, const char *team)
{
    return find_or_add(t, SCHED_NONE, team);
}

int trace_user(struct trace *t, const char *team, const char *user)
{
    return find_or_add(t, trace_team(t, team), user);
}

// --- jobs ----------------------------------------------------------------------------------------

void trace_add(struct trace *t, const struct simulate_job *job)
{
    if (t->job_count == t->job_cap) {
        t->job_cap = t->job_cap ? 2 * t->job_cap : 1024;
        t->jobs = xrealloc(t->jobs, t->job_cap * sizeof *t->jobs);
    }
    t->jobs[t->job_count++] = *job;
}

// Merges two sorted halves of jobs[0, count) through `spare`.
static void merge_sort(struct simulate_job *jobs, struct simulate_job *spare, size_t count)
{
    if (count < 2)
        return;
    size_t middle = count / 2, a = 0, b = middle;
    merge_sort(jobs, spare, middle);
    merge_sort(jobs + middle, spare, count - middle);
    for (size_t i = 0; i < count; i++) {
        bool is_first = b == count || (a < middle && jobs[a].submit <= jobs[b].submit);
        spare[i] = is_first ? jobs[a++] : jobs[b++];
    }
    memcpy(jobs, spare, count * sizeof *jobs);
}

void trace_sort(struct trace *t)
{
    struct simulate_job *spare = xcalloc(t->job_count + 1, sizeof *spare);
    merge_sort(t->jobs, spare, t->job_count);
    free(spare);
}

struct simulate_trace trace_view(const struct trace *t)
{
    return (struct simulate_trace){t->teams, t->team_count, t->jobs, t->job_count};
}
