// What a route's handler sees on a thread that may read the store: the request, a reader of the
// committed store, and a writer for the answer. Filled by the http layer, valid during the call.
#ifndef MUSTER_MASTER_HTTP_VIEW_H
#define MUSTER_MASTER_HTTP_VIEW_H

#include "db/db.h"
#include "master/common/request.h"
#include "master/http/limits/seats.h"
#include "master/http/page.h"
#include "master/http/query.h"
#include "master/teams/authz.h"

// The services behind every handler; they live as long as the server, and any thread may use them.
struct service {
    struct db *db;
    struct core *core;
    struct follow *follow;
    struct hub *hub;
    struct throttle *logins;
    struct series_cache *series;         // charts that were answered
    struct master_log *master_log;       // NULL: none
    const struct free_space *free_space; // NULL: there is room
    const struct storage *storage;       // of checkpoints
    struct delivery *delivery;           // of webhooks; NULL: none is sent
    atomic_bool testing;                 // a webhook is being tried
    const char *cluster_id, *cluster_name, *master_id;
    const char *config;  // JSON: what the master was started with
    const char *openapi; // JSON: the route table
    struct page page;
    bool tls;                       // calls come by https
    struct seats downloads;         // of checkpoints, under way
    struct seats backups;           // being sent; one
    atomic_int simulations;         // under way
    struct offload *searcher;       // the worker of searches in logs
    struct pattern_cache *patterns; // .. its own
    atomic_int searches;            // open
    atomic_int log_chunks;          // unpacked, in streams that are between two parts
    int64_t search_us;              // of a processor, that each may use
};

enum { VIEW_HEADERS_MAX = 8 };

struct view {
    struct request *rq;
    struct service *service;
    struct db_reader *db; // this thread's
    const struct query *query;
    const char *address;  // of the caller, "192.0.2.1"
    const char *token;    // SHA-256 of the caller's token, hex; "" without one
    struct json_writer w; // on rq->answer
    struct authorized_object *
        *authorized; // view_authorize() adds what it checks; NULL: nobody checks again

    const char *content_type; // NULL: application/json
    const char *cache;        // Cache-Control; NULL: no-store
    const char *text;         // an answer that outlives the request, instead of rq->answer
    size_t text_len;          // of it; 0: up to its NUL
    struct {
        const char *name, *value;
    } headers[VIEW_HEADERS_MAX]; // further ones, of a good answer
    int header_count;
};

void view_add_header(struct view *v, const char *name, const char *value); // both outlive it

// authz_check() of what the query or the body names. A stream's view checks each thing by this, and
// the http layer repeats the check for as long as the stream is open.
int view_authorize(struct view *v, enum authz_object what, const char *id, struct error *e);

// Runs on an http thread (reads, renders) or on a worker. 0: the answer stands in rq->answer;
// negative: *e is the answer.
typedef int view_handler(struct view *v, struct error *e);

#endif
