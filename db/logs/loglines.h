// Packs lines of a task's log into a chunk, the two blobs of table log_chunks. Pure, any thread.
//
// A line has a time, a text and an origin. Most lines of a chunk share few origins, so a chunk
// keeps them in a table apart from the lines: a search for a rank or a level skips chunks without
// it and does not unpack them.
//
// Version 1. Numbers are varints (7 bits a byte, lowest first); signed ones are zigzag.
//   origins: the byte 1, count of texts, length and bytes of each; count of origins, and for each
//   the
//            numbers of its LOG_FIELDS texts and the rank (signed)
//   data:    a byte (1 plain, 2 zlib), length of the lines before compression; then for each line:
//   the
//            number of its origin, its time minus that of the line before (signed), length, text, 0
#ifndef MUSTER_DB_LOGS_LOGLINES_H
#define MUSTER_DB_LOGS_LOGLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum {
    LOG_CHUNK_BYTES = 256 * 1024, // of lines: a chunk with this many takes no more
    LOG_CHUNK_LINES = 16384,
    LOG_CHUNK_ORIGINS = 512,
    LOG_CHUNK_MAX = 32 << 20, // bytes of lines in a chunk; more is damage
};

enum log_field {
    LOG_ALLOCATION,
    LOG_AGENT,
    LOG_CONTAINER,
    LOG_SOURCE,
    LOG_STDTYPE,
    LOG_LEVEL, // wire name without LOG_LEVEL_
    LOG_FIELDS
};

struct log_origin {
    const char *text[LOG_FIELDS]; // "": not known
    int64_t rank;                 // -1: none
};

struct log_line {
    int64_t time;    // microseconds since 1970
    uint32_t origin; // number of the origin in the chunk
    uint32_t len;
    const char *text; // ends with a 0; may hold any other byte
};

// --- packing -------------------------------------------------------------------------------------

struct log_packer {     // lines that are being gathered; a zeroed packer is empty and has no memory
    struct arena arena; // texts of the origins
    const char **texts; // without duplicates
    struct log_packer_origin {
        struct log_origin origin;
        uint64_t hash;
        uint32_t numbers[LOG_FIELDS]; // numbers of its texts
    } * origins;
    size_t text_count, text_cap, origin_count, origin_cap, last; // last: origin of the last line
    struct buf lines;
    int64_t count, first_time, last_time; // times: lowest and highest
    int64_t time;                         // of the last line
};

struct log_packed { // a row of log_chunks; owns its blobs
    int64_t lines, bytes, first_time, last_time;
    char *origins, *data;
    size_t origins_len, data_len;
};

// False: the packer is full and did not take the line; pack it, then add the line again.
bool log_packer_add(struct log_packer *p, const struct log_origin *origin, int64_t time,
                    const char *text, size_t len);
void log_packer_pack(struct log_packer *p, struct log_packed *out); // empties the packer
void log_packer_free(struct log_packer *p);
void log_packed_free(struct log_packed *c);

// --- reading -------------------------------------------------------------------------------------

struct log_chunk { // owns its memory; a zeroed chunk is empty
    struct log_origin *origins;
    size_t origin_count;
    struct log_line *lines;
    size_t line_count;
    char *texts, *text; // the memory of the origins and the lines
};

// ERR_CORRUPT: log_packer_pack() did not make these bytes; *out is then empty. Read the origins
// first, then the lines of the same chunk.
int log_chunk_read_origins(struct log_chunk *out, const void *origins, size_t len, struct error *e);
int log_chunk_read_lines(struct log_chunk *out, const void *data, size_t len, struct error *e);
void log_chunk_free(struct log_chunk *c);

#endif
