// CSV files: quoting as in RFC 4180, columns by name, and errors that name line and column.
#include "tests/unit/trainer/data_files.h"

static const char *const iris = "{\"format\": \"csv\", \"path\": \"t.csv\", \"label\": \"kind\","
                                " \"validation_count\": 1}";
static const char *const any = "{}";

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static void expect_row(const struct dataset *d, int64_t index, const float *inputs, int32_t label)
{
    int64_t n = dataset_shape(d)->channels;
    struct batch *b = batch_of_floats(dataset_shape(d), 1);
    fetch(d, &index, 1, b);
    for (int64_t i = 0; i < n; i++)
        assert_float_equal(b->images[i], inputs[i], 1e-6);
    assert_int_equal(b->labels[0], label);
    batch_free(b);
}

static void test_columns_by_name(void **state)
{
    static const char *const texts[] = {
        "a,kind,b\n1,0,2.5\n-3e2,1, 4 \n5,2,6\n",
        "a,kind,b\r\n1,0,2.5\r\n-3e2,1,4\r\n5,2,6", // no end of line after the last row
        "\xef\xbb\xbf\"a\",\"kind\",\"b\"\n\"1\",\"0\",\"2.5\"\n-300,1,4\n\n5,2,6\n\n\n",
    };
    (void)state;
    for (int i = 0; i < 3; i++) {
        write_text("t.csv", texts[i]);
        open_good(iris, any);
        assert_int_equal(dataset_shape(train)->kind, SAMPLE_FEATURES);
        assert_int_equal(dataset_shape(train)->channels, 2);
        assert_int_equal(dataset_shape(train)->classes, 3);
        assert_int_equal(dataset_count(train), 2);
        expect_row(train, 0, (const float[]){1, 2.5f}, 0);
        expect_row(train, 1, (const float[]){-300, 4}, 1);
        expect_row(validation, 0, (const float[]){5, 6}, 2);
        close_both();
    }
}

static void test_quotes(void **state)
{
    (void)state;
    write_text("t.csv", "\"a, \"\"big\"\"\nname\",kind,text\n1,0,\"x\ny,\"\n2,1,\"\"\n3,0,z\n");
    open_good("{\"format\": \"csv\", \"path\": \"t.csv\", \"label\": \"kind\","
              " \"features\": [\"a, \\\"big\\\"\\nname\"], \"validation_count\": 1}",
              any);
    assert_int_equal(dataset_count(train), 2);
    expect_row(train, 1, (const float[]){2}, 1);
    close_both();
}

static void test_targets_features_and_delimiter(void **state)
{
    (void)state;
    write_text("t.csv", "1;2;3;4\n5;6;7;8\n9;10;11;12\n");
    write_text("v.csv", "21;22;23;24\n");
    open_good("{\"format\": \"csv\", \"path\": \"t.csv\", \"validation_path\": \"v.csv\","
              " \"header\": false, \"delimiter\": \";\", \"targets\": [\"4\", \"1\"],"
              " \"features\": [\"3\"]}",
              any);
    assert_int_equal(dataset_count(train), 3);
    assert_int_equal(dataset_count(validation), 1);
    assert_int_equal(dataset_shape(train)->outputs, 2);
    assert_int_equal(dataset_shape(train)->channels, 1);
    struct batch *b = batch_of_floats(dataset_shape(train), 2);
    fetch(train, (const int64_t[]){2, 0}, 2, b);
    const float inputs[] = {11, 3}, values[] = {12, 9, 4, 1};
    assert_memory_equal(b->images, inputs, sizeof inputs);
    assert_memory_equal(b->values, values, sizeof values);
    fetch(validation, (const int64_t[]){0}, 1, b);
    assert_true(b->images[0] == 23 && b->values[0] == 24 && b->values[1] == 21);
    batch_free(b);
    close_both();
}

// Only the training part counts: its mean is 3 and 7, its deviation 2 and 0.
static void test_standardized(void **state)
{
    (void)state;
    write_text("t.csv", "a,b,kind\n1,7,0\n5,7,0\n100,8,1\n");
    open_good("{\"format\": \"csv\", \"path\": \"t.csv\", \"label\": \"kind\","
              " \"validation_count\": 1, \"standardize\": true}",
              any);
    expect_row(train, 0, (const float[]){-1, 0}, 0);
    expect_row(train, 1, (const float[]){1, 0}, 0);
    expect_row(validation, 0, (const float[]){48.5f, 1}, 1);
    close_both();
}

