// Reads checkpoints and trusts nothing before it is verified: the manifest against its own CRC,
// each file against its size, each header against its CRC and the manifest, and each tensor against
// its CRC.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "api/checkpoint/checkpoint_parts.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

struct mapped_file {
    const char *name; // borrowed from the manifest
    char *path;
    const uint8_t *data;
    size_t size;
};

struct named_tensor {
    struct checkpoint_tensor tensor;
    const struct mapped_file *file;
};

struct checkpoint {
    json_t *manifest;
    struct mapped_file *files;
    size_t file_count;
    struct named_tensor *tensors; // sorted by name after opening
    size_t tensor_count;
};

// --- manifest ------------------------------------------------------------------------------------

static int corrupt_manifest(const char *path, const char *what, struct error *e)
{
    return error_set(e, ERR_CORRUPT,
                     "%s: %s; the file is damaged. Use an earlier checkpoint of the trial", path,
                     what);
}

static int check_manifest(const char *path, const json_t *manifest, struct error *e)
{
    char crc[CHECKPOINT_CRC_HEX];
    const char *format = json_string_value(json_object_get(manifest, "format"));
    json_int_t version = json_integer_value(json_object_get(manifest, "version"));
    if (!format || strcmp(format, CHECKPOINT_FORMAT))
        return corrupt_manifest(path, "it is not the manifest of a checkpoint", e);
    if (version > CHECKPOINT_VERSION)
        return error_set(e, ERR_VERSION,
                         "%s: written in version %lld of the format, and this program reads up to "
                         "%d; use the newer program",
                         path, (long long)version, CHECKPOINT_VERSION);
    checkpoint_manifest_crc(manifest, crc);
    if (strcmp(jget_string(manifest, "crc32c", ""), crc))
        return corrupt_manifest(path, "the checksum does not match the contents", e);
    if (!checkpoint_is_count(json_object_get(manifest, "step")) ||
        !checkpoint_is_count(json_object_get(manifest, "data_cursor")) ||
        !json_is_array(json_object_get(manifest, "files")))
        return corrupt_manifest(path, "step, data_cursor or files is missing or invalid", e);
    if (json_array_size(json_object_get(manifest, "files")) > LIMIT_CHECKPOINT_FILES)
        return corrupt_manifest(path, "it names too many files", e);
    return 0;
}

static int read_manifest(int dir, const char *folder, json_t **out, struct error *e)
{
    struct error why;
    char *path = path_join(folder, CHECKPOINT_MANIFEST), *text = NULL;
    size_t len = 0;
    int fd = -1, rc = file_open_regular(dir, CHECKPOINT_MANIFEST, path, &fd, e);
    if (!rc)
        rc = file_read_fd(fd, path, CHECKPOINT_MANIFEST_MAX, &text, &len, e);
    if (rc == ERR_NOT_FOUND)
        error_set(e, rc, "%s: not a checkpoint (manifest.json is missing)", folder);
    else if (rc == ERR_TOO_LARGE)
        rc = corrupt_manifest(path, "it is larger than a manifest can be", e);
    else if (rc == ERR_INVALID)
        rc = corrupt_manifest(path, "it is not a regular file", e);
    if (rc)
        goto out;
    if (json_parse(text, len, path, out, &why))
        rc = error_set(e, ERR_CORRUPT, "%s; the file is damaged", why.text);
    else
        rc = check_manifest(path, *out, e);
out:
    if (fd >= 0)
        close(fd);
    free(text);
    free(path);
    return rc;
}

// --- one file ------------------------------------------------------------------------------------

static int file_fault(const struct mapped_file *f, uint64_t offset, const char *tensor,
                      const char *what, struct error *e)
{
    return error_set(e, ERR_CORRUPT, "%s: offset %llu: %s%.80s%s%s; the file is damaged", f->path,
                     (unsigned long long)offset, tensor ? "tensor \"" : "", tensor ? tensor : "",
                     tensor ? "\": " : "", what);
}

