// Lists of experiments under random filters and orders, page by page, compared with a simple
// evaluation of the same trees over the same rows.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/filter/filter.h"
#include "base/buf.h"
#include "base/rng.h"
#include "tests/unit/master/support/fixture.h"

enum { ROWS = 600, FIRST = 1000, METRICS = 2, LABELS = 3, TRIALS_MOST = 3, WORDS = 6 };

static const char *const words[WORDS] = {"resnet", "gpt", "large", "tiny", "vision", "prod"};
static const char *const states[] = {"COMPLETED", "PAUSED", "ERROR", "ACTIVE"};
static const char *const optimizers[] = {"adam", "sgd", "0.5"};

struct row {
    int64_t id, user, submitted, ended, parent; // ended, parent 0: none
    const char *state, *words[2], *labels[LABELS];
    char name[32], description[32];
    int label_count, trials, slots;
    bool archived, has_best, has_metric[METRICS];
    double progress, best, last[METRICS], low[METRICS], high[METRICS];
    double rate[TRIALS_MOST];
    const char *optimizer[TRIALS_MOST]; // NULL: none
};

static struct row rows[ROWS];
static struct rng r;
static struct arena arena;

#define PICK(list) (list)[rng_below(&r, sizeof(list) / sizeof *(list))]

// --- rows ----------------------------------------------------------------------------------------

static double coarse(void) // coarse, so that some values are equal
{
    return (double)rng_below(&r, 40) / 8;
}

static void draw(struct row *x, int64_t id)
{
    *x = (struct row){.id = id,
                      .user = 1 + rng_below(&r, 2),
                      .submitted = AT + (int64_t)rng_below(&r, 100) * 1000000,
                      .parent = rng_below(&r, 3) ? 0 : 1 + rng_below(&r, 5),
                      .state = PICK(states),
                      .words = {PICK(words), PICK(words)},
                      .label_count = (int)rng_below(&r, LABELS + 1),
                      .trials = (int)rng_below(&r, TRIALS_MOST + 1),
                      .slots = 1 << rng_below(&r, 3),
                      .archived = rng_below(&r, 4) == 0,
                      .has_best = rng_below(&r, 2),
                      .progress = coarse(),
                      .best = coarse()};
    x->ended = rng_below(&r, 3) ? x->submitted + (int64_t)rng_below(&r, 50) * 500000 : 0;
    snprintf(x->name, sizeof x->name, "%s-%s-%d", x->words[0], x->words[1], rng_below(&r, 30));
    snprintf(x->description, sizeof x->description, "about %s", PICK(words));
    for (int i = 0; i < x->label_count; i++)
        x->labels[i] = words[((int)rng_below(&r, 2) + 2 * i) % WORDS];
    for (int i = 0; i < METRICS; i++) {
        x->has_metric[i] = rng_below(&r, 4);
        x->last[i] = coarse();
        x->low[i] = x->last[i] - coarse();
        x->high[i] = x->last[i] + coarse();
    }
    for (int i = 0; i < x->trials; i++) {
        x->rate[i] = coarse();
        x->optimizer[i] = rng_below(&r, 4) ? PICK(optimizers) : NULL;
    }
}

static void add_trial(struct db_batch *b, const struct row *x, int i)
{
    char hparams[160], task[32], optimizer[64] = "";
    int64_t id = x->id * 10 + i;
    if (x->optimizer[i])
        snprintf(optimizer, sizeof optimizer, ",\"optimizer\":{\"name\":\"%s\"}", x->optimizer[i]);
    snprintf(hparams, sizeof hparams, "{\"rate\":%g,\"fixed\":true%s}", x->rate[i], optimizer);
    snprintf(task, sizeof task, "t%lld", (long long)id);
    DB_ADD(b, TRIAL_INSERT, id, x->id, "r", task, "COMPLETED", hparams, I(1), AT);
}

