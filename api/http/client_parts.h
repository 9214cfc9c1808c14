// The inside of the HTTP client, for client.c and events.c alone.
#ifndef MUSTER_API_CLIENT_PARTS_H
#define MUSTER_API_CLIENT_PARTS_H

#include <curl/curl.h>

#include "api/http/client.h"
#include "base/buf.h"

struct client {
    CURL *easy;
    char *url; // without a slash at the end
    struct curl_slist *headers;
    const atomic_bool *cancel;
    long timeout_s;
    int status;
    bool may_retry; // the last call failed in a way that another try may mend
    char detail[CURL_ERROR_SIZE];
};

// Fill *e by what became of a call, and set may_retry.
int client_transport_failed(struct client *c, CURLcode code, struct error *e);
int client_http_failed(struct client *c, const char *method, const char *path,
                       const struct buf *body, struct error *e);

#endif
