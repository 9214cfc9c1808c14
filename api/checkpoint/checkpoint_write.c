#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/checkpoint/checkpoint.h"
#include "api/checkpoint/checkpoint_parts.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little-endian");

const char *checkpoint_dtype_name(enum checkpoint_dtype dtype)
{
    return dtype == CHECKPOINT_F32 ? "F32" : "I32";
}

bool checkpoint_file_name_ok(const char *name)
{
    static const char suffix[] = ".safetensors";
    size_t len = name ? strlen(name) : 0;
    return len > sizeof(suffix) - 1 && len <= LIMIT_NAME && path_is_inside(name) &&
           !strchr(name, '/') && !strcmp(name + len - (sizeof(suffix) - 1), suffix);
}

int64_t checkpoint_shape_bytes(int rank, const int64_t *shape)
{
    int64_t bytes = 4; // element size of both dtypes
    if (rank < 0 || rank > CHECKPOINT_RANK_MAX)
        return -1;
    for (int i = 0; i < rank; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(bytes, shape[i], &bytes))
            return -1;
    return bytes;
}

size_t checkpoint_tensor_bytes(const struct checkpoint_tensor *t)
{
    int64_t bytes = checkpoint_shape_bytes(t->rank, t->shape);
    must(bytes >= 0);
    return (size_t)bytes;
}

void checkpoint_crc_text(uint32_t crc, char out[CHECKPOINT_CRC_HEX])
{
    snprintf(out, CHECKPOINT_CRC_HEX, "%08x", crc);
}

void checkpoint_manifest_crc(const json_t *manifest, char out[CHECKPOINT_CRC_HEX])
{
    json_t *rest = json_copy((json_t *)manifest);
    json_object_del(rest, "crc32c");
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    must(text);
    checkpoint_crc_text(crc32c(0, text, strlen(text)), out);
    free(text);
    json_decref(rest);
}

// --- one file ------------------------------------------------------------------------------------

static int check_tensors(const struct checkpoint_file *file, struct error *e)
{
    json_t *seen = json_object();
    int rc = 0;
    if (!checkpoint_file_name_ok(file->name))
        rc = error_set(e, ERR_INVALID, "\"%.64s\" is not a name of a safetensors file", file->name);
    else if (file->count > CHECKPOINT_TENSORS_MAX)
        rc = error_set(e, ERR_TOO_LARGE, "%s: %zu tensors; at most %d", file->name, file->count,
                       CHECKPOINT_TENSORS_MAX);
    for (size_t i = 0; !rc && i < file->count; i++) {
        const struct checkpoint_tensor *t = &file->tensors[i];
        if (!*t->name || strlen(t->name) > LIMIT_NAME || !strcmp(t->name, CHECKPOINT_METADATA))
            rc = error_set(e, ERR_INVALID, "%s: \"%.64s\" is not a name of a tensor", file->name,
                           t->name);
        else if (checkpoint_shape_bytes(t->rank, t->shape) < 0)
            rc = error_set(e, ERR_INVALID, "%s: tensor \"%s\": shape out of range", file->name,
                           t->name);
        else if (json_object_get(seen, t->name))
            rc = error_set(e, ERR_INVALID, "%s: two tensors are named \"%s\"", file->name, t->name);
        else if (json_object_set_new(seen, t->name, json_true()))
            rc = error_set(e, ERR_INVALID, "%s: a tensor's name is not UTF-8", file->name);
    }
    json_decref(seen);
    return rc;
}

static void write_shape(struct json_writer *w, const struct checkpoint_tensor *t)
{
    jw_key(w, "shape");
    jw_array(w);
    for (int i = 0; i < t->rank; i++)
        jw_int(w, t->shape[i]);
    jw_array_end(w);
}

