// Shards of tokens: with and without the headers of llm.c, and windows that stay within one shard.
#include "tests/unit/trainer/data_files.h"

static const char *const gpt = "{\"family\": \"gpt\", \"context\": 4, \"vocabulary\": 70000}";
static const char *const two = "{\"format\": \"tokens\", \"path\": [\"a\", \"b\"],"
                               " \"validation_path\": \"a\"}";

// A shard of the tokens first, first + 1, ...; magic 0: no header.
static struct buf shard(uint32_t magic, uint32_t version, uint32_t first, uint32_t n, size_t width)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    if (magic) {
        put_le(&b, magic, 4);
        put_le(&b, version, 4);
        put_le(&b, n, 4);
        for (int i = 3; i < 256; i++)
            put_le(&b, 0, 4);
    }
    for (uint32_t i = 0; i < n; i++)
        put_le(&b, first + i, width);
    return b;
}

static void expect_window(const struct dataset *d, int64_t index, int32_t first)
{
    struct batch *b = batch_of_floats(dataset_shape(d), 1);
    fetch(d, &index, 1, b);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(b->tokens[i], first + i);
        assert_int_equal(b->targets[i], first + i + 1);
    }
    batch_free(b);
}

static void test_windows_of_several_shards(void **state)
{
    (void)state;
    write_buf("a", shard(0, 0, 1000, 7, 2));          // 3 windows
    write_buf("b", shard(20240520, 1, 50000, 10, 2)); // 6
    write_buf("c", shard(0, 0, 500, 4, 2));           // none: too short
    write_buf("d", shard(20240801, 7, 66000, 5, 4));  // 1
    open_good("{\"format\": \"tokens\", \"path\": [\"a\", \"b\", \"c\", \"d\"],"
              " \"validation_path\": \"b\"}",
              gpt);
    assert_int_equal(dataset_shape(train)->kind, SAMPLE_TOKENS);
    assert_int_equal(dataset_count(train), 10);
    expect_window(train, 0, 1000);
    expect_window(train, 2, 1002);
    expect_window(train, 3, 50000);
    expect_window(train, 8, 50005);
    expect_window(train, 9, 66000);
    assert_int_equal(dataset_count(validation), 2);
    expect_window(validation, 1, 50004);
    close_both();
}

static void test_split_within_a_shard(void **state)
{
    (void)state;
    write_buf("a", shard(0, 0, 100, 20, 2));
    write_buf("b", shard(0, 0, 200, 20, 2));
    open_good("{\"format\": \"tokens\", \"path\": [\"a\", \"b\"], \"validation_fraction\": 0.25}",
              gpt);
    assert_int_equal(dataset_count(train), 16 + 6); // of 20 and 10 tokens
    expect_window(train, 15, 115);
    expect_window(train, 16, 200);
    expect_window(train, 21, 205);
    assert_int_equal(dataset_count(validation), 2);
    expect_window(validation, 0, 210);
    expect_window(validation, 1, 214);
    close_both();
}

static void test_names_by_pattern(void **state)
{
    struct error e;
    (void)state;
    char *shards = path_join(folder, "shards");
    assert_int_equal(dir_make(shards, 0755, &e), 0);
    free(shards);
    for (int i = 0; i < 12; i++) { // "train_10" comes before "train_2"
        char name[40];
        snprintf(name, sizeof name, "shards/train_%d.bin", i);
        write_buf(name, shard(0, 0, (uint32_t)(100 * i), 5, 2));
    }
    write_buf("shards/val_0.bin", shard(0, 0, 7, 9, 2));
    write_buf("shards/.train_x.bin", shard(0, 0, 7, 9, 2));
    open_good("{\"format\": \"tokens\", \"path\": \"shards/train_*.bin\","
              " \"validation_path\": \"shards/val_?.bin\"}",
              gpt);
    assert_int_equal(dataset_count(train), 12);
    expect_window(train, 2, 1000);
    expect_window(train, 4, 200);
    assert_int_equal(dataset_count(validation), 2);
    close_both();
    char *text =
        xasprintf("{\"format\": \"tokens\", \"path\": \"%s/shards/train_1*.bin\"}", folder);
    expect_refused(text, gpt, ERR_CORRUPT,
                   "%/shards/train_1.bin and those with it: the longest run for validation is 2 "
                   "tokens, but one sample is context + 1 = 5; give more text or a smaller "
                   "trainer.model.context");
    free(text);
    expect_refused("{\"format\": \"tokens\", \"path\": \"shards/test_*\"}", gpt, ERR_NOT_FOUND,
                   "trainer.data.path: no file in %/shards/ matches test_*");
    expect_refused("{\"format\": \"tokens\", \"path\": \"other/test_*\"}", gpt, ERR_NOT_FOUND,
                   "trainer.data.path: cannot list folder %/other/: No such file or directory");
    expect_refused("{\"format\": \"tokens\"}", gpt, ERR_INVALID, "trainer.data.path: missing");
}