// Some have checkpoints of 10 bytes each, and one more that is deleted; some have a name outside.
static void add_checkpoints(struct db_batch *b, const struct row *x)
{
    char uuid[64];
    for (int64_t i = 0; i <= x->id % 3; i++) {
        snprintf(uuid, sizeof uuid, "%lld-%lld", (long long)x->id, (long long)i);
        DB_ADD(b, CHECKPOINT_UPSERT, uuid, "", "", I(0), x->id, "COMPLETED", i, "{}",
               "{\"a\":\"7\",\"b\":3}", "{}", NULL, AT);
    }
    DB_ADD(b, CHECKPOINT_SET_RESOURCES, "{}", "DELETED", uuid);
}

static int64_t checkpoints_of(const struct row *x)
{
    return x->id % 3;
}

static const char *external_of(const struct row *x)
{
    return x->id % 4 ? NULL : arena_printf(&arena, "run %lld", (long long)x->id);
}

static void add(struct db_batch *b, const struct row *x)
{
    char labels[96] = "[", config[96];
    for (int i = 0; i < x->label_count; i++)
        snprintf(labels + strlen(labels), sizeof labels - strlen(labels), "%s\"%s\"", i ? "," : "",
                 x->labels[i]);
    snprintf(labels + strlen(labels), sizeof labels - strlen(labels), "]");
    snprintf(config, sizeof config, "{\"resources\":{\"slots_per_trial\":%d}}", x->slots);
    DB_ADD(b, EXPERIMENT_INSERT, x->id, x->state, x->name, x->description, "", labels, x->user,
           I(1), "job", x->parent, "", config, I(42), "single", "{}", I(0), I(1), "", x->submitted);
    DB_ADD(b, EXPERIMENT_SET_PROGRESS, x->progress, x->id);
    DB_ADD(b, EXPERIMENT_SET_ARCHIVED, I(x->archived), x->id);
    if (x->has_best)
        DB_ADD(b, EXPERIMENT_SET_BEST_METRIC, x->best, x->id);
    if (x->ended)
        DB_ADD(b, EXPERIMENT_END, x->state, x->ended, x->id);
    static const char *const names[METRICS] = {"validation.loss", "training.top 5"};
    for (int i = 0; i < METRICS; i++)
        if (x->has_metric[i])
            DB_ADD(b, EXPERIMENT_METRIC_SET, x->id, names[i], x->last[i], x->low[i], x->high[i]);
    for (int i = 0; i < x->trials; i++)
        add_trial(b, x, i);
    add_checkpoints(b, x);
    if (external_of(x))
        DB_ADD(b, EXPERIMENT_SET_EXTERNAL, external_of(x), x->id);
}

static int start(void **state)
{
    int err = fixture_start(state);
    struct db_batch *b = db_batch_new();
    rng_seed(&r, 11, 1);
    for (int i = 0; i < ROWS; i++) {
        draw(&rows[i], FIRST + i);
        add(b, &rows[i]);
    }
    return err ? err : db_commit_wait(fx.db, b, NULL);
}

static int stop(void **state)
{
    arena_free(&arena);
    return fixture_stop(state);
}

// --- matching of rows ----------------------------------------------------------------------------

struct value {
    bool is_text;
    double number;
    const char *text;
};

static int number(struct value *out, bool has, double n)
{
    *out = (struct value){.number = n};
    return has;
}

static int text(struct value *out, const char *t)
{
    *out = (struct value){.is_text = true, .text = t};
    return 1;
}

static int hparams_of(const struct row *x, const char *key, struct value *out)
{
    int n = 0;
    for (int i = 0; i < x->trials; i++)
        if (!strcmp(key, "rate"))
            n += number(&out[n], true, x->rate[i]);
        else if (!strcmp(key, "fixed"))
            n += number(&out[n], true, 1);
        else if (!strcmp(key, "optimizer.name") && x->optimizer[i])
            n += text(&out[n], x->optimizer[i]);
    return n;
}

static int metric_of(const struct row *x, const struct filter_name *name, struct value *out)
{
    int i = strcmp(name->field->name, "validation") != 0;
    if (strcmp(name->key, i ? "top 5" : "loss"))
        return 0;
    const double *picks[] = {x->last, x->low, x->high};
    return number(out, x->has_metric[i], picks[name->pick][i]);
}

