// The types of the route table (master/routes.c), which lists every call: its callers, the thread
// that serves it, its limits and its description. 404 and 405 answers, Allow and the OpenAPI
// document are generated from it. Read-only after routes_new(); any thread.
#ifndef MUSTER_MASTER_HTTP_ROUTING_ROUTES_H
#define MUSTER_MASTER_HTTP_ROUTING_ROUTES_H

#include "master/http/stream.h"
#include "master/kernel/core.h"

enum { // the permitted callers; bits
    AUTH_NONE = 0,
    AUTH_USER = 1,
    AUTH_ADMIN = 2, // a user who is an administrator
    AUTH_AGENT = 4,
    AUTH_TASK = 8,
    AUTH_SCRAPER = 16, // a monitoring system (auth/scrape.h), beside the others
};

enum route_kind {
    ROUTE_READ,   // `view` on the http thread
    ROUTE_WORKER, // `view` on a worker: it is slow, or waits for a commit
    ROUTE_CORE,   // `core` on the core thread, then `view` (if any) on the http thread
    ROUTE_STREAM, // `stream` on the http thread
};

enum route_body { // the permitted length of a body (bodies.h)
    BODY_NONE,
    BODY_LOGIN, // LIMIT_BODY_LOGIN; also for every call without a token
    BODY_CALL,
    BODY_REPORT, // LIMIT_BODY_SMALL
    BODY_FILES,  // LIMIT_BODY
    BODY_KINDS
};

// Reads a body, which it may modify, on an http thread or a worker; text[len] is 0. The body stays
// in memory until the answer has been sent, and counts against the server's limit.
typedef int body_reader(struct request *rq, char *text, size_t len, struct error *e);

// How much a call lets the store grow. Calls that grow it are refused while the disk is nearly full
// (free_space.h).
enum route_growth { GROWS_LITTLE, GROWS_BY_SUBMISSION, GROWS_BY_REPORTS };

struct route {
    const char *method, *path; // "/api/v1/trials/{trialId}"; {..} parts become params
    unsigned auth;
    enum route_kind kind;
    enum route_body body;
    enum route_growth growth;
    view_handler *view;
    core_handler *core;
    body_reader *read; // replaces the JSON parser; writes rq->input
    stream_handler *stream;
    const char *query; // its parameters, separated by blanks: "name" or "name:type"; NULL: none
    // The content of the body and of the answer: fields, or a type (schemas.h). For a stream: of
    // each line.
    const char *takes, *answers; // NULL: nothing, an empty object
    const char *content;         // the type of an answer that is not application/json
    bool ours;                   // not a call of Determined's API
    const char *summary;
    const char
        *instead; // for a call of Determined's API without a meaning here: what to do instead
};

extern const struct route route_table[];
extern const size_t route_count;

struct routes; // opaque: the table as a tree of path parts

struct routes *routes_new(const struct route *table, size_t count);
void routes_free(struct routes *r);

struct route_match {
    const struct route *route; // NULL: no such path, or not with this method
    const char *params[REQUEST_PARAMS_MAX];
    const char *allow; // the methods of the path ("GET, POST"), in the arena; NULL: no such path
};

// Matches a raw path (still percent-encoded; it is modified). HEAD matches GET. Literal parts take
// precedence over {..}. ERR_NOT_FOUND, ERR_METHOD or ERR_INVALID (a broken escape).
int routes_match(const struct routes *r, struct arena *arena, const char *method, char *path,
                 struct route_match *out, struct error *e);

char *routes_openapi(const struct route *table, size_t count); // the document on the heap

#endif
