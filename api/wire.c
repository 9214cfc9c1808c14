#include "api/wire.h"

#include <string.h>

#include "base/buf.h"
#include "base/log.h"

// One table for each kind of name: X(word). The compiler makes both spellings from it.
#define EXPERIMENT_STATES(X, P)                                                                    \
    X(P, ACTIVE)                                                                                   \
    X(P, QUEUED)                                                                                   \
    X(P, PULLING)                                                                                  \
    X(P, STARTING)                                                                                 \
    X(P, RUNNING)                                                                                  \
    X(P, PAUSED)                                                                                   \
    X(P, STOPPING_COMPLETED)                                                                       \
    X(P, STOPPING_CANCELED)                                                                        \
    X(P, STOPPING_KILLED)                                                                          \
    X(P, STOPPING_ERROR)                                                                           \
    X(P, COMPLETED)                                                                                \
    X(P, CANCELED)                                                                                 \
    X(P, ERROR)
#define DELETE_STATES(X, P)                                                                        \
    X(P, DELETING)                                                                                 \
    X(P, DELETE_FAILED)                                                                            \
    X(P, DELETED)
#define CHECKPOINT_STATES(X, P)                                                                    \
    X(P, ACTIVE) X(P, COMPLETED) X(P, ERROR) X(P, DELETED) X(P, PARTIALLY_DELETED)
#define ALLOCATION_STATES(X, P)                                                                    \
    X(P, QUEUED)                                                                                   \
    X(P, WAITING)                                                                                  \
    X(P, PULLING)                                                                                  \
    X(P, STARTING)                                                                                 \
    X(P, RUNNING)                                                                                  \
    X(P, TERMINATING)                                                                              \
    X(P, TERMINATED)
#define LOG_LEVELS(X, P)                                                                           \
    X(P, TRACE)                                                                                    \
    X(P, DEBUG)                                                                                    \
    X(P, INFO)                                                                                     \
    X(P, WARNING)                                                                                  \
    X(P, ERROR)                                                                                    \
    X(P, CRITICAL)
#define DEVICE_TYPES(X, P)                                                                         \
    X(P, CPU)                                                                                      \
    X(P, CUDA)                                                                                     \
    X(P, ROCM)

#define WORD(prefix, word) #word,
#define NAME(prefix, word) prefix #word,

struct wire_table {
    const char *what; // kind of name, for messages
    const char *prefix;
    const char *unspecified;
    const char *const *words;
    const char *const *names; // names with prefix, in the same order
};

static const char *const experiment_words[] = {EXPERIMENT_STATES(WORD, "") DELETE_STATES(WORD, "")
                                                   NULL};
static const char *const experiment_names[] = {EXPERIMENT_STATES(NAME, "STATE_")
                                                   DELETE_STATES(NAME, "STATE_") NULL};
static const char *const trial_words[] = {EXPERIMENT_STATES(WORD, "") NULL};
static const char *const trial_names[] = {EXPERIMENT_STATES(NAME, "STATE_") NULL};
static const char *const checkpoint_words[] = {CHECKPOINT_STATES(WORD, "") NULL};
static const char *const checkpoint_names[] = {CHECKPOINT_STATES(NAME, "STATE_") NULL};
static const char *const allocation_words[] = {ALLOCATION_STATES(WORD, "") NULL};
static const char *const allocation_names[] = {ALLOCATION_STATES(NAME, "STATE_") NULL};
static const char *const log_words[] = {LOG_LEVELS(WORD, "") NULL};
static const char *const log_names[] = {LOG_LEVELS(NAME, "LOG_LEVEL_") NULL};
static const char *const device_words[] = {DEVICE_TYPES(WORD, "") NULL};
static const char *const device_names[] = {DEVICE_TYPES(NAME, "TYPE_") NULL};

static const struct wire_table tables[WIRE_NAMES_COUNT] = {
    [WIRE_EXPERIMENT_STATE] = {"experiment state", "STATE_", "STATE_UNSPECIFIED", experiment_words,
                               experiment_names},
    [WIRE_TRIAL_STATE] = {"trial state", "STATE_", "STATE_UNSPECIFIED", trial_words, trial_names},
    [WIRE_CHECKPOINT_STATE] = {"checkpoint state", "STATE_", "STATE_UNSPECIFIED", checkpoint_words,
                               checkpoint_names},
    [WIRE_ALLOCATION_STATE] = {"allocation state", "STATE_", "STATE_UNSPECIFIED", allocation_words,
                               allocation_names},
    [WIRE_LOG_LEVEL] = {"log level", "LOG_LEVEL_", "LOG_LEVEL_UNSPECIFIED", log_words, log_names},
    [WIRE_DEVICE_TYPE] = {"device type", "TYPE_", "TYPE_UNSPECIFIED", device_words, device_names},
};

static const struct wire_table *table_of(enum wire_names table)
{
    must(table < WIRE_NAMES_COUNT);
    return &tables[table];
}

// Index of `word` in a NULL-terminated list, or -1.
static int index_of(const char *const *list, const char *word)
{
    for (int i = 0; word && list[i]; i++)
        if (!strcmp(list[i], word))
            return i;
    return -1;
}

