// Packs lines of a task's log into a chunk, the two blobs of table log_chunks. Pure, any thread.
//
// A line has a time, a text and an origin. Most lines of a chunk share few origins, so a chunk
// keeps a table of them apart from the lines: a search for a rank or a level does not unpack chunks
// without it.
//
// Version 1. Numbers are varints (7 bits a byte, the lowest first), signed ones zigzag.
//   origins: the byte 1, count of texts, each length and bytes; count of origins, each the numbers
//            of its LOG_FIELDS texts, and the rank (signed)
//   data:    a byte (1 plain, 2 zlib), length of the lines before compression; then the lines, each
//            number of its origin, time less that of the line before (signed), length, text, 0
#ifndef MUSTER_DB_LOGS_LOGLINES_H
#define MUSTER_DB_LOGS_LOGLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum {
    LOG_CHUNK_BYTES = 256 * 1024, // of lines: a chunk that has so many takes no more
    LOG_CHUNK_LINES = 16384,
    LOG_CHUNK_ORIGINS = 512,
    LOG_CHUNK_MAX = 32 << 20, // bytes of lines of any chunk: larger is damage
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
    uint32_t origin; // of the chunk's
    uint32_t len;
    const char *text; // with a 0 behind it; may hold any other byte
};

// --- packing -------------------------------------------------------------------------------------

struct log_packer {     // lines being gathered; zeroed it is empty, without memory
    struct arena arena; // of the texts of origins
    const char **texts; // each once
    struct log_packer_origin {
        struct log_origin origin;
        uint64_t hash;
        uint32_t numbers[LOG_FIELDS]; // of its texts
    } * origins;
    size_t text_count, text_cap, origin_count, origin_cap, last; // last: origin of the last line
    struct buf lines;
    int64_t count, first_time, last_time; // least and greatest
    int64_t time;                         // of the last line
};

struct log_packed { // a row of log_chunks; owns its blobs
    int64_t lines, bytes, first_time, last_time;
    char *origins, *data;
    size_t origins_len, data_len;
};

// False: it is full and did not take the line; pack, and begin anew.
bool log_packer_add(struct log_packer *p, const struct log_origin *origin, int64_t time,
                    const char *text, size_t len);
void log_packer_pack(struct log_packer *p, struct log_packed *out); // and is empty again
void log_packer_free(struct log_packer *p);
void log_packed_free(struct log_packed *c);

// --- reading -------------------------------------------------------------------------------------

struct log_chunk { // owns its memory; zeroed it is empty
    struct log_origin *origins;
    size_t origin_count;
    struct log_line *lines;
    size_t line_count;
    char *texts, *text; // what origins and lines point to
};

// ERR_CORRUPT: not what log_packer_pack() made; *out is empty then. The second call goes on where
// the first one ended.
int log_chunk_read_origins(struct log_chunk *out, const void *origins, size_t len, struct error *e);
int log_chunk_read_lines(struct log_chunk *out, const void *data, size_t len, struct error *e);
void log_chunk_free(struct log_chunk *c);

#endif
