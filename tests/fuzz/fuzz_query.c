// Queries in addresses, and the filter language of lists, at a master with a history that is never
// changed. The first letter selects the kind of input:
//
//   g paths with their queries, one on each line
//   e, t a filter of experiments or of trials, "\n", a sort
//   j a filter and a sort of experiments in the form of Determined's web client
//
// A filter and its opposite must split all rows; the pages of a list must make up the list.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/filter/filter.h"
#include "base/log.h"
#include "base/text/json.h"
#include "tests/fuzz/master.h"

enum { LINES_MAX = 8 };

#define SUBMIT(who_, name_, more_)                                                                 \
    who_ " POST /api/v1/experiments {\"config\":\"{name: " name_                                   \
         ", entrypoint: sh x.sh, searcher: {name: single, metric: loss}, max_restarts: 0" more_    \
         "}\",\"activate\":true,\"projectId\":1}\n"
#define SYNC(tasks_)                                                                               \
    "g POST /api/v1/agents/box-1/sync {\"version\":\"1\",\"session\":\"s\",\"pool\":\"default\","  \
    "\"hostname\":\"box-1\",\"address\":\"10.0.0.1\",\"slots\":[{\"id\":0,\"type\":\"CPU\","       \
    "\"name\":\"cpu\",\"uuid\":\"u0\"},{\"id\":1,\"type\":\"CPU\",\"name\":\"cpu\","               \
    "\"uuid\":\"u1\"}],\"seen\":-1,\"tasks\":[" tasks_ "]}\n"
#define RUNS(allocation_)                                                                          \
    "{\"allocationId\":\"" allocation_ "\",\"state\":\"RUNNING\",\"ranks\":[],\"reason\":\"\"}"
#define METRICS(trial_, who_, group_, steps_, values_)                                             \
    who_ " POST /api/v1/trials/" trial_ "/metrics {\"metrics\":{\"trialId\":" trial_               \
         ",\"trialRunId\":1,\"stepsCompleted\":" steps_ ",\"metrics\":{\"avgMetrics\":{" values_   \
         "}}},\"group\":\"" group_ "\"}\n"

static const char story[] = SUBMIT("u", "adam",
                                   ", labels: [a, b], hyperparameters: {lr: 0.1, optimizer: adam}")
    SUBMIT("v", "sgd", ", labels: [b], hyperparameters: {lr: 0.5, deep: {er: 3}}") SUBMIT(
        "u", "wide net", ", description: an image net, hyperparameters: {lr: -2.5e-7}")
        SUBMIT("a", "none", "") SYNC("") SYNC("") SYNC(RUNS("1.1.1") "," RUNS("2.2.1")) METRICS(
            "1", "t1.1.1", "training", "10", "\"loss\":0.5,\"acc\":1")
            METRICS("1", "t1.1.1", "training", "20", "\"loss\":0.25,\"acc\":\"NaN\"") METRICS(
                "1", "t1.1.1", "validation", "20", "\"loss\":0.3")
                METRICS("2", "t2.2.1", "training", "10", "\"loss\":0.125") METRICS(
                    "2", "t2.2.1", "validation", "10",
                    "\"loss\":\"Infinity\",\"x.y\":3") "t1.1.1 POST /api/v1/task/logs "
                                                       "{\"logs\":[{\"taskId\":\"1.1\","
                                                       "\"allocationId\":\"1.1.1\","
                                                       "\"rankId\":0,\"level\":\"LOG_LEVEL_INFO\","
                                                       "\"log\":\"step 1\\n\"},{\"taskId\":\"1.1\","
                                                       "\"allocationId\":\"1.1.1\",\"rankId\":1,"
                                                       "\"level\":\"LOG_LEVEL_ERROR\",\"log\":"
                                                       "\"oh\\n\"}]}\n"
                                                       "t1.1.1 POST /api/v1/checkpoints "
                                                       "{\"uuid\":\"11111111-1111-4111-8111-"
                                                       "111111111111\","
                                                       "\"allocationId\":\"1.1.1\",\"taskId\":\"1."
                                                       "1\",\"resources\":{\"a/b\":\"12\"},"
                                                       "\"metadata\":{\"steps_completed\":20},"
                                                       "\"state\":\"STATE_COMPLETED\"}\n"
                                                       "u POST /api/v1/models "
                                                       "{\"name\":\"m\",\"labels\":[\"x\"]}\n"
                                                       "u POST /api/v1/models/m/versions "
                                                       "{\"checkpointUuid\":\"11111111-1111-4111-"
                                                       "8111-111111111111\"}\n"
                                                       "u POST /api/v1/templates/t "
                                                       "{\"config\":{\"description\":\"of the "
                                                       "template\"}}\n"
                                                       "a POST /api/v1/workspaces "
                                                       "{\"name\":\"other\"}\n"
                                                       "a POST /api/v1/workspaces/2/projects "
                                                       "{\"name\":\"p\",\"description\":\"d\"}\n"
                                                       "a POST /api/v1/experiments/4/kill\n"
                                                       "a POST /api/v1/experiments/4/archive\n"
                                                       "a PATCH /api/v1/experiments/2 "
                                                       "{\"notes\":\"to be done again\"}\n"
                                                       "a PUT /api/v1/master/cluster_message "
                                                       "{\"message\":\"hello\"}\n";

