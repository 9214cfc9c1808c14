// The table of all connections: limits on their number, the time limit of each phase, and the
// choice of the connection that is closed to make room for a new one.
//
// A connection is a newcomer until a request on it has authenticated its caller. Then it belongs to
// a user (a task's connection to the owner of the task) or to an agent. Each class has a share of
// the table. When a newcomer finds no place, the oldest newcomer is closed, preferably one of the
// same address. When a user finds no place, the user's own longest idle connection is closed, or
// else the longest idle one of all users. An agent's connection is never closed for another. A
// connection with a request that the server has not begun to read is closed only if there is no
// other among the oldest.
//
// shutdown() closes a connection; the http thread that owns it reads the end and removes it from
// the table, so a file descriptor stays open as long as it is in the table. One lock, never held
// across I/O; any thread. `now` is monotonic microseconds.
#ifndef MUSTER_MASTER_HTTP_LIMITS_CONNECTIONS_H
#define MUSTER_MASTER_HTTP_LIMITS_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

struct connections; // opaque
struct connection;  // opaque

enum {
    HEADERS_S = 10,         // seconds from connecting, or from the request line, to the last header
    IDLE_NEWCOMER_S = 10,   // seconds between an answer and the next request
    IDLE_S = 75,            // the same for authenticated callers
    BODY_SILENCE_S = 20,    // seconds without a byte of a body, or without progress of an answer
    BODY_GRACE_S = 30,      // seconds that a body or an answer may take,
    BODY_RATE = 8 * 1024,   // and one second more for this many bytes
    WORKING_NEWCOMERS = 16, // requests of one address that wait for a worker before authentication
    ADDRESS_SHARE = 4,      // newcomers of one address: a quarter of all newcomers
    CONNECTIONS_LEAST = 64,
};

struct connections_limits {
    int most;        // connections; at least CONNECTIONS_LEAST
    int per_address; // newcomers of one address; 0: a share
};

enum connection_phase {
    PHASE_IDLE,    // no request: new, or answered
    PHASE_HEADERS, // the request line has arrived
    PHASE_BODY,    // the headers have arrived
    PHASE_WORK,    // the request is complete and in work, or its stream waits for data
    PHASE_REPLY,   // a complete answer is being sent
    PHASE_ANSWER,  // the next part of a stream is being sent
};

struct connections *connections_new(const struct connections_limits *limits);
void connections_free(struct connections *all); // it must be empty

// Reserves a place for a new connection. NULL: none is free and none can be freed; the caller
// closes the connection.
struct connection *connections_admit(struct connections *all, const struct sockaddr *peer,
                                     int64_t now);
// From now on the table may shut down `fd`, at once if it has closed the connection meanwhile. A
// connection that fails earlier is only removed, because its descriptor number may be reused.
void connections_begin(struct connections *all, struct connection *c, int fd);
void connections_remove(struct connections *all,
                        struct connection *c); // call it before the descriptor is closed

void connections_enter(struct connections *all, struct connection *c, enum connection_phase phase,
                       int64_t now);

// Checks whether a request may wait for a worker. ERR_BUSY: too many newcomers of its address wait.
int connections_may_work(struct connections *all, const struct connection *c, struct error *e);

// Limits PHASE_ANSWER to this many seconds until the connection is in PHASE_IDLE; 0: no limit.
void connections_set_patience(struct connections *all, struct connection *c, int seconds);
void connections_received(struct connections *all, struct connection *c, size_t len, int64_t now);

// A request on the connection has authenticated its caller. ERR_BUSY: the user has too many open
// connections, and none of them is idle.
int connections_sign_in(struct connections *all, struct connection *c, bool agent, int64_t user,
                        int64_t now, struct error *e);

// Frees a file descriptor when the process has none left: closes the oldest newcomer, or else the
// user connection that has been idle longest. False: there is neither.
bool connections_make_room(struct connections *all);

// Closes the connections whose phase has lasted too long, at most once a second, and logs their
// number.
void connections_sweep(struct connections *all, int64_t now);

struct connections_count {
    int newcomers, users, agents;
    int64_t evicted, slow, refused; // since the start
};
struct connections_count connections_count(struct connections *all);

#endif