// Makes the header's length and text, padded so that data starts on a multiple of 64 bytes.
static void make_header(const struct checkpoint_file *file, struct buf *out)
{
    struct json_writer w;
    int64_t offset = 0;
    uint64_t length = 0;
    buf_append(out, &length, sizeof(length));
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, CHECKPOINT_METADATA);
    jw_object(&w);
    jw_kv_string(&w, "format", CHECKPOINT_FORMAT);
    jw_object_end(&w);
    for (size_t i = 0; i < file->count; i++) {
        const struct checkpoint_tensor *t = &file->tensors[i];
        jw_key(&w, t->name);
        jw_object(&w);
        jw_kv_string(&w, "dtype", checkpoint_dtype_name(t->dtype));
        write_shape(&w, t);
        jw_key(&w, "data_offsets");
        jw_array(&w);
        jw_int(&w, offset);
        offset += (int64_t)checkpoint_tensor_bytes(t);
        jw_int(&w, offset);
        jw_array_end(&w);
        jw_object_end(&w);
    }
    jw_object_end(&w);
    while (out->len % 64 && !out->err)
        buf_puts(out, " ");
    if (out->err)
        return;
    length = out->len - CHECKPOINT_LENGTH_BYTES;
    memcpy(out->data, &length, sizeof(length));
}

static json_t *tensor_entry(const struct checkpoint_tensor *t, int64_t offset)
{
    char crc[CHECKPOINT_CRC_HEX];
    checkpoint_crc_text(crc32c(0, t->data, checkpoint_tensor_bytes(t)), crc);
    json_t *shape = json_array();
    for (int i = 0; i < t->rank; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:s, s:o, s:I, s:s}", "name", t->name, "dtype",
                     checkpoint_dtype_name(t->dtype), "shape", shape, "offset", (json_int_t)offset,
                     "crc32c", crc);
}

static json_t *file_entry(const struct checkpoint_file *file, const struct buf *header)
{
    char crc[CHECKPOINT_CRC_HEX];
    size_t header_bytes = header->len - CHECKPOINT_LENGTH_BYTES;
    json_t *tensors = json_array();
    int64_t offset = 0;
    for (size_t i = 0; i < file->count; i++) {
        json_array_append_new(tensors, tensor_entry(&file->tensors[i], offset));
        offset += (int64_t)checkpoint_tensor_bytes(&file->tensors[i]);
    }
    checkpoint_crc_text(crc32c(0, header->data + CHECKPOINT_LENGTH_BYTES, header_bytes), crc);
    return json_pack("{s:s, s:I, s:I, s:s, s:o}", "name", file->name, "bytes",
                     (json_int_t)(offset + (int64_t)header->len), "header_bytes",
                     (json_int_t)header_bytes, "header_crc32c", crc, "tensors", tensors);
}

static int write_tensor_file(const char *path, const struct checkpoint_file *file,
                             const struct buf *header, struct error *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_set_errno(e, ERR_IO, errno, "cannot create %s", path);
    int rc = file_write_all(fd, header->data, header->len);
    for (size_t i = 0; !rc && i < file->count; i++)
        rc = file_write_all(fd, file->tensors[i].data, checkpoint_tensor_bytes(&file->tensors[i]));
    if (!rc && fsync(fd))
        rc = ERR_IO;
    if (rc)
        error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    if (close(fd) && !rc)
        rc = error_set_errno(e, ERR_IO, errno, "cannot write %s", path);
    return rc;
}

int checkpoint_write_file(const char *folder, const struct checkpoint_file *file, json_t **entry,
                          struct error *e)
{
    struct buf header;
    char *path = NULL, *aside = NULL;
    *entry = NULL;
    buf_init(&header, CHECKPOINT_HEADER_MAX);
    int rc = check_tensors(file, e);
    if (!rc)
        rc = dir_make(folder, 0775, e);
    if (rc)
        goto out;
    make_header(file, &header);
    if (header.err) {
        rc = error_set(e, ERR_TOO_LARGE, "%s: the header is larger than safetensors allows",
                       file->name);
        goto out;
    }
    path = path_join(folder, file->name);
    aside = xasprintf("%s.tmp.%d", path, (int)getpid());
    rc = write_tensor_file(aside, file, &header, e);
    if (!rc && rename(aside, path))
        rc = error_set_errno(e, ERR_IO, errno, "cannot rename %s to %s", aside, path);
    if (!rc)
        rc = file_sync_dir(folder, e);
    if (rc)
        unlink(aside);
    else
        *entry = file_entry(file, &header);
out:
    free(aside);
    free(path);
    buf_free(&header);
    return rc;
}

