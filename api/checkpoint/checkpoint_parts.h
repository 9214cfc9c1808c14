// What the sources of checkpoint share among themselves; nobody else includes it.
//
// The manifest: {format, version, <the trainer's fields>, files: [{name, bytes, header_bytes,
// header_crc32c, tensors: [{name, dtype, shape, offset, crc32c}]}], crc32c}. Tensors stand in order
// of offset, offsets count from the end of the header, and fill the file without a gap. The last
// field is the CRC32C of the rest as compact JSON with sorted keys; CRCs are eight hex digits.
#ifndef MUSTER_API_CHECKPOINT_PARTS_H
#define MUSTER_API_CHECKPOINT_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/checkpoint/checkpoint.h"

#define CHECKPOINT_FORMAT   "muster-checkpoint"
#define CHECKPOINT_MANIFEST "manifest.json"
#define CHECKPOINT_METADATA "__metadata__" // the one header key that is no tensor

enum {
    CHECKPOINT_VERSION = 1,
    CHECKPOINT_LENGTH_BYTES = 8,       // of the header's length, at the start of a file
    CHECKPOINT_HEADER_MAX = 100 << 20, // bytes, as safetensors has it
    CHECKPOINT_MANIFEST_MAX = 64 << 20,
    CHECKPOINT_CRC_HEX = 9,
};

const char *checkpoint_dtype_name(enum checkpoint_dtype dtype); // "F32"

// A plain name that ends in .safetensors.
bool checkpoint_file_name_ok(const char *name);

// Bytes of a tensor's data; -1 when rank, a size or the product is out of range.
int64_t checkpoint_shape_bytes(int rank, const int64_t *shape);

void checkpoint_crc_text(uint32_t crc, char out[CHECKPOINT_CRC_HEX]);

// The CRC of a manifest without its own field.
void checkpoint_manifest_crc(const json_t *manifest, char out[CHECKPOINT_CRC_HEX]);

#endif
