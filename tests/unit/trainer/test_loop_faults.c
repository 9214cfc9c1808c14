// Faults in training are reported by name: file and place, tensor, step. Whichever rank meets a
// fault, the user reads the cause.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "tests/unit/trainer/command_process.h"
#include "tests/unit/trainer/toys.h"

enum { ROWS = 200, LABEL_OF_150 = 8 + 150 };

static const char yaml[] =
    TOYS_HEAD "trainer:\n"
              "  model: {family: layers, layers: [{layer: linear, out: 16}, {layer: relu}, "
              "{layer: linear, out: 1}]}\n"
              "  data: {format: csv, path: rows.csv, targets: [y], validation_count: 40}\n"
              "  global_batch_size: 16\n  micro_batch_size: 4\n  steps: 60\n"
              "  optimizer: {name: sgd, learning_rate: 0.001}\n";

// Writes rows; the first number of one row is `text`.
static void write_rows(const char *file, int row, const char *text)
{
    struct buf b;
    buf_init(&b, 1 << 16);
    buf_puts(&b, "a,b,y\n");
    for (int i = 0; i < ROWS; i++)
        if (i == row)
            buf_printf(&b, "%s,1,1\n", text);
        else
            buf_printf(&b, "%d.5,%d,%d\n", i % 7, i % 5, i % 3);
    must(file_write_durable(file, b.data, b.len, 0666, NULL) == 0);
    buf_free(&b);
}

static int set_up(void **state)
{
    write_rows("rows.csv", -1, "");
    write_rows("nan.csv", 17, "nan");
    must(file_write_durable("rows.yaml", yaml, strlen(yaml), 0666, NULL) == 0);
    must(file_write_durable("toy.yaml", toys_mlp, strlen(toys_mlp), 0666, NULL) == 0);
    must(file_write_durable("gpt.yaml", toys_gpt, strlen(toys_gpt), 0666, NULL) == 0);
    return toys_make(state);
}

static void test_numbers_that_are_none(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "nan.log", "run", "rows.yaml", "--slots", "2", "--set", "trainer.data.path=nan.csv");
    assert_says(&c, 7, "nan.csv: line 19, column \"a\": \"nan\"");
    free(c.output);
}

static void test_labels_out_of_range(void **state)
{
    (void)state;
    struct command_process c;
    char *labels = NULL;
    size_t size = 0;
    must(file_read("labels", 1 << 16, &labels, &size, NULL) == 0);
    labels[LABEL_OF_150] = 9;
    must(file_write_durable("bad", labels, size, 0666, NULL) == 0);
    free(labels);
    RUN(&c, "label.log", "run", "toy.yaml", "--slots", "2", "--set", "trainer.data.labels=bad");
    assert_says(&c, 7, "offset 158: label 9 of sample 150 is outside 0..3");
    free(c.output);
}

static void test_tokens_out_of_range(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "token.log", "run", "gpt.yaml", "--slots", "2", "--set", "trainer.model.vocabulary=64");
    assert_int_equal(c.code, 7);
    assert_null(strstr(c.output, "gave up")); // the cause, not its consequence on another rank
    assert_says(&c, 7, "text: ");
    free(c.output);
}

static void test_gradients_that_explode(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "exact.log", "run", "rows.yaml", "--slots", "2", "--set",
        "trainer.optimizer.learning_rate=100000");
    assert_says(&c, 7, ".weight");
    assert_says(&c, 7, ": step ");
    assert_says(&c, 7, "radient");
    assert_null(strstr(c.output, "restart "));
    free(c.output);
    RUN(&c, "float.log", "run", "rows.yaml", "--slots", "2", "--overwrite", "--set",
        "trainer.optimizer.learning_rate=100000", "--set", "trainer.reduction=float");
    assert_says(&c, 7, "is not finite");
    assert_says(&c, 7, ": step ");
    free(c.output);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return command_dispatch(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_labels_out_of_range),
        cmocka_unit_test(test_tokens_out_of_range),
        cmocka_unit_test(test_gradients_that_explode),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
