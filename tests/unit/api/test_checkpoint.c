// Checkpoints: written data reads back, and every later change is detected and named.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/checkpoint/checkpoint.h"
#include "base/arena.h"
#include "base/limits.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "base/text/json.h"

static const float weight[6] = {1, -2, 3.5f, 0, 1e-30f, 1e30f};
static const float bias[2] = {0.25f, -0.5f};
static const int32_t exponents[3] = {-4, 0, 7};

static const struct checkpoint_tensor weights[] = {
    {"layer.weight", CHECKPOINT_F32, 2, {2, 3}, weight},
    {"layer.bias", CHECKPOINT_F32, 1, {2}, bias},
    {"nothing", CHECKPOINT_F32, 2, {0, 5}, bias},
};
static const struct checkpoint_tensor states[] = {
    {"moment1/layer.weight", CHECKPOINT_F32, 2, {3, 2}, weight},
    {"exponents", CHECKPOINT_I32, 1, {3}, exponents},
    {"scale", CHECKPOINT_F32, 0, {0}, bias},
};
static const struct checkpoint_file files[] = {
    {"weights.safetensors", weights, 3},
    {"optimizer.safetensors", states, 3},
};

static json_t *extra(long long step)
{
    return json_pack("{s:I, s:i, s:[i,i], s:s, s:f, s:i}", "step", (json_int_t)step, "data_cursor",
                     1200, "exponents", 3, -4, "fingerprint", "cpu avx2", "loss", 0.1, "world_size",
                     2);
}

static void write_good(const char *folder)
{
    struct error e;
    json_t *fields = extra(100);
    if (checkpoint_write(folder, files, 2, fields, &e))
        fail_msg("%s", e.text);
    json_decref(fields);
}

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not hold \"%s\"", text, part);
}

static void open_refused(const char *folder, int code, const char *part)
{
    struct checkpoint *ck;
    struct error e = {0};
    assert_int_equal(checkpoint_open(folder, &ck, &e), code);
    assert_null(ck);
    assert_contains(e.text, part);
}

// --- bytes of files, for doing harm --------------------------------------------------------------

static char *slurp(const char *path, size_t *len)
{
    char *data;
    struct error e;
    if (file_read(path, 1 << 20, &data, len, &e))
        fail_msg("%s", e.text);
    return data;
}

