// The lives of experiments, trials, allocations and agents: one function an object tells it an
// event, which moves its machine (machines.h) and does what follows. Core thread alone.
#ifndef MUSTER_MASTER_LIFECYCLE_LIFECYCLE_H
#define MUSTER_MASTER_LIFECYCLE_LIFECYCLE_H

#include "master/kernel/state.h"
#include "master/lifecycle/machines_run.h"

// experiments.c
int experiment_event(struct core *c, struct experiment *x, enum experiment_event ev,
                     struct error *e); // ERR_CONFLICT: refused
void experiment_settle(struct core *c,
                       struct active_experiment *l); // ends it when no trial is left
void experiment_tell(struct core *c, struct active_experiment *l, const struct search_event *event);
struct active_experiment *active_experiment_new(struct core *c, struct experiment *x,
                                                json_t *config); // takes config
void active_experiment_free(struct core *c, struct active_experiment *l);
bool active_experiment_runs_once(
    const struct active_experiment *l); // never asked to leave, never started again
void active_experiment_write_name(const struct active_experiment *l,
                                  struct buf *out); // "experiment 7", "command 1f0c.."
void active_experiment_schedule(struct core *c,
                                struct active_experiment *l); // makes it a job of the scheduler
void active_experiment_changed(struct core *c,
                               struct active_experiment *l); // its place in the queue, its limits

// load.c: the live part of one that has ended, with its trials, from the store, which must have its
// end (ended_in). `config`, taken, instead of the stored one; NULL: of an unmanaged experiment, and
// refused of any other.
int active_experiment_restore(struct core *c, struct experiment *x, json_t *config,
                              struct error *e);

// trials.c
struct trial *trial_new(struct active_experiment *l, int64_t id, const char *request_id);
void trial_free(struct core *c, struct trial *t);
void trial_create(struct core *c, struct active_experiment *l,
                  const struct search_command *command);
void trial_event(struct core *c, struct trial *t, enum trial_event ev);
struct trial *trial_of_request(struct active_experiment *l, const char *request_id);
void trial_kill(struct core *c, struct trial *t); // managed or not (tasks.c)
void trial_set_reason(struct core *c, struct trial *t, const char *reason);

// allocations.c
struct allocation *allocation_new(struct trial *t, int64_t epoch);
void allocation_free(struct allocation *a);
void allocation_request(struct core *c, struct trial *t);      // asks for the trial's slots
void allocation_enqueue(struct core *c, struct allocation *a); // makes it a gang of the scheduler
void allocation_event(struct core *c, struct allocation *a, enum allocation_event ev);
void allocation_kill(struct core *c, struct allocation *a, enum outcome outcome,
                     const char *reason);
void allocation_leaves(struct core *c, struct allocation *a); // by itself, else it is killed soon
// A rank has failed on one machine; `words`: its last lines. Before part_exited().
struct failure {
    enum outcome outcome; // FAILED, PEER
    const char *reason, *words;
    bool lost_peer; // the rank failed because it lost a peer
};
void allocation_hear(struct core *c, struct allocation *a, const struct failure *f);
struct part *allocation_part(struct allocation *a, const struct agent *g); // NULL: none there
// Its processes on one machine are gone. NONE: all exited with 0. May free the allocation.
void part_exited(struct core *c, struct part *p, enum outcome outcome, const char *reason);
const char *outcome_word(enum outcome outcome); // of the store; "" of NONE

// leave.c
// The scheduler wants the allocation to leave: why, for the store, the trial's log and people.
void leave_order(struct core *c, struct allocation *a, const struct sched_command *command);
void leave_load(struct core *c, struct allocation *a, const char *cause, int64_t favoured);

// usage.c
void usage_add(struct core *c, const struct allocation *a); // it ends: what it has used is stored
// What live allocations have used is no row yet: for the time before this start of the master.
double usage_of_live(const struct core *c, const struct active_experiment *l); // slot-seconds
void usage_load(struct core *c, const struct allocation *a);
// When it is likely to end, told to the scheduler.
void usage_expect(struct core *c, const struct allocation *a);

// launch.c
char *launch_placement(const struct allocation *a);             // JSON of the store
const char *launch_token(struct core *c, struct allocation *a); // makes one where none is known
void launch_write(struct core *c, struct json_writer *w, const struct part *p);
const char *launch_container(const struct part *p, char out[UUID_TEXT]);

// signals.c
void signals_wake(struct core *c, struct allocation *a); // drain and rendezvous waiters look again
void signals_end(struct core *c, struct allocation *a);  // all of its parked requests are refused
void signals_free(struct allocation *a);

// agents.c
struct agent *agent_new(struct core *c, const char *id);
void agent_free(struct agent *g);
void agent_forget(struct agent *g); // one that is lost: as if it had never come
void agent_event(struct core *c, struct agent *g, enum agent_event ev);
void agent_changed(struct core *c, struct agent *g); // what should run there has changed
void agent_refresh(struct core *c, struct agent *g); // the scheduler learns what may be used
int agent_set_slots(struct agent *g, json_t *slots, struct error *e); // takes a reference
void agent_disable_slots(struct agent *g, const json_t *list);        // as the store has it
char *agent_disabled_slots(const struct agent *g);                    // for the store
const char *part_nearness(const struct part *p); // "nvlink", "numa", "apart"; NULL: says nothing
bool agent_keeps(const struct agent *g, const struct part *p); // what an operator has set lets it

// faults.c
const char *agent_slot_fault(const struct agent *g, int slot); // why it is out of use; NULL: is not
bool agent_slot_usable(const struct agent *g, int slot);       // neither so, nor by an operator
bool agent_fault_is_overruled(const struct agent *g, int slot);
void agent_overrule(struct agent *g, int slot); // its present fault
void agent_renew_overruled(struct agent *g);    // after its slots have changed
void agent_load_overruled(struct agent *g);     // after its slots were loaded
void agent_store(struct core *c, const struct agent *g);
struct part *agent_part_on_slot(const struct agent *g, int slot);              // NULL: it is free
void agent_take_faults(struct core *c, struct agent *g, const json_t *before); // its slots before
void agent_take_use(struct core *c, struct agent *g, const json_t *use, struct arena *arena);

#endif
