// The way of one request through the server; private to server.c and exchange.c.
//
//   begin -> headers: route, token, limits -> body -> dispatch -> (parked) -> finish -> end
//
// An exchange belongs to its connection's http thread. While it is parked, it belongs to the worker
// or the core until request.complete(), or to the pump until the next part of the stream is ready.
// Threads reuse their exchanges.
#ifndef MUSTER_MASTER_HTTP_EXCHANGE_H
#define MUSTER_MASTER_HTTP_EXCHANGE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "master/http/limits/answers.h"
#include "master/http/limits/bodies.h"
#include "master/http/limits/connections.h"
#include "master/http/memory.h"
#include "master/http/offload.h"
#include "master/http/parking.h"
#include "master/http/pump.h"
#include "master/http/routing/routes.h"
#include "master/http/timing.h"
#include "master/http/view.h"

enum {
    DRAIN_MAX = 16 << 20,          // bytes of a refused body that are read before its answer
    PARSE_INLINE_MAX = 256 * 1024, // longer bodies are parsed by a worker
    ADDRESS_TEXT = 64,
};

enum { HTTP_THREADS = 2 };

// An http thread has its own libmicrohttpd and accepts from the common listener. While the thread
// runs, only it uses the fields, except the bell, which others ring.
struct http_thread {
    struct server *server;
    struct MHD_Daemon *daemon;
    struct db_reader *db;
    struct exchange *spare;
    int spares;
    struct connection *arriving; // while libmicrohttpd takes it over
    int bell;                    // eventfd: a connection was resumed, or the server stops
    pthread_t thread;
    bool running;
};

struct server {
    struct service service;
    struct routes *routes;
    struct connections *connections;
    struct parking *parking;
    struct offload *offload;
    struct pump *pump, *readers; // for streams; for reads that would occupy the http threads
    struct seats streams;
    atomic_bool draining;
    atomic_int refusals; // in this minute
    atomic_int_least64_t refusal_minute;
    struct bodies bodies;
    struct answer_account answers;
    struct memory memory;
    int64_t slow_us; // requests that take so long are logged; 0: none is

    struct http_thread threads[HTTP_THREADS];
    atomic_bool stopping;
    int listener;
    char *url, *openapi;
    char master_id[37];
    struct serving *serving; // serves the certificate; NULL: http
};

struct authorized_object { // an object that the caller of a stream could see when the stream was
                           // opened
    enum authz_object what;
    const char *id;
    struct authorized_object *next;
};

enum exchange_stage { STAGE_HEADERS, STAGE_BODY, STAGE_PARKED, STAGE_ANSWERED };

struct exchange {
    struct request rq;
    struct parked parked;
    struct offload_job job;
    struct server *server;
    struct http_thread *thread;
    struct connection *connection;
    const struct route *route;
    enum exchange_stage stage;

    struct query query;
    char *path;
    const char *allow;
    char address[ADDRESS_TEXT];

    struct buf body;
    size_t body_limit, drained, held;
    json_t *json;
    struct account *account; // counts `held`
    bool busy;               // refused for now, because others hold too much
    bool parsed;             // the body was read, and is in rq

    struct timing timing;
    struct view view;
    struct error failed; // code 0: no failure so far
    struct stream *stream;
    struct pumped pumped; // of the stream, or of a heavy read
    struct answer_hold answer_hold;
    bool deferred; // passed to the readers
    size_t sent;   // bytes of the stream's part in rq.answer
    bool stream_over, stream_broken, seated;
    int64_t recheck; // when its caller is checked again
    struct authorized_object *authorized;
    bool gone; // the peer closed while the stream was parked

    struct exchange *spare;
};

struct exchange *exchange_new(struct http_thread *t);
void exchange_free(struct exchange *x);

// Callbacks of libmicrohttpd, on the thread of the connection.
void exchange_begin(struct exchange *x, struct MHD_Connection *connection, const char *uri);
enum MHD_Result exchange_step(struct exchange *x, const char *method, const char *data,
                              size_t *data_len);
void exchange_end(struct exchange *x); // kept for reuse, or freed

#endif
