// The output of a program that failed. The first byte is its exit code, or, if it is above 127, the
// signal that killed it; the second one splits the rest into stdout and stderr.
//
// The explanation is valid text of bounded length, and the excerpt ends within the lines.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/failures/failure.h"
#include "agent/logs/log_tail.h"
#include "base/log.h"
#include "base/text/json.h"

static void feed(struct log_tail *tail, const char *text, size_t len)
{
    log_tail_init(tail);
    while (len > 0) {
        const char *stop = memchr(text, '\n', len);
        size_t line = stop ? (size_t)(stop - text) : len;
        log_tail_add(tail, text, line);
        line += stop != NULL;
        text += line;
        len -= line;
    }
}

static void explain(const struct log_tail *out, const struct log_tail *err, int wait_status)
{
    struct failure f;
    char last[256];
    log_tail_last_line(err->lines > 0 ? err : out, last, sizeof last);
    const struct failure_facts facts = {
        .wait_status = wait_status,
        .err_lines = log_tail_text(err),
        .out_lines = log_tail_text(out),
        .last_line = last,
        .work_dir = "/task/code",
    };
    failure_explain(&facts, &f);
    const struct log_tail *shown = f.of_stdout ? out : err;
    must(strlen(f.sentence) > 0 && strlen(f.sentence) < sizeof f.sentence);
    must(f.end_line <= shown->lines);
    json_t *lines = log_tail_json(shown, f.end_line);
    must(json_string_length(lines) <= 4 * LOG_TAIL_BYTES);
    json_decref(lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct log_tail out, err;
    if (len < 2)
        return 0;
    int wait_status = data[0] > 127 ? (data[0] - 128) % 64 + 1 : data[0] << 8;
    size_t first = (len - 2) * data[1] / 256;
    const char *text = (const char *)data + 2;
    feed(&out, text, first);
    feed(&err, text + first, len - 2 - first);
    explain(&out, &err, wait_status);
    log_tail_free(&out);
    log_tail_free(&err);
    return 0;
}
