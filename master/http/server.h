// The HTTP server of the master: libmicrohttpd on two epoll threads, two workers, a table of
// routes. The main thread creates and stops it.
//
// Stopping: server_drain() refuses new requests and ends the streams; then core_stop() completes
// the parked requests; then server_stop() waits until the last answers are sent.
#ifndef MUSTER_MASTER_HTTP_SERVER_H
#define MUSTER_MASTER_HTTP_SERVER_H

#include "master/common/master_log.h"
#include "master/http/page.h"
#include "master/kernel/core.h"
#include "master/notify/hub.h"
#include "master/notify/log_followers.h"
#include "master/notify/webhook_delivery.h"

struct server; // opaque

struct server_options {
    struct db *db;
    struct core *core;
    struct log_followers *log_followers;
    struct hub *hub;                     // for events
    struct delivery *delivery;           // of webhooks; NULL: webhooks are not sent
    struct master_log *master_log;       // NULL: none
    struct meters *meters;               // lives as long as the server; NULL: nothing is counted
    struct watch *watch;                 // the same; NULL: nobody watches
    struct scrape_access scrape;         // who may read the metrics
    int64_t slow_request_us;             // slower requests are logged; 0: none is
    const struct storage *storage;       // of checkpoints; lives as long as the server
    const struct free_space *free_space; // lives as long as the server; NULL: there is always space
    const char *cluster_id, *cluster_name; // live as long as the server
    const char *api_version;               // shown to clients of Determined; lives as long
    int64_t log_days;                      // how long logs are kept, -1: for ever; 0: the same
    const char *config;                    // JSON for GET /api/v1/master/config
    struct page page;                      // the web page
    const char *bind;                      // address or name
    bool insecure;                         // http may leave this machine
    const char *master_url;                // as tasks reach the master; NULL: as their agent does
    int port;                              // 0: any free port
    const char *cert_file, *key_file;      // PEM, for https; NULL: http
    const char *own_certificate_of;        // data folder, if the files are in its tls; else NULL
    int64_t log_search_us;                 // processor time for a search in a log; 0: default
    size_t bodies_max;                     // bytes of all bodies in memory; 0: LIMIT_BODIES
    int connections;                       // at the same time; 0: LIMIT_CONNECTIONS
    int connections_per_address;           // for callers without a token; 0: a share
};

// ERR_CONFLICT: the port is in use. ERR_INVALID: a bad address or certificate, or http beyond this
// machine.
int server_start(const struct server_options *options, struct server **out, struct error *e);
const char *
server_url(const struct server *s); // "http://127.0.0.1:8080", as reached from this machine
void server_drain(struct server *s);
void server_stop(struct server *s); // and frees

#endif