// --- the manifest --------------------------------------------------------------------------------

bool checkpoint_is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static int check_extra(const json_t *extra, struct error *e)
{
    static const char *const counts[] = {"step", "data_cursor"};
    static const char *const reserved[] = {"format", "version", "files", "crc32c"};
    for (size_t i = 0; i < 2; i++)
        if (!checkpoint_is_count(json_object_get(extra, counts[i])))
            return error_set(e, ERR_INVALID,
                             "the field \"%s\" must be an integer that is not negative", counts[i]);
    for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
        if (json_object_get(extra, reserved[i]))
            return error_set(e, ERR_INVALID, "the field \"%s\" is reserved for the manifest",
                             reserved[i]);
    return 0;
}

// Refuses names that occur twice in all files.
static int check_entries(const json_t *entries, struct error *e)
{
    json_t *names = json_object(), *tensors = json_object(), *entry, *tensor;
    size_t i, j;
    int rc = 0;
    json_array_foreach(entries, i, entry)
    {
        const char *file = jget_string(entry, "name", "");
        if (!rc && json_object_get(names, file))
            rc = error_set(e, ERR_INVALID, "two files are named \"%s\"", file);
        json_object_set_new(names, file, json_true());
        json_array_foreach(jget(entry, "tensors"), j, tensor)
        {
            const char *name = jget_string(tensor, "name", "");
            if (!rc && json_object_get(tensors, name))
                rc = error_set(e, ERR_INVALID, "%s: there is another tensor \"%s\"", file, name);
            json_object_set_new(tensors, name, json_true());
        }
    }
    json_decref(tensors);
    json_decref(names);
    return rc;
}

static int write_manifest(const char *folder, const json_t *entries, const json_t *extra,
                          struct error *e)
{
    char crc[CHECKPOINT_CRC_HEX];
    int rc = check_extra(extra, e);
    if (!rc)
        rc = check_entries(entries, e);
    if (rc)
        return rc;
    json_t *manifest =
        json_pack("{s:s, s:i}", "format", CHECKPOINT_FORMAT, "version", CHECKPOINT_VERSION);
    json_object_update(manifest, (json_t *)extra);
    json_object_set(manifest, "files", (json_t *)entries);
    checkpoint_manifest_crc(manifest, crc);
    json_object_set_new(manifest, "crc32c", json_string(crc));
    char *text = json_dumps(manifest, JSON_INDENT(1));
    must(text);
    char *path = path_join(folder, CHECKPOINT_MANIFEST);
    if (strlen(text) > CHECKPOINT_MANIFEST_MAX)
        rc = error_set(e, ERR_TOO_LARGE, "%s: the manifest is larger than %d bytes", path,
                       CHECKPOINT_MANIFEST_MAX);
    else
        rc = file_write_durable(path, text, strlen(text), 0644, e);
    free(path);
    free(text);
    json_decref(manifest);
    return rc;
}

int checkpoint_write(const char *folder, const struct checkpoint_file *files, size_t file_count,
                     const json_t *extra, struct error *e)
{
    json_t *entries = json_array();
    int rc = check_extra(extra, e);
    if (!rc)
        rc = dir_make(folder, 0775, e);
    for (size_t i = 0; !rc && i < file_count; i++) {
        json_t *entry;
        rc = checkpoint_write_file(folder, &files[i], &entry, e);
        if (!rc)
            json_array_append_new(entries, entry);
    }
    if (!rc)
        rc = write_manifest(folder, entries, extra, e);
    json_decref(entries);
    return rc;
}
