// The steps that the commands of `muster cluster` are made of; each may run again after an
// interruption at any place, and then does only what is left. Threads of the cluster call them.
#ifndef MUSTER_CLI_CLUSTER_STEPS_H
#define MUSTER_CLI_CLUSTER_STEPS_H

#include "cli/cluster/cluster.h"

cluster_step step_connect;   // opens the SSH connection
cluster_step step_check;     // looks at the machine
cluster_step step_listen;    // listens for the next step
cluster_step step_network;   // compares the clock, and tries the ports of the other machines
cluster_step step_copy;      // copies the release, unless the machine has it
cluster_step step_unpack;    // makes the release ready beside the present one
cluster_step step_install;   // makes it the present one; a first installation only
cluster_step step_configure; // writes the settings
cluster_step step_master;    // starts the master, waits for it, and signs in
cluster_step step_enrol;     // gives the agent its credential
cluster_step step_agent;     // starts the agent
cluster_step step_ready;     // waits until the master knows the agent and its slots

// machine.c: about one machine, without a judgement.
int machine_check(struct cluster_work *x, struct cluster_machine *m, struct error *e);
int machine_listen(struct cluster_work *x, struct cluster_machine *m, struct error *e);
int machine_network(struct cluster_work *x, struct cluster_machine *m, struct error *e);
// Ends the processes that machine_listen() has started.
int machine_quiet(struct cluster_machine *m, struct error *e);
// The same on all machines, after the threads have ended.
void machines_quiet(struct cluster_work *x);
int machine_state(struct cluster_work *x, struct cluster_machine *m, struct error *e);
// The newest lines of a daemon's log; heap.
int machine_log(struct cluster_work *x, struct cluster_machine *m, const char *daemon, char **text,
                struct error *e);
// Starts a daemon, or restarts it if its release or settings have changed.
int machine_start(struct cluster_work *x, struct cluster_machine *m, const char *daemon,
                  bool *changed, struct error *e);
// Waits until the master answers; ends early, with the end of its log, if it does not run.
int machine_await_master(struct cluster_work *x, struct cluster_machine *m, struct error *e);
// Waits until the master hears from the agent, with its slots. An agent that this command has
// restarted must report from then on: before, the master knows the state of the former process.
int machine_await_agent(struct cluster_work *x, struct cluster_machine *m, struct error *e);

#endif
