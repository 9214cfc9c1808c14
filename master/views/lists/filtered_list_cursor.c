#include "master/views/lists/filtered_list_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

// --- cursors -------------------------------------------------------------------------------------

// What a cursor is of; a cursor of another order would start anywhere.
static int64_t order_mark(const struct filtered_list *g)
{
    struct buf text;
    buf_init(&text, 64 * 1024);
    buf_puts(&text, g->source->key);
    for (size_t i = 0; i < g->key_count; i++)
        buf_printf(&text, ",%d %s.%s %d", g->keys[i].descending, g->keys[i].name.field->name,
                   g->keys[i].name.key, g->keys[i].name.pick);
    int64_t mark = (int64_t)(hash64(buf_str(&text), text.len) >> 16);
    buf_free(&text);
    return mark;
}

// base64 with - and _ in place of + and /, so that it stands in an address as it is.
static void translate(char *text, const char *from, const char *to)
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
    translate(text, "-_", "+/");
    if (!base64_decode(text, strlen(text), &data, &len) &&
        json_parse(data, len, "cursor", &values, NULL))
        values = NULL;
    free(data);
    return values;
}

static bool is_cursor(const struct filtered_list *g, const json_t *values)
{
    size_t i;
    json_t *value;
    if (!json_is_array(values) || json_array_size(values) != g->key_count + 1 ||
        json_integer_value(json_array_get(values, 0)) != order_mark(g))
        return false;
    json_array_foreach(values, i, value)
    {
        if (json_is_object(value) || json_is_array(value) || json_is_boolean(value))
            return false;
    }
    return json_is_integer(json_array_get(values, g->key_count));
}

void filtered_list_read_cursor(struct filtered_list *g)
{
    const char *text = query_get(g->v->query, "cursor");
    if (!text || !*text)
        return;
    g->after = parse_cursor(arena_strdup(g->context.arena, text));
    if (!is_cursor(g, g->after))
        error_set(filtered_list_first_error(g), ERR_INVALID,
                  "query parameter cursor: it is not of this list in this order; leave it out to "
                  "begin anew");
    if (g->offset)
        error_set(filtered_list_first_error(g), ERR_INVALID,
                  "query parameters cursor and offset: one of them");
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

// The cursor of the row, which is the last of the page.
void filtered_list_save_cursor(struct filtered_list *g, struct db_rows *rows)
{
    struct json_writer w;
    buf_reset(&g->next);
    jw_init(&w, &g->next);
    jw_array(&w);
    jw_int(&w, order_mark(g));
    for (size_t i = 0; i < g->key_count; i++)
        write_value(&w, rows, g->source->column_count + (int)i);
    jw_array_end(&w);
}

// Of the row, which is the latest.
void filtered_list_save_values(struct filtered_list *g, struct db_rows *rows)
{
    struct json_writer w;
    if (!g->shown_count)
        return;
    buf_puts(&g->values, g->rows ? "," : "[");
    jw_init(&w, &g->values);
    jw_array(&w);
    for (size_t i = 0; i < g->shown_count; i++)
        write_value(&w, rows, g->source->column_count + (int)(g->key_count + i));
    jw_array_end(&w);
}

int filtered_list_write_values(struct filtered_list *g, struct error *e)
{
    if (!g->shown_count)
        return 0;
    buf_puts(&g->values, g->rows ? "]" : "[]");
    if (g->values.err)
        return error_set(e, ERR_TOO_LARGE, "query parameter show: ask for fewer rows at a time");
    jw_kv_raw(&g->v->w, "values", buf_str(&g->values));
    return 0;
}

void filtered_list_write_cursor(struct filtered_list *g)
{
    bool fits = g->more && g->limit > 0 && !g->next.err;
    char *text = fits ? base64_encode(buf_str(&g->next), g->next.len) : NULL;
    if (text)
        translate(text, "+/", "-_");
    jw_kv_string(&g->v->w, "nextCursor", text);
    free(text);
}
