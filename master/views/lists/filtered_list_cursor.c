#include "master/views/lists/filtered_list_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

// --- cursors -------------------------------------------------------------------------------------

// Returns a hash of the list and its order. A cursor of another list or order is refused by it.
static int64_t order_hash(const struct filtered_list *l)
{
    struct buf text;
    buf_init(&text, 64 * 1024);
    buf_puts(&text, l->source->key);
    for (size_t i = 0; i < l->key_count; i++)
        buf_printf(&text, ",%d %s.%s %d", l->keys[i].descending, l->keys[i].name.field->name,
                   l->keys[i].name.key, l->keys[i].name.pick);
    int64_t mark = (int64_t)(hash64(buf_str(&text), text.len) >> 16);
    buf_free(&text);
    return mark;
}

// Cursors are base64 with - and _ instead of + and /, so that URLs need no escapes.
static void replace_chars(char *text, const char *from, const char *to)
{
    for (; *text; text++) {
        const char *found = strchr(from, *text);
        if (found)
            *text = to[found - from];
    }
}

static json_t *parse_cursor(char *text)
{
    void *data = NULL;
    size_t len = 0;
    json_t *values = NULL;
    replace_chars(text, "-_", "+/");
    if (!base64_decode(text, strlen(text), &data, &len) &&
        json_parse(data, len, "cursor", &values, NULL))
        values = NULL;
    free(data);
    return values;
}

static bool cursor_fits(const struct filtered_list *l, const json_t *values)
{
    size_t i;
    json_t *value;
    if (!json_is_array(values) || json_array_size(values) != l->key_count + 1 ||
        json_integer_value(json_array_get(values, 0)) != order_hash(l))
        return false;
    json_array_foreach(values, i, value)
    {
        if (json_is_object(value) || json_is_array(value) || json_is_boolean(value))
            return false;
    }
    return json_is_integer(json_array_get(values, l->key_count));
}

void filtered_list_read_cursor(struct filtered_list *l)
{
    const char *text = query_get(l->v->query, "cursor");
    if (!text || !*text)
        return;
    l->cursor = parse_cursor(arena_strdup(l->context.arena, text));
    if (!cursor_fits(l, l->cursor))
        error_set(filtered_list_first_error(l), ERR_INVALID,
                  "query parameter cursor: it belongs to another list or order; leave it out to "
                  "start from the beginning");
    if (l->offset)
        error_set(filtered_list_first_error(l), ERR_INVALID,
                  "query parameters cursor and offset: give only one of them");
}

static void write_value(struct json_writer *w, struct db_rows *rows, int column)
{
    switch (db_get_type(rows, column)) {
    case DB_INTEGER:
        jw_int(w, db_get_integer(rows, column));
        break;
    case DB_REAL:
        jw_double(w, db_get_real(rows, column));
        break;
    case DB_TEXT:
        jw_string(w, db_get_text(rows, column));
        break;
    default:
        jw_null(w);
    }
}

// Called for the last row of the page.
void filtered_list_save_cursor(struct filtered_list *l, struct db_rows *rows)
{
    struct json_writer w;
    buf_reset(&l->next);
    jw_init(&w, &l->next);
    jw_array(&w);
    jw_int(&w, order_hash(l));
    for (size_t i = 0; i < l->key_count; i++)
        write_value(&w, rows, l->source->column_count + (int)i);
    jw_array_end(&w);
}

// Called for each row of the page.
void filtered_list_save_values(struct filtered_list *l, struct db_rows *rows)
{
    struct json_writer w;
    if (!l->shown_count)
        return;
    buf_puts(&l->values, l->rows ? "," : "[");
    jw_init(&w, &l->values);
    jw_array(&w);
    for (size_t i = 0; i < l->shown_count; i++)
        write_value(&w, rows, l->source->column_count + (int)(l->key_count + i));
    jw_array_end(&w);
}

int filtered_list_write_values(struct filtered_list *l, struct error *e)
{
    if (!l->shown_count)
        return 0;
    buf_puts(&l->values, l->rows ? "]" : "[]");
    if (l->values.err)
        return error_set(e, ERR_TOO_LARGE, "query parameter show: ask for fewer rows at a time");
    jw_kv_raw(&l->v->w, "values", buf_str(&l->values));
    return 0;
}

void filtered_list_write_cursor(struct filtered_list *l)
{
    bool fits = l->more && l->limit > 0 && !l->next.err;
    char *text = fits ? base64_encode(buf_str(&l->next), l->next.len) : NULL;
    if (text)
        replace_chars(text, "+/", "-_");
    jw_kv_string(&l->v->w, "nextCursor", text);
    free(text);
}
