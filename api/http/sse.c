#include "api/http/sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sse_init(struct sse *s, size_t data_max)
{
    memset(s, 0, sizeof *s);
    buf_init(&s->line, data_max);
    buf_init(&s->data, data_max);
}

void sse_free(struct sse *s)
{
    buf_free(&s->line);
    buf_free(&s->data);
}

static void forget_event(struct sse *s)
{
    buf_reset(&s->data);
    s->name[0] = '\0';
    s->has_data = false;
}

void sse_begin(struct sse *s)
{
    forget_event(s);
    buf_reset(&s->line);
    s->begun = s->after_cr = false;
    memcpy(s->new_id, s->id, sizeof s->id);
}

static int dispatch_event(struct sse *s, sse_on_event *on_event, void *ctx, struct error *e)
{
    int rc = 0;
    memcpy(s->id, s->new_id, sizeof s->id);
    if (s->has_data) {
        const struct sse_event event = {
            .name = *s->name ? s->name : "message", .data = buf_str(&s->data), .id = s->id};
        rc = on_event(ctx, &event, e);
    }
    forget_event(s);
    return rc;
}

static void add_data(struct sse *s, const char *value)
{
    if (s->has_data)
        buf_puts(&s->data, "\n");
    buf_puts(&s->data, value);
    s->has_data = true;
}

// A name or id longer than its buffer is not one that we use; it is ignored like unknown fields.
static void take_field(struct sse *s, const char *field, const char *value)
{
    size_t len = strlen(value);
    if (!strcmp(field, "data"))
        add_data(s, value);
    else if (!strcmp(field, "event") && len < sizeof s->name)
        memcpy(s->name, value, len + 1);
    else if (!strcmp(field, "id") && len < sizeof s->new_id)
        memcpy(s->new_id, value, len + 1);
    else if (!strcmp(field, "retry") && *value && strspn(value, "0123456789") == len && len < 10)
        s->retry_ms = strtoll(value, NULL, 10);
}

static int handle_line(struct sse *s, sse_on_event *on_event, void *ctx, struct error *e)
{
    static const char mark[] = "\xef\xbb\xbf"; // byte order mark
    bool marked = !s->begun && s->line.len >= 3 && !memcmp(s->line.data, mark, 3);
    size_t len = s->line.len - (marked ? 3 : 0);
    s->begun = true;
    if (!len)
        return dispatch_event(s, on_event, ctx, e);
    char *line = s->line.data + (marked ? 3 : 0);
    // The standard says to ignore an id with a NUL; no other field that we use has one.
    if (*line != ':' && strlen(line) == len) {
        char *value = strchr(line, ':');
        if (value) {
            *value++ = '\0';
            value += *value == ' ';
        }
        take_field(s, line, value ? value : "");
    }
    return 0;
}

static int end_line(struct sse *s, sse_on_event *on_event, void *ctx, struct error *e)
{
    int rc = handle_line(s, on_event, ctx, e);
    buf_reset(&s->line);
    if (!rc && s->data.err)
        rc = error_set(e, ERR_TOO_LARGE, "an event is longer than %zu bytes", s->data.limit);
    return rc;
}

int sse_feed(struct sse *s, const char *bytes, size_t len, sse_on_event *on_event, void *ctx,
             struct error *e)
{
    const char *end = bytes + len;
    while (bytes < end) {
        bool second_half = s->after_cr && *bytes == '\n'; // second half of CR LF
        s->after_cr = false;
        if (second_half) {
            bytes++;
            continue;
        }
        size_t part = 0;
        while (bytes + part < end && bytes[part] != '\n' && bytes[part] != '\r')
            part++;
        if (buf_append(&s->line, bytes, part))
            return error_set(e, ERR_TOO_LARGE, "a line of events is longer than %zu bytes",
                             s->line.limit);
        bytes += part;
        if (bytes == end)
            break;
        s->after_cr = *bytes++ == '\r';
        int rc = end_line(s, on_event, ctx, e);
        if (rc)
            return rc;
    }
    return 0;
}
