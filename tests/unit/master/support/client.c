#include "tests/unit/master/support/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/master/support/fixture.h"

void reply_free(struct reply *r)
{
    buf_free(&r->body);
    json_decref(r->json);
    *r = (struct reply){0};
}

int dial(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)fx.port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&at, sizeof at))
        fail_msg("cannot connect");
    return fd;
}

void send_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        p += n;
        len -= (size_t)n;
    }
}

int next_byte(int fd)
{
    unsigned char c;
    return recv(fd, &c, 1, 0) == 1 ? c : -1;
}

static bool read_line(int fd, struct buf *line)
{
    buf_reset(line);
    for (int c; (c = next_byte(fd)) >= 0;) {
        char byte = (char)c;
        buf_append(line, &byte, 1);
        if (c == '\n')
            return true;
    }
    return false;
}

static void read_bytes(int fd, struct buf *out, size_t len)
{
    char piece[4096];
    while (len) {
        ssize_t n = recv(fd, piece, len < sizeof piece ? len : sizeof piece, 0);
        if (n <= 0)
            return;
        buf_append(out, piece, (size_t)n);
        len -= (size_t)n;
    }
}

const char *header_of(const struct reply *r, const char *name)
{
    const char *at = strcasestr(r->head, name);
    return at ? at + strlen(name) + 2 : NULL;
}

bool read_head(int fd, struct reply *r)
{
    struct buf line;
    size_t used = 0;
    *r = (struct reply){0};
    buf_init(&r->body, (size_t)1 << 30);
    buf_init(&line, 1 << 16);
    while (read_line(fd, &line) && line.len > 2)
        used += (size_t)snprintf(r->head + used, sizeof r->head - used, "%s", buf_str(&line));
    buf_free(&line);
    return sscanf(r->head, "HTTP/1.1 %d", &r->status) == 1;
}

bool read_chunk(int fd, struct buf *out)
{
    struct buf line;
    buf_init(&line, 256);
    bool there = read_line(fd, &line);
    size_t len = there ? strtoul(buf_str(&line), NULL, 16) : 0;
    if (len)
        read_bytes(fd, out, len);
    if (there)
        read_line(fd, &line);
    buf_free(&line);
    return len;
}

void read_reply(int fd, struct reply *r, bool has_body)
{
    if (!read_head(fd, r))
        return;
    const char *length = header_of(r, "Content-Length");
    if (has_body && length)
        read_bytes(fd, &r->body, strtoul(length, NULL, 10));
    else if (has_body && header_of(r, "Transfer-Encoding"))
        while (read_chunk(fd, &r->body))
            ;
    r->json = r->body.len ? json_loadb(r->body.data, r->body.len, 0, NULL) : NULL;
}

void send_request(int fd, const char *method, const char *path, int by, const char *body)
{
    const char *const tokens[] = {NULL, fx.user, fx.admin, fx.agent, fx.task};
    const char *token = by < BY_OTHER ? tokens[by] : fx.others[by - BY_OTHER];
    struct buf text;
    buf_init(&text, (size_t)1 << 28);
    buf_printf(&text, "%s %s HTTP/1.1\r\nHost: x\r\n", method, path);
    if (by == BY_TASK)
        buf_printf(&text, "Grpc-Metadata-x-allocation-token: Bearer %s\r\n", token);
    else if (by)
        buf_printf(&text, "Authorization: Bearer %s\r\n", token);
    if (body)
        buf_printf(&text, "Content-Length: %zu\r\n", strlen(body));
    buf_puts(&text, "\r\n");
    if (body)
        buf_puts(&text, body);
    send_all(fd, text.data, text.len);
    buf_free(&text);
}

struct reply call(const char *method, const char *path, int by, const char *body)
{
    struct reply r;
    int fd = dial();
    send_request(fd, method, path, by, body);
    read_reply(fd, &r, strcmp(method, "HEAD") != 0);
    close(fd);
    return r;
}

int status_of(const char *method, const char *path, int by, const char *body)
{
    struct reply r = call(method, path, by, body);
    int status = r.status;
    reply_free(&r);
    return status;
}

json_t *get_json(const char *path, int by)
{
    struct reply r = call("GET", path, by, NULL);
    if (r.status != 200 || !r.json)
        fail_msg("GET %s: %d %s", path, r.status, buf_str(&r.body));
    json_t *json = json_incref(r.json);
    reply_free(&r);
    return json;
}

const json_t *value_at(const json_t *json, const char *path)
{
    while (json && *path) {
        char part[64];
        size_t len = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)len, path);
        json = json_is_array(json) ? json_array_get(json, (size_t)strtol(part, NULL, 10))
                                   : json_object_get(json, part);
        path += len + (path[len] == '.');
    }
    return json;
}

const char *at(const json_t *json, const char *path)
{
    static char text[16][64]; // several may be in use at once
    static int turn;
    const json_t *v = value_at(json, path);
    if (json_is_string(v))
        return json_string_value(v);
    char *out = text[turn++ % 16];
    if (json_is_integer(v))
        snprintf(out, 64, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, 64, "%g", json_real_value(v));
    else
        snprintf(out, 64, "%s", json_is_true(v) ? "true" : json_is_false(v) ? "false" : "");
    return out;
}
