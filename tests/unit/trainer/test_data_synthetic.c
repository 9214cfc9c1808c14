// Generated samples: the same each time, within the requested limits; impossible requests are
// refused.
#include "tests/unit/trainer/data_files.h"

static const char *const gpt = "{\"family\": \"gpt\", \"context\": 6, \"vocabulary\": 128}";

static void test_a_text_is_a_function_of_its_index(void **state)
{
    static const char spec[] =
        "{\"format\": \"synthetic\", \"samples\": 1000, \"vocabulary\": 100}";
    int32_t tokens[12], targets[12];
    (void)state;
    open_good(spec, gpt);
    assert_int_equal(dataset_count(train), 999);
    assert_int_equal(dataset_count(validation), 1);
    assert_int_equal(dataset_shape(train)->kind, SAMPLE_TOKENS);
    assert_int_equal(dataset_shape(train)->context, 6);
    assert_int_equal(dataset_shape(train)->vocabulary, 128);
    struct batch *b = batch_of_floats(dataset_shape(train), 2);
    fetch(train, (const int64_t[]){7, 8}, 2, b);
    memcpy(tokens, b->tokens, sizeof tokens);
    memcpy(targets, b->targets, sizeof targets);
    assert_memory_equal(tokens + 1, targets, 5 * sizeof *tokens); // each predicts the next one
    assert_memory_not_equal(tokens, tokens + 6, 6 * sizeof *tokens);
    close_both();
    open_good(spec, gpt);
    fetch(train, (const int64_t[]){8, 7}, 2, b); // in another order, after opening the data again
    assert_memory_equal(b->tokens, tokens + 6, 6 * sizeof *tokens);
    assert_memory_equal(b->targets + 6, targets, 6 * sizeof *targets);
    fetch(validation, (const int64_t[]){0}, 1, b);
    assert_memory_not_equal(b->tokens, tokens, 6 * sizeof *tokens);
    batch_free(b);
    close_both();
}

// Zipf's law: the tokens 1 and 2 are together as frequent as 0, those of 3 to 6 as well, ... and
// none beyond.
static void test_texts_have_frequent_and_rare_tokens(void **state)
{
    enum { SAMPLES = 4000, CONTEXT = 6, DOUBLINGS = 7, VOCABULARY = 100 };
    int64_t counts[DOUBLINGS] = {0}, seen[VOCABULARY] = {0};
    (void)state;
    open_good("{\"format\": \"synthetic\", \"samples\": 4001, \"vocabulary\": 100}", gpt);
    struct batch *b = batch_of_floats(dataset_shape(train), 1);
    for (int64_t i = 0; i < SAMPLES; i++) {
        fetch(train, &i, 1, b);
        for (int at = 0; at < CONTEXT; at++) {
            int32_t token = b->tokens[at], doubling = 0;
            assert_in_range(token, 0, VOCABULARY - 1);
            seen[token]++;
            while (token >= (2 << doubling) - 1)
                doubling++;
            counts[doubling]++;
        }
    }
    for (int i = 0; i < DOUBLINGS; i++) // of 3,429 expected each, within 6 deviations
        assert_in_range(counts[i], 3429 - 326, 3429 + 326);
    for (int i = 0; i < VOCABULARY; i++)
        assert_true(seen[i] > 0);
    batch_free(b);
    close_both();
}

