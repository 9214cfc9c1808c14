// The files of the web page: the paths that show it, and the answers for embedded files.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "base/log.h"
#include "master/http/page.h"
#include "master/http/view.h"

#define INDEX "<!doctype html><p>index"
#define HTML  "text/html,application/xhtml+xml"

static unsigned char packed[256], script_packed[4096];
static char script[100000];

static size_t deflate_text(const char *text, unsigned char *out, size_t max)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)text,
                  .avail_in = (uInt)strlen(text),
                  .next_out = out,
                  .avail_out = (uInt)max};
    must(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) == Z_OK);
    must(deflate(&z, Z_FINISH) == Z_STREAM_END);
    deflateEnd(&z);
    return max - z.avail_out;
}

static struct page_file files[] = {{.name = "index.html", .tag = "0a", .data = packed},
                                   {.name = "assets/a-1.js", .tag = "0b", .data = script_packed},
                                   {.name = "assets/broken.css", .tag = "0c", .data = packed},
                                   {.name = NULL}};

static int make_files(void **state)
{
    (void)state;
    memset(script, 'a', sizeof script - 1);
    files[0].len = deflate_text(INDEX, packed, sizeof packed);
    files[1].len = deflate_text(script, script_packed, sizeof script_packed);
    files[2].len = files[0].len - 9; // it ends too early
    return 0;
}

// --- a call --------------------------------------------------------------------------------------

struct page_call {
    struct request rq;
    struct service service;
    struct view view;
    struct error e;
    int rc;
};

static const char *encoding, *tags;

static const char *header(struct request *rq, const char *name)
{
    (void)rq;
    return !strcasecmp(name, "Accept-Encoding") ? encoding
           : !strcasecmp(name, "If-None-Match") ? tags
                                                : NULL;
}

// With `asset` NULL, asks for the index.
static void ask_page(struct page_call *c, const struct page_file *list, const char *asset)
{
    *c = (struct page_call){.rq.header = header, .rq.params = {asset}, .service.page.files = list};
    c->view = (struct view){.rq = &c->rq, .service = &c->service};
    buf_init(&c->rq.answer, 1 << 20);
    c->rc = asset ? view_page_asset(&c->view, &c->e) : view_page(&c->view, &c->e);
}

static const char *sent_header(const struct page_call *c, const char *name)
{
    for (int i = 0; i < c->view.header_count; i++)
        if (!strcasecmp(c->view.headers[i].name, name))
            return c->view.headers[i].value;
    return NULL;
}

static void free_call(struct page_call *c)
{
    buf_free(&c->rq.answer);
    arena_free(&c->rq.arena);
    encoding = tags = NULL;
}

// --- tests ---------------------------------------------------------------------------------------

static void test_compressed(void **state)
{
    (void)state;
    struct page_call c;
    encoding = "deflate, gzip;q=1.0, br";
    ask_page(&c, files, NULL);
    assert_int_equal(c.rc, 0);
    assert_int_equal(c.rq.status, 0);
    assert_ptr_equal(c.view.text, packed);
    assert_int_equal(c.view.text_len, files[0].len);
    assert_string_equal(sent_header(&c, "Content-Encoding"), "gzip");
    assert_string_equal(sent_header(&c, "ETag"), "W/\"0a\"");
    assert_string_equal(sent_header(&c, "Vary"), "Accept-Encoding");
    assert_string_equal(c.view.cache, "no-cache");
    assert_string_equal(c.view.content_type, "text/html; charset=utf-8");
    assert_non_null(strstr(sent_header(&c, "Content-Security-Policy"), "default-src 'none'"));
    free_call(&c);
}

static void test_unpacked(void **state)
{
    (void)state;
    struct page_call c;
    ask_page(&c, files, NULL);
    assert_int_equal(c.rc, 0);
    assert_null(sent_header(&c, "Content-Encoding"));
    assert_null(c.view.text);
    assert_string_equal(buf_str(&c.rq.answer), INDEX);
    free_call(&c);

    ask_page(&c, files, "a-1.js");
    assert_string_equal(buf_str(&c.rq.answer), script);
    assert_string_equal(c.view.cache, "public, max-age=31536000, immutable");
    assert_string_equal(c.view.content_type, "text/javascript; charset=utf-8");
    free_call(&c);

    ask_page(&c, files, "broken.css");
    assert_int_equal(c.rc, ERR_CORRUPT);
    free_call(&c);
}

