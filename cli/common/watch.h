// Waits for changes at the master by its stream of events, instead of polling.
#ifndef MUSTER_CLI_WATCH_H
#define MUSTER_CLI_WATCH_H

#include "api/http/events.h"
#include "cli/cli.h"

// --watch: runs the command again whenever an object that it shows has changed, until Ctrl-C.
int watch_command(struct cli *c, const struct command *command, struct error *e);

// Opens the master's stream of events with `query` ("topics=trials") and the session's token.
int watch_open(struct cli *c, const char *query, struct event_stream **out, struct error *e);

// Waits until an event arrives or `most_us` have passed, and discards all received events. Without
// a stream (NULL) it sleeps, at most a second.
int watch_wait(struct event_stream *s, int64_t most_us, struct error *e);

// Microseconds left until --timeout, counted from the start of the program; INT64_MAX without one.
int64_t watch_left(const struct cli *c);

// Between watch_begin() and watch_end() Ctrl-C does not end the process: watch_interrupted()
// reports it.
void watch_begin(void);
bool watch_interrupted(void);
void watch_end(void);

#endif
