// Errors: one list of codes for the whole product, and the message of one error.
//
// Functions that can fail return 0 or a negative `enum err`. Their last parameter is a `struct
// error *`, which receives a message for a person: the problem, its place (file:line:column or JSON
// path), and the next step. A NULL `struct error *` is allowed. `struct error` is a plain value
// without an owner.
#ifndef MUSTER_BASE_ERROR_H
#define MUSTER_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>

// X(symbol, code, HTTP status, CLI exit code, short name on the wire)
#define ERR_TABLE(X)                                                                               \
    X(ERR_INVALID, -1, 400, 2, "invalid argument")                                                 \
    X(ERR_AUTH, -2, 401, 4, "unauthenticated")                                                     \
    X(ERR_FORBIDDEN, -3, 403, 4, "permission denied")                                              \
    X(ERR_NOT_FOUND, -4, 404, 3, "not found")                                                      \
    X(ERR_METHOD, -5, 405, 2, "method not allowed")                                                \
    X(ERR_CONFLICT, -6, 409, 5, "conflict")                                                        \
    X(ERR_TOO_LARGE, -7, 413, 2, "too large")                                                      \
    X(ERR_BUSY, -8, 429, 6, "busy")                                                                \
    X(ERR_INTERNAL, -9, 500, 1, "internal error")                                                  \
    X(ERR_UNAVAILABLE, -10, 503, 6, "unavailable")                                                 \
    X(ERR_IO, -11, 500, 1, "input/output error")                                                   \
    X(ERR_CORRUPT, -12, 500, 7, "corrupt data")                                                    \
    X(ERR_NO_MEMORY, -13, 500, 1, "out of memory")                                                 \
    X(ERR_TIMEOUT, -14, 504, 6, "timed out")                                                       \
    X(ERR_PEER, -15, 502, 6, "peer failed")                                                        \
    X(ERR_FAILED, -16, 500, 8, "experiment failed")                                                \
    X(ERR_VERSION, -17, 500, 9, "version mismatch")                                                \
    X(ERR_FULL, -18, 507, 6, "disk full")                                                          \
    X(ERR_STATE, -19, 400, 5, "wrong state")

enum err {
    ERR_OK = 0,
#define ERR_ENUM(symbol, code, http, exit_code, name) symbol = code,
    ERR_TABLE(ERR_ENUM)
#undef ERR_ENUM
};

enum { ERROR_TEXT_MAX = 1024 };

struct error {
    int code; // 0 or a negative enum err
    char text[ERROR_TEXT_MAX];
};

// Fills *e (if not NULL) and returns `code`: `return error_set(e, ERR_IO, ...)` is the idiom.
int error_set(struct error *e, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int error_setv(struct error *e, int code, const char *fmt, va_list args);

// "NOUN 'ID' not found": the words that scripts look for in a 404. Returns ERR_NOT_FOUND.
int error_not_found(struct error *e, const char *noun, const char *id_fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Like error_set with ": strerror(saved_errno)" appended.
int error_set_errno(struct error *e, int code, int saved_errno, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

// Puts "context: " before the present text, when an error passes through a caller. Returns e->code.
int error_prefix(struct error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int err_http_status(int code);  // 0 -> 200
int err_exit_code(int code);    // 0 -> 0
const char *err_name(int code); // "not found"
int err_from_http(int status);  // the nearest code; 2xx -> 0

// The candidate (the list ends with NULL) that is nearest to `word`, if their edit distance is at
// most 3 and at most a third of the word's letters. Otherwise the first candidate that begins with
// the word, if the word has at least three letters. NULL: there is none.
const char *nearest_word(const char *word, const char *const *candidates);

#endif
