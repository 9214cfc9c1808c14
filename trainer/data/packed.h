// Packed images: one file that `muster-trainer pack` makes of a folder of class folders, and that
// training maps into memory. Little-endian:
//
//   offset  bytes
//        0      8  "MUSTERIM"
//        8      4  version, 1
//       12      4  bytes of the header including the names
//       16      4  CRC32C of the header without this field
//       20      4  CRC32C of the labels and checksums
//       24   4x 4  height, width, channels (1 or 3), classes
//       40      8  images
//       48   3x 8  sum of all bytes, by channel
//       72   3x 8  sum of their squares, by channel
//       96         names of the classes, each ended by a NUL; then zeros to a multiple of 64
//                  pixels, [images, height, width, channels]
//             4 n  labels
//             4 n  CRC32C of the pixels of each image
//
// Images are stored in a random order, so that the last ones are a representative sample. One
// thread writes a file.
#ifndef MUSTER_TRAINER_DATA_PACKED_H
#define MUSTER_TRAINER_DATA_PACKED_H

#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/error.h"

#define PACKED_MAGIC "MUSTERIM"
enum {
    PACKED_VERSION = 1,
    PACKED_CRC_AT = 16,
    PACKED_NAMES_AT = 96,
    PACKED_ALIGN = 64,
    PACKED_SIDE_MAX = 4096,
    PACKED_CLASSES_MAX = 65536,
    PACKED_HEADER_MAX = 1 << 24,
};

struct packed_shape {
    int64_t height, width, channels;
};

struct packed_writer { // opaque
    char *path, *temporary;
    FILE *file;
    struct packed_shape shape;
    struct buf names;
    uint32_t classes, header;
    uint64_t count, total[3], squares[3];
    uint32_t *labels, *sums; // [count]
};

// Writes to a temporary file next to `path`; packed_end() renames it to `path`. Every begin is
// followed by an end or an abort. ERR_IO, ERR_INVALID.
int packed_begin(struct packed_writer *w, const char *path, const struct packed_shape *shape,
                 char *const *classes, int64_t class_count, struct error *e);
int packed_add(struct packed_writer *w, const uint8_t *pixels, int64_t label, struct error *e);
int packed_end(struct packed_writer *w, struct error *e); // syncs and renames the file
void packed_abort(struct packed_writer *w);

#endif