static struct fuzz_master *whole(void)
{
    static struct fuzz_master *m;
    if (!m) {
        m = master_begin();
        master_tell(m, story);
    }
    return m;
}

// --- lists ---------------------------------------------------------------------------------------

struct fuzz_list {
    const char *address, *key;
};

static void put_encoded(struct buf *out, const char *text)
{
    for (; *text; text++)
        buf_printf(out, "%%%02x", (unsigned char)*text);
}

// NULL: refused.
static json_t *ask(const struct fuzz_list *list, const char *filter, const char *sort, int limit,
                   const char *cursor)
{
    struct buf line;
    buf_init(&line, 1 << 20);
    buf_printf(&line, "a GET %s?count=exact&limit=%d&filter=", list->address, limit);
    put_encoded(&line, filter);
    buf_puts(&line, "&sort=");
    put_encoded(&line, sort);
    buf_puts(&line, "&cursor=");
    put_encoded(&line, cursor);
    struct fuzz_answer a = master_call(whole(), (struct piece){line.data, line.len});
    buf_free(&line);
    if (a.status == 200)
        return a.body;
    if (a.status && a.status != 400 && a.status != 413) { // 0: the address itself is refused
        fprintf(stderr, "%s sorted by %s: status %d\n", filter, sort, a.status);
        abort();
    }
    json_decref(a.body);
    return NULL;
}

static int64_t total(const struct fuzz_list *list, const char *filter)
{
    json_t *answer = ask(list, filter, "", 1, "");
    int64_t n = answer ? jget_int(jget(answer, "pagination"), "total", -1) : -1;
    json_decref(answer);
    return n;
}

static void put_ids(const struct fuzz_list *list, const json_t *answer, struct buf *out)
{
    size_t i;
    json_t *row;
    json_array_foreach(jget(answer, list->key), i, row)
        buf_printf(out, "%lld ", (long long)jget_int(row, "id", 0));
}

static void walk(const struct fuzz_list *list, const char *filter, const char *sort)
{
    struct buf all, paged;
    json_t *answer = ask(list, filter, sort, 100, "");
    char *cursor = xstrdup("");
    if (!answer) {
        free(cursor);
        return;
    }
    buf_init(&all, 1 << 16);
    buf_init(&paged, 1 << 16);
    put_ids(list, answer, &all);
    json_decref(answer);
    for (int i = 0; i < 8 && cursor; i++) {
        answer = ask(list, filter, sort, 1, cursor);
        must(answer);
        free(cursor);
        cursor = xstrdup(jget_string(answer, "nextCursor", NULL));
        put_ids(list, answer, &paged);
        json_decref(answer);
    }
    if (strcmp(buf_str(&all), buf_str(&paged))) {
        fprintf(stderr, "%s by %s: %s, in pages %s\n", filter, sort, buf_str(&all),
                buf_str(&paged));
        abort();
    }
    free(cursor);
    buf_free(&all);
    buf_free(&paged);
}