static void test_wide_tokens_without_a_header(void **state)
{
    (void)state;
    write_buf("a", shard(0, 0, 69000, 5, 4));
    open_good("{\"format\": \"tokens\", \"path\": \"a\", \"validation_path\": \"a\","
              " \"type\": \"uint32\"}",
              gpt);
    expect_window(train, 0, 69000);
    close_both();
}

static void test_harmed_shards(void **state)
{
    (void)state;
    write_buf("a", shard(0, 0, 0, 9, 2));
    struct buf b = shard(20240520, 1, 0, 9, 2);
    write_file("b", b.data, b.len - 1);
    expect_refused(two, gpt, ERR_CORRUPT,
                   "%/b: ends at offset 1041, but its header promises 1042 bytes");
    write_file("b", b.data, 1000);
    expect_refused(two, gpt, ERR_CORRUPT,
                   "%/b: ends at offset 1000, within its header of 1024 bytes");
    buf_append(&b, "x", 1);
    write_file("b", b.data, b.len);
    expect_refused(two, gpt, ERR_CORRUPT,
                   "%/b: offset 1042: 1 bytes more than its header promises");
    b.data[4] = 7;
    write_file("b", b.data, b.len);
    expect_refused(two, gpt, ERR_CORRUPT,
                   "%/b: offset 4: shards of magic 20240520 are of version 1, not 7");
    write_file("b", b.data + 1, 13);
    expect_refused(two, gpt, ERR_CORRUPT, "%/b: ends at offset 13, within a token of 2 bytes");
    buf_free(&b);
}

static void test_tokens_outside_the_vocabulary(void **state)
{
    struct error e = {0};
    (void)state;
    write_buf("a", shard(20240801, 7, 69992, 12, 4));
    open_good("{\"format\": \"tokens\", \"path\": \"a\", \"validation_path\": \"a\"}", gpt);
    struct batch *b = batch_of_floats(dataset_shape(train), 1);
    expect_window(train, 3, 69995); // its last target is 69999
    assert_int_equal(dataset_fetch(train, (const int64_t[]){4}, 1, NULL, b, &e), ERR_CORRUPT);
    char *text = xasprintf("%s/a: offset 1056: token 70000 is outside the model's vocabulary of "
                           "70000 (trainer.model.vocabulary)",
                           folder);
    assert_string_equal(e.text, text);
    free(text);
    batch_free(b);
    close_both();

    const uint32_t huge[5] = {1, 2, UINT32_MAX, 4, 5};
    write_file("a", huge, sizeof huge);
    open_good("{\"format\": \"tokens\", \"path\": \"a\", \"validation_path\": \"a\","
              " \"type\": \"uint32\"}",
              gpt);
    b = batch_of_floats(dataset_shape(train), 1);
    assert_int_equal(dataset_fetch(train, (const int64_t[]){0}, 1, NULL, b, &e), ERR_CORRUPT);
    assert_non_null(strstr(e.text, "/a: offset 8: token 4294967295 is outside"));
    batch_free(b);
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_of_several_shards),
        cmocka_unit_test(test_split_within_a_shard),
        cmocka_unit_test(test_names_by_pattern),
        cmocka_unit_test(test_wide_tokens_without_a_header),
        cmocka_unit_test(test_harmed_shards),
        cmocka_unit_test(test_tokens_outside_the_vocabulary),
    };
    return cmocka_run_group_tests(tests, data_begin, NULL);
}