// Collects the values of a row's field and returns their number.
static int values_of(const struct row *x, const struct filter_name *name, struct value *out)
{
    const char *f = name->field->name;
    int n = 0;
    if (name->field->type == FILTER_METRIC)
        return metric_of(x, name, out);
    if (name->field->type == FILTER_HPARAM)
        return hparams_of(x, name->key, out);
    if (!strcmp(f, "label")) {
        for (; n < x->label_count; n++)
            text(&out[n], x->labels[n]);
        return n;
    }
    const struct {
        const char *name;
        bool has;
        double number;
    } numbers[] = {{"id", true, (double)x->id},
                   {"user_id", true, (double)x->user},
                   {"project_id", true, 1},
                   {"archived", true, x->archived},
                   {"slots", true, x->slots},
                   {"trials", true, x->trials},
                   {"checkpoints", true, (double)checkpoints_of(x)},
                   {"checkpoint_size", true, 10.0 * (double)checkpoints_of(x)},
                   {"progress", true, x->progress},
                   {"metric", x->has_best, x->best},
                   {"forked_from", x->parent != 0, (double)x->parent},
                   {"started", true, (double)x->submitted},
                   {"ended", x->ended != 0, (double)x->ended},
                   {"duration", x->ended != 0, (double)(x->ended - x->submitted) / 1e6}};
    const struct {
        const char *name, *text;
    } texts[] = {{"name", x->name},
                 {"description", x->description},
                 {"owner", x->user == 1 ? "admin" : "determined"},
                 {"state", x->state},
                 {"searcher", "single"},
                 {"workspace", "Uncategorized"},
                 {"project", "Uncategorized"},
                 {"resource_pool", ""}};
    if (!strcmp(f, "external_id"))
        return external_of(x) ? text(out, external_of(x)) : 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(f, numbers[i].name))
            return number(out, numbers[i].has, numbers[i].number);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(f, texts[i].name))
            return text(out, texts[i].text);
    fail_msg("no row has %s", f);
    return 0;
}

static bool is_equal(const struct value *a, const struct filter_value *b)
{
    if (b->kind == FILTER_IS_TIME)
        return a->number == (double)b->time;
    if (a->is_text != (b->kind == FILTER_IS_TEXT))
        return false;
    if (a->is_text && !strcmp(a->text, "ACTIVE") && !strcmp(b->text, "QUEUED"))
        return true; // no row has an allocation
    return a->is_text ? !strcmp(a->text, b->text) : a->number == b->number;
}

static bool contains(const struct value *v, const char *part)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.15g", v->number);
    return strcasestr(v->is_text ? v->text : digits, part);
}

static bool test_value(const struct value *v, const struct filter_node *n)
{
    const struct filter_value *w = n->values;
    double than = w && w->kind == FILTER_IS_TIME ? (double)w->time : w ? w->number : 0;
    switch (n->op) {
    case FILTER_IS:
        return n->name.field->type != FILTER_FLAG || v->number > 0;
    case FILTER_HAS:
        return contains(v, w->text);
    case FILTER_LT:
        return !v->is_text && v->number < than;
    case FILTER_LE:
        return !v->is_text && v->number <= than;
    case FILTER_GT:
        return !v->is_text && v->number > than;
    case FILTER_GE:
        return !v->is_text && v->number >= than;
    default:
        for (size_t i = 0; i < n->value_count; i++)
            if (is_equal(v, &w[i]))
                return true;
        return false;
    }
}

static bool finds(const struct row *x, const char *word)
{
    bool found = strstr(x->name, word) || strstr(x->description, word);
    for (int i = 0; i < x->label_count; i++)
        found |= !strcmp(x->labels[i], word);
    return found;
}

static bool passes(const struct row *x, const struct filter_node *n)
{
    struct value values[LABELS + TRIALS_MOST];
    if (n->shape == FILTER_NOT)
        return !passes(x, n->child);
    if (n->shape != FILTER_TEST) {
        for (const struct filter_node *k = n->child; k; k = k->next)
            if (passes(x, k) == (n->shape == FILTER_OR))
                return n->shape == FILTER_OR;
        return n->shape == FILTER_AND;
    }
    if (n->op == FILTER_FINDS)
        return finds(x, n->values[0].text);
    bool any = false;
    for (int i = 0, count = values_of(x, &n->name, values); i < count; i++)
        any |= test_value(&values[i], n);
    return any != (n->op == FILTER_NE || n->op == FILTER_NOT_IN);
}