// A tree prints as a text with the same meaning.
static bool prints_equal(enum filter_list kind, const char *text)
{
    struct arena arena = {0};
    struct filter_node *tree = NULL, *again = NULL;
    struct buf once, twice;
    struct error e = {0};
    buf_init(&once, 1 << 20);
    buf_init(&twice, 1 << 20);
    int err = filter_parse(&arena, kind, text, &tree, &e);
    must(!err || strstr(e.text, "column") || err == ERR_TOO_LARGE);
    if (!err && tree) {
        filter_print(tree, &once);
        if (once.len <= FILTER_LENGTH_MAX) {
            must(!filter_parse(&arena, kind, buf_str(&once), &again, &e));
            filter_print(again, &twice);
            must(!strcmp(buf_str(&once), buf_str(&twice)));
        }
    }
    buf_free(&once);
    buf_free(&twice);
    arena_free(&arena);
    return !err && tree;
}

static void check_opposite(const struct fuzz_list *list, const char *filter)
{
    char *opposite = xasprintf("not (%s)", filter);
    int64_t is = total(list, filter), is_not = total(list, opposite), all = total(list, "");
    if (is >= 0 && is_not >= 0 && is + is_not != all) {
        fprintf(stderr, "%s: %lld, not: %lld, of %lld\n", filter, (long long)is, (long long)is_not,
                (long long)all);
        abort();
    }
    free(opposite);
}

static void take_filter(enum filter_list kind, struct piece p)
{
    static const struct fuzz_list lists[] = {
        [FILTER_EXPERIMENTS] = {"/api/v1/experiments", "experiments"},
        [FILTER_TRIALS] = {"/api/v1/experiments/1/trials", "trials"}};
    struct piece first, second = {"", 0};
    piece_next(&p, "\n", &first);
    piece_next(&p, "\n", &second);
    char *filter = piece_copy(first), *sort = piece_copy(second);
    if (prints_equal(kind, filter)) {
        check_opposite(&lists[kind], filter);
        walk(&lists[kind], filter, sort);
    }
    free(filter);
    free(sort);
}

static void take_json(struct piece p)
{
    struct piece first, second = {"", 0};
    piece_next(&p, "\n", &first);
    piece_next(&p, "\n", &second);
    json_t *body = json_object(), *filter = json_stringn(first.text, first.len);
    json_t *sort = json_stringn(second.text, second.len);
    if (filter && sort) {
        json_object_set(body, "filter", filter);
        json_object_set(body, "sort", sort);
        char *text = json_dumps(body, JSON_COMPACT);
        char *line = xasprintf("a POST /api/v1/experiments-search %s", text);
        struct fuzz_answer a = master_call(whole(), (struct piece){line, strlen(line)});
        must(!a.status || a.status == 200 || a.status == 400 || a.status == 413);
        json_decref(a.body);
        free(line);
        free(text);
    }
    json_decref(filter);
    json_decref(sort);
    json_decref(body);
}

static void take_get(struct piece lines)
{
    struct piece one;
    for (int i = 0; i < LINES_MAX && piece_next(&lines, "\n", &one); i++) {
        char *address = piece_copy(one);
        char *line = xasprintf("a GET %.*s", (int)strcspn(address, " "), address);
        json_decref(master_call(whole(), (struct piece){line, strlen(line)}).body);
        free(line);
        free(address);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct piece p = {(const char *)data + 1, size - 1};
    switch (size ? *data : 0) {
    case 'g':
        take_get(p);
        break;
    case 'e':
        take_filter(FILTER_EXPERIMENTS, p);
        break;
    case 't':
        take_filter(FILTER_TRIALS, p);
        break;
    case 'j':
        take_json(p);
        break;
    default:
        return -1;
    }
    return 0;
}
