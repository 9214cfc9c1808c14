#include "agent/logs/log_spool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text/json.h"

enum {
    RECORD_MAX = 6 * LIMIT_LOG_LINE + 1024, // all bytes escaped as \u00xx, and the other fields
};

int log_spool_open(struct log_spool *s, const char *path, int64_t shipped, int64_t disk_max,
                   struct error *e)
{
    *s = (struct log_spool){0};
    buf_init(&s->record, RECORD_MAX);
    return spool_open(&s->file, path, shipped, disk_max, e);
}

static void encode_line(struct buf *out, const struct log_entry *line, int64_t sequence)
{
    char when[CLOCK_RFC3339_MAX];
    struct json_writer w;
    buf_reset(out);
    jw_init(&w, out);
    jw_object(&w);
    jw_kv_int(&w, "sequence", sequence);
    jw_kv_string(&w, "timestamp", clock_format(line->wall_us, when));
    if (line->rank >= 0)
        jw_kv_int(&w, "rank", line->rank);
    jw_kv_string(&w, "level", line->level);
    jw_kv_string(&w, "stdtype", line->stream);
    jw_kv_string(&w, "source", line->source);
    jw_key(&w, "log");
    jw_stringn(&w, line->text, line->len);
    jw_object_end(&w);
    buf_puts(out, "\n");
}

static bool write_line(struct log_spool *s, const struct log_entry *line)
{
    encode_line(&s->record, line, s->file.sequence + 1);
    int err =
        s->record.err ? s->record.err : spool_write(&s->file, s->record.data, s->record.len, NULL);
    if (err == ERR_TOO_LARGE)
        s->why_dropped = "the line is too long";
    else if (err == ERR_BUSY)
        s->why_dropped = "too much output waits to be sent to the master";
    else if (err)
        s->why_dropped = strerrordesc_np(err == ERR_FULL ? ENOSPC : errno);
    return !err;
}

static struct log_entry agent_line(const char *level, const char *text)
{
    return (struct log_entry){
        .wall_us = clock_wall_us(),
        .rank = -1,
        .level = level,
        .stream = "stderr",
        .source = "agent",
        .text = text,
        .len = strlen(text),
    };
}

static bool report_dropped(struct log_spool *s)
{
    if (s->dropped == 0)
        return true;
    char text[256];
    snprintf(text, sizeof text, "%" PRId64 " lines of output were dropped here: %s", s->dropped,
             s->why_dropped);
    const struct log_entry line = agent_line("WARNING", text);
    if (!write_line(s, &line))
        return false;
    s->dropped = 0;
    return true;
}

void log_spool_append(struct log_spool *s, const struct log_entry *line)
{
    if (!report_dropped(s) || !write_line(s, line))
        s->dropped++;
}

void log_spool_append_message(struct log_spool *s, const char *level, const char *text)
{
    const struct log_entry line = agent_line(level, text);
    log_spool_append(s, &line);
}

void log_spool_close(struct log_spool *s)
{
    if (s->file.fd >= 0)
        report_dropped(s);
    spool_close(&s->file);
    buf_free(&s->record);
}
