// Explanations of keys. Several keys may have one path, because kinds of a union have keys of the
// same name; those with the same meaning are explained once.
#include "api/config/config_help.h"

#include <stdlib.h>
#include <string.h>

#include "api/config/config_example.h"
#include "api/config/expconf.h"
#include "api/config/expconf_parts.h"
#include "base/arena.h"
#include "base/log.h"

enum { WIDTH = 96, NAME_WIDTH = 28, ENTRIES_MAX = 2048, TYPE_MAX = 4096, WORD_MAX_LEN = 256 };

// --- entries -------------------------------------------------------------------------------------

struct entry {
    struct schema_row row;
    const char *match;   // the path without "[]"; of a kind with its word
    const char *by_kind; // of a key of a kind: the same with the kind's word; else NULL
};

struct entries {
    struct arena arena;
    struct entry *items;
    size_t count;
};

static char *without_brackets(struct arena *a, const char *path)
{
    char *copy = arena_strdup(a, path), *to = copy;
    for (const char *from = copy; *from; from++)
        if (*from != '[' && *from != ']')
            *to++ = *from;
    *to = '\0';
    return copy;
}

static const struct schema_choice *copy_choices(struct arena *a, const struct schema_choice *from)
{
    if (!from)
        return NULL;
    struct schema_choice *copy = arena_alloc(a, sizeof *copy);
    *copy = (struct schema_choice){arena_strdup(a, from->path), from->tag, from->word,
                                   copy_choices(a, from->outer)};
    return copy;
}

// "searcher.pbt.num_rounds" of the path "searcher.num_rounds" and the kind "pbt"; NULL: no kind.
static const char *path_by_kind(struct arena *a, const struct schema_row *row)
{
    const struct schema_choice *kind = row->choices;
    if (!kind || row->variant)
        return NULL;
    size_t len = strlen(kind->path);
    return without_brackets(a, arena_printf(a, "%s.%s%s", kind->path, kind->word, row->path + len));
}

static void add_entry(void *arg, const struct schema_row *row)
{
    struct entries *all = arg;
    struct entry *x = &all->items[all->count];
    bool is_tag = !row->variant && row->choices && !strcmp(row->field->name, row->choices->tag);
    bool is_again = row->field->element && !strcmp(row->path, "hyperparameters");
    if (is_tag || is_again)
        return;
    must(all->count < ENTRIES_MAX);
    x->row = *row;
    x->row.path = arena_strdup(&all->arena, row->path);
    x->row.choices = copy_choices(&all->arena, row->choices);
    x->match = without_brackets(&all->arena, row->path);
    if (row->variant)
        x->match = arena_printf(&all->arena, "%s.%s", x->match, row->variant->word);
    x->by_kind = path_by_kind(&all->arena, row);
    all->count++;
}

// The table says that hyperparameters are a map of anything; their types are a table of their own.
static void collect(struct entries *all)
{
    static const struct schema_field range = {.name = "range",
                                              .type = SCHEMA_UNION,
                                              .tag = "type",
                                              .variants = expconf_hyperparameter_types};
    static const struct schema_field ranges[] = {
        {.name = "hyperparameters", .type = SCHEMA_MAP, .element = &range}, {.name = NULL}};
    *all = (struct entries){.items = xcalloc(ENTRIES_MAX, sizeof *all->items)};
    schema_walk(expconf_fields, add_entry, all);
    schema_walk(ranges, add_entry, all);
}

static void entries_free(struct entries *all)
{
    free(all->items);
    arena_free(&all->arena);
}

static const char *meaning_of(const struct entry *x)
{
    const char *doc = x->row.variant ? x->row.variant->doc : x->row.field->doc;
    return doc ? doc : "";
}

static bool is_old(const struct entry *x)
{
    return !x->row.variant && schema_is_old(x->row.field);
}

// The path that a person writes to ask for the entry.
static void write_path(const struct entry *x, struct buf *out)
{
    buf_puts(out, x->row.path);
    if (x->row.variant)
        buf_printf(out, ".%s", x->row.variant->word);
}

// --- text ----------------------------------------------------------------------------------------

// Appends the text in lines that begin in the column `indent`; the first line begins at `at`.
static void write_wrapped(const char *text, size_t indent, size_t at, struct buf *out)
{
    for (const char *word = text; *word;) {
        size_t len = strcspn(word, " ");
        if (at > indent && at + 1 + len > WIDTH) {
            buf_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            buf_puts(out, " ");
            at++;
        }
        buf_printf(out, "%.*s", (int)len, word);
        at += len;
        word += len + strspn(word + len, " ");
    }
    buf_puts(out, "\n");
}

