// A request on its way through the master: http thread -> (worker | core thread) -> http thread.
//
// Exactly one thread owns a request at a time; handing it on is a message. The http layer allocates
// and frees it. The core never writes rows of JSON for lists: it decides, leaves an id, and the
// route's `render` reads the committed store on the http thread.
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

struct principal { // who calls; proved by the token before a handler sees the request
    enum principal_kind kind;
    int64_t user_id; // user; of a task: the experiment's owner
    bool admin;
    bool session; // by the cookie of the web page
    char username[256];
    char allocation_id[128]; // task
    int64_t experiment_id;   // task
};

enum { REQUEST_PARAMS_MAX = 4 };

struct request {
    struct arena arena;
    const char *method, *path;
    const char *params[REQUEST_PARAMS_MAX]; // the {..} parts of the route's path, in order, decoded
    const json_t *body;                     // parsed; NULL when there was none
    const char
        *texts; // where the contents of files in `body` lie (json_parse_upload()); NULL: in it
    size_t texts_len;
    void *input; // of a route that reads its body by itself: what it made of it
    void (*input_free)(void *input);
    struct principal principal;
    const char *address; // of the caller, "192.0.2.1"; NULL: not known
    bool audited;        // its row of the audit trail has been written

    // The answer: status 0 stands for 200; `answer` holds JSON ("{}" when left empty).
    int status;
    int retry_after; // seconds, of a 429; 0: 1
    struct buf answer;
    int64_t id;                  // what a core handler created or touched, for the route's render
    const char *warning;         // of a submission: a sentence, in the arena; NULL: none
    const char *note;            // .. and another, that is no warning of the wire
    const void *result;          // plain structs in the arena, for the route's render; NULL: none
    struct kept_json *kept_json; // values that `result` points to; request_release()

    // Set by the http layer:
    const char *(*query)(struct request *rq, const char *name);  // NULL when absent; both key cases
    const char *(*header)(struct request *rq, const char *name); // NULL when absent
    void (*complete)(struct request *rq); // the answer is ready; any thread, once; gives it up
    atomic_bool client_gone;              // the peer of a parked request has closed
    void *http;

    // While parked in the core (long-polls): deadline and list membership, owned by the core.
    int64_t park_deadline; // monotonic microseconds
    struct request *park_next, *park_prev;
    void *park_owner;
};

// A result of a few fields, which render_fields() writes as a JSON object. Texts are copied.
struct answer_field {
    const char *key; // NULL: the end of the list
    enum { FIELD_INT, FIELD_DOUBLE, FIELD_BOOL, FIELD_STRING, FIELD_RAW, FIELD_JSON } type;
    union {
        int64_t integer;
        double real;
        bool boolean;
        const char *text;   // FIELD_STRING: NULL is null; FIELD_RAW: JSON
        const json_t *json; // a reference is kept
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

// Shares a JSON value with the result, instead of copying it: from now on nobody may change the
// value in place. NULL gives NULL. request_release() gives all of them back; the owner of the
// request calls it before it frees the arena.
const json_t *request_keep_json(struct request *rq, const json_t *value);
void request_release(struct request *rq);

// ERR_TOO_LARGE: a result that is still being built is larger than any answer may be.
int request_check_result(const struct request *rq, struct error *e);

enum { REQUEST_PARKED = 1 }; // a core handler kept the request and will complete it later

// A whole number of 64 bits, in decimal digits behind an optional minus; false: it is none, or too
// large. Nothing is ever rounded to the next that fits.
bool request_number(const char *text, int64_t *out);

// Path parameter or query value as an integer; ERR_INVALID names it.
int request_param_int(struct request *rq, int index, int64_t *out, struct error *e);
int request_query_int(struct request *rq, const char *name, int64_t fallback, int64_t *out,
                      struct error *e);
// "warnings", in the wire's words, and ours: "warningTexts".
void request_write_warning(const struct request *rq, struct json_writer *w);
void request_fail(struct request *rq, const struct error *e); // status and error body of the wire

#endif