// --- orders --------------------------------------------------------------------------------------

static struct filter_key keys[FILTER_KEYS_MAX];
static size_t key_count;

static bool is_below(const struct value *a, const struct value *b)
{
    if (a->is_text != b->is_text)
        return b->is_text;
    return a->is_text ? strcmp(a->text, b->text) < 0 : a->number < b->number;
}

// Finds the value by which a row is sorted; false if it has none.
static bool value_of(const struct row *x, const struct filter_key *key, struct value *out)
{
    struct value values[LABELS + TRIALS_MOST];
    int count = values_of(x, &key->name, values);
    for (int i = 0; i < count; i++)
        if (!i || (key->descending ? is_below(out, &values[i]) : is_below(&values[i], out)))
            *out = values[i];
    return count;
}

static int compare(const void *left, const void *right)
{
    const struct row *a = *(const struct row *const *)left, *b = *(const struct row *const *)right;
    for (size_t i = 0; i < key_count; i++) {
        struct value va = {0}, vb = {0};
        bool has_a = value_of(a, &keys[i], &va), has_b = value_of(b, &keys[i], &vb);
        if (has_a != has_b)
            return has_a ? -1 : 1; // rows without a value come last
        if (has_a && is_below(&va, &vb))
            return keys[i].descending ? 1 : -1;
        if (has_a && is_below(&vb, &va))
            return keys[i].descending ? -1 : 1;
    }
    bool down = keys[key_count - 1].descending;
    return (a->id < b->id) == down ? 1 : -1;
}

// --- random filters ------------------------------------------------------------------------------

static void write_test(struct buf *out)
{
    static const char *const numbers[] = {"slots",
                                          "trials",
                                          "progress",
                                          "metric",
                                          "validation.loss",
                                          "validation.loss.min",
                                          "hparams.rate",
                                          "training.\"top 5\".max",
                                          "forked_from",
                                          "validation.none",
                                          "training.\"top 5\""};
    static const char *const signs[] = {"=", "!=", "<", "<=", ">", ">="};
    static const char *const alone[] = {"archived",    "ended",           "metric",
                                        "label",       "validation.loss", "hparams.optimizer.name",
                                        "forked_from", "hparams.fixed"};
    switch (rng_below(&r, 11)) {
    case 0:
    case 1:
        buf_printf(out, "%s %s %g", PICK(numbers), PICK(signs), coarse());
        break;
    case 2:
        buf_printf(out, "state %s (%s, %s)", rng_below(&r, 2) ? "in" : "not in", PICK(states),
                   rng_below(&r, 2) ? "QUEUED" : PICK(states));
        break;
    case 3:
        buf_printf(out, "%s ~ \"%.*s\"", rng_below(&r, 2) ? "name" : "label",
                   1 + (int)rng_below(&r, 6), PICK(words));
        break;
    case 4:
        buf_printf(out, "label %s (%s, %s)", rng_below(&r, 2) ? "in" : "not in", PICK(words),
                   PICK(words));
        break;
    case 5:
        buf_printf(out, "hparams.optimizer.name %s \"%s\"", rng_below(&r, 2) ? "=" : "~",
                   PICK(optimizers));
        break;
    case 6:
        buf_printf(out, "owner %s %s",
                   rng_below(&r, 2) ? "=" : "!=", rng_below(&r, 2) ? "admin" : "determined");
        break;
    case 7:
        buf_printf(out, "started %s 2023-11-14T22:1%d:00Z",
                   rng_below(&r, 2) ? "<" : ">=", 3 + (int)rng_below(&r, 3));
        break;
    case 8:
        buf_printf(out, "text : %s", PICK(words));
        break;
    case 9:
        buf_printf(out, "id %s %d", PICK(signs), FIRST + (int)rng_below(&r, ROWS));
        break;
    default:
        buf_puts(out, PICK(alone));
    }
}

static void write_tree(int depth, struct buf *out)
{
    uint32_t shape = depth ? rng_below(&r, 5) : 0;
    if (shape == 1)
        buf_puts(out, "not ");
    if (shape < 2) {
        write_test(out);
        return;
    }
    for (uint32_t i = 0, n = 2 + rng_below(&r, 2); i < n; i++) {
        buf_puts(out, i == 0 ? "(" : shape < 4 ? ") and (" : ") or (");
        write_tree(depth - 1, out);
    }
    buf_puts(out, ")");
}

