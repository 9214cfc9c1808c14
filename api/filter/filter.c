// The parser of the filter language: recursive descent over the text, without a list of tokens.
//
//   any  = all { "or" all }            test  = name [ op value | ["not"] "in" "(" values ")" ]
//   all  = one { "and" one }           name  = field { "." part }
//   one  = "not" one | "(" any ")" | test

#include "api/filter/filter.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/wire.h"
#include "base/clock.h"

struct parser {
    const char *what, *text, *at; // "filter" or "sort", its whole text, the current position
    struct arena *arena;
    enum filter_list list;
    int depth;
    size_t tests, values;
    struct error *e;
};

static size_t column_of(const struct parser *p, const char *where)
{
    size_t column = 1;
    for (const char *c = p->text; c < where; c++)
        column += (*c & 0xc0) != 0x80; // counts UTF-8 characters, not bytes
    return column;
}

// "filter, column 7: ..."
__attribute__((format(printf, 4, 5))) static int fail(const struct parser *p, int code,
                                                      const char *where, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    error_setv(p->e, code, fmt, args);
    va_end(args);
    if (p->e)
        error_prefix(p->e, "%s, column %zu", p->what, column_of(p, where));
    return code;
}

static void skip_blanks(struct parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || strchr("_-/", c) ? c != '\0' : (c & 0x80) != 0;
}

static bool take_sign(struct parser *p, const char *sign)
{
    skip_blanks(p);
    size_t n = strlen(sign);
    bool found = !strncmp(p->at, sign, n);
    p->at += found ? n : 0;
    return found;
}

static bool is_word(const struct parser *p, const char *word)
{
    size_t n = strlen(word);
    return !strncasecmp(p->at, word, n) && !is_name_char(p->at[n]) && p->at[n] != '.';
}

static bool take_word(struct parser *p, const char *word)
{
    skip_blanks(p);
    bool found = is_word(p, word);
    p->at += found ? strlen(word) : 0;
    return found;
}

// The text at the current position, for a message.
static const char *text_here(const struct parser *p)
{
    size_t n = 0;
    while (p->at[n] && !isspace((unsigned char)p->at[n]) && n < 24)
        n++;
    while (n && (p->at[n] & 0xc0) == 0x80)
        n++;
    return n ? arena_printf(p->arena, "\"%.*s\"", (int)n, p->at) : "the end";
}

// Parses "text" or 'text' with \" and \\; NULL: see *e.
static const char *take_quoted(struct parser *p)
{
    const char *start = p->at;
    char quote = *p->at++;
    char *text = arena_alloc(p->arena, strlen(p->at) + 1), *to = text;
    while (*p->at && *p->at != quote) {
        if (*p->at == '\\' && p->at[1])
            p->at++;
        *to++ = *p->at++;
    }
    if (!*p->at) {
        fail(p, ERR_INVALID, start, "this quote is not closed");
        return NULL;
    }
    p->at++;
    return text;
}

// --- names ---------------------------------------------------------------------------------------

static int unknown_field(const struct parser *p, const char *where, const char *word)
{
    const char *names[64] = {NULL};
    struct buf list;
    buf_init(&list, 1024);
    size_t count = 0;
    for (const struct filter_field *f = filter_fields; f->name && count < 63; f++)
        if (f->lists & p->list) {
            buf_printf(&list, "%s%s", count ? ", " : "", f->name);
            names[count++] = f->name;
        }
    // Tables of trials call this field "best".
    const char *near = strcmp(word, "best") ? nearest_word(word, names) : "metric";
    int err = near
                  ? fail(p, ERR_INVALID, where, "there is no field \"%.64s\"; did you mean \"%s\"?",
                         word, near)
                  : fail(p, ERR_INVALID, where,
                         "there is no field \"%.64s\"; a metric is written validation.%.64s or "
                         "training.%.64s, a hyperparameter hparams.%.64s; the other fields are: %s",
                         word, word, word, word, buf_str(&list));
    buf_free(&list);
    return err;
}