static void test_faults_by_line_and_column(void **state)
{
    static const struct {
        const char *text, *expected;
    } files[] = {
        {"a,kind\n1,0\nx,1\n", "%/t.csv: line 3, column \"a\": \"x\" is not a number"},
        {"a,kind\n1,0\n,1\n", "%/t.csv: line 3, column \"a\": \"\" is not a number"},
        {"a,kind\n1,0\n1 2,1\n", "%/t.csv: line 3, column \"a\": \"1 2\" is not a number"},
        {"a,kind\n1,0\nnan,1\n",
         "%/t.csv: line 3, column \"a\": \"nan\" is not a finite number of 32 bits"},
        {"a,kind\n1,0\n1e39,1\n",
         "%/t.csv: line 3, column \"a\": \"1e39\" is not a finite number of 32 bits"},
        {"a,kind\n1,0\n1,1.5\n", "%/t.csv: line 3, column \"kind\": \"1.5\" is not a label; labels "
                                 "are whole numbers from 0"},
        {"a,kind\n1,0\n1,\n",
         "%/t.csv: line 3, column \"kind\": \"\" is not a label; labels are whole numbers from 0"},
        {"a,kind\n1,0\n1,3\n", "%/t.csv: line 3, column \"kind\": label 3 is outside 0..2 "
                               "(trainer.model.classes)"},
        {"a,kind\n1,0\n1,-1\n", "%/t.csv: line 3, column \"kind\": label -1 is outside 0..2 "
                                "(trainer.model.classes)"},
        {"a,kind\n1,0\n1\n", "%/t.csv: line 3: 1 fields, but line 1 has 2"},
        {"a,kind\n1,0\n1,2,3\n", "%/t.csv: line 3: more than the 2 fields of line 1"},
        {"a,kind\n\"1,0\n1,2\n",
         "%/t.csv: line 2, column \"a\": a quoted field without a closing quote"},
        {"a,kind\n\"1\"x,0\n", "%/t.csv: line 2, column \"a\": text after the closing quote"},
        {"a,kind\n1,0\n1\"1,0\n", "%/t.csv: line 3, column \"a\": a quote within a field that is "
                                  "not quoted"},
        {"a,kind\n", "%/t.csv: has no rows of numbers"},
        {"a\"b\n1\n", "%/t.csv: line 1, column 1: a quote within a field that is not quoted"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_text("t.csv", files[i].text);
        expect_refused(iris, "{\"classes\": 3}", ERR_CORRUPT, files[i].expected);
    }
    write_file("t.csv", "a,kind\n1\0001,0\n", 13);
    expect_refused(iris, any, ERR_CORRUPT, "%/t.csv: line 2, column \"a\": a NUL byte");
    char wide[5000];
    memset(wide, '1', sizeof wide);
    write_file("t.csv", wide, sizeof wide);
    expect_refused(iris, any, ERR_CORRUPT,
                   "%/t.csv: line 1, column 1: a field of more than 4095 bytes");
}

static void test_columns_that_are_not_there(void **state)
{
    (void)state;
    write_text("t.csv", "a,b,b,kind\n1,2,3,0\n1,2,3,1\n");
    expect_refused("{\"format\": \"csv\", \"path\": \"t.csv\", \"label\": \"c\"}", any, ERR_INVALID,
                   "trainer.data.label: %/t.csv has no column \"c\" (its first is \"a\")");
    expect_refused("{\"format\": \"csv\", \"path\": \"t.csv\", \"label\": \"b\"}", any, ERR_INVALID,
                   "trainer.data.label: %/t.csv has two columns \"b\"");
    expect_refused("{\"format\": \"csv\", \"path\": \"t.csv\", \"targets\": [\"a\"],"
                   " \"features\": [\"kind\", \"a\"]}",
                   any, ERR_INVALID, "trainer.data.features: column \"a\" is used twice");
    expect_refused("{\"format\": \"csv\", \"path\": \"t.csv\"}", any, ERR_INVALID,
                   "trainer.data.label: give a label (classes) or targets (values)");
    expect_refused(
        "{\"format\": \"csv\", \"path\": \"t.csv\", \"label\": \"kind\", \"features\": []}", any,
        ERR_INVALID, "trainer.data: %/t.csv has no column for features");
    expect_refused("{\"format\": \"csv\", \"path\": \"t.csv\", \"label\": \"kind\"}", any,
                   ERR_INVALID,
                   "trainer.data.validation_count: 0 of the 2 samples of %/t.csv; choose 1 to 1, "
                   "or give files for validation");
    expect_refused("{\"format\": \"csv\", \"path\": \"t.csv\", \"label\": \"kind\","
                   " \"validation_count\": 1, \"augment\": {\"flip\": true}}",
                   any, ERR_INVALID, "trainer.data.augment: needs images");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_by_name),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_targets_features_and_delimiter),
        cmocka_unit_test(test_standardized),
        cmocka_unit_test(test_faults_by_line_and_column),
        cmocka_unit_test(test_columns_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, data_begin, NULL);
}