static void write_sort(struct buf *out)
{
    static const char *const fields[] = {"id",
                                         "name",
                                         "owner",
                                         "progress",
                                         "metric",
                                         "started",
                                         "ended",
                                         "slots",
                                         "validation.loss",
                                         "validation.loss.max",
                                         "trials",
                                         "forked_from",
                                         "hparams.rate",
                                         "training.\"top 5\"",
                                         "user_id",
                                         "project_id",
                                         "searcher",
                                         "hparams.optimizer.name",
                                         "validation.none",
                                         "workspace"};
    for (uint32_t i = 0, n = 1 + rng_below(&r, 3); i < n; i++)
        buf_printf(out, "%s%s%s", i ? "," : "", rng_below(&r, 2) ? "-" : "", PICK(fields));
}

// --- lists ---------------------------------------------------------------------------------------

static void write_escaped(struct buf *out, const char *text_)
{
    for (; *text_; text_++)
        buf_printf(out, "%%%02x", (unsigned char)*text_);
}

static json_t *get_page(const char *filter, const char *sort, int limit, const char *cursor)
{
    struct buf path;
    buf_init(&path, 64 * 1024);
    buf_printf(&path, "/api/v1/experiments?limit=%d&omit=config&filter=", limit);
    write_escaped(&path, filter);
    buf_puts(&path, "&sort=");
    write_escaped(&path, sort);
    if (cursor)
        buf_printf(&path, "&cursor=%s", cursor);
    json_t *page = get_json(buf_str(&path), BY_ADMIN);
    buf_free(&path);
    return page;
}

// Reads every page; returns the number of ids, in order.
static int walk(const char *filter, const char *sort, int limit, int64_t ids[ROWS],
                int64_t expected)
{
    int count = 0;
    char *cursor = NULL;
    do {
        json_t *page = get_page(filter, sort, limit, cursor), *x;
        size_t i;
        json_array_foreach(jget(page, "experiments"), i, x)
        {
            if (count == ROWS)
                fail_msg("%s, sort %s, limit %d: more rows than there are", filter, sort, limit);
            ids[count++] = jget_int(x, "id", 0);
        }
        if (jget_int(jget(page, "pagination"), "total", -1) != expected &&
            !jget_bool(page, "totalIsLeast", false))
            fail_msg("%s: total is %s, not %lld", filter, at(page, "pagination.total"),
                     (long long)expected);
        free(cursor);
        const char *next = jget_string(page, "nextCursor", NULL);
        cursor = next ? xstrdup(next) : NULL;
        assert_true(!cursor || json_array_size(jget(page, "experiments")) == (size_t)limit);
        json_decref(page);
    } while (cursor);
    return count;
}

static void check(const char *filter, const char *sort, int limit)
{
    struct filter_node *tree;
    const struct row *expected[ROWS];
    int64_t ids[ROWS];
    int count = 0;
    assert_int_equal(filter_parse(&arena, FILTER_EXPERIMENTS, filter, &tree, NULL), 0);
    assert_int_equal(filter_parse_sort(&arena, FILTER_EXPERIMENTS, sort, keys, &key_count, NULL),
                     0);
    for (int i = 0; i < ROWS; i++)
        if (passes(&rows[i], tree))
            expected[count++] = &rows[i];
    qsort(expected, (size_t)count, sizeof *expected, compare);
    int found = walk(filter, sort, limit, ids, count);
    for (int i = 0; i < count && i < found; i++)
        if (ids[i] != expected[i]->id)
            fail_msg("%s, sort %s, limit %d: place %d has %lld, not %lld", filter, sort, limit, i,
                     (long long)ids[i], (long long)expected[i]->id);
    if (found != count)
        fail_msg("%s, sort %s: %d rows, not %d", filter, sort, found, count);
}

