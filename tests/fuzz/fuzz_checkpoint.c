// The folder of a checkpoint: a manifest and one file of tensors, whose checksums an attacker can
// correct.
//
//   a byte: bits of what is corrected (1 checksums, 2 sizes)
//   manifest  %%  header of weights.safetensors  %%  its data
//
// An opened checkpoint must have digests, and must be writable again with the same digests.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/checkpoint/checkpoint.h"
#include "api/checkpoint/checkpoint_parts.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "tests/fuzz/support.h"

enum { RIGHT_SUMS = 1, RIGHT_SIZES = 2 };

static void put_sum(json_t *object, const char *key, const void *data, size_t len)
{
    char crc[CHECKPOINT_CRC_HEX];
    checkpoint_crc_text(crc32c(0, data, len), crc);
    json_object_set_new(object, key, json_string(crc));
}

static void put_tensor_sums(json_t *tensors, struct piece data)
{
    size_t i;
    json_t *tensor;
    json_array_foreach(tensors, i, tensor)
    {
        int64_t shape[CHECKPOINT_RANK_MAX], offset = jget_int(tensor, "offset", -1);
        const json_t *sizes = json_object_get(tensor, "shape");
        size_t rank = json_array_size(sizes);
        if (!json_is_object(tensor) || rank > CHECKPOINT_RANK_MAX)
            continue;
        for (size_t d = 0; d < rank; d++)
            shape[d] = json_integer_value(json_array_get(sizes, d));
        int64_t bytes = checkpoint_shape_bytes((int)rank, shape);
        if (offset >= 0 && bytes >= 0 && (uint64_t)offset <= data.len &&
            (uint64_t)bytes <= data.len - (uint64_t)offset)
            put_sum(tensor, "crc32c", data.text + offset, (size_t)bytes);
    }
}

static void put_right(json_t *manifest, int what, struct piece header, struct piece data)
{
    size_t i;
    json_t *file;
    char crc[CHECKPOINT_CRC_HEX];
    json_array_foreach(json_object_get(manifest, "files"), i, file)
    {
        if (!json_is_object(file))
            continue;
        if (what & RIGHT_SIZES) {
            json_object_set_new(file, "header_bytes", json_integer((json_int_t)header.len));
            json_object_set_new(
                file, "bytes",
                json_integer((json_int_t)(CHECKPOINT_LENGTH_BYTES + header.len + data.len)));
        }
        put_sum(file, "header_crc32c", header.text, header.len);
        put_tensor_sums(json_object_get(file, "tensors"), data);
    }
    json_object_del(manifest, "crc32c");
    checkpoint_manifest_crc(manifest, crc);
    json_object_set_new(manifest, "crc32c", json_string(crc));
}

static void write_folder(struct piece manifest, int what, struct piece header, struct piece data)
{
    struct buf file;
    struct error e;
    json_t *parsed = NULL;
    uint64_t length = header.len;
    buf_init(&file, 1 << 24);
    buf_append(&file, &length, sizeof length);
    buf_append(&file, header.text, header.len);
    buf_append(&file, data.text, data.len);
    scratch_write("weights.safetensors", buf_str(&file), file.len);
    buf_free(&file);
    if (what && !json_parse(manifest.text, manifest.len, "manifest", &parsed, &e) &&
        json_is_object(parsed)) {
        put_right(parsed, what, header, data);
        char *text = json_text(parsed);
        scratch_write("manifest.json", text, strlen(text));
        free(text);
    } else {
        scratch_write("manifest.json", manifest.text, manifest.len);
    }
    json_decref(parsed);
}

static void write_again(const struct checkpoint *ck, const char *weights, const char *state)
{
    size_t count = checkpoint_tensor_count(ck);
    struct checkpoint_tensor *tensors = xcalloc(count + 1, sizeof *tensors);
    struct checkpoint *again = NULL;
    struct error e = {0};
    char again_weights[SHA256_HEX], again_state[SHA256_HEX];
    char *folder = scratch_path("again");
    for (size_t i = 0; i < count; i++) {
        tensors[i] = *checkpoint_tensor_at(ck, i);
        must(checkpoint_tensor_find(ck, tensors[i].name) == checkpoint_tensor_at(ck, i));
    }
    const struct checkpoint_file file = {"weights.safetensors", tensors, count};
    json_t *extra = json_deep_copy(checkpoint_manifest(ck));
    static const char *const own[] = {"format", "version", "files", "crc32c"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        json_object_del(extra, own[i]);
    must(!checkpoint_write(folder, &file, 1, extra, &e));
    must(!checkpoint_open(folder, &again, &e));
    checkpoint_digests(again, again_weights, again_state);
    must(!strcmp(weights, again_weights) && !strcmp(state, again_state));
    checkpoint_close(again);
    must(!dir_remove_tree(folder, &e));
    json_decref(extra);
    free(tensors);
    free(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct piece all = {(const char *)data + 1, size - 1}, manifest, header = {"", 0},
                 tensors = {"", 0};
    struct checkpoint *ck = NULL;
    struct error e = {0};
    char weights[SHA256_HEX], state[SHA256_HEX];
    if (!size)
        return -1;
    piece_next(&all, "\n%%\n", &manifest);
    piece_next(&all, "\n%%\n", &header);
    if (all.text)
        tensors = all;
    write_folder(manifest, *data & (RIGHT_SUMS | RIGHT_SIZES), header, tensors);
    if (!checkpoint_open(scratch_folder(), &ck, &e)) {
        checkpoint_digests(ck, weights, state);
        if (json_array_size(json_object_get(checkpoint_manifest(ck), "files")))
            write_again(ck, weights, state);
    } else {
        must(!ck && e.code < 0 && *e.text);
    }
    checkpoint_close(ck);
    return 0;
}
