// Formats bytes and tokens. Each file is one run of tokens, and no sample extends beyond its run. A
// sample is a window of context + 1 tokens. A training sample may start at any token; validation
// samples do not overlap, except that each begins with the last token of the one before.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "trainer/data/dir_listing.h"
#include "trainer/data/format.h"
#include "trainer/data/numbers.h"

enum { CONTEXT_MAX = 65536, SHARDS_MAX = 65536, HEADER_BYTES = 1024 };

struct token_run {
    struct file_content *content;
    const uint8_t *first;
    enum number_type type;
    int64_t tokens;
    int64_t before; // number of samples in earlier runs
};

struct token_runs {
    struct token_run *runs;
    int64_t count;
};

struct token_dataset {
    struct dataset base;
    struct token_runs all;
    int64_t stride; // tokens from the start of one sample to the next
};

static void token_runs_close(struct token_runs *r)
{
    for (int64_t i = 0; i < r->count; i++)
        file_content_unref(r->runs[i].content);
    free(r->runs);
    *r = (struct token_runs){0};
}

static void token_runs_add(struct token_runs *r, struct token_run run)
{
    r->runs = xrealloc(r->runs, (size_t)(r->count + 1) * sizeof *r->runs);
    r->runs[r->count++] = run;
}

static int64_t token_runs_count(const struct token_runs *r)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->count; i++)
        n += r->runs[i].tokens;
    return n;
}

// --- samples -------------------------------------------------------------------------------------

static const struct token_run *run_of(const struct token_runs *r, int64_t index)
{
    int64_t low = 0, high = r->count;
    while (high - low > 1) { // find the last run with `before` <= index
        int64_t middle = low + (high - low) / 2;
        *(r->runs[middle].before <= index ? &low : &high) = middle;
    }
    return &r->runs[low];
}

static int fail_outside_vocabulary(const struct token_run *run, int64_t first, int64_t n,
                                   int64_t vocabulary, struct error *e)
{
    int64_t i = first;
    while (i < first + n - 1 && number_integer_at(run->type, run->first, i) < vocabulary)
        i++;
    const uint8_t *at = run->first + (size_t)i * number_size(run->type);
    return error_set(e, ERR_CORRUPT,
                     "%s: offset %zu: %s %lld is outside the model's vocabulary of %lld "
                     "(trainer.model.vocabulary)",
                     run->content->path, (size_t)(at - run->content->data),
                     run->type == NUMBER_U8 ? "byte" : "token",
                     (long long)number_integer_at(run->type, run->first, i), (long long)vocabulary);
}

static int fetch_window(const struct dataset *base, int64_t index, int64_t i, struct batch *out,
                        struct error *e)
{
    const struct token_dataset *d = (const struct token_dataset *)base;
    const struct token_run *run = run_of(&d->all, index);
    int64_t context = base->shape.context, first = (index - run->before) * d->stride;
    const uint8_t *from = run->first + (size_t)first * number_size(run->type);
    uint32_t largest = numbers_tokens(run->type, from, context, out->tokens + i * context);
    from += number_size(run->type);
    uint32_t other = numbers_tokens(run->type, from, context, out->targets + i * context);
    if (largest >= base->shape.vocabulary || other >= base->shape.vocabulary)
        return fail_outside_vocabulary(run, first, context + 1, base->shape.vocabulary, e);
    return 0;
}

static void close_tokens(struct dataset *base)
{
    struct token_dataset *d = (struct token_dataset *)base;
    token_runs_close(&d->all);
    free(d);
}

static const struct dataset_ops token_ops = {fetch_window, close_tokens};

// Makes one part of the tokens [from, to) of all runs.
static int new_part(const struct token_runs *r, int64_t from, int64_t to, bool training,
                    const struct sample_shape *shape, struct dataset **out, struct error *e)
{
    struct token_dataset *d = xcalloc(1, sizeof *d);
    int64_t at = 0, longest = 0;
    d->base = (struct dataset){.ops = &token_ops, .shape = *shape};
    d->stride = training ? 1 : shape->context;
    *out = &d->base;
    for (int64_t i = 0; i < r->count; i++) {
        struct token_run run = r->runs[i];
        int64_t begin = from > at ? from - at : 0;
        int64_t end = to - at < run.tokens ? to - at : run.tokens, tokens = end - begin;
        at += run.tokens;
        longest = tokens > longest ? tokens : longest;
        if (tokens <= shape->context)
            continue;
        run.first += (size_t)begin * number_size(run.type);
        run.tokens = tokens;
        run.before = d->base.count;
        file_content_ref(run.content);
        token_runs_add(&d->all, run);
        d->base.count += (tokens - shape->context - 1) / d->stride + 1;
    }
    if (d->base.count)
        return 0;
    return error_set(e, ERR_CORRUPT,
                     "%s%s: the longest run for %s is %lld tokens, but one sample is context + 1 = "
                     "%lld; give more text or a smaller trainer.model.context",
                     r->runs[0].content->path, r->count > 1 ? " and those with it" : "",
                     training ? "training" : "validation", (long long)longest,
                     (long long)shape->context + 1);
}