static void write_item(const char *name, const char *about, struct buf *out)
{
    size_t len = strlen(name);
    buf_printf(out, "  %-*s", NAME_WIDTH - 2, name);
    if (len + 2 >= NAME_WIDTH)
        buf_printf(out, "\n%*s", NAME_WIDTH, "");
    write_wrapped(about, NAME_WIDTH, NAME_WIDTH, out);
}

// Writes the keys of a map in a line each, without the keys for older files.
static void write_keys(const struct schema_field *fields, const char *tag, struct buf *out)
{
    for (const struct schema_field *f = fields; f->name; f++) {
        bool hidden = schema_is_old(f) || (tag && !strcmp(f->name, tag));
        const char *doc = f->doc ? f->doc : "";
        char *about = f->required ? xasprintf("(required) %s", doc) : xasprintf("%s", doc);
        if (!hidden)
            write_item(f->name, about, out);
        free(about);
    }
}

static void write_kinds(const struct schema_field *field, struct buf *out)
{
    for (const struct schema_variant *v = field->variants; v->word; v++) {
        char *name = xasprintf("%s: %s", field->tag, v->word);
        write_item(name, v->doc ? v->doc : "", out);
        free(name);
    }
}

// --- one key -------------------------------------------------------------------------------------

static bool same_text(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

static bool same_key(const struct schema_row *a, const struct schema_row *b)
{
    const struct schema_field *f = a->field, *g = b->field;
    return !strcmp(a->path, b->path) && !a->variant && !b->variant && f->type == g->type &&
           same_text(f->doc, g->doc) && same_text(f->fallback, g->fallback) &&
           f->required == g->required && f->min == g->min && f->max == g->max;
}

static void write_title(const struct entries *all, size_t at, struct buf *out)
{
    const struct entry *x = &all->items[at];
    const char *glue = " (";
    if (x->row.variant) {
        buf_printf(out, "%s, %s: %s\n", x->row.path, x->row.field->tag, x->row.variant->word);
        return;
    }
    buf_puts(out, x->row.path);
    for (size_t i = at; i < all->count && x->row.choices; i++) {
        const struct schema_row *other = &all->items[i].row;
        if (!same_key(&x->row, other))
            continue;
        buf_printf(out, "%s%s%s%s", glue, *glue == ' ' ? other->choices->tag : "",
                   *glue == ' ' ? ": " : "", other->choices->word);
        glue = ", ";
    }
    buf_puts(out, x->row.choices ? ")\n" : "\n");
}

static void write_facts(const struct entry *x, struct buf *out)
{
    const struct schema_field *field = x->row.field;
    const char *fallback = field->required ? NULL : field->fallback;
    struct buf type;
    if (x->row.variant)
        return;
    buf_init(&type, TYPE_MAX);
    schema_write_type(field, &type);
    buf_puts(out, "\n  Value:    ");
    write_wrapped(buf_str(&type), 12, 12, out);
    buf_printf(out, "  Default:  %s\n",
               field->required ? "none; the key is required"
               : fallback      ? fallback
                               : "none; the key may be left out");
    buf_free(&type);
}

static const struct schema_field *shape_of(const struct schema_field *field)
{
    while ((field->type == SCHEMA_LIST || field->type == SCHEMA_MAP) && field->element)
        field = field->element;
    return field;
}

static void write_below(const struct entry *x, struct buf *out)
{
    const struct schema_field *shape = shape_of(x->row.field);
    if (x->row.variant) {
        bool any = x->row.variant->fields->name;
        buf_puts(out, any ? "\n  Keys:\n" : "");
        write_keys(x->row.variant->fields, x->row.field->tag, out);
    } else if (shape->type == SCHEMA_OBJECT) {
        buf_puts(out, "\n  Keys:\n");
        write_keys(shape->fields, NULL, out);
    } else if (shape->type == SCHEMA_UNION) {
        buf_printf(out, "\n  Kinds (muster help config %s.%s explains one):\n", x->row.path,
                   shape->variants->word);
        write_kinds(shape, out);
    } else if (!strcmp(x->row.path, "hyperparameters")) {
        const struct schema_field range = {.tag = "type", .variants = expconf_hyperparameter_types};
        buf_puts(out, "\n  Kinds (muster help config hyperparameters.log explains one):\n");
        write_kinds(&range, out);
    }
}

static void write_entry(const struct entries *all, size_t at, struct buf *out)
{
    const struct entry *x = &all->items[at];
    write_title(all, at, out);
    buf_puts(out, "  ");
    write_wrapped(meaning_of(x), 2, 2, out);
    write_facts(x, out);
    buf_puts(out, "\n  Example:\n");
    config_example_write(&x->row, 4, out);
    write_below(x, out);
}

// --- search --------------------------------------------------------------------------------------

// Takes the last name of [from, *end) off; false: there is none.
static bool last_name(const char *from, const char **end, const char **name, size_t *len)
{
    if (*end <= from)
        return false;
    const char *at = *end;
    while (at > from && at[-1] != '.')
        at--;
    *name = at;
    *len = (size_t)(*end - at);
    *end = at > from ? at - 1 : from;
    return true;
}

static bool is_index(const char *name, size_t len)
{
    return len > 0 && strspn(name, "0123456789") >= len;
}

enum match { MATCH_NOT, MATCH_END, MATCH_WHOLE };

// Compares from the last name on. "*" in a path stands for any name, or for none.
static enum match match_path(const char *path, const char *asked)
{
    const char *path_end = path + strlen(path), *asked_end = asked + strlen(asked);
    const char *name, *word;
    size_t name_len, word_len;
    bool more = last_name(path, &path_end, &name, &name_len);
    while (last_name(asked, &asked_end, &word, &word_len)) {
        if (is_index(word, word_len))
            continue;
        bool any = more && name_len == 1 && *name == '*';
        bool same = more && name_len == word_len && !memcmp(name, word, word_len);
        if (any && !same) { // compare the name before it, too
            const char *before = path_end, *outer;
            size_t outer_len;
            bool has = last_name(path, &before, &outer, &outer_len);
            if (has && outer_len == word_len && !memcmp(outer, word, word_len)) {
                path_end = before;
                same = true;
            }
        }
        if (!same && !any)
            return MATCH_NOT;
        more = last_name(path, &path_end, &name, &name_len);
    }
    return more ? MATCH_END : MATCH_WHOLE;
}

static enum match match_entry(const struct entry *x, const char *asked)
{
    enum match plain = match_path(x->match, asked);
    enum match by_kind = x->by_kind ? match_path(x->by_kind, asked) : MATCH_NOT;
    return plain > by_kind ? plain : by_kind;
}

// Marks the entries that match best; returns their number. Kinds of a union may share a path.
static size_t find_matches(const struct entries *all, const char *asked, bool *found)
{
    enum match best = MATCH_NOT;
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++) {
        enum match m = match_entry(&all->items[i], asked);
        best = m > best ? m : best;
    }
    for (size_t i = 0; i < all->count && best != MATCH_NOT; i++) {
        bool repeated = false;
        found[i] = match_entry(&all->items[i], asked) == best;
        for (size_t k = 0; k < i && found[i]; k++)
            repeated |= found[k] && same_key(&all->items[k].row, &all->items[i].row);
        found[i] = found[i] && !repeated;
        count += found[i];
    }
    return count;
}

