// Backend `net`: the ranks of several machines. Internal to comm/. net_join.c connects the
// machines, net_wire.c moves bytes between them, net_work.c does one operation, and net.c is the
// queue of operations and the backend itself.
//
// The ranks of a machine share memory by an shm of their own; the first of them is the machine's
// leader, which has two connections with every other leader: data, and control, which is always
// read and nearly always silent. What a rank starts is done in its order by its communication
// thread, or by the compute thread once it waits. Whoever does it is the driver: it alone uses the
// connections and the shm.
#ifndef MUSTER_TRAINER_COMM_NET_H
#define MUSTER_TRAINER_COMM_NET_H

#include <poll.h>
#include <pthread.h>
#include <sys/uio.h>

#include "trainer/comm/shm.h"

enum { NET_NOTE = 256, NET_SCRATCH = 512 * 1024, NET_SILENCE_S = 10 };

enum net_note_kind { NET_BYE = 1, NET_FAILED };

// What goes over a control connection.
struct net_note {
    uint8_t kind;
    char text[NET_NOTE - 1]; // of NET_FAILED: the sentence for a person
};

// Comes before the data of every operation, so that ranks that have lost step are found.
struct net_head {
    uint32_t number; // of the operation
    uint8_t kind, type, op, unused;
    uint64_t count;
};

struct net_machine {
    int first, count; // its ranks
    char *host;
    int data, control; // sockets; -1: this machine's own
    bool left;         // it said goodbye
    struct net_note note;
    size_t note_bytes; // of it that have come
    struct net_head head;
    struct iovec *out, *in; // [queue_max] what is to be sent and received
    int out_count, out_at, in_count, in_at, queue_max;
    int64_t moved; // when anything last went to or came from it
};

struct net_task {
    struct comm_work work;
    bool broadcast; // of work.count bytes at work.data
    int root;
};

struct net {
    struct comm base;
    struct shm *inner; // the ranks of this machine
    struct net_machine *machines;
    int machine_count, here; // which of them is this one
    bool leader;
    int64_t timeout_us;
    char *scratch;        // NET_SCRATCH bytes
    char **from;          // [machine_count] buffers of a fold
    struct pollfd *polls; // [2 * machine_count + 1] data, control; the last is `wake`
    int wake;             // eventfd: the driver shall look at `failed`
    int spins;            // of the shm when the compute thread is the driver
    uint32_t number;      // of the operation in progress
    atomic_bool failed;

    pthread_t thread;
    pthread_mutex_t lock;                    // of what follows
    pthread_cond_t posted_more, done;        // for the communication thread; for the compute thread
    struct net_task tasks[COMM_PENDING_MAX]; // operation n at n % COMM_PENDING_MAX
    uint32_t posted, finished;               // operations
    bool driven, closing;
    struct error error; // the first; code 0: none
};

// Meets the machines. After an error net_leave() frees what was made.
int net_join(struct net *n, const struct comm_config *config, const json_t *everybody,
             struct error *e);
void net_leave(struct net *n);

// For the driver. Queued memory is borrowed until an exchange has moved it.
void net_send(struct net_machine *m, const void *data, size_t bytes);
void net_receive(struct net_machine *m, void *data, size_t bytes);
// Returns when everything has come that is to be received, and been sent if `sent`.
int net_exchange(struct net *n, bool sent, struct error *e);
// Looks, without waiting, whether a machine or a rank of this one is lost.
int net_look(struct net *n, struct error *e);
void net_notify(struct net *n, enum net_note_kind kind, const char *text);

int net_do(struct net *n, const struct net_task *task, struct error *e);

#endif