static double mean_of(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static void test_images_come_from_a_pool_of_noise(void **state)
{
    enum { SIDE = 24, NUMBERS = SIDE * SIDE * 3, POOL = 64 };
    double squares = 0;
    (void)state;
    open_good("{\"format\": \"synthetic\", \"samples\": 1000, \"validation_count\": 200,"
              " \"shape\": [24, 24, 3], \"classes\": 10}",
              "{\"family\": \"resnet\", \"classes\": 12}");
    const struct sample_shape *s = dataset_shape(train);
    assert_int_equal(s->kind, SAMPLE_IMAGE);
    assert_int_equal(s->height * s->width * s->channels, NUMBERS);
    assert_int_equal(s->classes, 12);
    assert_int_equal(dataset_count(train), 800);
    assert_int_equal(dataset_count(validation), 200);
    struct batch *b = batch_of_floats(s, 3);
    fetch(train, (const int64_t[]){5, 5 + POOL, 6}, 3, b);
    const float *first = b->images;
    assert_memory_equal(first, first + NUMBERS, NUMBERS * sizeof *first);
    assert_memory_not_equal(first, first + 2 * NUMBERS, NUMBERS * sizeof *first);
    assert_int_equal(b->labels[0], b->labels[1]); // so that there is something to learn
    for (int i = 0; i < 3; i++)
        assert_in_range(b->labels[i], 0, 9);
    for (int i = 0; i < NUMBERS; i++)
        squares += (double)first[i] * (double)first[i];
    assert_true(mean_of(first, NUMBERS) > -0.15 && mean_of(first, NUMBERS) < 0.15);
    assert_true(squares / NUMBERS > 0.9 && squares / NUMBERS < 1.1);
    fetch(validation, (const int64_t[]){5 + 2 * POOL - 800 % POOL}, 1, b);
    assert_memory_equal(b->images, b->images + NUMBERS, NUMBERS * sizeof *first);
    batch_free(b);
    close_both();
}

static void test_features_and_grey_images(void **state)
{
    (void)state;
    open_good("{\"format\": \"synthetic\", \"samples\": 3, \"shape\": [17], \"classes\": 2}", "{}");
    assert_int_equal(dataset_shape(train)->kind, SAMPLE_FEATURES);
    assert_int_equal(dataset_shape(train)->channels, 17);
    assert_int_equal(dataset_shape(train)->classes, 2);
    struct batch *b = batch_of_floats(dataset_shape(train), 2);
    fetch(train, (const int64_t[]){0, 1}, 2, b); // the pool has no more rows than there are samples
    assert_memory_not_equal(b->images, b->images + 17, 17 * sizeof(float));
    batch_free(b);
    close_both();
    open_good("{\"format\": \"synthetic\", \"samples\": 3, \"shape\": [5, 7], \"classes\": 2}",
              "{}");
    assert_int_equal(dataset_shape(train)->kind, SAMPLE_IMAGE);
    assert_int_equal(dataset_shape(train)->height, 5);
    assert_int_equal(dataset_shape(train)->channels, 1);
    close_both();
}

#define SPEC "{\"format\": \"synthetic\", \"samples\": 10, "

static void test_refused(void **state)
{
    (void)state;
    expect_refused(SPEC "\"vocabulary\": 129}", gpt, ERR_INVALID,
                   "trainer.data.vocabulary: 129 tokens, but the model knows 1 to 128 "
                   "(trainer.model.vocabulary)");
    expect_refused(SPEC "\"vocabulary\": 0}", gpt, ERR_INVALID,
                   "trainer.data.vocabulary: 0 tokens, but the model knows 1 to 128 "
                   "(trainer.model.vocabulary)");
    expect_refused(SPEC "\"vocabulary\": 70000}", "{\"context\": 6, \"vocabulary\": 80000}",
                   ERR_INVALID,
                   "trainer.data.vocabulary: 70000 tokens, but the model knows 1 to 65536 "
                   "(trainer.model.vocabulary)");
    expect_refused(
        SPEC "\"vocabulary\": 100}", "{\"family\": \"lenet\"}", ERR_INVALID,
        "trainer.data.vocabulary: texts need a model with a context of 1 to 65536 "
        "tokens (family gpt); trainer.model has 0. For images and features give a shape");
    expect_refused(SPEC "\"classes\": 3}", "{}", ERR_INVALID,
                   "trainer.data.shape: 0 numbers; expected [features], [height, width] or "
                   "[height, width, channels]");
    expect_refused(SPEC "\"classes\": 3, \"shape\": [1, 2, 3, 4]}", "{}", ERR_INVALID,
                   "trainer.data.shape: 4 numbers; expected [features], [height, width] or "
                   "[height, width, channels]");
    expect_refused(SPEC "\"classes\": 3, \"shape\": [4, 0]}", "{}", ERR_INVALID,
                   "trainer.data.shape: sides are 1 or more, and a sample has at most 268435456 "
                   "numbers");
    expect_refused(SPEC "\"classes\": 3, \"shape\": [65536, 65536]}", "{}", ERR_INVALID,
                   "trainer.data.shape: sides are 1 or more, and a sample has at most 268435456 "
                   "numbers");
    expect_refused(SPEC "\"shape\": [4]}", "{}", ERR_INVALID,
                   "trainer.data.classes: 0; expected 2 to 65536, and no more than "
                   "trainer.model.classes");
    expect_refused(SPEC "\"shape\": [4], \"classes\": 11}", "{\"classes\": 10}", ERR_INVALID,
                   "trainer.data.classes: 11; expected 2 to 65536, and no more than "
                   "trainer.model.classes");
    expect_refused(SPEC "\"vocabulary\": 9, \"validation_count\": 10}", gpt, ERR_INVALID,
                   "trainer.data.validation_count: 10 of the 10 samples; choose 1 to 9, or raise "
                   "trainer.data.samples");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_is_a_function_of_its_index),
        cmocka_unit_test(test_texts_have_frequent_and_rare_tokens),
        cmocka_unit_test(test_images_come_from_a_pool_of_noise),
        cmocka_unit_test(test_features_and_grey_images),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, data_begin, NULL);
}
