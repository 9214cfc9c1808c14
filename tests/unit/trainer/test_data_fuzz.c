// Files with random damage are refused or read, and never crash the program (run this under the
// sanitizers).
#include "tests/unit/trainer/data_files.h"
#include "tests/unit/trainer/data_pictures.h"

#include "base/rng.h"
#include "trainer/data/packed.h"
#include "trainer/data/picture.h"

enum { ROUNDS = 1500 };

static struct rng rng;

// A copy with a few bytes changed, removed or added. Some changes affect digits and small numbers,
// which get further than noise.
static struct buf damaged_copy(const struct buf *good)
{
    static const char likely[] = {0, 1, 2, 127, -128, -1, '0', '9', ',', '"', '\n', '\'', '(', '}'};
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_append(&b, good->data, good->len);
    for (uint32_t n = 1 + rng_below(&rng, 4); n && b.len; n--) {
        uint32_t front = b.len < 64 || rng_below(&rng, 4) == 0 ? (uint32_t)b.len : 64;
        char *at = b.data + rng_below(&rng, front);
        switch (rng_below(&rng, 8)) {
        case 0:
            b.len = rng_below(&rng, (uint32_t)b.len + 1);
            break;
        case 1:
            buf_append(&b, likely, rng_below(&rng, sizeof likely + 1));
            break;
        case 2:
            *at = (char)rng_u32(&rng);
            break;
        case 3:
            *at ^= (char)(1 << rng_below(&rng, 8));
            break;
        default:
            *at = likely[rng_below(&rng, sizeof likely)];
        }
    }
    return b;
}

static void fetch_all(const struct dataset *d)
{
    struct error e;
    const struct draw_key key = {1, 2};
    struct batch *b = batch_of_floats(dataset_shape(d), 1);
    for (int64_t i = 0; i < dataset_count(d) && i < 50; i++)
        dataset_fetch(d, &i, 1, &key, b, &e);
    batch_free(b);
}

// `name` is the good file that is damaged; the specification names it.
static void fuzz_file(const char *name, struct buf good, const char *spec, const char *model)
{
    int opened = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct error e = {0};
        struct buf b = damaged_copy(&good);
        write_file(name, b.data, b.len);
        buf_free(&b);
        if (open_text(spec, model, &e)) {
            assert_true(e.code && e.text[0]);
            continue;
        }
        opened++;
        fetch_all(train);
        fetch_all(validation);
        close_both();
    }
    assert_in_range(opened, 1, ROUNDS - 1);
    write_file(name, good.data, good.len);
    buf_free(&good);
}

static struct buf buf_of(const void *data, size_t len)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_append(&b, data, len);
    return b;
}

static void test_idx(void **state)
{
    static const char spec[] = "{\"format\": \"idx\", \"images\": \"x\", \"labels\": \"y\","
                               " \"validation_count\": 1, \"augment\": {\"flip\": true}}";
    char images[16 + 5 * 6] = "\0\0\x08\x03\0\0\0\x05\0\0\0\x02\0\0\0\x03";
    (void)state;
    write_file("y", "\0\0\x08\x01\0\0\0\x05\0\1\2\3\4", 13);
    fuzz_file("x", buf_of(images, sizeof images), spec, "{\"classes\": 5}");
    fuzz_file("y", buf_of("\0\0\x08\x01\0\0\0\x05\0\1\2\3\4", 13), spec, "{\"classes\": 5}");
}

