// Logs: logfmt lines on stderr, one write(2) for each line. Any thread may log. A log never holds
// secrets.
//
//   log_info("allocation started", "exp=%lld trial=%lld alloc=%s", exp, trial, alloc);
//   -> ts=2026-11-21T09:00:00.123Z level=info msg="allocation started" exp=1 trial=1 alloc=1.1.0
//
// All programs use the same keys: exp= trial= alloc= agent= rank= slot= err=. Format a value that
// may contain blanks with log_quote().
#ifndef MUSTER_BASE_LOG_H
#define MUSTER_BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

void log_set_level(enum log_level level);
enum log_level log_get_level(void);
const char *log_level_name(enum log_level level); // "debug" ..
// A sink receives a copy of every line, without time and level, in the thread that logs. NULL
// removes it. Set it before other threads start.
typedef void log_sink(void *ctx, enum log_level level, int64_t wall_us, const char *text);
void log_set_sink(log_sink *sink, void *ctx);
int log_parse_level(const char *text, enum log_level *out); // "debug".. ; ERR_INVALID

void log_write(enum log_level level, const char *msg, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Writes `text` in double quotes, escaped and cut to `cap` bytes. Returns out.
const char *log_quote(char *out, size_t cap, const char *text);

#define log_debug(msg, ...) log_write(LOG_LEVEL_DEBUG, msg, __VA_ARGS__)
#define log_info(msg, ...)  log_write(LOG_LEVEL_INFO, msg, __VA_ARGS__)
#define log_warn(msg, ...)  log_write(LOG_LEVEL_WARN, msg, __VA_ARGS__)
#define log_error(msg, ...) log_write(LOG_LEVEL_ERROR, msg, __VA_ARGS__)

// Checks an invariant, also in release builds: logs file and line and aborts if it is false.
#define must(cond) ((cond) ? (void)0 : log_die(__FILE__, __LINE__, #cond))
void log_die(const char *file, int line, const char *what) __attribute__((noreturn));

#endif