static bool one_path(const struct entries *all, const bool *found)
{
    const char *path = NULL;
    for (size_t i = 0; i < all->count; i++) {
        if (!found[i])
            continue;
        if (path && strcmp(path, all->items[i].match) != 0)
            return false;
        path = all->items[i].match;
    }
    return true;
}

static void list_matches(const struct entries *all, const bool *found, const char *asked,
                         struct buf *out)
{
    const char *before = "";
    buf_printf(out, "Several keys match \"%s\":\n\n", asked);
    for (size_t i = 0; i < all->count; i++) {
        struct buf path;
        if (!found[i] || !strcmp(before, all->items[i].match))
            continue;
        buf_init(&path, WORD_MAX_LEN * 4);
        write_path(&all->items[i], &path);
        write_item(buf_str(&path), meaning_of(&all->items[i]), out);
        buf_free(&path);
        before = all->items[i].match;
    }
    buf_puts(out, "\nmuster help config KEY explains one of them.\n");
}

// The first kind below the same key whose explanation contains the last name of `asked`; or NULL.
static const char *kind_like(const struct entries *all, const char *asked)
{
    const char *dot = strrchr(asked, '.');
    for (size_t i = 0; i < all->count && dot; i++) {
        const struct entry *x = &all->items[i];
        if (x->row.variant && !strncmp(x->match, asked, (size_t)(dot + 1 - asked)) &&
            schema_variant_mentions(x->row.variant, dot + 1))
            return x->match;
    }
    return NULL;
}

// Suggests a path, or the path of a key with a similar last name.
static int report_unknown(struct entries *all, const char *asked, struct error *e)
{
    const char **names = arena_alloc(&all->arena, (2 * all->count + 1) * sizeof *names);
    const char *dot = strrchr(asked, '.'), *near;
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        if (!is_old(&all->items[i]))
            names[count++] = all->items[i].match;
    for (size_t i = 0; i < count; i++) {
        const char *last = strrchr(names[i], '.');
        names[count + i] = last ? last + 1 : names[i];
    }
    names[2 * count] = NULL;
    near = kind_like(all, asked);
    near = near ? near : nearest_word(asked, names);
    if (!near && dot)
        near = nearest_word(dot + 1, names + count);
    for (size_t i = 0; i < all->count && near; i++)
        if (!is_old(&all->items[i]) && match_path(all->items[i].match, near) != MATCH_NOT)
            return error_set(e, ERR_INVALID,
                             "the experiment file has no key \"%.200s\"; did you mean \"%s\"?",
                             asked, all->items[i].match);
    return error_set(e, ERR_INVALID,
                     "the experiment file has no key \"%.200s\"; muster help config lists the keys",
                     asked);
}

