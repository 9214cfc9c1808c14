// The table of all connections: the limits on their number, the time limit of each phase, and the
// choice of the connection that is closed when there is no room for the next.
//
// A connection is a newcomer until a request on it has proved its caller by a token. Then it
// belongs to a user (that of a task to the task's owner) or to an agent. Every class has a share of
// the table. When a newcomer finds no place, the oldest newcomer is closed, first one of the same
// address. When a user finds no place, the user's own longest idle connection is closed, else the
// longest idle one of all users. A connection of an agent is never closed for another.
//
// shutdown() closes a connection; the http thread that owns it reads the end and removes it from
// the table. So a file descriptor is open for as long as it is in the table. One lock, which is
// never held across input or output; any thread. `now` is monotonic microseconds.
#ifndef MUSTER_MASTER_HTTP_LIMITS_CONNECTIONS_H
#define MUSTER_MASTER_HTTP_LIMITS_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

struct connections; // opaque
struct connection;  // opaque

enum {
    HEADERS_S = 10,         // seconds from connecting, or from the first line, to the last header
    IDLE_NEWCOMER_S = 10,   // between an answer and the next request
    IDLE_S = 75,            // .. of those who have signed in
    BODY_SILENCE_S = 20,    // without any byte of a body, or of an answer that the peer takes
    BODY_GRACE_S = 30,      // that either may take, and
    BODY_RATE = 8 * 1024,   // one second more for so many bytes of it
    WORKING_NEWCOMERS = 16, // requests of one address that wait for a worker, before any token
    ADDRESS_SHARE = 4,      // newcomers of one address: a quarter of all newcomers
    CONNECTIONS_LEAST = 64,
};

struct connections_limits {
    int most;        // connections; at least CONNECTIONS_LEAST
    int per_address; // newcomers of one address; 0: a share
};

enum connection_phase {
    PHASE_IDLE,    // no request: new, or answered
    PHASE_HEADERS, // the first line has come
    PHASE_BODY,    // the headers have come
    PHASE_WORK,    // the request is whole and is worked on, or its stream waits for news
    PHASE_REPLY,   // the whole answer is being sent
    PHASE_ANSWER,  // the next part of a stream is being sent
};

struct connections *connections_new(const struct connections_limits *limits);
void connections_free(struct connections *all); // it is empty

// A place for a new connection. NULL: there is none and none can be made; the caller closes it.
struct connection *connections_admit(struct connections *all, const struct sockaddr *peer,
                                     int64_t now);
// From here on the table may shut down `fd`; it does so at once if it has meanwhile closed the
// connection. A connection that fails before is only removed, for its number may be another's.
void connections_begin(struct connections *all, struct connection *c, int fd);
void connections_remove(struct connections *all, struct connection *c); // before its fd is closed

void connections_enter(struct connections *all, struct connection *c, enum connection_phase phase,
                       int64_t now);

// Whether a request may wait for a worker. ERR_BUSY: as many newcomers of the same address wait.
int connections_may_work(struct connections *all, const struct connection *c, struct error *e);

// Limits PHASE_ANSWER to so many seconds, until the connection enters PHASE_IDLE; 0: no limit.
void connections_set_patience(struct connections *all, struct connection *c, int seconds);
void connections_received(struct connections *all, struct connection *c, size_t len, int64_t now);

// A request on the connection has proved its caller. ERR_BUSY: the user has too many connections
// open, none of them idle.
int connections_sign_in(struct connections *all, struct connection *c, bool agent, int64_t user,
                        int64_t now, struct error *e);

// Frees a file descriptor when the process has none left: closes the oldest newcomer, else the user
// connection that has been idle longest. False: there is neither.
bool connections_make_room(struct connections *all);

// Closes the connections whose phase has lasted too long, at most once a second, and logs how many.
void connections_sweep(struct connections *all, int64_t now);

struct connections_count {
    int newcomers, users, agents;
    int64_t evicted, slow, refused; // since the start
};
struct connections_count connections_count(struct connections *all);

#endif
