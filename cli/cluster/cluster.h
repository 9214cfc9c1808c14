// A cluster while `muster cluster` works on it: its machines, their SSH connections, and a plan of
// steps that threads carry out.
//
// The main thread starts the threads, draws the progress, and prints the result. A thread owns a
// machine while it carries out a step of it; then it may use everything in struct cluster_machine
// without a lock. `lock` guards the plan and the notes, `api_lock` the client of the REST API.
#ifndef MUSTER_CLI_CLUSTER_CLUSTER_H
#define MUSTER_CLI_CLUSTER_CLUSTER_H

#include <jansson.h>
#include <pthread.h>
#include <stdint.h>

#include "base/hash.h"
#include "cli/cli.h"
#include "cli/cluster/facts.h"
#include "cli/cluster/hosts.h"
#include "cli/cluster/plan.h"
#include "cli/cluster/ssh/ssh.h"

enum { NOTE_MAX = 120, DIGEST_SHORT = 17 };

struct cluster_machine {
    const struct host *host;
    struct ssh *ssh; // NULL: not connected
    json_t *facts;   // of check.sh
    json_t *state;   // of host.sh, action "state"
    json_t *findings;
    double clock_s;        // its clock minus that of this machine, in seconds
    double clock_unsure_s; // clock_s may be wrong by this
    long rank_port;        // on which it listens while the network is tried; 0: none
    long master_port;      // the same for the port of the master
    char listeners[64];    // processes that listen meanwhile, separated by blanks
    bool agent_restarted;  // by this command
    char note[NOTE_MAX];   // what it does now, for people (lock)
    char *fault;           // why it has failed
};

// The files of a release.
struct release {
    char digest[DIGEST_SHORT]; // of all files: the folder of the release on the machines
    char **names;              // of the copies on the machines
    char (*sha256)[SHA256_HEX];
    int64_t *bytes;
};

struct cluster_work;
// Carries out one step; *changed: the machine is not as before.
typedef int cluster_step(struct cluster_work *x, struct cluster_machine *m, bool *changed,
                         struct error *e);

struct cluster_work {
    struct cli *c;
    struct hosts_file file;
    struct release release;
    struct cluster_machine *machines; // as file.hosts
    struct work_plan plan;
    cluster_step *const *work; // for each step of the plan
    pthread_mutex_t lock, api_lock;
    pthread_cond_t moved;
    char *url;                    // of the master
    char fingerprint[SHA256_HEX]; // of the master's authority; "": not known yet
    bool signed_in_by_file;       // with the password file of the master
};

// Reads the hosts file, the first argument of the command. The caller calls cluster_close() in any
// case.
int cluster_open(struct cluster_work *x, struct cli *c, struct error *e);
void cluster_close(struct cluster_work *x);

// Reads the files of the release and their digests. ERR_IO.
int cluster_read_release(struct cluster_work *x, struct error *e);

// Carries out the plan with at most `parallel` machines at a time, and shows the progress. The
// outcome is in the plan and the machines.
void cluster_run(struct cluster_work *x, const struct plan_step *steps, cluster_step *const *work,
                 int parallel);

// Prints a row for each machine, with "failed", "unchanged" or the word `done` for a change, and
// the faults; sets the exit code 6 if a machine has failed.
int cluster_print(struct cluster_work *x, const char *columns, const char *done, struct error *e);

// Shows people what a machine does, as "copying 3.1 MB".
void machine_note(struct cluster_work *x, struct cluster_machine *m, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
