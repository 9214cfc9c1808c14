#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/os/file.h"
#include "cli/simulate/simulate.h"

enum { TEAMS_TEXT_MAX = 1 << 20, DEFAULT_SLOTS = 8, DEFAULT_COST_S = 60 };

// --- files ---------------------------------------------------------------------------------------

static int gzip_error(gzFile file, const char *path, struct error *e)
{
    int code = Z_OK;
    const char *text = gzerror(file, &code);
    if (code == Z_ERRNO)
        return error_set_errno(e, ERR_IO, errno, "%s", path);
    return error_set(e, ERR_CORRUPT, "%s is not a complete gzip file (%s)", path, text);
}

// Reads a plain or gzip file; the first bytes tell which.
int simulate_file_read(const char *path, size_t limit, char **out, size_t *len, struct error *e)
{
    gzFile file = gzopen(path, "rb");
    if (!file)
        return error_set_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, errno, "%s", path);
    size_t cap = 0, used = 0;
    char *text = NULL;
    int got, err = 0;
    do {
        if (used == cap) {
            cap = cap ? 2 * cap : 1 << 16;
            text = xrealloc(text, cap + 1);
        }
        got = gzread(file, text + used, (unsigned)(cap - used < 1 << 20 ? cap - used : 1 << 20));
        used += got > 0 ? (size_t)got : 0;
        if (used > limit)
            err = error_set(e, ERR_TOO_LARGE, "%s is larger than %zu MiB when unpacked", path,
                            limit >> 20);
    } while (!err && got > 0);
    int code = Z_OK;
    gzerror(file, &code); // a truncated file ends with Z_BUF_ERROR
    if (!err && (got < 0 || code != Z_OK))
        err = gzip_error(file, path, e);
    gzclose_r(file);
    if (err) {
        free(text);
        return err;
    }
    text[used] = '\0';
    *out = text;
    *len = used;
    return 0;
}

// --- options -------------------------------------------------------------------------------------

// Parses "63d", "90m" or "3600" between `at` and `end` as microseconds.
static bool parse_time(const char *at, const char *end, int64_t *out)
{
    static const struct {
        char letter;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char text[32], *rest;
    snprintf(text, sizeof text, "%.*s", (int)(end - at), at);
    double value = strtod(text, &rest);
    for (size_t i = 0; *rest && i < sizeof units / sizeof *units; i++) {
        if (*rest == units[i].letter) {
            value *= units[i].seconds;
            rest++;
            break;
        }
    }
    if (rest == text || *rest || end - at >= (ptrdiff_t)sizeof text ||
        !(value >= 0 && value <= 1e11))
        return false;
    *out = llround(value * SIMULATE_SECOND);
    return true;
}

int simulate_window_parse(const char *text, int64_t *from, int64_t *to, struct error *e)
{
    const char *dots = strstr(text, ".."), *end = text + strlen(text);
    *from = 0;
    *to = INT64_MAX;
    bool is_good = dots && (dots == text || parse_time(text, dots, from)) &&
                   (dots + 2 == end || parse_time(dots + 2, end, to)) && *from < *to;
    return is_good ? 0
                   : error_set(e, ERR_INVALID,
                               "--window takes FROM..TO with the earlier time first, such as "
                               "63d..77d, 12h.. or 0..86400 (seconds), not \"%s\"",
                               text);
}

static int parse_policy(const char *word, size_t len, enum sched_policy *out, struct error *e)
{
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)len, word);
    const char *names[SCHED_POLICIES + 1] = {NULL};
    for (int i = 0; i < SCHED_POLICIES; i++) {
        names[i] = sched_policy_names[i];
        if (strcmp(names[i], name) == 0) {
            *out = (enum sched_policy)i;
            return 0;
        }
    }
    const char *near = nearest_word(name, names);
    return error_set(e, ERR_INVALID, "no policy \"%s\"; %s%s", name,
                     near ? "did you mean " : "the policies are fair_share, priority, fifo, easy",
                     near ? near : "");
}

static int parse_policies(const char *text, struct simulate_input *in, struct error *e)
{
    bool seen[SCHED_POLICIES] = {false};
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ",");
        enum sched_policy policy = SCHED_POLICY_FAIR_SHARE;
        int err = parse_policy(p, len, &policy, e);
        if (err)
            return err;
        if (seen[policy])
            return error_set(e, ERR_INVALID, "--policy names %s twice", sched_policy_names[policy]);
        seen[policy] = true;
        in->policies[in->policy_count++] = policy;
        p += len;
        if (!*p)
            return 0;
    }
}

// --- cluster -------------------------------------------------------------------------------------