static void spill(const char *path, const void *data, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void crc_text(const void *data, size_t len, char out[9])
{
    snprintf(out, 9, "%08x", crc32c(0, data, len));
}

// Rewrites the manifest with a matching checksum, as an attacker would.
static void forge_manifest(const char *path, json_t *manifest)
{
    char crc[9];
    json_object_del(manifest, "crc32c");
    char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    crc_text(text, strlen(text), crc);
    free(text);
    json_object_set_new(manifest, "crc32c", json_string(crc));
    text = json_dumps(manifest, 0);
    spill(path, text, strlen(text));
    free(text);
}

static json_t *load_manifest(const char *path)
{
    json_t *manifest = json_load_file(path, 0, NULL);
    assert_non_null(manifest);
    return manifest;
}

// --- bad input: writing --------------------------------------------------------------------------

static void write_refused(const struct checkpoint_file *file, const char *part)
{
    struct error e = {0};
    json_t *entry;
    assert_int_not_equal(checkpoint_write_file("w", file, &entry, &e), 0);
    assert_null(entry);
    assert_contains(e.text, part);
}

static void bad_names_and_shapes_are_not_written(void **state)
{
    char long_name[LIMIT_NAME + 2];
    struct checkpoint_tensor t[2] = {weights[0], weights[0]};
    struct checkpoint_file f = {"weights.safetensors", t, 2};
    (void)state;
    write_refused(&f, "two tensors are named \"layer.weight\"");
    t[1].name = "__metadata__";
    write_refused(&f, "\"__metadata__\" is not a name of a tensor");
    t[1].name = "";
    write_refused(&f, "is not a name of a tensor");
    memset(long_name, 'n', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    t[1].name = long_name;
    write_refused(&f, "is not a name of a tensor");
    t[1].name = "\xff\xfe";
    write_refused(&f, "not UTF-8");
    t[1].name = "b";
    t[1].rank = CHECKPOINT_RANK_MAX + 1;
    write_refused(&f, "tensor \"b\": shape out of range");
    t[1].rank = 2;
    t[1].shape[0] = -1;
    write_refused(&f, "shape out of range");
    t[1].shape[0] = t[1].shape[1] = INT64_C(1) << 40;
    write_refused(&f, "shape out of range");
    t[1] = weights[1];
    static const char *const names[] = {"weights.bin", "../w.safetensors", "a/b.safetensors",
                                        ".safetensors", "/w.safetensors"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        f.name = names[i];
        write_refused(&f, "is not a name of a safetensors file");
    }
    assert_false(path_exists("w/weights.safetensors"));
}

static void bad_fields_of_the_manifest_are_not_written(void **state)
{
    struct error e;
    json_t *fields = extra(1);
    (void)state;
    json_object_set_new(fields, "step", json_real(1.5));
    assert_int_equal(checkpoint_write("f", files, 2, fields, &e), ERR_INVALID);
    assert_contains(e.text, "the field \"step\" must be an integer");
    json_object_set_new(fields, "step", json_integer(-1));
    assert_int_equal(checkpoint_write("f", files, 2, fields, &e), ERR_INVALID);
    json_object_set_new(fields, "step", json_integer(1));
    json_object_del(fields, "data_cursor");
    assert_int_equal(checkpoint_write("f", files, 2, fields, &e), ERR_INVALID);
    assert_contains(e.text, "the field \"data_cursor\" must be an integer");
    json_object_set_new(fields, "data_cursor", json_integer(0));
    json_object_set_new(fields, "files", json_array());
    assert_int_equal(checkpoint_write("f", files, 2, fields, &e), ERR_INVALID);
    assert_contains(e.text, "\"files\" is reserved for the manifest");
    json_decref(fields);
    assert_false(path_exists("f/manifest.json"));

    const struct checkpoint_file twice[] = {files[0], {"b.safetensors", weights, 3}};
    fields = extra(1);
    assert_int_equal(checkpoint_write("f", twice, 2, fields, &e), ERR_INVALID);
    assert_contains(e.text, "b.safetensors: there is another tensor \"layer.weight\"");
    const struct checkpoint_file same[] = {files[0], {"weights.safetensors", states, 3}};
    assert_int_equal(checkpoint_write("f", same, 2, fields, &e), ERR_INVALID);
    assert_contains(e.text, "two files are named");
    assert_false(path_exists("f/manifest.json"));
    json_decref(fields);
}

static void folders_that_cannot_be_written(void **state)
{
    struct error e;
    json_t *fields = extra(1);
    (void)state;
    spill("plain", "x", 1);
    assert_int_not_equal(checkpoint_write("plain/ck", files, 2, fields, &e), 0);
    assert_contains(e.text, "plain");
    json_decref(fields);
}

// --- bad input: reading --------------------------------------------------------------------------

static void folders_without_a_checkpoint(void **state)
{
    (void)state;
    open_refused("absent", ERR_NOT_FOUND, "absent: not a checkpoint");
    assert_int_equal(dir_make("empty", 0755, NULL), 0);
    open_refused("empty", ERR_NOT_FOUND, "empty: not a checkpoint (manifest.json is missing)");
    write_good("lost");
    assert_int_equal(unlink("lost/optimizer.safetensors"), 0);
    open_refused("lost", ERR_CORRUPT, "lost/optimizer.safetensors: a file of the checkpoint is");
}

static void manifests_that_make_no_sense(void **state)
{
    static const struct {
        const char *text, *expected;
        int code;
    } bad[] = {
        {"", "manifest.json", ERR_CORRUPT},
        {"{", "manifest.json", ERR_CORRUPT},
        {"[]", "it is not the manifest of a checkpoint", ERR_CORRUPT},
        {"null", "it is not the manifest of a checkpoint", ERR_CORRUPT},
        {"{\"format\":\"other\"}", "it is not the manifest of a checkpoint", ERR_CORRUPT},
        {"{\"format\":\"muster-checkpoint\",\"version\":1}", "the checksum does not match",
         ERR_CORRUPT},
        {"{\"format\":\"muster-checkpoint\",\"version\":2}", "use the newer program", ERR_VERSION},
    };
    (void)state;
    write_good("m");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        spill("m/manifest.json", bad[i].text, strlen(bad[i].text));
        open_refused("m", bad[i].code, bad[i].expected);
    }
}

// Makes one change to a manifest and corrects its checksum.
static void forged(const char *path, json_t *value, const char *expected)
{
    write_good("g");
    json_t *manifest = load_manifest("g/manifest.json");
    char *parts = xstrdup(path), *save = NULL;
    json_t *at = manifest;
    for (char *part = strtok_r(parts, ".", &save), *next; part; part = next) {
        next = strtok_r(NULL, ".", &save);
        if (next)
            at = json_is_array(at) ? json_array_get(at, strtoul(part, NULL, 10))
                                   : json_object_get(at, part);
        else if (json_is_array(at))
            json_array_set(at, strtoul(part, NULL, 10), value);
        else if (value)
            json_object_set(at, part, value);
        else
            json_object_del(at, part);
    }
    forge_manifest("g/manifest.json", manifest);
    open_refused("g", ERR_CORRUPT, expected);
    json_decref(manifest);
    json_decref(value);
    free(parts);
}

static void manifests_that_contradict_their_files(void **state)
{
    (void)state;
    forged("step", NULL, "step, data_cursor or files is missing");
    forged("step", json_integer(-1), "step, data_cursor or files is missing or invalid");
    forged("data_cursor", json_integer(-7), "step, data_cursor or files is missing or invalid");
    forged("files", json_integer(3), "step, data_cursor or files is missing");
    forged("files.0.name", json_string("../weights.safetensors"), "the manifest names a file");
    forged("files.0.name", json_string("optimizer.safetensors"), "optimizer.safetensors: it has");
    forged("files.0.bytes", json_integer(7), "but the manifest says 7");
    forged("files.0.bytes", json_integer(-1), "but the manifest says -1");
    forged("files.0.header_bytes", json_integer(8), "offset 0: the length of the header is wrong");
    forged("files.0.header_crc32c", json_string("00000000"),
           "offset 8: the header does not match its checksum");
    forged("files.0.tensors", NULL, "header and manifest disagree");
    forged("files.0.tensors", json_array(), "header and manifest disagree");
    forged("files.0.tensors.0", json_integer(1), "name, dtype or shape");
    forged("files.0.tensors.0.name", json_string("other"), "header and manifest disagree");
    forged("files.0.tensors.0.name", json_string(""), "name, dtype or shape");
    forged("files.0.tensors.0.dtype", json_string("BF16"), "name, dtype or shape");
    forged("files.0.tensors.0.dtype", json_string("I32"), "header and manifest disagree");
    forged("files.0.tensors.0.shape", json_string("2x3"), "name, dtype or shape");
    forged("files.0.tensors.0.shape.0", json_integer(-2), "name, dtype or shape");
    forged("files.0.tensors.0.shape.0", json_integer(1000), "would end past the end of the file");
    forged("files.0.tensors.0.shape.0", json_integer(INT64_MAX), "name, dtype or shape");
    forged("files.0.tensors.0.shape.0", json_real(2.5), "name, dtype or shape");
    forged("files.0.tensors.0.shape.0", json_integer(1), "header and manifest disagree");
    forged("files.0.tensors.1.offset", json_integer(23), "does not start where the tensor before");
    forged("files.0.tensors.1.offset", json_integer(-8), "does not start where the tensor before");
    forged("files.0.tensors.0.crc32c", json_string("12345678"),
           "tensor \"layer.weight\": the data does not match its checksum");
    forged("files.1.tensors.0.crc32c", NULL, "tensor \"moment1/layer.weight\"");
}

// Headers that are wrong although every checksum matches: only the comparison finds them.
static void forged_header(const char *from, const char *to, const char *expected)
{
    size_t len;
    char crc[9];
    write_good("h");
    char *data = slurp("h/weights.safetensors", &len);
    uint64_t header_len;
    memcpy(&header_len, data, 8);
    char *at = memmem(data + 8, header_len, from, strlen(from));
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    spill("h/weights.safetensors", data, len);
    json_t *manifest = load_manifest("h/manifest.json");
    crc_text(data + 8, header_len, crc);
    json_object_set_new(json_array_get(jget(manifest, "files"), 0), "header_crc32c",
                        json_string(crc));
    forge_manifest("h/manifest.json", manifest);
    open_refused("h", ERR_CORRUPT, expected);
    json_decref(manifest);
    free(data);
}

static void headers_that_contradict_the_manifest(void **state)
{
    (void)state;
    forged_header("{\"__metadata__\"", "[\"__metadata__\"", "the header is damaged");
    forged_header("\"layer.bias\"", "\"layer.bios\"", "tensor \"layer.bias\": header and manifest");
    forged_header("\"data_offsets\":[0,24]", "\"data_offsets\":[8,24]", "header and manifest");
    forged_header("\"data_offsets\":[0,24]", "\"data_offsets\":[0,32]", "header and manifest");
    forged_header("\"data_offsets\":[24,32]", "\"data_offsets\":[ 24  ]", "header and manifest");
    forged_header("\"shape\":[2,3]", "\"shape\":[3,2]", "tensor \"layer.weight\": header and");
    forged_header("\"dtype\":\"F32\"", "\"dtype\":\"I32\"", "header and manifest disagree");
    forged_header("\"layer.bias\"", "\"nothing\"   ", "the header is damaged"); // a repeated key
}

static void files_that_are_cut_or_longer(void **state)
{
    size_t len;
    (void)state;
    write_good("c");
    char *data = slurp("c/weights.safetensors", &len);
    for (size_t cut = 0; cut < len; cut++) {
        spill("c/weights.safetensors", data, cut);
        open_refused("c", ERR_CORRUPT, "c/weights.safetensors: it has");
        json_t *manifest = load_manifest("c/manifest.json");
        json_object_set_new(json_array_get(jget(manifest, "files"), 0), "bytes",
                            json_integer((json_int_t)cut));
        forge_manifest("c/manifest.json", manifest);
        open_refused("c", ERR_CORRUPT, "c/weights.safetensors: ");
        json_decref(manifest);
    }
    free(data);

    write_good("c");
    data = slurp("c/weights.safetensors", &len);
    char *longer = xcalloc(1, len + 4);
    memcpy(longer, data, len);
    spill("c/weights.safetensors", longer, len + 4);
    json_t *manifest = load_manifest("c/manifest.json");
    json_object_set_new(json_array_get(jget(manifest, "files"), 0), "bytes",
                        json_integer((json_int_t)len + 4));
    forge_manifest("c/manifest.json", manifest);
    open_refused("c", ERR_CORRUPT, "there are bytes that belong to no tensor");
    json_decref(manifest);
    free(longer);
    free(data);
}

static void every_flipped_byte_of_a_file_is_found(void **state)
{
    size_t len;
    (void)state;
    write_good("b");
    char *data = slurp("b/weights.safetensors", &len);
    for (size_t i = 0; i < len; i++) {
        for (int bit = 0; bit < 8; bit += 3) {
            data[i] = (char)(data[i] ^ (1 << bit));
            spill("b/weights.safetensors", data, len);
            open_refused("b", ERR_CORRUPT, "b/weights.safetensors");
            data[i] = (char)(data[i] ^ (1 << bit));
        }
    }
    free(data);
}

// A changed byte of the manifest is detected, unless it was white space or an escape with the same
// meaning.
static void flipped_bytes_of_the_manifest(void **state)
{
    char weights_before[SHA256_HEX], state_before[SHA256_HEX], w[SHA256_HEX], s[SHA256_HEX];
    struct checkpoint *ck;
    size_t len;
    int refused = 0;
    (void)state;
    write_good("n");
    assert_int_equal(checkpoint_open("n", &ck, NULL), 0);
    checkpoint_digests(ck, weights_before, state_before);
    checkpoint_close(ck);
    char *data = slurp("n/manifest.json", &len);
    struct rng r;
    rng_seed(&r, 11, 1);
    for (int round = 0; round < 3000; round++) {
        size_t at = rng_below(&r, (uint32_t)len);
        char before = data[at];
        data[at] = (char)rng_below(&r, 256);
        spill("n/manifest.json", data, len);
        if (checkpoint_open("n", &ck, NULL)) {
            refused++;
        } else {
            checkpoint_digests(ck, w, s);
            assert_string_equal(w, weights_before);
            assert_string_equal(s, state_before);
            checkpoint_close(ck);
        }
        data[at] = before;
    }
    assert_true(refused > 2000);
    free(data);
}

static void too_many_files_or_tensors(void **state)
{
    (void)state;
    write_good("t");
    json_t *manifest = load_manifest("t/manifest.json");
    json_t *list = jget(manifest, "files");
    while (json_array_size(list) <= LIMIT_CHECKPOINT_FILES)
        json_array_append(list, json_array_get(list, 0));
    forge_manifest("t/manifest.json", manifest);
    open_refused("t", ERR_CORRUPT, "it names too many files");
    json_decref(manifest);

    write_good("t");
    manifest = load_manifest("t/manifest.json");
    list = jget(json_array_get(jget(manifest, "files"), 0), "tensors");
    while (json_array_size(list) <= CHECKPOINT_TENSORS_MAX)
        json_array_append(list, json_array_get(list, 0));
    forge_manifest("t/manifest.json", manifest);
    open_refused("t", ERR_CORRUPT, "the manifest names too many tensors");
    json_decref(manifest);
}

static void a_tensor_in_two_files_is_refused(void **state)
{
    struct error e;
    json_t *entries = json_array(), *entry, *fields = extra(1);
    const struct checkpoint_file other = {"other.safetensors", weights, 1};
    (void)state;
    assert_int_equal(checkpoint_write_file("d", &files[0], &entry, &e), 0);
    json_array_append_new(entries, entry);
    assert_int_equal(checkpoint_write_file("d", &other, &entry, &e), 0);
    json_t *manifest = json_pack("{s:s, s:i, s:O, s:i, s:i}", "format", "muster-checkpoint",
                                 "version", 1, "files", entries, "step", 1, "data_cursor", 1);
    json_array_append_new(entries, entry);
    forge_manifest("d/manifest.json", manifest);
    open_refused("d", ERR_CORRUPT, "tensor \"layer.weight\" is in two files");
    json_decref(manifest);
    json_decref(entries);
    json_decref(fields);
}

// --- written files -------------------------------------------------------------------------------

static void what_was_written_reads_back(void **state)
{
    struct checkpoint *ck;
    struct error e;
    (void)state;
    write_good("r/deep");
    if (checkpoint_open("r/deep", &ck, &e))
        fail_msg("%s", e.text);
    assert_int_equal(checkpoint_tensor_count(ck), 6);
    assert_string_equal(checkpoint_tensor_at(ck, 0)->name, "exponents");
    assert_string_equal(checkpoint_tensor_at(ck, 5)->name, "scale");
    for (size_t f = 0; f < 2; f++) {
        for (size_t i = 0; i < files[f].count; i++) {
            const struct checkpoint_tensor *want = &files[f].tensors[i];
            const struct checkpoint_tensor *t = checkpoint_tensor_find(ck, want->name);
            assert_non_null(t);
            assert_int_equal(t->dtype, want->dtype);
            assert_int_equal(t->rank, want->rank);
            assert_memory_equal(t->shape, want->shape, (size_t)t->rank * sizeof(*t->shape));
            assert_int_equal(checkpoint_tensor_bytes(t), checkpoint_tensor_bytes(want));
            assert_memory_equal(t->data, want->data, checkpoint_tensor_bytes(t));
            assert_int_equal((uintptr_t)t->data % 4, 0);
        }
    }
    assert_null(checkpoint_tensor_find(ck, "layer"));
    const json_t *manifest = checkpoint_manifest(ck);
    assert_int_equal(jget_int(manifest, "step", 0), 100);
    assert_string_equal(jget_string(manifest, "fingerprint", ""), "cpu avx2");
    assert_true(jget_double(manifest, "loss", 0) == 0.1);
    checkpoint_close(ck);
    checkpoint_close(NULL);
}

static void an_empty_checkpoint_is_one(void **state)
{
    struct checkpoint *ck;
    struct error e;
    json_t *fields = extra(0);
    (void)state;
    assert_int_equal(checkpoint_write("none", NULL, 0, fields, &e), 0);
    assert_int_equal(checkpoint_open("none", &ck, &e), 0);
    assert_int_equal(checkpoint_tensor_count(ck), 0);
    assert_null(checkpoint_tensor_find(ck, "x"));
    checkpoint_close(ck);
    json_decref(fields);
}

static void writing_again_replaces(void **state)
{
    struct checkpoint *ck;
    struct error e;
    json_t *fields = extra(200);
    (void)state;
    write_good("again");
    assert_int_equal(checkpoint_write("again", files, 1, fields, &e), 0);
    assert_int_equal(checkpoint_open("again", &ck, &e), 0);
    assert_int_equal(jget_int(checkpoint_manifest(ck), "step", 0), 200);
    assert_int_equal(checkpoint_tensor_count(ck), 3);
    checkpoint_close(ck);
    json_decref(fields);
}

// The layout on which other readers of safetensors rely.
static void the_file_is_plain_safetensors(void **state)
{
    size_t len;
    uint64_t header_len;
    (void)state;
    write_good("s");
    char *data = slurp("s/weights.safetensors", &len);
    memcpy(&header_len, data, 8);
    assert_int_equal((8 + header_len) % 64, 0);
    assert_int_equal(data[8], '{');
    json_t *header = json_loadb(data + 8, header_len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(header);
    json_t *expected =
        json_loads("{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}", 0, NULL);
    assert_true(json_equal(json_object_get(header, "layer.weight"), expected));
    assert_memory_equal(data + 8 + header_len, weight, sizeof(weight));
    assert_memory_equal(data + 8 + header_len + 24, bias, sizeof(bias));
    assert_int_equal(len, 8 + header_len + 32);
    json_decref(expected);
    json_decref(header);
    free(data);
}

// --- digests -------------------------------------------------------------------------------------

static void digests_of(const struct checkpoint_file *list, size_t count, json_t *fields,
                       char w[SHA256_HEX], char s[SHA256_HEX])
{
    struct checkpoint *ck;
    struct error e;
    assert_int_equal(dir_remove_tree("digest", &e), 0);
    assert_int_equal(checkpoint_write("digest", list, count, fields, &e), 0);
    assert_int_equal(checkpoint_open("digest", &ck, &e), 0);
    checkpoint_digests(ck, w, s);
    checkpoint_close(ck);
    json_decref(fields);
}

static void digests_depend_on_state_alone(void **state)
{
    char w0[SHA256_HEX], s0[SHA256_HEX], w[SHA256_HEX], s[SHA256_HEX];
    (void)state;
    digests_of(files, 2, extra(100), w0, s0);
    assert_int_equal(strlen(w0), 64);
    assert_string_not_equal(w0, s0);

    json_t *fields = extra(100); // fields of this run
    json_object_set_new(fields, "world_size", json_integer(7));
    json_object_set_new(fields, "uuid", json_string("x"));
    json_object_set_new(fields, "fingerprint", json_string("other"));
    digests_of(files, 2, fields, w, s);
    assert_string_equal(w, w0);
    assert_string_equal(s, s0);

    struct checkpoint_tensor turned[] = {weights[2], weights[1], weights[0]}; // another layout
    const struct checkpoint_file split[] = {{"weights-1.safetensors", turned, 2},
                                            {"weights-2.safetensors", &turned[2], 1},
                                            {"o.safetensors", states, 3}};
    digests_of(split, 3, extra(100), w, s);
    assert_string_equal(w, w0);
    assert_string_equal(s, s0);

    digests_of(files, 2, extra(101), w, s); // one step later
    assert_string_equal(w, w0);
    assert_string_not_equal(s, s0);
    fields = extra(100);
    json_object_set_new(fields, "data_cursor", json_integer(1201));
    digests_of(files, 2, fields, w, s);
    assert_string_not_equal(s, s0);
    fields = extra(100);
    json_array_set_new(json_object_get(fields, "exponents"), 0, json_integer(9));
    digests_of(files, 2, fields, w, s);
    assert_string_equal(w, w0);
    assert_string_not_equal(s, s0);

    static const int32_t other[3] = {-4, 0, 8};
    struct checkpoint_tensor changed[] = {states[0], states[1], states[2]};
    changed[1].data = other;
    const struct checkpoint_file moved[] = {files[0], {"optimizer.safetensors", changed, 3}};
    digests_of(moved, 2, extra(100), w, s);
    assert_string_equal(w, w0);
    assert_string_not_equal(s, s0);

    struct checkpoint_tensor reshaped[] = {weights[0], weights[1], weights[2]};
    reshaped[0].shape[0] = 3;
    reshaped[0].shape[1] = 2;
    const struct checkpoint_file shaped[] = {{"weights.safetensors", reshaped, 3}, files[1]};
    digests_of(shaped, 2, extra(100), w, s);
    assert_string_not_equal(w, w0);
}

// --- where they lie ------------------------------------------------------------------------------

static void resources_list_every_file(void **state)
{
    json_t *resources;
    struct error e;
    struct stat st;
    char size[24];
    (void)state;
    assert_int_equal(checkpoint_resources("nowhere", &resources, &e), ERR_NOT_FOUND);
    assert_null(resources);
    write_good("res");
    assert_int_equal(dir_make("res/sub", 0755, &e), 0);
    spill("res/sub/extra.txt", "12345", 5);
    assert_int_equal(symlink("/etc/passwd", "res/link"), 0);
    assert_int_equal(checkpoint_resources("res", &resources, &e), 0);
    assert_int_equal(json_object_size(resources), 4);
    assert_string_equal(jget_string(resources, "sub/extra.txt", ""), "5");
    assert_int_equal(stat("res/manifest.json", &st), 0);
    snprintf(size, sizeof(size), "%lld", (long long)st.st_size);
    assert_string_equal(jget_string(resources, "manifest.json", ""), size);
    json_decref(resources);
}

static void check_folder(const char *storage, const char *uuid, const char *expected)
{
    struct error e;
    char *folder;
    json_t *value = json_loads(storage, 0, NULL);
    assert_non_null(value);
    int rc = checkpoint_folder(value, uuid, &folder, &e);
    if (*expected == '/') {
        assert_int_equal(rc, 0);
        assert_string_equal(folder, expected);
    } else {
        assert_int_equal(rc, ERR_INVALID);
        assert_null(folder);
        assert_contains(e.text, expected);
    }
    free(folder);
    json_decref(value);
}

static void folders_of_checkpoints(void **state)
{
    static const char id[] = "0a1b2c3d-0000-4000-8000-00000000000F";
#define SHARED "{\"type\":\"shared_fs\",\"host_path\":\"/h\""
    (void)state;
    check_folder("{\"type\":\"directory\",\"container_path\":\"/c\"}", "../../etc",
                 "\"../../etc\" is not the id of a checkpoint");
    check_folder("{\"type\":\"directory\",\"container_path\":\"/c\"}", "", "is not the id");
    check_folder("{\"type\":\"directory\",\"container_path\":\"/c\"}",
                 "0a1b2c3d-0000-4000-8000-00000000000/", "is not the id");
    check_folder("{}", id, "\"\" is not a folder");
    check_folder("{\"type\":\"s3\"}", id, "\"s3\" is not a folder; use directory or shared_fs");
    check_folder("{\"type\":\"directory\"}", id, "needs container_path");
    check_folder("{\"type\":\"directory\",\"container_path\":\"c\"}", id, "not an absolute path");
    check_folder(SHARED ",\"storage_path\":\"../x\"}", id, "is not below host_path");
    check_folder(SHARED ",\"storage_path\":\"/other\"}", id, "is not below host_path");
    check_folder(SHARED ",\"storage_path\":\"/hx\"}", id, "is not below host_path");
    check_folder("{\"type\":\"directory\",\"container_path\":\"/c/\"}", id,
                 "/c/0a1b2c3d-0000-4000-8000-00000000000F");
    check_folder(SHARED "}", id, "/h/0a1b2c3d-0000-4000-8000-00000000000F");
    check_folder(SHARED ",\"storage_path\":null}", id, "/h/0a1b2c3d-0000-4000-8000-00000000000F");
    check_folder(SHARED ",\"storage_path\":\"s\"}", id,
                 "/h/s/0a1b2c3d-0000-4000-8000-00000000000F");
    check_folder(SHARED ",\"storage_path\":\"/h/s\"}", id,
                 "/h/s/0a1b2c3d-0000-4000-8000-00000000000F");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_names_and_shapes_are_not_written),
        cmocka_unit_test(bad_fields_of_the_manifest_are_not_written),
        cmocka_unit_test(folders_that_cannot_be_written),
        cmocka_unit_test(folders_without_a_checkpoint),
        cmocka_unit_test(manifests_that_make_no_sense),
        cmocka_unit_test(manifests_that_contradict_their_files),
        cmocka_unit_test(headers_that_contradict_the_manifest),
        cmocka_unit_test(files_that_are_cut_or_longer),
        cmocka_unit_test(every_flipped_byte_of_a_file_is_found),
        cmocka_unit_test(flipped_bytes_of_the_manifest),
        cmocka_unit_test(too_many_files_or_tensors),
        cmocka_unit_test(a_tensor_in_two_files_is_refused),
        cmocka_unit_test(what_was_written_reads_back),
        cmocka_unit_test(an_empty_checkpoint_is_one),
        cmocka_unit_test(writing_again_replaces),
        cmocka_unit_test(the_file_is_plain_safetensors),
        cmocka_unit_test(digests_depend_on_state_alone),
        cmocka_unit_test(resources_list_every_file),
        cmocka_unit_test(folders_of_checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
