// Waiting for what changes at the master, instead of asking again and again.
#ifndef MUSTER_CLI_WATCH_H
#define MUSTER_CLI_WATCH_H

#include "api/http/events.h"
#include "cli/cli.h"

// --watch: runs the command again whenever something it shows has changed, until Ctrl-C.
int watch_command(struct cli *c, const struct command *command, struct error *e);

// The stream of the master's events, with `query` ("topics=trials"); as who we are.
int watch_open(struct cli *c, const char *query, struct events **out, struct error *e);

// Until something came, or `most_us` have passed; all that came by then is taken off the stream.
// Without a stream (NULL) it waits, a second at most.
int watch_wait(struct events *s, int64_t most_us, struct error *e);

// Microseconds until --timeout has passed since the program began; without one, very many.
int64_t watch_left(const struct cli *c);

// Ctrl-C ends the watching alone: between the two, watch_interrupted() tells of it.
void watch_begin(void);
bool watch_interrupted(void);
void watch_end(void);

#endif
