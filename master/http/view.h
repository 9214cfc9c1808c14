// The input of a view, on a thread that may read the store: the request, a reader of the committed
// store, and a writer for the answer. The http layer fills it; it is valid during the call.
#ifndef MUSTER_MASTER_HTTP_VIEW_H
#define MUSTER_MASTER_HTTP_VIEW_H

#include "db/db.h"
#include "master/common/request.h"
#include "master/http/auth/scrape.h"
#include "master/http/limits/seats.h"
#include "master/http/page.h"
#include "master/http/query.h"
#include "master/teams/authz.h"

// The services behind all handlers; they live as long as the server, and any thread may use them.
struct service {
    struct db *db;
    struct core *core;
    struct log_followers *log_followers;
    struct hub *hub;
    struct throttle *logins;
    struct series_cache *series;         // of charts that were rendered
    struct master_log *master_log;       // NULL: none
    const struct free_space *free_space; // NULL: there is always space
    const struct storage *storage;       // of checkpoints
    struct delivery *delivery;           // of webhooks; NULL: webhooks are not sent
    struct meters *meters;               // NULL: nothing is counted
    struct watch *watch;                 // of the cluster's health; NULL: nobody watches
    struct connections *connections;
    struct scrape_access scrape; // who may read the metrics
    atomic_int active;           // exchanges in progress
    atomic_bool testing;         // a webhook is being tested
    const char *cluster_id, *cluster_name, *master_id;
    const char *api_version; // the release of Determined whose API this master speaks
    int64_t log_days;        // how long logs are kept where nothing else says it; -1: for ever
    const char *config;      // JSON: the configuration of the master
    const char *openapi;     // JSON: the OpenAPI document
    struct page page;
    bool tls;                       // clients use https
    struct serving *serving;        // serves the certificate; NULL: http
    const char *master_url;         // as tasks reach the master; NULL: as their agent does
    bool reachable;                 // from other machines
    struct seats downloads;         // of checkpoints, in progress
    struct seats backups;           // being sent; at most one
    struct seats media;             // contents of media items, being sent
    atomic_int simulations;         // in progress
    struct offload *searcher;       // the worker of searches in logs
    struct pattern_cache *patterns; // used by the searcher alone
    atomic_int searches;            // open
    atomic_int log_chunks;          // unpacked chunks, in streams that are between two parts
    int64_t search_us;              // processor time for one search
};

enum { VIEW_HEADERS_MAX = 8 };

struct view {
    struct request *rq;
    struct service *service;
    struct db_reader *db; // of this thread
    const struct query *query;
    const char *address;                   // of the caller, "192.0.2.1"
    const char *token;                     // SHA-256 of the caller's token, hex; "" without a token
    struct json_writer w;                  // writes to rq->answer
    struct authorized_object **authorized; // view_authorize() adds the objects that it checks;
                                           // NULL: nobody repeats the checks

    const char *content_type; // NULL: application/json
    const char *cache;        // Cache-Control; NULL: no-store
    const char *text;         // an answer that outlives the request, instead of rq->answer
    size_t text_len;          // of the text; 0: up to its NUL
    struct {
        const char *name, *value;
    } headers[VIEW_HEADERS_MAX]; // additional headers of a successful answer
    int header_count;
};

void view_add_header(struct view *v, const char *name, const char *value); // both must outlive it

// authz_check() of an object that the query or the body names. The view of a stream checks each
// object with it, and the http layer repeats the checks while the stream is open.
int view_authorize(struct view *v, enum authz_object what, const char *id, struct error *e);

// Runs on an http thread (reads, renders) or on a worker. 0: the answer is in rq->answer; negative:
// *e is the answer.
typedef int view_handler(struct view *v, struct error *e);

#endif
