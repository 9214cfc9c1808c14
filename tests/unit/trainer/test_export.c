// `muster-trainer export`: a file of weights that any reader of safetensors understands.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/checkpoint/checkpoint.h"
#include "base/text/json.h"
#include "tests/unit/trainer/command_process.h"
#include "tests/unit/trainer/toys.h"

#define CHECKPOINT "normed/step-00000012"

static int set_up(void **state)
{
    struct command_process c;
    must(file_write_durable("toy.yaml", toys_mlp, strlen(toys_mlp), 0666, NULL) == 0);
    toys_make(state);
    RUN(&c, "run.log", "run", "toy.yaml", "--checkpoint-dir", "normed", "--set",
        "trainer.model={family: layers, layers: [{layer: conv2d, out: 4, kernel: 3}, {layer: "
        "batch_norm}, {layer: relu}, {layer: flatten}, {layer: linear, out: 4}]}");
    assert_says(&c, 0, CHECKPOINT);
    free(c.output);
    return 0;
}

// Every tensor of the file is in the checkpoint, with the same shape and bytes.
static void compare_tensors(const char *file, json_t *header, const char *data)
{
    struct checkpoint *ck = NULL;
    struct error e = {0};
    const char *name;
    json_t *tensor;
    size_t i;
    if (checkpoint_open(CHECKPOINT, &ck, &e))
        fail_msg("%s", e.text);
    json_object_foreach(header, name, tensor)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        const struct checkpoint_tensor *t = checkpoint_tensor_find(ck, name);
        if (!t)
            fail_msg("%s: what is %s?", file, name);
        json_t *size, *offsets = jget(tensor, "data_offsets");
        assert_string_equal(jget_string(tensor, "dtype", ""), "F32");
        assert_int_equal(json_array_size(jget(tensor, "shape")), t->rank);
        json_array_foreach(jget(tensor, "shape"), i, size)
            assert_int_equal(json_integer_value(size), t->shape[i]);
        int64_t first = json_integer_value(json_array_get(offsets, 0));
        int64_t last = json_integer_value(json_array_get(offsets, 1));
        assert_int_equal(last - first, checkpoint_tensor_bytes(t));
        assert_memory_equal(data + first, t->data, (size_t)(last - first));
    }
    checkpoint_close(ck);
}

static void test_weights_and_statistics(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "export.log", "export", CHECKPOINT, "out.safetensors");
    assert_says(&c, 0, "of step 12");
    free(c.output);
    char *text = NULL;
    size_t size = 0;
    uint64_t length;
    json_t *header = NULL;
    assert_int_equal(file_read("out.safetensors", 1 << 20, &text, &size, NULL), 0);
    memcpy(&length, text, sizeof length);
    assert_int_equal(json_parse(text + 8, length, "header", &header, NULL), 0);
    // weight and bias of two layers; scale, shift, running mean and variance
    assert_int_equal(json_object_size(header), 4 + 2 + 2 + 1);
    compare_tensors("out.safetensors", header, text + 8 + length);
    json_decref(header);
    free(text);
}

static void test_nothing_is_replaced_unasked(void **state)
{
    (void)state;
    struct command_process c;
    must(file_write_durable("there.safetensors", "mine", 4, 0666, NULL) == 0);
    RUN(&c, "there.log", "export", CHECKPOINT, "there.safetensors");
    assert_says(&c, 5, "there.safetensors already exists; --force replaces it");
    free(c.output);
    RUN(&c, "force.log", "export", CHECKPOINT, "there.safetensors", "--force");
    assert_says(&c, 0, "tensors");
    free(c.output);
}

static void test_what_cannot_be_exported(void **state)
{
    (void)state;
    struct command_process c;
    RUN(&c, "none.log", "export", "nowhere", "a.safetensors");
    assert_says(&c, 3, "nowhere");
    free(c.output);
    RUN(&c, "kind.log", "export", CHECKPOINT, "a.bin");
    assert_says(&c, 2, "let the name end in .safetensors");
    free(c.output);
    RUN(&c, "words.log", "export", CHECKPOINT);
    assert_says(&c, 2, "give a checkpoint and a file");
    free(c.output);
    char *weights = NULL;
    size_t size = 0;
    const char *file = "normed/step-00000004/weights.safetensors";
    assert_int_equal(file_read(file, 1 << 20, &weights, &size, NULL), 0);
    weights[size - 5] ^= 1;
    assert_int_equal(file_write_durable(file, weights, size, 0666, NULL), 0);
    RUN(&c, "damaged.log", "export", "normed/step-00000004", "a.safetensors");
    assert_says(&c, 7, "weights.safetensors");
    assert_false(path_exists("a.safetensors"));
    free(c.output);
    free(weights);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return command_dispatch(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_and_statistics),
        cmocka_unit_test(test_nothing_is_replaced_unasked),
        cmocka_unit_test(test_what_cannot_be_exported),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