static const struct filter_field *find_field(const struct parser *p, const char *word)
{
    for (const struct filter_field *f = filter_fields; f->name; f++)
        if ((f->lists & p->list) && !strcmp(f->name, word))
            return f;
    return NULL;
}

static const char *take_plain(struct parser *p)
{
    const char *start = p->at;
    while (is_name_char(*p->at))
        p->at++;
    return arena_strndup(p->arena, start, (size_t)(p->at - start));
}

static int take_part(struct parser *p, struct filter_name *n, bool *quoted)
{
    const char *start = p->at;
    *quoted = *p->at == '"' || *p->at == '\'';
    const char *part = *quoted ? take_quoted(p) : take_plain(p);
    if (!part)
        return ERR_INVALID;
    if (!*part || strchr(part, '"'))
        return fail(p, ERR_INVALID, start,
                    "expected a part of a name, which cannot contain quotes");
    if (n->part_count == FILTER_PARTS_MAX)
        return fail(p, ERR_TOO_LARGE, start, "a name of more than %d parts", FILTER_PARTS_MAX);
    n->parts[n->part_count++] = part;
    return 0;
}

static bool is_pick(const char *word, enum filter_pick *pick)
{
    static const char *const words[] = {"last", "min", "max"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(words[i], word)) {
            *pick = (enum filter_pick)i;
            return true;
        }
    return false;
}

static void join_parts(struct parser *p, struct filter_name *n)
{
    struct buf key;
    buf_init(&key, FILTER_LENGTH_MAX * 2);
    for (size_t i = 0; i < n->part_count; i++)
        buf_printf(&key, "%s%s", i ? "." : "", n->parts[i]);
    n->key = arena_strdup(p->arena, buf_str(&key));
    buf_free(&key);
}

static int take_name(struct parser *p, struct filter_name *n)
{
    skip_blanks(p);
    const char *start = p->at;
    bool quoted = false;
    *n = (struct filter_name){.key = ""};
    const char *word = take_plain(p);
    if (!*word)
        return fail(p, ERR_INVALID, start, "expected the name of a field, not %s", text_here(p));
    n->field = find_field(p, word);
    if (!n->field)
        return unknown_field(p, start, word);
    bool keyed = n->field->type == FILTER_METRIC || n->field->type == FILTER_HPARAM;
    while (*p->at == '.') {
        p->at++;
        int err = take_part(p, n, &quoted);
        if (err)
            return err;
    }
    if (!keyed && n->part_count)
        return fail(p, ERR_INVALID, start, "\"%s\" has no parts", word);
    if (n->field->type == FILTER_METRIC && n->part_count > 1 && !quoted &&
        is_pick(n->parts[n->part_count - 1], &n->pick))
        n->part_count--;
    if (keyed && !n->part_count)
        return fail(p, ERR_INVALID, p->at, "expected \".\" and a name after \"%s\"", word);
    if (n->field->type == FILTER_METRIC && n->part_count > 1) { // a metric has a single name
        join_parts(p, n);
        n->parts[0] = n->key;
        n->part_count = 1;
    }
    join_parts(p, n);
    return 0;
}

// --- values --------------------------------------------------------------------------------------

static bool read_number(const char *word, double *out)
{
    char *end;
    if (!*word || !strchr("+-.0123456789", *word) || strpbrk(word, "xXnN"))
        return false;
    *out = strtod(word, &end);
    return !*end && isfinite(*out);
}

// Parses "90", "30s" or "1h30m"; false: not a duration.
static bool read_duration(const char *word, double *seconds)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 7 * 86400}};
    const char *start = word;
    double sum = 0;
    if (read_number(word, seconds))
        return *seconds >= 0;
    while (isdigit((unsigned char)*word)) {
        char *end;
        double number = strtod(word, &end), of_unit = 0;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            of_unit = units[i].unit == *end ? units[i].seconds : of_unit;
        if (!(of_unit > 0))
            return false;
        sum += number * of_unit;
        word = end + 1;
        *seconds = sum;
    }
    return word != start && !*word && isfinite(sum);
}

