// One exchange of plain HTTP with a server on this machine, by libevent. It exists for processes
// that make a call or two: loading libcurl takes three times as long as all their other work
// (docs/decisions/0053). Any thread may call it; nothing is kept between calls.
#ifndef MUSTER_API_PLAIN_H
#define MUSTER_API_PLAIN_H

#include <curl/curl.h>
#include <stdint.h>

#include "base/buf.h"

struct plain_call {
    const char *url; // "http://127.0.0.1:8080"
    const char *method, *path;
    const char *body;          // JSON; NULL: none
    const char *authorization; // name of the header with the token; NULL: none
    const char *token;         // "Bearer T"
    long timeout_s;            // of the whole exchange

    struct buf *answer; // the body of the answer; its limit holds
    int status;         // of the answer; 0: none
    int64_t retry_after_s;
    char *detail; // CURL_ERROR_SIZE bytes: what failed
};

// Returns CURLE_OK with any status; CURLE_COULDNT_CONNECT: nothing was sent, because nobody listens
// or `url` is not plain HTTP on this machine, so libcurl may try;
// CURLE_OPERATION_TIMEDOUT; CURLE_FILESIZE_EXCEEDED; CURLE_RECV_ERROR: no whole answer.
CURLcode plain_exchange(struct plain_call *call);

#endif
