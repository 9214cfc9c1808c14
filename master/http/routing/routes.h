// The route table: every call the master answers, with who may make it, where it runs, how much it
// may send and what it is for. 404 and 405 answers, Allow and the OpenAPI document come from it.
// Read-only after routes_new(); any thread.
#ifndef MUSTER_MASTER_HTTP_ROUTING_ROUTES_H
#define MUSTER_MASTER_HTTP_ROUTING_ROUTES_H

#include "master/http/stream.h"
#include "master/kernel/core.h"

enum { // who may call; bits
    AUTH_NONE = 0,
    AUTH_USER = 1,
    AUTH_ADMIN = 2, // a user who is an administrator
    AUTH_AGENT = 4,
    AUTH_TASK = 8,
};

enum route_kind {
    ROUTE_READ,   // `view` on the http thread
    ROUTE_WORKER, // `view` on a worker: slow, or waits for a commit
    ROUTE_CORE,   // `core` on the core thread, then `view` (if any) on the http thread
    ROUTE_STREAM, // `stream` on the http thread
};

enum route_body { // how long a body may be (bodies.h)
    BODY_NONE,
    BODY_LOGIN, // LIMIT_BODY_LOGIN; also of every call that needs no token
    BODY_CALL,
    BODY_REPORT, // LIMIT_BODY_SMALL
    BODY_FILES,  // LIMIT_BODY
    BODY_KINDS
};

// Reads a body, which it may change, on an http thread or a worker; text[len] is 0. A body that is
// read so stays until the answer has left, and counts against what the server takes in at once.
typedef int body_reader(struct request *rq, char *text, size_t len, struct error *e);

// Growth of the store by a call. Calls that grow it are refused while the disk is nearly full
// (room.h).
enum route_growth { GROWS_LITTLE, GROWS_BY_SUBMISSION, GROWS_BY_REPORTS };

struct route {
    const char *method, *path; // "/api/v1/trials/{trialId}"; {..} parts become params
    unsigned auth;
    enum route_kind kind;
    enum route_body body;
    enum route_growth growth;
    view_handler *view;
    core_handler *core;
    body_reader *read; // instead of parsing the body; into rq->input
    stream_handler *stream;
    const char *query; // its parameters, blank-separated: "name" or "name:type"; NULL: none
    // What the body and the answer hold: fields, or a type (schemas.h). Of a stream: of each line.
    const char *takes, *answers; // NULL: nothing, an empty object
    const char *content;         // of an answer that is not application/json
    bool ours;                   // not a call of Determined's API
    const char *summary;
    const char *instead; // what to do instead of a call of Determined's that has no meaning here
};

extern const struct route route_table[];
extern const size_t route_count;

struct routes; // opaque: the table as a tree of path parts

struct routes *routes_new(const struct route *table, size_t count);
void routes_free(struct routes *r);

struct route_match {
    const struct route *route; // NULL: no such path, or not with this method
    const char *params[REQUEST_PARAMS_MAX];
    const char *allow; // the path's methods ("GET, POST"), in the arena; NULL: no such path
};

// Matches a raw path (still %-encoded; cut up in place). HEAD matches GET. Parts of a path as they
// are written win over {..}. ERR_NOT_FOUND, ERR_METHOD or ERR_INVALID (a broken escape) say so.
int routes_match(const struct routes *r, struct arena *arena, const char *method, char *path,
                 struct route_match *out, struct error *e);

char *routes_openapi(const struct route *table, size_t count); // the document, heap string

#endif