static bool read_time(const char *word, struct filter_value *v)
{
    enum { YEARS_100_S = 3155760000LL };
    char whole[CLOCK_RFC3339_MAX];
    double seconds;
    if (*word == '-' && read_duration(word + 1, &seconds) && seconds <= (double)YEARS_100_S) {
        *v = (struct filter_value){.kind = FILTER_IS_AGO, .time = llround(seconds * 1e6)};
        return true;
    }
    v->kind = FILTER_IS_TIME;
    if (strlen(word) == 10) { // a date
        snprintf(whole, sizeof whole, "%.10sT00:00:00Z", word);
        word = whole;
    }
    return !clock_parse(word, &v->time);
}

static bool read_flag(const char *word, double *out)
{
    *out = !strcasecmp(word, "true");
    return *out > 0 || !strcasecmp(word, "false");
}

static const char *const expected[] = {[FILTER_NUMBER] = "a number",
                                       [FILTER_TEXT] = "a text",
                                       [FILTER_STATE] = "a state",
                                       [FILTER_TIME] = "a time (2026-11-21, or -7d)",
                                       [FILTER_DURATION] = "a duration (90, 5m, 1h30m)",
                                       [FILTER_FLAG] = "true or false",
                                       [FILTER_WORDS] = "words",
                                       [FILTER_METRIC] = "a number",
                                       [FILTER_HPARAM] = "a value"};

