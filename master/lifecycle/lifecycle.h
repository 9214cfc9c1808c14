// The state machines of experiments, trials, allocations and agents: a function X_event() delivers
// an event to an object, moves its state (machines.h) and carries out the action. Core thread
// alone.
#ifndef MUSTER_MASTER_LIFECYCLE_LIFECYCLE_H
#define MUSTER_MASTER_LIFECYCLE_LIFECYCLE_H

#include "master/kernel/state.h"
#include "master/lifecycle/machines_run.h"
#include "master/lifecycle/task_snapshots.h"

// experiments.c
int experiment_event(struct core *c, struct experiment *x, enum experiment_event ev,
                     struct error *e); // ERR_STATE: refused
void experiment_settle(struct core *c,
                       struct active_experiment *l); // ends it when no trial is left
// Passes the event to the searcher and carries out its commands.
void experiment_search_event(struct core *c, struct active_experiment *l,
                             const struct search_event *event);
struct active_experiment *active_experiment_new(struct core *c, struct experiment *x,
                                                json_t *config); // takes config
void active_experiment_free(struct core *c, struct active_experiment *l);
bool active_experiment_runs_once(
    const struct active_experiment *l); // never preempted, never started again
void active_experiment_write_name(const struct active_experiment *l,
                                  struct buf *out); // "experiment 7", "command 1f0c.."
// Makes it a job of the scheduler; tells the scheduler its new place in the queue and its limits.
void active_experiment_schedule(struct core *c, struct active_experiment *l);
void active_experiment_changed(struct core *c, struct active_experiment *l);

// load.c: reads the active part of an ended experiment, with its trials, from the store, which must
// hold its end (ended_in). `config` (taken) replaces the stored configuration; NULL: none.
int active_experiment_restore(struct core *c, struct experiment *x, json_t *config,
                              struct error *e);

// The same until the end of this turn. ERR_UNAVAILABLE: its last rows are not committed yet.
int active_experiment_restore_briefly(struct core *c, struct experiment *x, struct error *e);

// trials.c
struct trial *trial_new(struct active_experiment *l, int64_t id, const char *request_id,
                        const char *task_id);
void trial_set_continued(struct trial *t, int64_t times); // and the id of its task
// Makes a trial with the next id, and the id of its task.
struct trial *trial_add(struct core *c, struct active_experiment *l, const char *request_id);
void trial_free(struct core *c, struct trial *t);
// Makes the trial that the searcher commands.
void trial_create(struct core *c, struct active_experiment *l,
                  const struct search_command *command);
// Runs an ended trial again, from its newest checkpoint. `hparams` NULL: its own.
void trial_reopen(struct core *c, struct trial *t, json_t *hparams);
// The checkpoint from which its next run starts, without that of the experiment; "": none.
void trial_resume_point(const struct trial *t, char uuid[UUID_TEXT], int64_t *steps);
void trial_event(struct core *c, struct trial *t, enum trial_event ev);
// The trial that the searcher knows by this id; NULL: none.
struct trial *trial_of_request(struct active_experiment *l, const char *request_id);
void trial_kill(struct core *c, struct trial *t); // managed or not (trial_calls.c)
void trial_set_reason(struct core *c, struct trial *t, const char *reason);

// allocations.c
struct allocation *allocation_new(struct trial *t, int64_t epoch);
void allocation_free(struct allocation *a);
void allocation_request(struct core *c, struct trial *t);      // requests the trial's slots
void allocation_enqueue(struct core *c, struct allocation *a); // makes it a gang of the scheduler
void allocation_resize(struct core *c, struct allocation *a);  // its experiment has a new range
void allocation_event(struct core *c, struct allocation *a, enum allocation_event ev);
void allocation_kill(struct core *c, struct allocation *a, enum outcome outcome,
                     const char *reason);
// The allocation exits by itself, else it is killed soon.
void allocation_expect_exit(struct core *c, struct allocation *a);
// A rank has failed on one machine; `last_output`: its last lines. Called before part_exited().
struct rank_failure {
    enum outcome outcome; // FAILED, PEER
    const char *reason, *last_output;
    bool lost_peer; // the rank failed because it lost a peer
};
void allocation_report_failure(struct core *c, struct allocation *a, const struct rank_failure *f);
struct part *allocation_part(struct allocation *a, const struct agent *g); // NULL: none there
// The processes of the part are gone; OUTCOME_NONE: all exited with 0. May free the allocation.
void part_exited(struct core *c, struct part *p, enum outcome outcome, const char *reason);
const char *outcome_word(enum outcome outcome); // word of the store; "" for NONE