static void test_random_filters(void **state)
{
    (void)state;
    for (int round = 0; round < 150; round++) {
        struct buf filter, sort;
        buf_init(&filter, FILTER_LENGTH_MAX);
        buf_init(&sort, FILTER_LENGTH_MAX);
        buf_puts(&filter, "id >= 1000 and ("); // not the rows of the fixture
        write_tree(2, &filter);
        buf_puts(&filter, ")");
        write_sort(&sort);
        check(buf_str(&filter), buf_str(&sort), 20 + (int)rng_below(&r, 200));
        buf_free(&filter);
        buf_free(&sort);
        arena_reset(&arena);
    }
}

// Sorts by every field alone, in both directions, with pages so small that some end among equal and
// missing values.
static void test_every_order(void **state)
{
    (void)state;
    for (const struct filter_field *f = filter_fields; f->name; f++) {
        if (!f->sortable || !(f->lists & FILTER_EXPERIMENTS))
            continue;
        const char *part = f->type == FILTER_METRIC   ? ".loss"
                           : f->type == FILTER_HPARAM ? ".rate"
                                                      : "";
        for (int down = 0; down < 2; down++) {
            char sort[64];
            snprintf(sort, sizeof sort, "%s%s%s", down ? "-" : "", f->name, part);
            check("id >= 1000 and not archived", sort, 61);
        }
    }
    check("id >= 1000", "-state,name", 100);
    check("id >= 1000 and state = COMPLETED", "project,-resource_pool", 100);
}

static int status(const char *query)
{
    char path[640];
    snprintf(path, sizeof path, "/api/v1/experiments?%s", query);
    return status_of("GET", path, BY_ADMIN, NULL);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    json_t *page = get_page("id > 1", "name", 5, NULL);
    char query[512];
    const char *cursor = jget_string(page, "nextCursor", "");
    snprintf(query, sizeof query, "sort=name&limit=5&cursor=%s", cursor);
    assert_int_equal(status(query), 200);
    snprintf(query, sizeof query, "sort=-name&limit=5&cursor=%s", cursor); // of another order
    assert_int_equal(status(query), 400);
    snprintf(query, sizeof query, "sort=name&offset=5&cursor=%s", cursor);
    assert_int_equal(status(query), 400);
    json_decref(page);
    static const char *const bad[] = {"cursor=x",           "cursor=bnVsbA==", "filter=id",
                                      "sort=moon",          "filter=(id%3d1",  "filter=steps%3e1",
                                      "sort=id&cursor=WzFd"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(status(bad[i]), 400);
}

// Operators of the full text index are plain words here.
static void test_words_are_words(void **state)
{
    (void)state;
    static const char *const texts[] = {"AND",     "\"\\\"\"", "\"a OR\"",    "NEAR(a)", "-x",  "*",
                                        "\"^a*\"", "name",     "\"{a} : b\"", "'\"'",    "\"\""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char filter[64];
        snprintf(filter, sizeof filter, "text : %s", texts[i]);
        struct filter_node *tree;
        if (!filter_parse(&arena, FILTER_EXPERIMENTS, filter, &tree, NULL))
            json_decref(get_page(filter, "id", 5, NULL));
    }
    json_t *page = get_page("text : \"vis*\"", "id", 1000, NULL);
    assert_true(json_array_size(jget(page, "experiments")) > 10);
    json_decref(page);
}

// Experiments are submitted while a list is read page by page: no row appears twice or is skipped.
static void test_inserts_move_nothing(void **state)
{
    (void)state;
    json_t *page = get_page("id >= 1000", "-id", 10, NULL);
    char *cursor = xstrdup(jget_string(page, "nextCursor", ""));
    int64_t last = jget_int(value_at(page, "experiments.9"), "id", 0);
    json_decref(page);
    store_experiment(FIRST + ROWS, "PAUSED", "later");
    page = get_page("id >= 1000", "-id", 10, cursor);
    assert_int_equal(jget_int(value_at(page, "experiments.0"), "id", 0), last - 1);
    json_decref(page);
    STORE(EXPERIMENT_DELETE, I(FIRST + ROWS));
    free(cursor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_filters),       cmocka_unit_test(test_every_order),
        cmocka_unit_test(test_what_is_refused),      cmocka_unit_test(test_words_are_words),
        cmocka_unit_test(test_inserts_move_nothing),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
