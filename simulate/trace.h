// Traces made from text: jobs as CSV, teams as YAML; and the book of teams and users that other
// sources of jobs (history.h) fill too. Pure; one thread; all memory is the trace's.
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
    size_t outside;  // jobs left out: submitted outside of the window
    size_t no_slots; // jobs left out: they want none
    int *index;      // of teams, by name and parent: open addressing, -1: empty
    size_t index_cap;
    struct trace_user *users; // of the teams' file
    size_t user_count;
};

void trace_free(struct trace *t); // a zeroed one is fine

// Teams and what users belong to them; before the jobs. `file` is for messages.
//   teams: [{name: vision, weight: 2, guaranteed: 16, maximum: 64, users: [ada, grace]}]
int trace_read_teams(struct trace *t, const char *text, size_t len, const char *file,
                     struct error *e);

// Jobs, one a line; the first line names the columns: submit_s, gpus, duration_s, and any of user,
// queue, priority, min_gpus; columns of other names are passed over. A job's team is the one that
// has its user, else the one named like its queue, else a new one of weight 1. Jobs submitted
// outside [from, to) microseconds are left out.
extern const char *const trace_job_columns[]; // these names; ends with NULL
int trace_read_jobs(struct trace *t, const char *text, size_t len, const char *file, int64_t from,
                    int64_t to, struct error *e);

// The user `user` of team `team`, made if need be: the index for simulate_job.team.
int trace_user(struct trace *t, const char *team, const char *user);
int trace_team(struct trace *t, const char *team); // the team itself, likewise
void trace_add(struct trace *t, const struct simulate_job *job);

void trace_sort(struct trace *t); // by submission; what came first stays first
struct simulate_trace trace_view(const struct trace *t);

#endif
