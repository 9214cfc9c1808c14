#include "api/http/plain.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/host.h"

enum { PORT_OF_HTTP = 80 };

// An exchange while its event loop runs.
struct plain_loop {
    struct plain_call *call;
    struct event_base *base;
    bool ended;
    CURLcode result;
};

static CURLcode fail(struct plain_call *call, CURLcode code, const char *text)
{
    snprintf(call->detail, CURL_ERROR_SIZE, "%s", text);
    return code;
}

static void on_failure(enum evhttp_request_error why, void *ctx)
{
    struct plain_loop *x = ctx;
    if (why == EVREQ_HTTP_DATA_TOO_LONG)
        x->result = fail(x->call, CURLE_FILESIZE_EXCEEDED, "the answer is too large");
    else if (why == EVREQ_HTTP_TIMEOUT)
        x->result = fail(x->call, CURLE_OPERATION_TIMEDOUT, "no answer");
    else if (why == EVREQ_HTTP_INVALID_HEADER)
        x->result = fail(x->call, CURLE_RECV_ERROR, "the answer is not HTTP");
    else
        x->result = fail(x->call, CURLE_RECV_ERROR, "the connection was closed without an answer");
}

static void read_body(struct plain_loop *x, struct evbuffer *body)
{
    size_t len = evbuffer_get_length(body);
    const unsigned char *bytes = evbuffer_pullup(body, -1);
    if (len && buf_append(x->call->answer, (const char *)bytes, len))
        x->result = fail(x->call, CURLE_FILESIZE_EXCEEDED, "the answer is too large");
}

// libevent passes NULL after a failure, and a request without a status if there is no connection.
static void on_end(struct evhttp_request *request, void *ctx)
{
    struct plain_loop *x = ctx;
    x->ended = true;
    event_base_loopbreak(x->base);
    if (!request || x->result)
        return;
    x->call->status = evhttp_request_get_response_code(request);
    if (!x->call->status) {
        x->result = fail(x->call, CURLE_COULDNT_CONNECT, "no connection");
        return;
    }
    const char *after =
        evhttp_find_header(evhttp_request_get_input_headers(request), "Retry-After");
    x->call->retry_after_s = after ? strtol(after, NULL, 10) : 0;
    read_body(x, evhttp_request_get_input_buffer(request));
}

static void add_headers(struct evhttp_request *request, const struct plain_call *call)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
    evhttp_add_header(headers, "Host", call->url + strlen("http://"));
    evhttp_add_header(headers, "User-Agent", "muster/" MUSTER_VERSION);
    evhttp_add_header(headers, "Content-Type", "application/json");
    evhttp_add_header(headers, "Connection", "close");
    if (call->authorization)
        evhttp_add_header(headers, call->authorization, call->token);
    if (!call->body)
        return;
    char length[32]; // libevent adds this header for POST and PUT alone
    snprintf(length, sizeof(length), "%zu", strlen(call->body));
    evhttp_add_header(headers, "Content-Length", length);
    evbuffer_add(evhttp_request_get_output_buffer(request), call->body, strlen(call->body));
}

// Returns EVHTTP_REQ_CONNECT, which the API has no use for, for other methods.
static enum evhttp_cmd_type method_type(const char *name)
{
    static const struct {
        const char *name;
        enum evhttp_cmd_type type;
    } methods[] = {{"GET", EVHTTP_REQ_GET},
                   {"POST", EVHTTP_REQ_POST},
                   {"PUT", EVHTTP_REQ_PUT},
                   {"PATCH", EVHTTP_REQ_PATCH},
                   {"DELETE", EVHTTP_REQ_DELETE}};
    for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++) {
        if (!strcmp(methods[i].name, name))
            return methods[i].type;
    }
    return EVHTTP_REQ_CONNECT;
}

static CURLcode run(struct plain_loop *x, const char *host, int port)
{
    struct timeval limit = {.tv_sec = x->call->timeout_s};
    enum evhttp_cmd_type type = method_type(x->call->method);
    struct evhttp_connection *connection =
        evhttp_connection_base_new(x->base, NULL, host, (unsigned short)port);
    struct evhttp_request *request = evhttp_request_new(on_end, x);
    must(connection && request);
    evhttp_connection_set_max_headers_size(connection, LIMIT_BODY_SMALL);
    evhttp_connection_set_max_body_size(connection, (ev_ssize_t)x->call->answer->limit);
    evhttp_connection_set_timeout_tv(connection, &limit);
    evhttp_request_set_error_cb(request, on_failure);
    add_headers(request, x->call);
    if (type == EVHTTP_REQ_CONNECT ||
        evhttp_make_request(connection, request, type, x->call->path)) {
        evhttp_connection_free(connection);
        return fail(x->call, CURLE_COULDNT_CONNECT, "no connection");
    }
    event_base_loopexit(x->base, &limit);
    event_base_dispatch(x->base);
    if (!x->ended)
        x->result = fail(x->call, CURLE_OPERATION_TIMEDOUT, "no answer");
    evhttp_connection_free(connection);
    return x->result;
}

CURLcode plain_exchange(struct plain_call *call)
{
    struct evhttp_uri *uri = evhttp_uri_parse(call->url);
    struct event_config *config = event_config_new();
    CURLcode code = CURLE_COULDNT_CONNECT;
    call->status = 0;
    call->retry_after_s = 0;
    must(config && !event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK));
    bool ours = uri && evhttp_uri_get_host(uri) && host_is_loopback(evhttp_uri_get_host(uri)) &&
                !strncmp(call->url, "http://", strlen("http://")) &&
                !evhttp_uri_get_userinfo(uri) && *evhttp_uri_get_path(uri) == '\0';
    if (ours) {
        struct plain_loop x = {.call = call, .base = event_base_new_with_config(config)};
        int port = evhttp_uri_get_port(uri);
        must(x.base);
        code = run(&x, evhttp_uri_get_host(uri), port > 0 ? port : PORT_OF_HTTP);
        event_base_free(x.base);
    }
    event_config_free(config);
    if (uri)
        evhttp_uri_free(uri);
    return code;
}
