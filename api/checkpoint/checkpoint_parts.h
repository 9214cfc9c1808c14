// Internal header of the checkpoint sources.
//
// The manifest: {format, version, <the trainer's fields>, files: [{name, bytes, header_bytes,
// header_crc32c, tensors: [{name, dtype, shape, offset, crc32c}]}], crc32c}. Tensors are in order
// of offset; offsets count from the end of the header, without gaps. The last field is the CRC32C
// of the other fields as compact JSON with sorted keys; CRCs are eight hex digits.
#ifndef MUSTER_API_CHECKPOINT_PARTS_H
#define MUSTER_API_CHECKPOINT_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/checkpoint/checkpoint.h"

#define CHECKPOINT_FORMAT   "muster-checkpoint"
#define CHECKPOINT_MANIFEST "manifest.json"
#define CHECKPOINT_METADATA "__metadata__" // the only header key that is not a tensor

enum {
    CHECKPOINT_VERSION = 1,
    CHECKPOINT_LENGTH_BYTES = 8,       // length of the header's length at the start of a file
    CHECKPOINT_HEADER_MAX = 100 << 20, // largest header that safetensors allows, bytes
    CHECKPOINT_MANIFEST_MAX = 64 << 20,
    CHECKPOINT_CRC_HEX = 9,
};

const char *checkpoint_dtype_name(enum checkpoint_dtype dtype); // "F32"

// Whether it is a plain file name that ends in .safetensors.
bool checkpoint_file_name_ok(const char *name);

// Whether it is an integer that is not negative, as step and data_cursor are.
bool checkpoint_is_count(const json_t *value);

// Bytes of a tensor's data; -1 if rank, a size or the product is out of range.
int64_t checkpoint_shape_bytes(int rank, const int64_t *shape);

void checkpoint_crc_text(uint32_t crc, char out[CHECKPOINT_CRC_HEX]);

// The CRC of a manifest, which must not contain the field crc32c.
void checkpoint_manifest_crc(const json_t *manifest, char out[CHECKPOINT_CRC_HEX]);

#endif