static void test_unchanged(void **state)
{
    (void)state;
    const char *same[] = {"\"0a\"", "W/\"0a\"", "\"x\", W/\"0a\"", " \"0a\" ", "\"0a\",\"x\""};
    const char *other[] = {"", "\"0b\"", "0a", "\"0a", "w/\"0a\"", "W/", "\"0a\"\"x\"", ",,,"};
    struct page_call c;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        tags = same[i];
        ask_page(&c, files, NULL);
        if (c.rc || c.rq.status != 304 || c.rq.answer.len || c.view.text)
            fail_msg("sent anew: %s", same[i]);
        assert_string_equal(sent_header(&c, "ETag"), "W/\"0a\"");
        free_call(&c);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        tags = other[i];
        ask_page(&c, files, NULL);
        if (c.rc || c.rq.status || !c.rq.answer.len)
            fail_msg("not sent: %s", other[i]);
        free_call(&c);
    }
}

static void test_missing_file(void **state)
{
    (void)state;
    const char *names[] = {"", "a-1", "a-1.js/", "../index.html", "index.html", "A-1.js"};
    struct page_call c;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ask_page(&c, files, names[i]);
        assert_int_equal(c.rc, ERR_NOT_FOUND);
        free_call(&c);
    }
}

static void test_no_page(void **state)
{
    (void)state;
    const struct page_file none = {.name = NULL};
    const struct page_file *lists[] = {&none, NULL};
    struct page_call c;
    for (int i = 0; i < 2; i++) {
        ask_page(&c, lists[i], NULL);
        assert_int_equal(c.rc, 0);
        assert_non_null(strstr(c.view.text, "without its web page"));
        free_call(&c);
        ask_page(&c, lists[i], "a-1.js");
        assert_int_equal(c.rc, ERR_NOT_FOUND);
        free_call(&c);
    }
}

static void test_paths(void **state)
{
    (void)state;
    const char *shown[] = {"/experiments/1", "/det/", "/apis", "/assetsx", "/proxyx", "/x/api"};
    const char *not_shown[] = {"/api", "/api/", "/api/v1/x", "/proxy/1", "/assets", "/assets/a/b"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        assert_true(page_shows("GET", shown[i], HTML));
        assert_true(page_shows("HEAD", shown[i], HTML));
        assert_false(page_shows("POST", shown[i], HTML));
        assert_false(page_shows("GET", shown[i], "*/*"));
        assert_false(page_shows("GET", shown[i], NULL));
    }
    for (size_t i = 0; i < sizeof not_shown / sizeof *not_shown; i++)
        assert_false(page_shows("GET", not_shown[i], HTML));
}

static void test_header_words(void **state)
{
    (void)state;
    const char *named[] = {"gzip",    "GZIP",       "br, gzip",  "br,gzip,x",
                           " gzip ",  "gzip;q=0.1", "gzip; q=1", "gzip ; Q=0.5",
                           ",,gzip,", "gzip;q",     "\tgzip",    "gzip;x=\"0\""};
    const char *not_named[] = {NULL,     "",         ",",       "gzi",           "gzips",
                               "x-gzip", "gzip;q=0", "br",      "gzip; q=0.000", "identity",
                               ";gzip",  "g zip",    "br;gzip", "gzip;Q=0"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!page_header_names(named[i], "gzip"))
            fail_msg("not found in \"%s\"", named[i]);
    for (size_t i = 0; i < sizeof not_named / sizeof *not_named; i++)
        if (page_header_names(not_named[i], "gzip"))
            fail_msg("found in \"%s\"", not_named[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compressed),   cmocka_unit_test(test_unpacked),
        cmocka_unit_test(test_unchanged),    cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_no_page),      cmocka_unit_test(test_paths),
        cmocka_unit_test(test_header_words),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
