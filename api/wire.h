// Names and small objects of the REST API (docs/wire.md): states, log levels, device types, the
// error body, paging, the client-side password hash. Pure; any thread.
//
// The store holds names without prefix ("COMPLETED"), the API uses names with it
// ("STATE_COMPLETED").
#ifndef MUSTER_API_WIRE_H
#define MUSTER_API_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text/json.h"

#define DEFAULT_POOL "default" // the resource pool of experiments and agents that name none

enum { WIRE_FAILED_PRECONDITION = 9 }; // the gRPC code of ERR_STATE in a 400

enum wire_names {
    WIRE_EXPERIMENT_STATE, // STATE_ ACTIVE QUEUED PULLING .. DELETE_FAILED
    WIRE_TRIAL_STATE,      // STATE_, the same without DELETE*
    WIRE_CHECKPOINT_STATE, // STATE_ ACTIVE COMPLETED ERROR DELETED PARTIALLY_DELETED
    WIRE_ALLOCATION_STATE, // STATE_ QUEUED WAITING PULLING STARTING RUNNING TERMINATING TERMINATED
    WIRE_LOG_LEVEL,        // LOG_LEVEL_ TRACE DEBUG INFO WARNING ERROR CRITICAL
    WIRE_DEVICE_TYPE,      // TYPE_ CPU CUDA ROCM
    WIRE_NAMES_COUNT
};

// The words of a table without prefix (ends with NULL), and the prefix.
const char *const *wire_words(enum wire_names table);
const char *wire_prefix(enum wire_names table);

// "COMPLETED" -> "STATE_COMPLETED"; an unknown word gives PREFIX_UNSPECIFIED. The allocation state
// ASSIGNED becomes WAITING. The strings are static.
const char *wire_name(enum wire_names table, const char *word);

// "STATE_COMPLETED" or "COMPLETED" -> "COMPLETED" (static); NULL: unknown.
const char *wire_word(enum wire_names table, const char *name);

// The same for a value from a caller: ERR_INVALID lists the allowed words and suggests a similar
// one.
int wire_parse(enum wire_names table, const char *name, const char **word, struct error *e);

bool wire_state_is_terminal(const char *word); // COMPLETED CANCELED ERROR (experiment, trial)

// {"error":{"code","reason","error"},"message"}, as Determined's clients and ours print it.
void wire_write_error(struct json_writer *w, int code, const char *text);

// The error line of a stream, with its newline. (The caller writes {"result":..} lines itself.)
void wire_write_stream_error(struct buf *out, int code, const char *text);

// The key "pagination" with {offset, limit, startIndex, endIndex, total} for a page of `count`
// rows.
void wire_write_pagination(struct json_writer *w, int64_t offset, int64_t limit, int64_t count,
                           int64_t total);

// The hash that clients send instead of a password (isHashed): SHA-512 of salt + password in hex;
// "" stays "".
void wire_password_hash(const char *password, char out[SHA512_HEX]);

#endif