// --- training and validation part ----------------------------------------------------------------

static int read_shape(const struct data_request *r, struct sample_shape *shape, struct error *e)
{
    *shape = (struct sample_shape){.kind = SAMPLE_TOKENS,
                                   .context = jget_int(r->model, "context", 0),
                                   .vocabulary = jget_int(r->model, "vocabulary", 256)};
    if (shape->context > 0 && shape->context <= CONTEXT_MAX && shape->vocabulary > 0)
        return 0;
    return error_set(e, ERR_INVALID,
                     "trainer.data.format %s needs a model with a context of 1 to %d tokens "
                     "(family gpt); trainer.model has %lld",
                     jget_string(r->spec, "format", ""), CONTEXT_MAX, (long long)shape->context);
}

static int check_fraction(const struct data_request *r, struct error *e)
{
    double fraction = jget_double(r->spec, "validation_fraction", 0.1);
    if (jget(r->spec, "validation_path") || (fraction > 0 && fraction < 1))
        return 0;
    return error_set(e, ERR_INVALID, "trainer.data.validation_fraction: must lie between 0 and 1");
}

// Without a validation_path, the end of `all` is the validation part.
static int open_parts(const struct data_request *r, const struct token_runs *all,
                      const struct token_runs *validation_runs, const struct sample_shape *shape,
                      struct dataset **train, struct dataset **validation, struct error *e)
{
    double fraction = jget_double(r->spec, "validation_fraction", 0.1);
    int64_t tokens = token_runs_count(all);
    int64_t end = validation_runs->count ? tokens : (int64_t)((1 - fraction) * (double)tokens);
    int rc = new_part(all, 0, end, true, shape, train, e);
    if (rc)
        return rc;
    return validation_runs->count ? new_part(validation_runs, 0, token_runs_count(validation_runs),
                                             false, shape, validation, e)
                                  : new_part(all, end, tokens, false, shape, validation, e);
}

// --- bytes ---------------------------------------------------------------------------------------

// Opens a file of bytes. Bytes outside the vocabulary are reported now, because such files are
// small.
static int open_byte_file(const struct data_request *r, const char *key, int64_t vocabulary,
                          struct token_runs *out, struct error *e)
{
    struct file_content *c = NULL;
    int rc = data_open_file(r, key, false, &c, e);
    if (rc)
        return rc;
    struct token_run run = {
        .content = c, .first = c->data, .type = NUMBER_U8, .tokens = (int64_t)c->size};
    token_runs_add(out, run);
    for (int64_t i = 0; i < run.tokens && vocabulary < 256; i++)
        if (run.first[i] >= vocabulary)
            return fail_outside_vocabulary(&run, i, 1, vocabulary, e);
    return 0;
}

// --- shards of tokens ----------------------------------------------------------------------------

// The shards of llm.c begin with 256 int32: a magic number, its version, the number of tokens
// (dev/data/data_common.py). Those of nanoGPT begin with the first token.
static const struct shard_header {
    uint32_t magic, version;
    enum number_type type;
} shard_headers[] = {
    {20240520, 1, NUMBER_U16}, // tokens of GPT-2
    {20240801, 7, NUMBER_U32}, // tokens of Llama 3
};

static uint32_t header_word(const struct file_content *c, int64_t i)
{
    return (uint32_t)number_integer_at(NUMBER_U32, c->data, i);
}

static const struct shard_header *find_header(const struct file_content *c)
{
    for (size_t i = 0; i < sizeof shard_headers / sizeof *shard_headers && c->size >= 4; i++)
        if (header_word(c, 0) == shard_headers[i].magic)
            return &shard_headers[i];
    return NULL;
}

static int read_headed(const struct file_content *c, const struct shard_header *h,
                       struct token_run *out, struct error *e)
{
    if (c->size < HEADER_BYTES)
        return error_set(e, ERR_CORRUPT, "%s: ends at offset %zu, within its header of %d bytes",
                         c->path, c->size, HEADER_BYTES);
    if (header_word(c, 1) != h->version)
        return error_set(e, ERR_CORRUPT,
                         "%s: offset 4: shards of magic %u are of version %u, not %u", c->path,
                         h->magic, h->version, header_word(c, 1));
    out->first = c->data + HEADER_BYTES;
    out->type = h->type;
    out->tokens = header_word(c, 2);
    return file_content_check_end(c, HEADER_BYTES + (size_t)out->tokens * number_size(h->type), e);
}