static int map_file(int dir, struct mapped_file *f, int64_t bytes, struct error *e)
{
    struct stat st;
    int fd, rc = file_open_regular(dir, f->name, f->path, &fd, e);
    if (rc == ERR_NOT_FOUND)
        return error_set(e, ERR_CORRUPT, "%s: a file of the checkpoint is missing", f->path);
    if (rc == ERR_INVALID)
        return error_set(e, ERR_CORRUPT, "%s: it is not a regular file; the checkpoint is damaged",
                         f->path);
    if (rc)
        return rc;
    if (fstat(fd, &st)) {
        rc = error_set_errno(e, ERR_IO, errno, "cannot read %s", f->path);
        goto out;
    }
    if (st.st_size != bytes || bytes < CHECKPOINT_LENGTH_BYTES) {
        rc = error_set(e, ERR_CORRUPT, "%s: it has %lld bytes, but the manifest says %lld", f->path,
                       (long long)st.st_size, (long long)bytes);
        goto out;
    }
    void *data = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        rc = error_set_errno(e, ERR_IO, errno, "cannot map %s", f->path);
        goto out;
    }
    f->data = data;
    f->size = (size_t)bytes;
out:
    close(fd);
    return rc;
}

static int read_header(const struct mapped_file *f, const json_t *entry, size_t *data_start,
                       json_t **header, struct error *e)
{
    struct error why;
    char crc[CHECKPOINT_CRC_HEX];
    uint64_t length;
    memcpy(&length, f->data, sizeof(length));
    if (length > CHECKPOINT_HEADER_MAX || length > f->size - CHECKPOINT_LENGTH_BYTES ||
        (int64_t)length != jget_int(entry, "header_bytes", -1))
        return file_fault(f, 0, NULL, "the length of the header is wrong", e);
    const char *text = (const char *)f->data + CHECKPOINT_LENGTH_BYTES;
    checkpoint_crc_text(crc32c(0, text, length), crc);
    if (strcmp(jget_string(entry, "header_crc32c", ""), crc))
        return file_fault(f, CHECKPOINT_LENGTH_BYTES, NULL,
                          "the header does not match its checksum", e);
    if (json_parse(text, length, f->path, header, &why))
        return error_set(e, ERR_CORRUPT, "%s; the header is damaged", why.text);
    *data_start = CHECKPOINT_LENGTH_BYTES + length;
    return 0;
}

// Reads shape and dtype of a tensor in the manifest. False: they are invalid.
static bool read_shape(const json_t *entry, struct checkpoint_tensor *t)
{
    const json_t *shape = json_object_get(entry, "shape");
    const char *dtype = jget_string(entry, "dtype", "");
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank > CHECKPOINT_RANK_MAX)
        return false;
    t->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size))
            return false;
        t->shape[i] = json_integer_value(size);
    }
    if (!strcmp(dtype, checkpoint_dtype_name(CHECKPOINT_F32)))
        t->dtype = CHECKPOINT_F32;
    else if (!strcmp(dtype, checkpoint_dtype_name(CHECKPOINT_I32)))
        t->dtype = CHECKPOINT_I32;
    else
        return false;
    return checkpoint_shape_bytes(t->rank, t->shape) >= 0;
}

// Whether the file's header describes this tensor like the manifest.
static bool header_agrees(const json_t *header, const struct checkpoint_tensor *t,
                          const json_t *entry, int64_t begin)
{
    const json_t *own = json_object_get(header, t->name);
    const json_t *offsets = json_object_get(own, "data_offsets");
    int64_t end = begin + (int64_t)checkpoint_tensor_bytes(t);
    return json_equal(json_object_get(own, "dtype"), json_object_get(entry, "dtype")) &&
           json_equal(json_object_get(own, "shape"), json_object_get(entry, "shape")) &&
           json_array_size(offsets) == 2 &&
           json_integer_value(json_array_get(offsets, 0)) == begin &&
           json_integer_value(json_array_get(offsets, 1)) == end;
}