static int read_state(struct parser *p, const char *start, struct filter_value *v)
{
    enum wire_names table = p->list == FILTER_TRIALS ? WIRE_TRIAL_STATE : WIRE_EXPERIMENT_STATE;
    char *upper = arena_strdup(p->arena, v->text);
    for (char *c = upper; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    struct error why = {0};
    if (!wire_parse(table, upper, &v->text, &why))
        return 0;
    return fail(p, ERR_INVALID, start, "%s", why.text);
}

// Converts the text of a value to the field's type.
static int read_value(struct parser *p, const char *start, const struct filter_field *f,
                      enum filter_op op, bool quoted, struct filter_value *v)
{
    bool ordered = op >= FILTER_LT && op <= FILTER_GE, fine = true;
    const char *word = v->text;
    v->kind = FILTER_IS_NUMBER;
    switch (f->type) {
    case FILTER_STATE:
        v->kind = FILTER_IS_TEXT;
        return read_state(p, start, v);
    case FILTER_TEXT:
    case FILTER_WORDS:
        v->kind = FILTER_IS_TEXT;
        break;
    case FILTER_TIME:
        fine = read_time(word, v);
        break;
    case FILTER_DURATION:
        fine = read_duration(word, &v->number);
        break;
    case FILTER_FLAG:
        fine = read_flag(word, &v->number);
        break;
    case FILTER_HPARAM:
        if (op == FILTER_HAS || quoted ||
            (!read_number(word, &v->number) && !read_flag(word, &v->number))) {
            v->kind = FILTER_IS_TEXT;
            fine = !ordered;
        }
        break;
    default:
        fine = read_number(word, &v->number);
    }
    if (fine)
        return 0;
    return fail(p, ERR_INVALID, start, "%s takes %s, not \"%.64s\"", f->name,
                ordered && f->type == FILTER_HPARAM ? "a number with this sign" : expected[f->type],
                word);
}

static int take_value(struct parser *p, const struct filter_field *f, enum filter_op op,
                      struct filter_value *v)
{
    skip_blanks(p);
    const char *start = p->at;
    bool quoted = *p->at == '"' || *p->at == '\'';
    if (++p->values > FILTER_VALUES_MAX) // checked before `v` would pass the end of the list
        return fail(p, ERR_TOO_LARGE, start, "more than %d values", FILTER_VALUES_MAX);
    *v = (struct filter_value){.text = ""};
    if (quoted) {
        v->text = take_quoted(p);
        if (!v->text)
            return ERR_INVALID;
    } else {
        size_t n = strcspn(p->at, " \t\r\n\v\f(),\"'");
        v->text = arena_strndup(p->arena, p->at, n);
        p->at += n;
        if (!n)
            return fail(p, ERR_INVALID, start, "expected %s, not %s", expected[f->type],
                        text_here(p));
    }
    return read_value(p, start, f, op, quoted, v);
}

static int take_values(struct parser *p, struct filter_node *n)
{
    struct filter_value found[FILTER_VALUES_MAX];
    size_t count = 0;
    bool many = n->op == FILTER_IN || n->op == FILTER_NOT_IN;
    if (many && !take_sign(p, "("))
        return fail(p, ERR_INVALID, p->at, "expected \"(\" and a list of values, not %s",
                    text_here(p));
    do {
        int err = take_value(p, n->name.field, n->op, &found[count]);
        if (err)
            return err;
        count++;
    } while (many && take_sign(p, ","));
    if (many && !take_sign(p, ")"))
        return fail(p, ERR_INVALID, p->at, "expected \",\" or \")\", not %s", text_here(p));
    n->values = arena_alloc(p->arena, count * sizeof *found);
    memcpy(n->values, found, count * sizeof *found);
    n->value_count = count;
    return 0;
}

// --- tests ---------------------------------------------------------------------------------------

static bool operator_allowed(const struct filter_field *f, enum filter_op op)
{
    bool order = op >= FILTER_LT && op <= FILTER_GE;
    switch (f->type) {
    case FILTER_WORDS:
        return op == FILTER_FINDS;
    case FILTER_TIME:
        return order || (op == FILTER_IS && f->optional);
    case FILTER_TEXT:
        return op == FILTER_IS ? f->optional : !order && op != FILTER_FINDS;
    case FILTER_STATE:
        return op <= FILTER_NE || op == FILTER_IN || op == FILTER_NOT_IN;
    case FILTER_FLAG:
        return op <= FILTER_NE || op == FILTER_IS;
    case FILTER_HPARAM:
        return op != FILTER_FINDS;
    default:
        return op == FILTER_IS ? f->optional : op != FILTER_HAS && op != FILTER_FINDS;
    }
}

static const char *operators_of(const struct parser *p, const struct filter_field *f)
{
    const char *list = "";
    for (enum filter_op op = FILTER_EQ; op < FILTER_IS; op++)
        if (operator_allowed(f, op))
            list = arena_printf(p->arena, "%s%s%s", list, *list ? "  " : "", filter_op_text(op));
    return list;
}

static enum filter_op take_operator(struct parser *p)
{
    static const struct {
        const char *sign;
        enum filter_op op;
    } signs[] = {{"!=", FILTER_NE}, {"<=", FILTER_LE}, {">=", FILTER_GE},
                 {"==", FILTER_EQ}, {"=", FILTER_EQ},  {"<", FILTER_LT},
                 {">", FILTER_GT},  {"~", FILTER_HAS}, {":", FILTER_FINDS}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (take_sign(p, signs[i].sign))
            return signs[i].op;
    if (take_word(p, "in"))
        return FILTER_IN;
    const char *before = p->at;
    if (take_word(p, "not") && take_word(p, "in"))
        return FILTER_NOT_IN;
    p->at = before;
    return FILTER_IS;
}

static int take_test(struct parser *p, struct filter_node **out)
{
    struct filter_node *n = arena_alloc(p->arena, sizeof *n);
    n->shape = FILTER_TEST;
    skip_blanks(p);
    if (++p->tests > FILTER_TESTS_MAX)
        return fail(p, ERR_TOO_LARGE, p->at, "more than %d tests", FILTER_TESTS_MAX);
    int err = take_name(p, &n->name);
    if (err)
        return err;
    skip_blanks(p);
    const char *start = p->at;
    n->op = take_operator(p);
    if (!operator_allowed(n->name.field, n->op))
        return fail(p, ERR_INVALID, start, "expected one of  %s  after %s",
                    operators_of(p, n->name.field), n->name.field->name);
    *out = n;
    return n->op == FILTER_IS ? 0 : take_values(p, n);
}

// --- trees ---------------------------------------------------------------------------------------

static int take_any(struct parser *p, struct filter_node **out);

static int enter_level(struct parser *p)
{
    if (++p->depth > FILTER_DEPTH_MAX)
        return fail(p, ERR_TOO_LARGE, p->at, "more than %d nested parentheses and nots",
                    FILTER_DEPTH_MAX);
    return 0;
}

static int take_one(struct parser *p, struct filter_node **out)
{
    skip_blanks(p);
    const char *start = p->at;
    int err;
    if (take_sign(p, "(")) {
        err = enter_level(p);
        if (!err)
            err = take_any(p, out);
        p->depth--;
        if (!err && !take_sign(p, ")"))
            err = fail(p, ERR_INVALID, p->at,
                       "expected and, or, or the \")\" of the \"(\" in column %zu, not %s",
                       column_of(p, start), text_here(p));
        return err;
    }
    if (!take_word(p, "not"))
        return take_test(p, out);
    struct filter_node *n = arena_alloc(p->arena, sizeof *n);
    n->shape = FILTER_NOT;
    err = enter_level(p);
    if (!err)
        err = take_one(p, &n->child);
    p->depth--;
    *out = n;
    return err;
}

// Parses one or more of `take`, with `word` between them.
static int take_group(struct parser *p, enum filter_shape shape, const char *word,
                      int (*take_child)(struct parser *p, struct filter_node **out),
                      struct filter_node **out)
{
    struct filter_node *first = NULL, **end = &first;
    do {
        int err = take_child(p, end);
        if (err)
            return err;
        end = &(*end)->next;
    } while (take_word(p, word));
    *out = first;
    if (first->next) {
        *out = arena_alloc(p->arena, sizeof **out);
        (*out)->shape = shape;
        (*out)->child = first;
    }
    return 0;
}

static int take_all(struct parser *p, struct filter_node **out)
{
    return take_group(p, FILTER_AND, "and", take_one, out);
}

static int take_any(struct parser *p, struct filter_node **out)
{
    return take_group(p, FILTER_OR, "or", take_all, out);
}

static int check_length(const struct parser *p)
{
    if (strlen(p->text) > FILTER_LENGTH_MAX)
        return fail(p, ERR_TOO_LARGE, p->text, "longer than %d bytes", FILTER_LENGTH_MAX);
    return 0;
}

int filter_parse(struct arena *arena, enum filter_list list, const char *text,
                 struct filter_node **out, struct error *e)
{
    struct parser p = {
        .what = "filter", .text = text, .at = text, .arena = arena, .list = list, .e = e};
    *out = NULL;
    int err = check_length(&p);
    skip_blanks(&p);
    if (err || !*p.at)
        return err;
    err = take_any(&p, out);
    skip_blanks(&p);
    if (!err && *p.at)
        err = fail(&p, ERR_INVALID, p.at, "expected and, or, or the end, not %s", text_here(&p));
    return err;
}

int filter_parse_sort(struct arena *arena, enum filter_list list, const char *text,
                      struct filter_key keys[FILTER_KEYS_MAX], size_t *count, struct error *e)
{
    struct parser p = {
        .what = "sort", .text = text, .at = text, .arena = arena, .list = list, .e = e};
    *count = 0;
    int err = check_length(&p);
    skip_blanks(&p);
    if (err || !*p.at)
        return err;
    do {
        if (*count == FILTER_KEYS_MAX)
            return fail(&p, ERR_TOO_LARGE, p.at, "more than %d keys", FILTER_KEYS_MAX);
        skip_blanks(&p);
        struct filter_key *key = &keys[(*count)++];
        key->descending = take_sign(&p, "-");
        skip_blanks(&p);
        const char *start = p.at;
        err = take_name(&p, &key->name);
        if (!err && !key->name.field->sortable)
            err =
                fail(&p, ERR_INVALID, start, "lists cannot be sorted by %s", key->name.field->name);
        if (err)
            return err;
    } while (take_sign(&p, ","));
    skip_blanks(&p);
    if (*p.at)
        return fail(&p, ERR_INVALID, p.at, "expected \",\" or the end, not %s", text_here(&p));
    return 0;
}
