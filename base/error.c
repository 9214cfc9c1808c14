#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

int error_setv(struct error *e, int code, const char *fmt, va_list args)
{
    if (!e)
        return code;
    // Not directly into e->text: the arguments may point into it.
    char text[ERROR_TEXT_MAX];
    vsnprintf(text, sizeof text, fmt, args);
    e->code = code;
    memcpy(e->text, text, sizeof text);
    return code;
}

int error_set(struct error *e, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    error_setv(e, code, fmt, args);
    va_end(args);
    return code;
}

int error_not_found(struct error *e, const char *noun, const char *id_fmt, ...)
{
    char id[ERROR_TEXT_MAX / 2];
    va_list args;
    va_start(args, id_fmt);
    vsnprintf(id, sizeof id, id_fmt, args);
    va_end(args);
    return error_set(e, ERR_NOT_FOUND, "%s '%s' not found", noun, id);
}

// Appends to the text; cuts what does not fit.
static void append_text(struct error *e, const char *more)
{
    size_t len = strlen(e->text);
    snprintf(e->text + len, sizeof e->text - len, "%s", more);
}

int error_set_errno(struct error *e, int code, int saved_errno, const char *fmt, ...)
{
    if (!e)
        return code;
    va_list args;
    va_start(args, fmt);
    error_setv(e, code, fmt, args);
    va_end(args);
    char reason[128];
    append_text(e, ": ");
    append_text(e, strerror_r(saved_errno, reason, sizeof reason));
    return code;
}

int error_prefix(struct error *e, const char *fmt, ...)
{
    if (!e)
        return ERR_INTERNAL;
    char old[ERROR_TEXT_MAX];
    memcpy(old, e->text, sizeof old);
    va_list args;
    va_start(args, fmt);
    error_setv(e, e->code, fmt, args);
    va_end(args);
    append_text(e, ": ");
    append_text(e, old);
    return e->code;
}

static const struct err_row {
    int code, http, exit_code;
    const char *name;
} err_table[] = {{ERR_OK, 200, 0, "ok"},
#define ERR_ROW(symbol, code, http, exit_code, name) {symbol, http, exit_code, name},
                 ERR_TABLE(ERR_ROW)
#undef ERR_ROW
};

enum { ERR_ROWS = sizeof err_table / sizeof err_table[0] };

// A code outside the list is a bug; it counts as an internal error.
static const struct err_row *find_row(int code)
{
    const struct err_row *internal = NULL;
    for (int i = 0; i < ERR_ROWS; i++) {
        if (err_table[i].code == code)
            return &err_table[i];
        if (err_table[i].code == ERR_INTERNAL)
            internal = &err_table[i];
    }
    return internal;
}

int err_http_status(int code)
{
    return find_row(code)->http;
}

int err_exit_code(int code)
{
    return find_row(code)->exit_code;
}

const char *err_name(int code)
{
    return find_row(code)->name;
}

int err_from_http(int status)
{
    if (status >= 200 && status < 300)
        return ERR_OK;
    // The first row of a status counts (400: ERR_INVALID); of the codes of 500, the general one.
    if (status == err_http_status(ERR_INTERNAL))
        return ERR_INTERNAL;
    for (int i = 0; i < ERR_ROWS; i++)
        if (err_table[i].http == status)
            return err_table[i].code;
    if (status >= 400 && status < 500)
        return status == 408 ? ERR_TIMEOUT : ERR_INVALID;
    return status >= 500 ? ERR_INTERNAL : ERR_PEER;
}

enum { NEAR_WORD_MAX = 64, NEAR_DISTANCE_MAX = 3, SHORT_WORD_MIN = 3 };

static int min3(int a, int b, int c)
{
    int smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

// Counts the edits (insert, delete, replace, swap two neighbours) that turn `a` into `b`: the
// optimal string alignment distance, with three rows of its table. Both words have less than
// NEAR_WORD_MAX letters.
static int edit_distance(const char *a, const char *b)
{
    int rows[3][NEAR_WORD_MAX];
    int *before = rows[0], *last = rows[1], *row = rows[2];
    int a_len = (int)strlen(a), b_len = (int)strlen(b);
    for (int j = 0; j <= b_len; j++)
        last[j] = j;
    for (int i = 1; i <= a_len; i++) {
        row[0] = i;
        for (int j = 1; j <= b_len; j++) {
            int replaced = last[j - 1] + !same_letter(a[i - 1], b[j - 1]);
            row[j] = min3(replaced, last[j] + 1, row[j - 1] + 1);
            bool swapped = i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                           same_letter(a[i - 2], b[j - 1]);
            if (swapped && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
        int *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[b_len];
}

// The first candidate that begins with the word, which is not shorter than SHORT_WORD_MIN.
static const char *first_longer_word(const char *word, const char *const *candidates)
{
    size_t len = strlen(word);
    for (; *candidates && len >= SHORT_WORD_MIN; candidates++)
        if (strncmp(*candidates, word, len) == 0)
            return *candidates;
    return NULL;
}

const char *nearest_word(const char *word, const char *const *candidates)
{
    size_t len = strlen(word);
    if (len >= NEAR_WORD_MAX)
        return NULL;
    int allowed = (int)(len / 3) < NEAR_DISTANCE_MAX ? (int)(len / 3) : NEAR_DISTANCE_MAX;
    const char *best = NULL;
    for (int i = 0; candidates[i]; i++) {
        if (strlen(candidates[i]) >= NEAR_WORD_MAX)
            continue;
        int distance = edit_distance(word, candidates[i]);
        if (distance > allowed)
            continue;
        best = candidates[i];
        allowed = distance - 1; // only a nearer candidate may replace it
    }
    return best ? best : first_longer_word(word, candidates);
}