// preemption.c: the scheduler orders the allocation to leave. Records the reason in the store and
// in the trial's log.
void preemption_order(struct core *c, struct allocation *a, const struct sched_command *command);
// Restores the reason from its word in the store; `favoured`: the trial that gets the slots, or 0.
void preemption_load(struct core *c, struct allocation *a, const char *cause, int64_t favoured);

// The time that a program which polls has to save its work and leave; 0: none.
int64_t preemption_timeout(const struct active_experiment *l);
void preemption_note_poll(struct core *c, struct allocation *a);
// Ends a program that has to leave but cannot be asked, because it has never polled. False: it is
// not ended; it polls, or it is about to end by itself.
bool preemption_end_unasked(struct core *c, struct allocation *a);

// usage.c
void usage_add(struct core *c, const struct allocation *a); // at its end: stores what it has used
// The slot-seconds of running allocations, which are not stored yet.
double usage_of_active(const struct core *c, const struct active_experiment *l);
// At a start of the master: adds the usage of a running allocation that was not stored.
void usage_load(struct core *c, const struct allocation *a);
// Tells the scheduler when the allocation is likely to end.
void usage_predict_end(struct core *c, const struct allocation *a);

// launch.c
char *launch_placement(const struct allocation *a); // JSON for the store
// Makes the allocation's token, and one of its owner for its programs, if they are not known.
void launch_make_tokens(struct core *c, struct allocation *a);
// The description of the task for its agent, in the arena of the request.
struct task_snapshot launch_describe(struct core *c, struct request *rq, const struct part *p);
// The addresses of all machines of the allocation in the order of their ranks, in the arena of the
// request.
const struct rendezvous_snapshot *launch_rendezvous(struct request *rq, const struct part *p);
const char *launch_container(const struct part *p, char out[UUID_TEXT]);

// allocation_calls.c
// Checks the parked requests that wait for a drain or for their peers, and answers those that can
// be.
void allocation_wake_waiters(struct core *c, struct allocation *a);
// Refuses all parked requests of the allocation.
void allocation_refuse_waiters(struct core *c, struct allocation *a);
void allocation_free_gathers(struct allocation *a);

// agents.c
struct agent *agent_new(struct core *c, const char *id);
void agent_free(struct agent *g);
void agent_forget(struct agent *g); // a lost agent: as if it had never come
void agent_event(struct core *c, struct agent *g, enum agent_event ev);
void agent_changed(struct core *c, struct agent *g); // its desired tasks have changed
void agent_refresh(struct core *c, struct agent *g); // tells the scheduler which slots may be used
int agent_set_slots(struct agent *g, json_t *slots, struct error *e); // takes a reference
void agent_disable_slots(struct agent *g, const json_t *list);        // `list` as in the store
char *agent_disabled_slots(const struct agent *g);                    // for the store
const char *part_nearness(const struct part *p); // "nvlink", "numa", "apart"; NULL: not known
bool agent_allows(const struct agent *g,
                  const struct part *p); // an operator's settings and faults allow it to go on

// slot_faults.c
const char *agent_slot_fault(const struct agent *g, int slot); // why it is unusable, or NULL
bool agent_slot_usable(const struct agent *g, int slot);       // not faulty, not disabled
bool agent_fault_is_overruled(const struct agent *g, int slot);
void agent_overrule_fault(struct agent *g, int slot); // its present fault
void agent_prune_overruled(struct agent *g);          // after its slots have changed
void agent_load_overruled(struct agent *g);           // after its slots were loaded
void agent_store(struct core *c, const struct agent *g);
struct part *agent_part_on_slot(const struct agent *g, int slot); // NULL: the slot is free
void agent_apply_faults(struct core *c, struct agent *g,
                        const json_t *before); // before: its slots before
void agent_record_utilization(struct core *c, struct agent *g, const json_t *use,
                              struct arena *arena);

#endif
