// A request on its way through the master: http thread -> (worker | core thread) -> http thread.
//
// Exactly one thread owns a request at a time; a message passes it on. The http layer allocates and
// frees it. A handler on the core thread does not write JSON: it leaves an id, fields or a struct,
// and the view of the route renders the answer on an http thread.
#ifndef MUSTER_MASTER_COMMON_REQUEST_H
#define MUSTER_MASTER_COMMON_REQUEST_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/text/json.h"

enum principal_kind { PRINCIPAL_NONE, PRINCIPAL_USER, PRINCIPAL_AGENT, PRINCIPAL_TASK };

struct principal { // the caller, proved by its token before a handler sees the request
    enum principal_kind kind;
    int64_t user_id; // of a user; of a task: the owner of the experiment
    bool admin;
    bool session; // authenticated by the cookie of the web page
    char username[256];
    char allocation_id[128]; // of a task; of a user: the call comes from this task of the user
    int64_t experiment_id;   // of that task
    char agent_id[256];      // of an agent with a credential of its own; "": of any agent
    char token[65];          // SHA-256 of the token, hex
};

enum { REQUEST_PARAMS_MAX = 4 };

struct request {
    struct arena arena;
    const char *method, *path;
    const char *params[REQUEST_PARAMS_MAX]; // the {..} parts of the route's path, in order, decoded
    const json_t *body;                     // parsed; NULL: there is none
    const char
        *texts; // contents of the files in `body` (json_parse_upload()); NULL: within the body
    size_t texts_len;
    void *input; // of a route that parses its body itself: the result
    void (*input_free)(void *input);
    struct principal principal;
    const char *address; // of the caller, "192.0.2.1"; NULL: unknown
    bool audited;        // its row of the audit trail exists

    // The answer. Status 0 stands for 200; `answer` holds JSON, and "{}" if it is empty.
    int status;
    int retry_after; // seconds, for a 429; 0: 1
    struct buf answer;
    int64_t id;           // of the object that a core handler created or changed, for the view
    const char *warning;  // of a submission: a sentence in the arena; NULL: none
    const char *notes[4]; // more sentences, which Determined's clients do not get; NULL: none
    const void *result;   // plain structs in the arena, for the view; NULL: none
    struct json_copy *json_copies; // that `result` refers to; request_release() frees them

    // Microseconds that its handlers worked, and that it was parked for an event to happen.
    int64_t worked_us, parked_us;

    // Set by the http layer:
    const char *(*query)(struct request *rq,
                         const char *name); // NULL: absent; both snake_case and camelCase
    const char *(*header)(struct request *rq, const char *name); // NULL: absent
    void (*complete)(
        struct request *rq); // the answer is ready; any thread, once; gives the request up
    atomic_bool client_gone; // the peer of a parked request closed its connection
    void *http;

    // Deadline and list links while the request is parked; owned by the core.
    int64_t park_deadline; // monotonic microseconds
    struct request *park_next, *park_prev;
    void *park_owner;
};

// A result with a few fields, which render_fields() writes as a JSON object. Texts are copied.
struct answer_field {
    const char *key; // NULL ends the list
    enum { FIELD_INT, FIELD_DOUBLE, FIELD_BOOL, FIELD_STRING, FIELD_RAW, FIELD_JSON } type;
    union {
        int64_t integer;
        double real;
        bool boolean;
        const char *text;   // FIELD_STRING: NULL is null; FIELD_RAW: JSON
        const json_t *json; // copied, too
    };
};
#define ANSWER_INT(k, v)    ((struct answer_field){.key = k, .type = FIELD_INT, .integer = v})
#define ANSWER_DOUBLE(k, v) ((struct answer_field){.key = k, .type = FIELD_DOUBLE, .real = v})
#define ANSWER_BOOL(k, v)   ((struct answer_field){.key = k, .type = FIELD_BOOL, .boolean = v})
#define ANSWER_STRING(k, v) ((struct answer_field){.key = k, .type = FIELD_STRING, .text = v})
#define ANSWER_RAW(k, v)    ((struct answer_field){.key = k, .type = FIELD_RAW, .text = v})
#define ANSWER_JSON(k, v)   ((struct answer_field){.key = k, .type = FIELD_JSON, .json = v})

// request_answer(rq, ANSWER_INT("trialId", 7), ANSWER_STRING("state", "RUNNING")) sets the result.
#define request_answer(rq, ...)                                                                    \
    request_answer_fields(rq, (const struct answer_field[]){__VA_ARGS__, {.key = NULL}})
void request_answer_fields(struct request *rq, const struct answer_field *fields);

// Copies a JSON value for the result; NULL gives NULL. request_release() frees the copies; the
// owner of the request calls it before it frees the arena.
const json_t *request_copy_json(struct request *rq, const json_t *value);
void request_release(struct request *rq);

// ERR_TOO_LARGE: the result under construction is already larger than any answer may be.
int request_check_result(const struct request *rq, struct error *e);

enum { REQUEST_PARKED = 1 }; // a core handler kept the request and will complete it later

// Reads a 64-bit integer: decimal digits with an optional minus. False: it is not a number or does
// not fit. Values are never rounded.
bool request_number(const char *text, int64_t *out);

// Reads a path parameter or query value as an integer; ERR_INVALID names it.
int request_param_int(struct request *rq, int index, int64_t *out, struct error *e);
int request_query_int(struct request *rq, const char *name, int64_t fallback, int64_t *out,
                      struct error *e);
// Reads the query parameter orderBy: whether the list goes down. ERR_INVALID: it is no order.
int request_query_order(struct request *rq, bool *down, struct error *e);
// Writes "warnings" as in Determined's API, and our "warningTexts".
void request_write_warning(const struct request *rq, struct json_writer *w);
void request_fail(struct request *rq, const struct error *e); // sets status and error body

#endif