static int read_tensor(const struct mapped_file *f, const json_t *header, size_t data_start,
                       const json_t *entry, uint64_t *offset, struct checkpoint_tensor *t,
                       struct error *e)
{
    char crc[CHECKPOINT_CRC_HEX];
    uint64_t at = data_start + *offset;
    t->name = jget_string(entry, "name", "");
    if (!*t->name || strlen(t->name) > LIMIT_NAME || !read_shape(entry, t))
        return file_fault(f, at, t->name, "name, dtype or shape in the manifest is out of range",
                          e);
    if (jget_int(entry, "offset", -1) != (int64_t)*offset)
        return file_fault(f, at, t->name, "it does not start where the tensor before it ends", e);
    size_t bytes = checkpoint_tensor_bytes(t);
    if (bytes > f->size - at)
        return file_fault(f, at, t->name, "its data would end past the end of the file", e);
    if (!header_agrees(header, t, entry, (int64_t)*offset))
        return file_fault(f, at, t->name, "header and manifest disagree", e);
    t->data = f->data + at;
    checkpoint_crc_text(crc32c(0, t->data, bytes), crc);
    if (strcmp(jget_string(entry, "crc32c", ""), crc))
        return file_fault(f, at, t->name, "the data does not match its checksum", e);
    *offset += bytes;
    return 0;
}

static int read_tensors(struct checkpoint *ck, const struct mapped_file *f, const json_t *header,
                        size_t data_start, const json_t *entries, struct error *e)
{
    uint64_t offset = 0;
    size_t i, count = json_array_size(entries);
    json_t *entry;
    if (ck->tensor_count + count > CHECKPOINT_TENSORS_MAX)
        return file_fault(f, 0, NULL, "the manifest names too many tensors", e);
    if (json_object_size(header) != count + (json_object_get(header, CHECKPOINT_METADATA) ? 1 : 0))
        return file_fault(f, CHECKPOINT_LENGTH_BYTES, NULL, "header and manifest disagree", e);
    ck->tensors = xrealloc(ck->tensors, (ck->tensor_count + count + 1) * sizeof(*ck->tensors));
    json_array_foreach(entries, i, entry)
    {
        struct named_tensor *t = &ck->tensors[ck->tensor_count];
        *t = (struct named_tensor){.file = f};
        int rc = read_tensor(f, header, data_start, entry, &offset, &t->tensor, e);
        if (rc)
            return rc;
        ck->tensor_count++;
    }
    if (data_start + offset != f->size)
        return file_fault(f, data_start + offset, NULL, "there are bytes that belong to no tensor",
                          e);
    return 0;
}

static int read_file(struct checkpoint *ck, int dir, struct mapped_file *f, const char *folder,
                     const json_t *entry, struct error *e)
{
    json_t *header = NULL;
    size_t data_start = 0;
    f->name = jget_string(entry, "name", "");
    if (!checkpoint_file_name_ok(f->name))
        return error_set(e, ERR_CORRUPT, "%s: the manifest names a file \"%.64s\"", folder,
                         f->name);
    f->path = path_join(folder, f->name);
    int rc = map_file(dir, f, jget_int(entry, "bytes", -1), e);
    if (!rc)
        rc = read_header(f, entry, &data_start, &header, e);
    if (!rc)
        rc = read_tensors(ck, f, header, data_start, jget(entry, "tensors"), e);
    json_decref(header);
    return rc;
}

// --- complete checkpoint -------------------------------------------------------------------------

static int compare_name(const void *a, const void *b)
{
    return strcmp(((const struct named_tensor *)a)->tensor.name,
                  ((const struct named_tensor *)b)->tensor.name);
}

static int sort_tensors(struct checkpoint *ck, const char *folder, struct error *e)
{
    if (ck->tensor_count)
        qsort(ck->tensors, ck->tensor_count, sizeof(*ck->tensors), compare_name);
    for (size_t i = 1; i < ck->tensor_count; i++)
        if (!compare_name(&ck->tensors[i - 1], &ck->tensors[i]))
            return error_set(e, ERR_CORRUPT, "%s: tensor \"%.80s\" is in two files", folder,
                             ck->tensors[i].tensor.name);
    return 0;
}

