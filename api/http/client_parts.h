// Internal header of the HTTP client, for client.c and events.c.
#ifndef MUSTER_API_CLIENT_PARTS_H
#define MUSTER_API_CLIENT_PARTS_H

#include <curl/curl.h>

#include "api/http/client.h"
#include "base/buf.h"

struct client {
    CURL *easy; // NULL until a call needs libcurl; open where `plain` is NULL
    char *url;  // without a trailing slash
    struct curl_slist *headers;
    const char *token_header; // "Authorization"
    char *token;              // "Bearer T"; NULL: none
    char *ca_file;            // NULL: none
    bool only_ca_file;        // without the system's authorities
    client_exchange *plain;
    int plain_calls; // how many `plain` may still make
    const atomic_bool *cancel;
    long timeout_s;
    int connect_timeout_s;
    int status;
    int64_t retry_after_s;
    bool answered;  // the server has answered a call through libcurl
    bool untrusted; // the last call failed for the server's certificate
    bool may_retry; // another try may succeed after the failure of the last call
    char detail[CURL_ERROR_SIZE];
};

// Set *e from the outcome of a call, and may_retry.
int client_transport_failed(struct client *c, CURLcode code, struct error *e);
int client_http_failed(struct client *c, const char *method, const char *path,
                       const struct buf *body, struct error *e);

#endif