const char *const *wire_words(enum wire_names table)
{
    return table_of(table)->words;
}

const char *wire_prefix(enum wire_names table)
{
    return table_of(table)->prefix;
}

const char *wire_name(enum wire_names table, const char *word)
{
    const struct wire_table *t = table_of(table);
    if (table == WIRE_ALLOCATION_STATE && word && !strcmp(word, "ASSIGNED"))
        word = "WAITING";
    int i = index_of(t->words, word);
    return i < 0 ? t->unspecified : t->names[i];
}

const char *wire_word(enum wire_names table, const char *name)
{
    const struct wire_table *t = table_of(table);
    int i = index_of(t->names, name);
    if (i < 0)
        i = index_of(t->words, name);
    return i < 0 ? NULL : t->words[i];
}

int wire_parse(enum wire_names table, const char *name, const char **word, struct error *e)
{
    const struct wire_table *t = table_of(table);
    *word = wire_word(table, name);
    if (*word)
        return 0;
    const char *near = name ? nearest_word(name, t->names) : NULL;
    if (name && !near)
        near = nearest_word(name, t->words);
    if (near)
        return error_set(e, ERR_INVALID, "\"%.64s\" is not a valid %s; did you mean \"%s\"?", name,
                         t->what, near);
    struct buf all;
    buf_init(&all, ERROR_TEXT_MAX);
    for (int i = 0; t->names[i]; i++)
        buf_printf(&all, "%s%s", i ? ", " : "", t->names[i]);
    error_set(e, ERR_INVALID, "\"%.64s\" is not a valid %s; valid are %s", name ? name : "",
              t->what, buf_str(&all));
    buf_free(&all);
    return ERR_INVALID;
}

bool wire_state_is_terminal(const char *word)
{
    static const char *const terminal[] = {"COMPLETED", "CANCELED", "ERROR", NULL};
    return index_of(terminal, word) >= 0;
}

// The gRPC status of an error: Determined's server is a gRPC gateway, and its clients show these
// words (public list of gRPC status codes).
struct grpc_status {
    int code;
    const char *reason;
};

static struct grpc_status grpc_status_of(int code)
{
    if (code == ERR_STATE)
        return (struct grpc_status){WIRE_FAILED_PRECONDITION, "FailedPrecondition"};
    switch (err_http_status(code)) {
    case 400:
    case 413:
        return (struct grpc_status){3, "InvalidArgument"};
    case 401:
        return (struct grpc_status){16, "Unauthenticated"};
    case 403:
        return (struct grpc_status){7, "PermissionDenied"};
    case 404:
        return (struct grpc_status){5, "NotFound"};
    case 405:
        return (struct grpc_status){12, "Unimplemented"};
    case 409:
        return (struct grpc_status){6, "AlreadyExists"};
    case 429:
    case 507:
        return (struct grpc_status){8, "ResourceExhausted"};
    case 502:
    case 503:
        return (struct grpc_status){14, "Unavailable"};
    case 504:
        return (struct grpc_status){4, "DeadlineExceeded"};
    default:
        return (struct grpc_status){13, "Internal"};
    }
}

void wire_write_error(struct json_writer *w, int code, const char *text)
{
    struct grpc_status status = grpc_status_of(code);
    jw_object(w);
    jw_key(w, "error");
    jw_object(w);
    jw_kv_int(w, "code", status.code);
    jw_kv_string(w, "reason", status.reason);
    jw_kv_string(w, "error", text);
    jw_object_end(w);
    jw_kv_string(w, "message", text);
    jw_object_end(w);
}

void wire_write_stream_error(struct buf *out, int code, const char *text)
{
    struct json_writer w;
    struct grpc_status status = grpc_status_of(code);
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "error");
    jw_object(&w);
    jw_kv_int(&w, "grpcCode", status.code);
    jw_kv_int(&w, "httpCode", err_http_status(code));
    jw_kv_string(&w, "message", text);
    jw_kv_string(&w, "httpStatus", status.reason);
    jw_object_end(&w);
    jw_object_end(&w);
    buf_puts(out, "\n");
}

void wire_write_pagination(struct json_writer *w, int64_t offset, int64_t limit, int64_t count,
                           int64_t total)
{
    int64_t start = offset < total ? offset : total;
    jw_key(w, "pagination");
    jw_object(w);
    jw_kv_int(w, "offset", offset);
    jw_kv_int(w, "limit", limit);
    jw_kv_int(w, "startIndex", start);
    jw_kv_int(w, "endIndex", start + count);
    jw_kv_int(w, "total", total);
    jw_object_end(w);
}

void wire_password_hash(const char *password, char out[SHA512_HEX])
{
    static const char salt[] =
        "GubPEmmotfiK9TMD6Zdw"; // part of the API (docs/wire.md), not a secret
    if (!password || !*password) {
        out[0] = '\0';
        return;
    }
    struct buf salted;
    buf_init(&salted, strlen(salt) + strlen(password));
    buf_puts(&salted, salt);
    buf_puts(&salted, password);
    must(!salted.err);
    sha512_hex(salted.data, salted.len, out);
    explicit_bzero(salted.data, salted.len);
    buf_free(&salted);
}
