// Contents of data files: memory-mapped, or unpacked into memory when the file is gzip. Immutable
// once open, any thread may read. Training and validation part may share one: the last
// file_content_unref() frees it; keep and drop from one thread.
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

// `name` of the key that named the file, for messages ("trainer.data.images"); a relative `path`
// starts at `folder`. With `unpack` a file that begins like gzip is unpacked, whatever its name.
// ERR_NOT_FOUND, ERR_IO, ERR_CORRUPT, ERR_TOO_LARGE.
int file_content_open(const char *name, const char *path, const char *folder, bool unpack,
                      struct file_content **out, struct error *e);
struct file_content *file_content_ref(struct file_content *c);
void file_content_unref(struct file_content *c); // NULL is fine

// What was made of a file rather than read; takes `data`, which is free()d.
struct file_content *file_content_from_memory(const char *path, void *data, size_t size);

// ERR_CORRUPT unless the content ends at `end`, where its header says so.
int file_content_check_end(const struct file_content *c, size_t end, struct error *e);

#endif
