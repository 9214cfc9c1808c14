// Logs: logfmt lines on stderr, one write(2) each, any thread. No secrets in logs.
//
//   log_info("allocation started", "exp=%lld trial=%lld alloc=%s", exp, trial, alloc);
//   -> ts=2026-11-21T09:00:00.123Z level=info msg="allocation started" exp=1 trial=1 alloc=1.1.0
//
// Keys are the same everywhere: exp= trial= alloc= agent= rank= slot= err=. A value that may hold
// blanks is passed as %s of log_quote().
#ifndef MUSTER_BASE_LOG_H
#define MUSTER_BASE_LOG_H

#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

void log_set_level(enum log_level level);
enum log_level log_get_level(void);
const char *log_level_name(enum log_level level); // "debug" ..
// Is given every line as well, without its time and level, by the thread that logs; NULL: nobody.
// Set before other threads are started.
typedef void log_sink(void *ctx, enum log_level level, int64_t wall_us, const char *text);
void log_set_sink(log_sink *tap, void *ctx);
int log_parse_level(const char *text, enum log_level *out); // "debug".. ; ERR_INVALID

void log_write(enum log_level level, const char *msg, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// `text` in double quotes with escapes, cut at cap; returns out.
const char *log_quote(char *out, size_t cap, const char *text);

#define log_debug(msg, ...) log_write(LOG_LEVEL_DEBUG, msg, __VA_ARGS__)
#define log_info(msg, ...)  log_write(LOG_LEVEL_INFO, msg, __VA_ARGS__)
#define log_warn(msg, ...)  log_write(LOG_LEVEL_WARN, msg, __VA_ARGS__)
#define log_error(msg, ...) log_write(LOG_LEVEL_ERROR, msg, __VA_ARGS__)

// An invariant that holds in release builds too: logs file:line and aborts.
#define must(cond) ((cond) ? (void)0 : log_die(__FILE__, __LINE__, #cond))
void log_die(const char *file, int line, const char *what) __attribute__((noreturn));

#endif