// Opens files relative to the manifest's folder, so that links do not lead elsewhere.
int checkpoint_open(const char *folder, struct checkpoint **out, struct error *e)
{
    struct checkpoint *ck = xcalloc(1, sizeof(*ck));
    size_t i;
    json_t *entry;
    int dir = -1, rc = dir_open(folder, &dir, e);
    *out = NULL;
    if (rc == ERR_NOT_FOUND)
        error_set(e, rc, "%s: not a checkpoint (there is no such folder)", folder);
    if (!rc)
        rc = read_manifest(dir, folder, &ck->manifest, e);
    if (rc)
        goto out;
    const json_t *files = json_object_get(ck->manifest, "files");
    ck->file_count = json_array_size(files);
    ck->files = xcalloc(ck->file_count + 1, sizeof(*ck->files));
    json_array_foreach(files, i, entry)
    {
        rc = read_file(ck, dir, &ck->files[i], folder, entry, e);
        if (rc)
            goto out;
    }
    rc = sort_tensors(ck, folder, e);
out:
    if (dir >= 0)
        close(dir);
    if (rc)
        checkpoint_close(ck);
    else
        *out = ck;
    return rc;
}

void checkpoint_close(struct checkpoint *ck)
{
    if (!ck)
        return;
    for (size_t i = 0; i < ck->file_count; i++) {
        if (ck->files[i].data)
            munmap((void *)ck->files[i].data, ck->files[i].size);
        free(ck->files[i].path);
    }
    free(ck->files);
    free(ck->tensors);
    json_decref(ck->manifest);
    free(ck);
}

const json_t *checkpoint_manifest(const struct checkpoint *ck)
{
    return ck->manifest;
}

size_t checkpoint_tensor_count(const struct checkpoint *ck)
{
    return ck->tensor_count;
}

const struct checkpoint_tensor *checkpoint_tensor_at(const struct checkpoint *ck, size_t i)
{
    must(i < ck->tensor_count);
    return &ck->tensors[i].tensor;
}

const struct checkpoint_tensor *checkpoint_tensor_find(const struct checkpoint *ck,
                                                       const char *name)
{
    struct named_tensor key = {.tensor.name = name};
    const struct named_tensor *found =
        ck->tensor_count
            ? bsearch(&key, ck->tensors, ck->tensor_count, sizeof(*ck->tensors), compare_name)
            : NULL;
    return found ? &found->tensor : NULL;
}

// --- digests -------------------------------------------------------------------------------------

static void digest_tensor(struct sha256 *s, const struct checkpoint_tensor *t)
{
    const char *dtype = checkpoint_dtype_name(t->dtype);
    int64_t rank = t->rank;
    sha256_update(s, t->name, strlen(t->name) + 1);
    sha256_update(s, dtype, strlen(dtype) + 1);
    sha256_update(s, &rank, sizeof(rank));
    sha256_update(s, t->shape, (size_t)t->rank * sizeof(*t->shape));
    sha256_update(s, t->data, checkpoint_tensor_bytes(t));
}

static void digest_counters(struct sha256 *s, const json_t *manifest)
{
    static const char *const fields[] = {"step", "data_cursor", "exponents"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        const json_t *value = json_object_get(manifest, fields[i]);
        char *text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY)
                           : xstrdup("");
        must(text);
        sha256_update(s, fields[i], strlen(fields[i]) + 1);
        sha256_update(s, text, strlen(text) + 1);
        free(text);
    }
}

static void finish_hex(struct sha256 *s, char out[SHA256_HEX])
{
    uint8_t digest[SHA256_BYTES];
    sha256_final(s, digest);
    hex_encode(digest, sizeof(digest), out);
}

void checkpoint_digests(const struct checkpoint *ck, char weights[SHA256_HEX],
                        char state[SHA256_HEX])
{
    struct sha256 *of_weights = sha256_new(), *of_state = sha256_new();
    for (size_t i = 0; i < ck->tensor_count; i++) {
        const struct named_tensor *t = &ck->tensors[i];
        digest_tensor(of_state, &t->tensor);
        if (!strncmp(t->file->name, "weights", strlen("weights")))
            digest_tensor(of_weights, &t->tensor);
    }
    digest_counters(of_state, ck->manifest);
    finish_hex(of_weights, weights);
    finish_hex(of_state, state);
}
