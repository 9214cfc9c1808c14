// Sizes of disks and memory, as people write and read them. Pure; any thread.
#ifndef MUSTER_BASE_TEXT_SIZE_H
#define MUSTER_BASE_TEXT_SIZE_H

#include <stdint.h>

#include "base/error.h"

struct disk_size {
    uint64_t bytes;
    double percent; // of the whole; with both, the smaller one counts
};

// "2GiB", "500M", "5%", "0" (none); a plain number counts bytes. ERR_INVALID.
int disk_size_parse(const char *text, struct disk_size *out, struct error *e);
uint64_t disk_size_of(const struct disk_size *size, uint64_t total); // bytes; 0: none

enum { SIZE_TEXT = 32 };
const char *size_text(uint64_t bytes, char out[SIZE_TEXT]); // "312 MiB"; returns out

#endif
