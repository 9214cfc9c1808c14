// Tests of `muster simulate` around the simulator: windows, compressed files, options, the drawing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/os/file.h"
#include "cli/simulate/simulate.h"

#define S SIMULATE_SECOND

static const char trace_text[] = "submit_s,gpus,duration_s\n0,2,10\n5,4,20\n86400,1,30\n";

static void windows_have_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t from, to;
    } good[] = {{"63d..77d", 63 * 86400 * S, 77 * 86400 * S},
                {"10..20.5s", 10 * S, 20 * S + S / 2},
                {"..2h", 0, 7200 * S},
                {"90m..", 5400 * S, INT64_MAX},
                {"..", 0, INT64_MAX}};
    static const char *const bad[] = {"",      "5",    "5d",    "7..5",  "5..5",   "-1..5",
                                      "1..2x", "a..b", "1...2", "nan..", "1e99..", "1d-2d"};
    int64_t from, to;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(simulate_window_parse(good[i].text, &from, &to, NULL), 0);
        assert_true(from == good[i].from && to == good[i].to);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (simulate_window_parse(bad[i], &from, &to, NULL) != ERR_INVALID)
            fail_msg("\"%s\" was taken", bad[i]);
}

static void write_gz(const char *path, const char *text, size_t cut)
{
    gzFile file = gzopen(path, "wb");
    gzputs(file, text);
    gzclose(file);
    char *packed = NULL;
    size_t len = 0;
    assert_int_equal(file_read(path, 1 << 20, &packed, &len, NULL), 0);
    assert_int_equal(file_write_durable(path, packed, len - cut, 0600, NULL), 0);
    free(packed);
}

static void packed_and_plain_files_read_alike(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    struct error e = {0};
    write_gz("t.csv.gz", trace_text, 0);
    assert_int_equal(file_write_durable("t.csv", trace_text, strlen(trace_text), 0600, NULL), 0);
    static const char *const paths[] = {"t.csv.gz", "t.csv"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(simulate_file_read(paths[i], strlen(trace_text), &text, &len, NULL), 0);
        assert_string_equal(text, trace_text);
        assert_int_equal(len, strlen(trace_text));
        free(text);
        assert_int_equal(simulate_file_read(paths[i], strlen(trace_text) - 1, &text, &len, &e),
                         ERR_TOO_LARGE);
    }
    write_gz("cut.csv.gz", trace_text, 5);
    assert_int_equal(simulate_file_read("cut.csv.gz", 1000, &text, &len, &e), ERR_CORRUPT);
    assert_int_equal(simulate_file_read("none.csv", 1000, &text, &len, &e), ERR_NOT_FOUND);
}

static struct cli_options options_of(const char *policy)
{
    return (struct cli_options){.trace = "t.csv", .nodes = 2, .policy = policy, .preempt_cost = -1};
}

static void options_are_checked(void **state)
{
    (void)state;
    struct simulate_input in;
    struct error e = {0};
#define REFUSED(change, what)                                                                      \
    do {                                                                                           \
        struct cli_options o = options_of("fair_share");                                           \
        change;                                                                                    \
        assert_int_not_equal(simulate_input_read(&o, &in, &e), 0);                                 \
        if (!strstr(e.text, what))                                                                 \
            fail_msg("\"%s\" does not say \"%s\"", e.text, what);                                  \
    } while (0)
    REFUSED(o.trace = NULL, "either --trace FILE.csv or --from-store");
    REFUSED(o.from_store = ".", "either --trace FILE.csv or --from-store");
    REFUSED(o.nodes = 0, "--nodes N");
    REFUSED(o.policy = "fair-share", "did you mean fair_share");
    REFUSED(o.policy = "fifo,", "no policy \"\"");
    REFUSED(o.policy = "fifo,easy,fifo", "names fifo twice");
    REFUSED(o.window = "2d..1d", "--window takes FROM..TO");
    REFUSED(o.window = "100d..200d", "has no jobs in the window");
    REFUSED(o.teams = "none.yaml", "none.yaml");
    REFUSED(o.trace = "none.csv", "none.csv");
    REFUSED((o.nodes = 4096, o.add_nodes = 1), "4097 nodes");
#undef REFUSED
}

static void the_cluster_is_as_the_options_say(void **state)
{
    (void)state;
    struct simulate_input in;
    struct cli_options o = options_of("easy,fifo");
    o.add_nodes = 2;
    o.slots_per_node = 4;
    o.racks = 2;
    o.window = "0..1000";
    assert_int_equal(simulate_input_read(&o, &in, NULL), 0);
    assert_int_equal(in.policy_count, 2);
    assert_int_equal(in.policies[0], SCHED_POLICY_EASY);
    assert_int_equal(in.history.node_count, 2);
    assert_int_equal(in.added, 2);
    assert_int_equal(in.history.nodes[3].slots, 4);
    assert_int_equal(in.history.nodes[1].rack, 0);
    assert_int_equal(in.history.nodes[2].rack, 1);
    assert_int_equal(in.history.trace.job_count, 2);
    assert_true(in.preempt_cost == 60);
    simulate_input_free(&in);
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

static void the_drawing_names_lines_and_units(void **state)
{
    (void)state;
    struct simulate_input in;
    struct cli_options o = options_of("fifo");
    assert_int_equal(simulate_input_read(&o, &in, NULL), 0);
    struct simulate_trace trace = trace_view(&in.history.trace);
    struct simulate_result results[2] = {{.label = "fifo"}, {.label = "a<b> & c"}};
    for (int i = 0; i < 2; i++) {
        struct simulate_options options = {.policy = SCHED_POLICY_FIFO};
        assert_int_equal(simulate(&trace, in.history.nodes, 2, &options, &results[i].figures, NULL),
                         0);
    }
    struct buf svg;
    buf_init(&svg, 1 << 20);
    simulate_plot("dir/my <trace>.csv", results, 2, &svg);
    const char *text = buf_str(&svg);
    assert_int_equal(svg.err, 0);
    assert_non_null(strstr(text, ">my &lt;trace&gt;.csv<"));
    assert_non_null(strstr(text, ">fifo: 16 slots"));
    assert_non_null(strstr(text, ">a&lt;b&gt; &amp; c: 16 slots"));
    assert_int_equal(count_of(text, "hours since the first submission"), 2);
    assert_int_equal(count_of(text, ">Slots in use<") + count_of(text, ">Jobs waiting<"), 2);
    assert_int_equal(count_of(text, "<polyline"), 4);
    assert_int_equal(count_of(text, "stroke-dasharray=\"7 3\""),
                     3); // drawn twice, in the legend once
    assert_null(strstr(text, "nan"));
    buf_free(&svg);
    for (int i = 0; i < 2; i++)
        simulate_figures_free(&results[i].figures);
    simulate_input_free(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_have_units),
        cmocka_unit_test(packed_and_plain_files_read_alike),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(the_cluster_is_as_the_options_say),
        cmocka_unit_test(the_drawing_names_lines_and_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
