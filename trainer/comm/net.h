// Backend `net`: the ranks of several machines. Internal to comm/. net_join.c connects the
// machines, net_wire.c moves bytes between them, net_work.c runs one operation, and net.c contains
// the queue of operations and the backend itself.
//
// The ranks of a machine share memory through an shm communicator of their own. The first of them
// is the machine's leader. It has two connections to every other leader: one for data, and one for
// control messages, which is always read and nearly always silent. The operations of a rank run in
// order, on its communication thread, or on the compute thread when it waits. The thread that runs
// one is the driver; only the driver uses the connections and the shm communicator.
#ifndef MUSTER_TRAINER_COMM_NET_H
#define MUSTER_TRAINER_COMM_NET_H

#include <poll.h>
#include <pthread.h>
#include <sys/uio.h>

#include "trainer/comm/net_link.h"
#include "trainer/comm/shm.h"

enum { NET_NOTE = 256, NET_SCRATCH = 512 * 1024, NET_SILENCE_S = 10 };

enum net_note_kind { NET_BYE = 1, NET_FAILED };

// A message on a control connection.
struct net_note {
    uint8_t kind;
    char text[NET_NOTE - 1]; // for NET_FAILED: the error message
};

// Precedes the data of every operation, to detect ranks that are at different operations.
struct net_head {
    uint32_t number; // of the operation
    uint8_t kind, type, op, unused;
    uint64_t count;
};

struct net_machine {
    int first, count; // its ranks: the first one and their number
    char *host;
    struct net_link data, control; // none to this machine
    bool left;                     // it has sent NET_BYE
    struct net_note note;
    size_t note_bytes; // received bytes of `note`
    struct net_head head;
    struct iovec *out, *in; // [queue_max] queued buffers to send and to receive
    int out_count, out_at, in_count, in_at, queue_max;
    int64_t moved; // time of the last transfer to or from it
};

struct net_task {
    struct comm_work work;
    bool broadcast; // work.count bytes at work.data
    int root;
};

struct net {
    struct comm base;
    struct shm *inner; // the ranks of this machine
    struct net_machine *machines;
    int machine_count, here; // `here` is the index of this machine
    bool leader;
    int64_t timeout_us;
    char *scratch;        // NET_SCRATCH bytes
    char **from;          // [machine_count] inputs of a local reduction
    struct pollfd *polls; // [2 * machine_count + 1] data, control; the last is `wake`
    int wake;             // eventfd: wakes the driver to check `failed`
    int spins;            // shm.spins while the compute thread is the driver
    uint32_t number;      // of the operation in progress
    atomic_bool failed;

    pthread_t thread;
    pthread_mutex_t lock;                    // protects the fields below
    pthread_cond_t posted_more, done;        // for the communication thread; for the compute thread
    struct net_task tasks[COMM_PENDING_MAX]; // operation n at n % COMM_PENDING_MAX
    uint32_t posted, finished;               // operations
    bool driven, closing;
    struct error error; // the first failure; code 0: none
};

// Connects the machines. After an error net_leave() frees what exists so far.
int net_join(struct net *n, const struct comm_config *config, const json_t *peers, struct error *e);
void net_leave(struct net *n);

// For the driver. Queued memory is borrowed until net_exchange() has moved it.
void net_send(struct net_machine *m, const void *data, size_t bytes);
void net_receive(struct net_machine *m, void *data, size_t bytes);
// Returns when all queued buffers have been received and, if `sent`, all have been sent.
int net_exchange(struct net *n, bool sent, struct error *e);
// Checks, without waiting, whether another machine or a rank of this machine is lost.
int net_check(struct net *n, struct error *e);
void net_notify(struct net *n, enum net_note_kind kind, const char *text);

int net_run_task(struct net *n, const struct net_task *task, struct error *e);

#endif
