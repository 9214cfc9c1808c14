// A small HTTP client for tests: complete calls, and the pieces of a call for tests that look in
// between. Fails the test when there is no server.
#ifndef TESTS_MASTER_CLIENT_H
#define TESTS_MASTER_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct reply {
    int status;
    char head[4096];
    struct buf body;
    json_t *json; // NULL: the body is not JSON
};

enum { BY_NONE, BY_USER, BY_ADMIN, BY_AGENT, BY_TASK, CALLERS };
enum { BY_OTHER = CALLERS }; // this and higher: the users of fx.others

// Makes one call on a new connection to the fixture's server, as one of its callers.
struct reply call(const char *method, const char *path, int by, const char *body);
void reply_free(struct reply *r);
int status_of(const char *method, const char *path, int by, const char *body);
json_t *get_json(const char *path, int by); // the call must succeed; the caller owns the value

const char *header_of(const struct reply *r, const char *name); // NULL: absent

// The value at a dotted path ("trials.0.id"); NULL when it is absent. As text: "" for null and
// absent values; numbers stay valid for the next few calls.
const json_t *value_at(const json_t *json, const char *path);
const char *at(const json_t *json, const char *path);

int dial(void);
void send_all(int fd, const void *data,
              size_t len); // ignores a connection that the server closes early
void send_request(int fd, const char *method, const char *path, int by, const char *body);
void read_reply(int fd, struct reply *r, bool has_body);
bool read_head(int fd, struct reply *r);  // false: no head came
bool read_chunk(int fd, struct buf *out); // reads the next chunk of a stream; false at its end
int next_byte(int fd);                    // -1: the end

#endif