static struct buf npy(const char *descr, const char *shape, size_t len)
{
    struct buf b = buf_of("\x93NUMPY\1\0\x76\0", 10);
    buf_printf(&b, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    while (b.len < 128)
        buf_puts(&b, " ");
    for (size_t i = 0; i < len; i++)
        buf_append(&b, "\0", 1);
    return b;
}

static void test_npy(void **state)
{
    static const char labels[] = "{\"format\": \"npy\", \"inputs\": \"x\", \"labels\": \"y\","
                                 " \"validation_count\": 1}";
    static const char values[] = "{\"format\": \"npy\", \"inputs\": \"x\", \"values\": \"y\","
                                 " \"validation_count\": 1}";
    (void)state;
    struct buf y = npy("<i4", "(6,)", 24);
    write_file("y", y.data, y.len);
    fuzz_file("x", npy("<f4", "(6, 2, 2)", 96), labels, "{}");
    fuzz_file("y", y, labels, "{}");
    fuzz_file("y", npy("<f8", "(6, 3)", 144), values, "{}");
}

static void test_csv(void **state)
{
    static const char text[] = "a,b,kind\n1,2,0\n\"3\",4.5,1\n-1e3,7,2\n5,6,1\n";
    (void)state;
    fuzz_file("t", buf_of(text, sizeof text - 1),
              "{\"format\": \"csv\", \"path\": \"t\", \"label\": \"kind\", \"validation_count\": 1,"
              " \"standardize\": true}",
              "{}");
}

static void test_tokens(void **state)
{
    struct buf b;
    (void)state;
    buf_init(&b, 4096);
    put_le(&b, 20240520, 4);
    put_le(&b, 1, 4);
    put_le(&b, 40, 4);
    while (b.len < 1024 + 2 * 40)
        buf_append(&b, "\0", 1);
    fuzz_file("t", b, "{\"format\": \"tokens\", \"path\": \"t\"}",
              "{\"context\": 3, \"vocabulary\": 100}");
}

static void test_packed(void **state)
{
    const struct packed_shape shape = {2, 2, 3};
    char *const classes[] = {(char *)"a", (char *)"b"};
    struct packed_writer w;
    struct error e;
    (void)state;
    assert_int_equal(packed_begin(&w, "p", &shape, classes, 2, &e), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(packed_add(&w, (const uint8_t *)"twelve bytes", i % 2, &e), 0);
    assert_int_equal(packed_end(&w, &e), 0);
    char *data = NULL;
    size_t len = 0;
    assert_int_equal(file_read("p", 1 << 20, &data, &len, &e), 0);
    fuzz_file("p", buf_of(data, len),
              "{\"format\": \"images\", \"path\": \"p\", \"validation_count\": 2}", "{}");
    free(data);
}

static void fuzz_picture(const char *name)
{
    char *data = NULL;
    size_t len = 0;
    struct error e;
    assert_int_equal(file_read(name, 1 << 20, &data, &len, &e), 0);
    struct buf good = buf_of(data, len);
    free(data);
    for (int i = 0; i < ROUNDS; i++) {
        struct picture p;
        struct buf b = damaged_copy(&good);
        write_file(name, b.data, b.len);
        buf_free(&b);
        if (picture_read(name, &p, &e))
            continue;
        uint8_t out[7 * 3 * 3];
        if (p.height * p.width < 10000)
            picture_fit(&p, 7, 3, 3, out);
        picture_free(&p);
    }
    buf_free(&good);
}

static void test_pictures(void **state)
{
    uint8_t pixels[16 * 16 * 4];
    (void)state;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 7 + i / 50);
    make_png("a.png", 16, 16, PNG_FORMAT_RGBA, pixels);
    make_jpeg("a.jpg", 16, 16, 3, JCS_RGB, pixels);
    make_jpeg("c.jpg", 16, 16, 4, JCS_CMYK, pixels);
    write_file("a.ppm", "P6 2 2 255 aabbccddeeff", 23);
    fuzz_picture("a.png");
    fuzz_picture("a.jpg");
    fuzz_picture("c.jpg");
    fuzz_picture("a.ppm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx),    cmocka_unit_test(test_npy),
        cmocka_unit_test(test_csv),    cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_packed), cmocka_unit_test(test_pictures),
    };
    rng_seed(&rng, 20261121, 1);
    return cmocka_run_group_tests(tests, data_begin, NULL);
}
