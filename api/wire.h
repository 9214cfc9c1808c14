// Names and small shapes of the wire (Determined's REST API v1): states, log levels, device types,
// the error body, paging, the client-side password hash. Pure; any thread.
//
// Rows of the store hold the names without prefix ("COMPLETED"), the wire the names with it
// ("STATE_COMPLETED").
#ifndef MUSTER_API_WIRE_H
#define MUSTER_API_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text/json.h"

enum wire_names {
    WIRE_EXPERIMENT_STATE, // STATE_ ACTIVE QUEUED PULLING .. DELETE_FAILED
    WIRE_TRIAL_STATE,      // STATE_, the same less the delete ones
    WIRE_CHECKPOINT_STATE, // STATE_ ACTIVE COMPLETED ERROR DELETED PARTIALLY_DELETED
    WIRE_ALLOCATION_STATE, // STATE_ QUEUED WAITING PULLING STARTING RUNNING TERMINATING TERMINATED
    WIRE_LOG_LEVEL,        // LOG_LEVEL_ TRACE DEBUG INFO WARNING ERROR CRITICAL
    WIRE_DEVICE_TYPE,      // TYPE_ CPU CUDA ROCM
    WIRE_NAMES_COUNT
};

// The words of a table without prefix, NULL-terminated, and their prefix.
const char *const *wire_words(enum wire_names table);
const char *wire_prefix(enum wire_names table);

// "COMPLETED" -> "STATE_COMPLETED"; a word that is not in the table gives PREFIX_UNSPECIFIED. An
// allocation that is ASSIGNED is WAITING on the wire. The strings are static.
const char *wire_name(enum wire_names table, const char *word);

// "STATE_COMPLETED" or "COMPLETED" -> "COMPLETED" (static); NULL when it is neither.
const char *wire_word(enum wire_names table, const char *name);

// The same for what a caller sent: ERR_INVALID says what is allowed and what is near.
int wire_parse(enum wire_names table, const char *name, const char **word, struct error *e);

bool wire_state_is_terminal(const char *word); // COMPLETED CANCELED ERROR (experiment, trial)

// {"error":{"code","reason","error"},"message"}: what det and our clients print.
void wire_write_error(struct json_writer *w, int code, const char *text);

// {"result":..} is the caller's; this is the error line of a stream, with its newline.
void wire_write_stream_error(struct buf *out, int code, const char *text);

// Key "pagination" with {offset, limit, startIndex, endIndex, total} for a page of `count` rows.
void wire_write_pagination(struct json_writer *w, int64_t offset, int64_t limit, int64_t count,
                           int64_t total);

// What clients send for a password (isHashed): hex SHA-512 of salt + password; blank stays blank.
void wire_password_hash(const char *password, char out[SHA512_HEX]);

#endif
