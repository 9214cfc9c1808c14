// A small HTTP client for tests: calls that wait for the answer, and the pieces of a call for those
// that look in between. Fails the test when there is no server.
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
    json_t *json; // NULL: the body is none
};

enum { BY_NONE, BY_USER, BY_ADMIN, BY_AGENT, BY_TASK, CALLERS };
enum { BY_OTHER = CALLERS }; // and from there on: users of fx.others

// One call on a connection of its own, to the server of the fixture, as one of its callers.
struct reply call(const char *method, const char *path, int by, const char *body);
void reply_free(struct reply *r);
int status_of(const char *method, const char *path, int by, const char *body);
json_t *get_json(const char *path, int by); // of a call that must succeed; owned

const char *header_of(const struct reply *r, const char *name); // NULL: absent

// The value at a dotted path ("trials.0.id"); NULL when it is not there. As text: "" for null and
// for what is not there; a number is good until some calls later.
const json_t *value_at(const json_t *json, const char *path);
const char *at(const json_t *json, const char *path);

int dial(void);
void send_all(int fd, const void *data, size_t len); // what the server closes early is seen later
void send_request(int fd, const char *method, const char *path, int by, const char *body);
void read_reply(int fd, struct reply *r, bool has_body);
bool read_head(int fd, struct reply *r);  // false: none came
bool read_chunk(int fd, struct buf *out); // the next of a stream; false at its end
int next_byte(int fd);                    // -1: the end

#endif
