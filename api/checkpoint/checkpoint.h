// Checkpoints on disk: a folder of safetensors files (github.com/huggingface/safetensors: 8-byte
// little-endian header length, JSON header, data) and manifest.json, which is written last and
// makes the folder a checkpoint.
//
// The manifest holds the trainer's own fields; for each file its size and the CRC32C of its header;
// and for each tensor name, dtype, shape, offset and CRC32C. Any thread, one per object.
//
// Fields from the trainer. Required: step (integer, optimizer steps done), data_cursor (integer,
// samples consumed). Also part of the state digest: exponents (any JSON). Free: schedule,
// generator, fingerprint, world_size, uuid, times and others.
#ifndef MUSTER_API_CHECKPOINT_H
#define MUSTER_API_CHECKPOINT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"

enum checkpoint_dtype { CHECKPOINT_F32, CHECKPOINT_I32 };

enum { CHECKPOINT_RANK_MAX = 8, CHECKPOINT_TENSORS_MAX = 100000 };

struct checkpoint_tensor {
    const char *name; // at most LIMIT_NAME bytes, UTF-8
    enum checkpoint_dtype dtype;
    int rank;                           // 0: a scalar
    int64_t shape[CHECKPOINT_RANK_MAX]; // row-major
    const void *data;                   // 4-byte aligned
};

size_t checkpoint_tensor_bytes(const struct checkpoint_tensor *t);

struct checkpoint_file {
    const char *name; // "weights.safetensors", "optimizer.safetensors", ..
    const struct checkpoint_tensor *tensors;
    size_t count;
};

// Writes a whole checkpoint into `folder` (created if missing): files, then the manifest, each
// durable. `extra` is the object of the trainer's fields. Tensor names are unique over all files.
int checkpoint_write(const char *folder, const struct checkpoint_file *files, size_t file_count,
                     const json_t *extra, struct error *e);

// Writes one file of a checkpoint and returns its entry of the manifest (owned by the caller). The
// format lets ranks write their files in parallel.
int checkpoint_write_file(const char *folder, const struct checkpoint_file *file, json_t **entry,
                          struct error *e);
struct checkpoint; // opaque: files mapped read-only

// Opens a checkpoint and verifies everything, including the data. ERR_NOT_FOUND: no such folder or
// manifest; ERR_CORRUPT names file and offset; ERR_VERSION: written by a newer program.
int checkpoint_open(const char *folder, struct checkpoint **out, struct error *e);
void checkpoint_close(struct checkpoint *ck); // NULL is allowed; also frees tensors and manifest

const json_t *checkpoint_manifest(const struct checkpoint *ck);
size_t checkpoint_tensor_count(const struct checkpoint *ck);
const struct checkpoint_tensor *checkpoint_tensor_at(const struct checkpoint *ck,
                                                     size_t i); // index in order of name
const struct checkpoint_tensor *checkpoint_tensor_find(const struct checkpoint *ck,
                                                       const char *name); // NULL: absent

// SHA-256 of the weights: the tensors of "weights*.safetensors" in order of name (name, dtype,
// shape, bytes); and of the whole state: every tensor, step, data_cursor and exponents. Neither
// depends on the number of ranks that trained or wrote.
void checkpoint_digests(const struct checkpoint *ck, char weights[SHA256_HEX],
                        char state[SHA256_HEX]);

// {"path": "bytes"} of every file under `folder`: the resources for POST /checkpoints.
int checkpoint_resources(const char *folder, json_t **out, struct error *e);
// The same for a folder that others may write to, by its descriptor (walk_foreign()).
int checkpoint_resources_foreign(int dir, const char *shown, json_t **out, struct error *e);

// SHA-256 over the path and the SHA-256 of every file under `folder`, in order of name: the digest
// of a checkpoint of a program, which has no manifest. *count: the number of files. ERR_NOT_FOUND:
// there are none.
int checkpoint_files_digest(const char *folder, char out[SHA256_HEX], int64_t *count,
                            struct error *e);

// Normalizes an id to lower case. Folders are named by it, so anything but a UUID is ERR_INVALID.
int checkpoint_uuid(const char *text, char out[UUID_TEXT], struct error *e);

// The folder of checkpoint `uuid` in a checkpoint_storage object of type directory or shared_fs
// (heap). ERR_INVALID: another type, or not a UUID.
int checkpoint_folder(const json_t *storage, const char *uuid, char **out, struct error *e);
// The folder of the storage, which contains all its checkpoints.
int checkpoint_root(const json_t *storage, char **out, struct error *e);

#endif
