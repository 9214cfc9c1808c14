// Content of media items (images, histograms, tables, texts) in the checkpoint storage:
// media/CLUSTER/EXPERIMENT/SHA-256. The cluster is part of the path because clusters may share a
// storage and number their experiments alike. Tasks write these files, so they are opened as
// carefully as checkpoints (storage.h). Any thread.
#ifndef MUSTER_MASTER_COMMON_MEDIA_H
#define MUSTER_MASTER_COMMON_MEDIA_H

#include <stdint.h>

#include "master/common/storage.h"

struct media_folder {
    const struct storage *storage;
    const char *at; // checkpoint_storage of the experiment, JSON
    const char *cluster_id;
    int64_t experiment;
};

// Opens the content with this digest. ERR_NOT_FOUND: it is missing or has another size;
// ERR_FORBIDDEN: the master may not read it; ERR_UNAVAILABLE: the storage does not exist; also the
// errors of storage_check(). The caller closes *fd.
int media_open(const struct media_folder *folder, const char *digest, int64_t size, int *fd,
               struct error *e);

// Reads the whole content and compares its SHA-256. ERR_NOT_FOUND: it is that of another content;
// ERR_IO. The position in the file stays.
int media_check_digest(int fd, const char *digest, struct error *e);

// Removes the folder of the experiment; it may be absent. The same errors, and ERR_IO.
int media_remove(const struct media_folder *folder, struct error *e);

#endif
