// Reads traces from text: jobs from CSV, teams from YAML. It also holds the table of teams and
// users that other sources of jobs (history.h) fill. Pure; one thread; the trace owns all memory.
#ifndef MUSTER_SIMULATE_TRACE_H
#define MUSTER_SIMULATE_TRACE_H

#include "base/arena.h"
#include "simulate/simulate.h"

struct trace {
    struct arena arena; // names
    struct simulate_team *teams;
    size_t team_count, team_cap;
    struct simulate_job *jobs;
    size_t job_count, job_cap;
    size_t outside;  // jobs left out because they were submitted outside the window
    size_t no_slots; // jobs left out because they want no slots
    int *index;      // of teams by name and parent: open addressing, -1: empty
    size_t index_cap;
    struct trace_user *users; // from the file of teams
    size_t user_count;
};

void trace_free(struct trace *t); // accepts a zeroed trace

// Reads teams and their users; call it before the jobs. `file` is used in messages.
//   teams: [{name: vision, weight: 2, guaranteed: 16, maximum: 64, users: [ada, grace]}]
int trace_read_teams(struct trace *t, const char *text, size_t len, const char *file,
                     struct error *e);

// Reads jobs, one per line; the first line names the columns: submit_s, gpus, duration_s, and
// optionally user, queue, priority, min_gpus; other columns are ignored. A job's team is the one
// that lists its user, else the one named like its queue, else a new one of weight 1. Jobs
// submitted outside [from, to) microseconds are left out.
extern const char *const trace_job_columns[]; // the names of the columns; ends with NULL
int trace_read_jobs(struct trace *t, const char *text, size_t len, const char *file, int64_t from,
                    int64_t to, struct error *e);

// Returns the index of `user` in team `team` for simulate_job.team; creates it if necessary.
int trace_user(struct trace *t, const char *team, const char *user);
int trace_team(struct trace *t, const char *team); // the same for the team itself
void trace_add(struct trace *t, const struct simulate_job *job);

void trace_sort(struct trace *t); // by submission, stable
struct simulate_trace trace_view(const struct trace *t);

#endif