static int read_headless(const struct file_content *c, enum number_type type, struct token_run *out,
                         struct error *e)
{
    size_t width = number_size(type);
    if (c->size % width)
        return error_set(e, ERR_CORRUPT, "%s: ends at offset %zu, within a token of %zu bytes",
                         c->path, c->size, width);
    out->first = c->data;
    out->type = type;
    out->tokens = (int64_t)(c->size / width);
    return 0;
}

static int add_shard(const struct data_request *r, const char *key, const char *path,
                     struct token_runs *out, struct error *e)
{
    char *name = xasprintf("trainer.data.%s", key);
    bool wide = !strcmp(jget_string(r->spec, "type", "uint16"), "uint32");
    struct token_run run = {0};
    int rc = out->count == SHARDS_MAX
                 ? error_set(e, ERR_TOO_LARGE, "%s: more than %d shards", name, SHARDS_MAX)
                 : file_content_open(name, path, r->folder, false, &run.content, e);
    free(name);
    if (rc)
        return rc;
    const struct shard_header *h = find_header(run.content);
    rc = h ? read_headed(run.content, h, &run, e)
           : read_headless(run.content, wide ? NUMBER_U32 : NUMBER_U16, &run, e);
    token_runs_add(out, run);
    return rc;
}

// Opens one path, or all files that match it if its last part contains *, ? or [.
static int add_shards(const struct data_request *r, const char *key, const char *path,
                      struct token_runs *out, struct error *e)
{
    const char *slash = strrchr(path, '/'), *pattern = slash ? slash + 1 : path;
    if (!strpbrk(pattern, "*?["))
        return add_shard(r, key, path, out, e);
    char *parent = slash ? xasprintf("%.*s", (int)(slash - path) + 1, path) : xstrdup(".");
    char *folder = path[0] == '/' ? xstrdup(parent) : path_join(r->folder, parent);
    struct dir_listing found;
    int rc = dir_listing_read(folder, pattern, &found, e);
    if (!rc && !found.count)
        rc = error_set(e, ERR_NOT_FOUND, "no file in %s matches %s", folder, pattern);
    if (rc)
        error_prefix(e, "trainer.data.%s", key);
    for (size_t i = 0; i < found.count && !rc; i++) {
        char *one = slash ? path_join(parent, found.names[i]) : xstrdup(found.names[i]);
        rc = add_shard(r, key, one, out, e);
        free(one);
    }
    dir_listing_free(&found);
    free(folder);
    free(parent);
    return rc;
}

// There may be many tokens, so those outside the vocabulary are reported when they are fetched.
static int open_shards(const struct data_request *r, const char *key, int64_t vocabulary,
                       struct token_runs *out, struct error *e)
{
    (void)vocabulary;
    const json_t *given = jget(r->spec, key), *path;
    size_t i;
    int rc = 0;
    if (json_is_string(given))
        return add_shards(r, key, json_string_value(given), out, e);
    json_array_foreach(given, i, path)
    {
        const char *text = json_string_value(path);
        rc = rc ? rc : add_shards(r, key, text ? text : "", out, e);
    }
    if (!rc && !out->count)
        rc = error_set(e, ERR_INVALID, "trainer.data.%s: missing", key);
    return rc;
}

// --- the formats ---------------------------------------------------------------------------------

typedef int (*token_file_opener)(const struct data_request *r, const char *key, int64_t vocabulary,
                                 struct token_runs *out, struct error *e);

static int open_both(const struct data_request *r, token_file_opener open, struct dataset **train,
                     struct dataset **validation, struct error *e)
{
    struct sample_shape shape;
    struct token_runs all = {0}, validation_runs = {0};
    int rc = check_fraction(r, e);
    if (!rc)
        rc = read_shape(r, &shape, e);
    if (!rc)
        rc = open(r, "path", shape.vocabulary, &all, e);
    if (!rc && jget(r->spec, "validation_path"))
        rc = open(r, "validation_path", shape.vocabulary, &validation_runs, e);
    if (!rc)
        rc = open_parts(r, &all, &validation_runs, &shape, train, validation, e);
    token_runs_close(&all);
    token_runs_close(&validation_runs);
    return rc;
}

int bytes_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
               struct error *e)
{
    return open_both(r, open_byte_file, train, validation, e);
}

int tokens_open(const struct data_request *r, struct dataset **train, struct dataset **validation,
                struct error *e)
{
    return open_both(r, open_shards, train, validation, e);
}