int config_help_key(const char *key, struct buf *out, struct error *e)
{
    struct entries all;
    collect(&all);
    const char *asked = without_brackets(&all.arena, key);
    bool *found = arena_alloc(&all.arena, all.count * sizeof *found);
    memset(found, 0, all.count * sizeof *found);
    size_t count = *asked ? find_matches(&all, asked, found) : 0;
    int err = count ? 0 : report_unknown(&all, asked, e);
    if (count > 1 && !one_path(&all, found)) {
        list_matches(&all, found, asked, out);
    } else {
        const char *glue = "";
        for (size_t i = 0; i < all.count; i++)
            if (found[i]) {
                buf_puts(out, glue);
                write_entry(&all, i, out);
                glue = "\n";
            }
    }
    entries_free(&all);
    return err;
}

void config_help_examples(void (*check)(const char *path, const char *yaml))
{
    struct entries all;
    collect(&all);
    for (size_t i = 0; i < all.count; i++) {
        struct buf yaml;
        buf_init(&yaml, TYPE_MAX);
        config_example_write(&all.items[i].row, 0, &yaml);
        check(all.items[i].match, buf_str(&yaml));
        buf_free(&yaml);
    }
    entries_free(&all);
}

void config_help_paths(struct buf *out)
{
    struct entries all;
    collect(&all);
    for (size_t i = 0; i < all.count; i++)
        if (!is_old(&all.items[i]) && !strchr(all.items[i].match, '*'))
            buf_printf(out, "%s\n", all.items[i].match);
    entries_free(&all);
}

// --- overview ------------------------------------------------------------------------------------

static const char opening[] =
    "The experiment file\n"
    "\n"
    "An experiment is described in YAML or JSON. The smallest file runs a program on one slot:\n"
    "\n"
    "  entrypoint: python3 train.py\n"
    "  searcher: {name: single, metric: validation_loss}\n"
    "\n"
    "A search on two slots, with a range for a hyperparameter:\n"
    "\n"
    "  name: mnist\n"
    "  entrypoint: python3 train.py\n"
    "  resources: {slots_per_trial: 2}\n"
    "  hyperparameters:\n"
    "    learning_rate: {type: log, minval: -4, maxval: -1}   # exponents: 0.0001 to 0.1\n"
    "  searcher: {name: adaptive_asha, metric: validation_loss, max_trials: 16,\n"
    "             max_length: {batches: 1000}}\n"
    "\n"
    "muster help config KEY explains one key with an example: muster help config min_slots,\n"
    "muster help config searcher.adaptive_asha, muster help config trainer.optimizer.adamw.\n"
    "muster help config all is a Markdown table of all keys, with types and defaults. On the "
    "command\n"
    "line, --config resources.slots_per_trial=4 changes one key of a file.\n"
    "\n";

static void write_section(const struct schema_field *field, struct buf *out)
{
    buf_printf(out, "\n%s: ", field->name);
    write_wrapped(field->doc, strlen(field->name) + 2, strlen(field->name) + 2, out);
    if (field->type == SCHEMA_UNION)
        write_kinds(field, out);
    else
        write_keys(shape_of(field)->fields, NULL, out);
}

static bool is_section(const struct schema_field *field)
{
    const struct schema_field *shape = shape_of(field);
    return shape->type == SCHEMA_OBJECT || shape->type == SCHEMA_UNION;
}

void config_help_overview(struct buf *out)
{
    const char *glue = "";
    buf_puts(out, opening);
    buf_puts(out, "Keys\n");
    for (const struct schema_field *f = expconf_fields; f->name; f++)
        if (!is_section(f) && !schema_is_old(f))
            write_item(f->name, f->doc, out);
    buf_puts(out, "\nSections\n");
    for (const struct schema_field *f = expconf_fields; f->name; f++)
        if (is_section(f))
            write_section(f, out);
    struct buf names;
    buf_init(&names, TYPE_MAX);
    for (const struct schema_field *f = expconf_fields; f->name; f++)
        if (schema_is_old(f)) {
            buf_printf(&names, "%s%s", glue, f->name);
            glue = ", ";
        }
    buf_puts(out, "\nAccepted for older files, without an effect:\n  ");
    write_wrapped(buf_str(&names), 2, 2, out);
    buf_free(&names);
}