// Takes the nodes from the options instead of the store, and appends --add-nodes.
static int make_cluster(const struct cli_options *o, struct simulate_input *in, struct error *e)
{
    struct cluster_history *h = &in->history;
    int usual = history_usual_slots(h);
    int slots = o->slots_per_node ? (int)o->slots_per_node : usual ? usual : DEFAULT_SLOTS;
    if (o->nodes)
        h->node_count = (size_t)o->nodes;
    in->added = (size_t)o->add_nodes;
    size_t all = h->node_count + in->added;
    if (!h->node_count)
        return error_set(e, ERR_INVALID,
                         "the store has no enabled agents in that pool; give --nodes");
    if (all > SIMULATE_NODES_MAX)
        return error_set(e, ERR_INVALID, "%zu nodes are too many; the maximum is %d", all,
                         SIMULATE_NODES_MAX);
    if (o->racks > (long long)h->node_count)
        return error_set(e, ERR_INVALID, "--racks %lld: there are only %zu nodes", o->racks,
                         h->node_count);
    h->nodes = xrealloc(h->nodes, all * sizeof *h->nodes);
    for (size_t i = o->nodes ? 0 : h->node_count; i < all; i++)
        h->nodes[i] = (struct simulate_node){slots, SCHED_NONE};
    for (size_t i = 0; o->racks && i < all; i++)
        h->nodes[i].rack = (int)(i * (size_t)o->racks / all);
    return 0;
}

// --- jobs ----------------------------------------------------------------------------------------

static int read_teams(const char *path, struct trace *t, struct error *e)
{
    char *text = NULL;
    size_t len = 0;
    int err = file_read(path, TEAMS_TEXT_MAX, &text, &len, e);
    err = err ? err : trace_read_teams(t, text, len, path, e);
    free(text);
    return err;
}

static bool is_column(const char *name)
{
    for (const char *const *known = trace_job_columns; *known; known++)
        if (strcmp(*known, name) == 0)
            return true;
    return false;
}

// Names close to a known column were already refused.
static void warn_unknown_columns(const char *path, const char *text)
{
    text += strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    char *line = strndup(text, strcspn(text, "\r\n")), *rest = line, *name;
    while ((name = strsep(&rest, ","))) {
        name += *name == '"';
        name[strcspn(name, "\"")] = '\0';
        if (!is_column(name))
            fprintf(stderr, "warning: %s: the column \"%s\" is ignored\n", path, name);
    }
    free(line);
}

static int read_trace(const char *path, struct simulate_input *in, struct error *e)
{
    char *text = NULL;
    size_t len = 0;
    int err = simulate_file_read(path, SIMULATE_TEXT_MAX, &text, &len, e);
    err = err ? err : trace_read_jobs(&in->history.trace, text, len, path, in->from, in->to, e);
    if (!err)
        warn_unknown_columns(path, text);
    free(text);
    return err;
}

static int check_options(const struct cli_options *o, struct error *e)
{
    if (!o->trace == !o->from_store)
        return error_set(e, ERR_INVALID,
                         "no jobs: give either --trace FILE.csv or --from-store DIR");
    if (o->trace && !o->nodes)
        return error_set(e, ERR_INVALID,
                         "the size of the cluster is missing: give --nodes N (and --slots-per-node "
                         "G, default %d)",
                         DEFAULT_SLOTS);
    if (o->from_store && o->teams)
        return error_set(e, ERR_INVALID,
                         "--teams applies to --trace only; a store has its own teams");
    return 0;
}

int simulate_input_read(const struct cli_options *o, struct simulate_input *in, struct error *e)
{
    *in = (struct simulate_input){.to = INT64_MAX,
                                  .name = o->trace ? o->trace : o->from_store,
                                  .preempt_cost = o->preempt_cost >= 0 ? (double)o->preempt_cost
                                                                       : DEFAULT_COST_S,
                                  .drain = (double)o->drain_time};
    int err = check_options(o, e);
    if (!err && o->window)
        err = simulate_window_parse(o->window, &in->from, &in->to, e);
    err = err ? err
              : parse_policies(o->policy ? o->policy : sched_policy_names[SCHED_POLICY_FAIR_SHARE],
                               in, e);
    if (!err && o->teams)
        err = read_teams(o->teams, &in->history.trace, e);
    if (!err && o->trace)
        err = read_trace(o->trace, in, e);
    if (!err && o->from_store)
        err = history_read(o->from_store, o->pool, in->from, in->to, &in->history, e);
    err = err ? err : make_cluster(o, in, e);
    if (!err && !in->history.trace.job_count)
        err = error_set(e, ERR_INVALID, "%s has no jobs%s", in->name,
                        o->window ? " in the window" : "");
    if (err)
        simulate_input_free(in);
    return err;
}

void simulate_input_free(struct simulate_input *in)
{
    history_free(&in->history);
}
