// The content of a data file: memory-mapped, or decompressed into memory if the file is gzip.
// Immutable once open; any thread may read it. It is reference-counted, because the training and
// the validation part may share it; only one thread may change the count.
#ifndef MUSTER_TRAINER_DATA_FILE_CONTENT_H
#define MUSTER_TRAINER_DATA_FILE_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct file_content {
    const uint8_t *data;
    size_t size;
    char *path; // for messages
    bool mapped;
    int references;
};

// `name` is the key that holds the path, for messages ("trainer.data.images"). A relative `path`
// starts at `folder`. With `unpack`, a file that begins like gzip is decompressed, whatever its
// name. ERR_NOT_FOUND, ERR_IO, ERR_CORRUPT, ERR_TOO_LARGE.
int file_content_open(const char *name, const char *path, const char *folder, bool unpack,
                      struct file_content **out, struct error *e);
struct file_content *file_content_ref(struct file_content *c);
// frees it when nobody uses it any more; NULL is fine
void file_content_unref(struct file_content *c);

// Content that was computed rather than read. Takes ownership of `data`, which must be from
// malloc().
struct file_content *file_content_from_memory(const char *path, void *data, size_t size);

// ERR_CORRUPT unless the content ends at offset `end`, as its header says.
int file_content_check_end(const struct file_content *c, size_t end, struct error *e);

#endif
