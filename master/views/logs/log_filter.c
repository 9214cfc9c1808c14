#include "master/views/logs/log_filter.h"

#include <stdlib.h>
#include <string.h>

#include "api/wire.h"
#include "base/clock.h"

static const char *const parameter_names[LOG_FIELDS] = {
    [LOG_ALLOCATION] = "allocationIds", [LOG_AGENT] = "agentIds",
    [LOG_CONTAINER] = "containerIds",   [LOG_SOURCE] = "sources",
    [LOG_STDTYPE] = "stdtypes",         [LOG_LEVEL] = "levels"};

static size_t copy_parameter(struct view *v, struct arena *arena, const char *name,
                             const char ***out)
{
    size_t count = query_all(v->query, name, NULL, 0);
    *out = arena_alloc(arena, (count + 1) * sizeof **out);
    query_all(v->query, name, *out, count);
    for (size_t i = 0; i < count; i++)
        (*out)[i] = arena_strdup(arena, (*out)[i]);
    return count;
}

static int read_levels(struct log_filter *c, struct error *e)
{
    int err = 0;
    for (size_t i = 0; i < c->fields[LOG_LEVEL].count && !err; i++) {
        const char **level = &c->fields[LOG_LEVEL].texts[i];
        err = wire_parse(WIRE_LOG_LEVEL, *level, level, e);
        if (err)
            error_prefix(e, "query parameter levels");
    }
    return err;
}

static int read_ranks(struct view *v, struct arena *arena, struct log_filter *c, struct error *e)
{
    const char **texts;
    c->rank_count = copy_parameter(v, arena, "rankIds", &texts);
    c->ranks = arena_alloc(arena, (c->rank_count + 1) * sizeof *c->ranks);
    for (size_t i = 0; i < c->rank_count; i++) {
        if (!request_number(texts[i], &c->ranks[i]))
            return error_set(e, ERR_INVALID,
                             "query parameter rankIds: \"%.64s\" is not an integer of 64 bits",
                             texts[i]);
    }
    return 0;
}

static int read_time(struct view *v, const char *name, int64_t *out, struct error *e)
{
    const char *text = query_get(v->query, name);
    if (!text || !*text || !clock_parse(text, out))
        return 0;
    return error_set(e, ERR_INVALID,
                     "query parameter %s: \"%.64s\" is not a time like 2026-11-21T09:00:00Z", name,
                     text);
}

static int read_text(struct view *v, struct arena *arena, struct log_filter *c, struct error *e)
{
    const char *text = query_get(v->query, "searchText");
    struct pattern *compiled;
    if (!text || !*text)
        return 0;
    text = arena_strdup(arena, text);
    if (!query_flag(v->query, "enableRegex")) {
        c->contains = text;
        return 0;
    }
    c->pattern = text;
    int err = pattern_compile(text, "query parameter searchText", &compiled, e);
    pattern_free(compiled);
    return err;
}

int log_filter_read(struct view *v, struct arena *arena, struct log_filter *out, struct error *e)
{
    *out = (struct log_filter){.after = INT64_MIN, .before = INT64_MAX};
    for (int i = 0; i < LOG_FIELDS; i++)
        out->fields[i].count = copy_parameter(v, arena, parameter_names[i], &out->fields[i].texts);
    int err = read_levels(out, e);
    if (!err)
        err = read_ranks(v, arena, out, e);
    if (!err)
        err = read_time(v, "timestampBefore", &out->before, e);
    if (!err)
        err = read_time(v, "timestampAfter", &out->after, e);
    return err ? err : read_text(v, arena, out, e);
}

bool log_filter_needs_text(const struct log_filter *c)
{
    return c->contains || c->pattern;
}

static bool matches_rank(const struct log_filter *c, int64_t rank)
{
    bool matches = !c->rank_count;
    for (size_t i = 0; i < c->rank_count && !matches; i++)
        matches = c->ranks[i] == rank;
    return matches;
}

static bool matches_origin(const void *ctx, const struct log_origin *o)
{
    const struct log_filter *c = ctx;
    bool matches = matches_rank(c, o->rank);
    for (int i = 0; i < LOG_FIELDS && matches; i++) {
        matches = !c->fields[i].count;
        for (size_t k = 0; k < c->fields[i].count && !matches; k++)
            matches = !strcmp(c->fields[i].texts[k], o->text[i]);
    }
    return matches;
}

struct log_query log_filter_columns(const struct log_filter *c)
{
    return (struct log_query){
        .after = c->after, .before = c->before, .origin = matches_origin, .ctx = c};
}

bool log_filter_matches_text(const struct log_filter *c, const struct pattern *compiled,
                             const struct log_line *line)
{
    if (c->contains)
        return strcasestr(line->text, c->contains);
    return !c->pattern || pattern_matches(compiled, line->text, line->len);
}
