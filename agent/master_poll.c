#include "agent/master_poll.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http/client.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"

enum {
    CONNECT_TIMEOUT_MS = 5000,
    // The master holds a call for 4 s. An agent that is silent for 10 s counts as lost, so there is
    // no use in waiting longer.
    CALL_TIMEOUT_MS = 9000,
};

struct master_poll {
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    char *url;
    char *request;
    struct buf answer;
    bool pending;
    char detail[CURL_ERROR_SIZE];
};

static size_t append_answer(char *bytes, size_t size, size_t count, void *ctx)
{
    struct master_poll *p = ctx;
    return buf_append(&p->answer, bytes, size * count) == 0 ? size * count : 0;
}

static void add_header(struct master_poll *p, const char *line)
{
    p->headers = curl_slist_append(p->headers, line);
    must(p->headers);
}

static void set_options(struct master_poll *p, const struct master_endpoint *master)
{
    CURL *h = p->easy;
    curl_easy_setopt(h, CURLOPT_URL, p->url);
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    curl_easy_setopt(h, CURLOPT_USERAGENT, "muster-agent/" MUSTER_VERSION);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)CALL_TIMEOUT_MS);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, p->headers);
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, p->detail);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, append_answer);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, p);
    if (master->ca_file)
        curl_easy_setopt(h, CURLOPT_CAINFO, master->ca_file);
    if (master->only_ca_file)
        curl_easy_setopt(h, CURLOPT_CAPATH, NULL);
}

int master_poll_open(const struct master_endpoint *master, const char *agent_id,
                     struct master_poll **out, struct error *e)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(e, ERR_INTERNAL, "cannot initialize libcurl");
    struct master_poll *p = xcalloc(1, sizeof *p);
    char *id = client_escape(agent_id);
    char *bearer = xasprintf("Authorization: Bearer %s", master->token);
    buf_init(&p->answer, LIMIT_BODY);
    p->multi = curl_multi_init();
    p->easy = curl_easy_init();
    must(p->multi && p->easy);
    p->url = xasprintf("%s/api/v1/agents/%s/sync", master->url, id);
    add_header(p, "Content-Type: application/json");
    add_header(p, "Expect:"); // saves a round trip before the body
    add_header(p, bearer);
    set_options(p, master);
    free(bearer);
    free(id);
    *out = p;
    return 0;
}

static void poll_end_call(struct master_poll *p)
{
    if (p->pending)
        curl_multi_remove_handle(p->multi, p->easy);
    p->pending = false;
    free(p->request);
    p->request = NULL;
}

void master_poll_close(struct master_poll *p)
{
    if (!p)
        return;
    poll_end_call(p);
    curl_easy_cleanup(p->easy);
    curl_multi_cleanup(p->multi);
    curl_slist_free_all(p->headers);
    buf_free(&p->answer);
    free(p->url);
    free(p);
}

void master_poll_send(struct master_poll *p, json_t *body)
{
    poll_end_call(p);
    buf_reset(&p->answer);
    p->detail[0] = '\0';
    p->request = json_text(body);
    json_decref(body);
    curl_easy_setopt(p->easy, CURLOPT_POSTFIELDS, p->request);
    curl_easy_setopt(p->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(p->request));
    must(curl_multi_add_handle(p->multi, p->easy) == CURLM_OK);
    p->pending = true;
    int running = 0;
    curl_multi_perform(p->multi, &running);
}

bool master_poll_is_pending(const struct master_poll *p)
{
    return p->pending;
}

void master_poll_wait(struct master_poll *p, struct curl_waitfd *fds, unsigned count,
                      int timeout_ms)
{
    int running = 0;
    curl_multi_poll(p->multi, fds, count, timeout_ms, NULL);
    curl_multi_perform(p->multi, &running);
}

void master_poll_wake(void *poll)
{
    struct master_poll *p = poll;
    curl_multi_wakeup(p->multi);
}

static int transport_error(const struct master_poll *p, CURLcode code, struct error *e)
{
    const char *detail = p->detail[0] ? p->detail : curl_easy_strerror(code);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return error_set(e, ERR_TIMEOUT, "%s: %s", p->url, detail);
    if (code == CURLE_WRITE_ERROR && p->answer.err)
        return error_set(e, ERR_PEER, "%s: the answer is too large", p->url);
    return error_set(e, ERR_UNAVAILABLE, "%s: %s", p->url, detail);
}

static int status_error(const struct master_poll *p, long status, struct error *e)
{
    json_t *answer = json_loadb(buf_str(&p->answer), p->answer.len, 0, NULL);
    const char *text = jget_string(jget(answer, "error"), "error", NULL);
    if (!text)
        text = jget_string(answer, "message", "no reason given");
    int err = error_set(e, err_from_http((int)status), "%s: HTTP %ld: %s", p->url, status, text);
    json_decref(answer);
    return err;
}

static int read_result(struct master_poll *p, CURLcode code, json_t **answer, struct error *e)
{
    long status = 0;
    curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK)
        return transport_error(p, code, e);
    if (status < 200 || status > 299)
        return status_error(p, status, e);
    int err = json_parse(buf_str(&p->answer), p->answer.len, "the master'p answer", answer, e);
    return err ? error_set(e, ERR_PEER, "%s: %s", p->url, e->text) : 1;
}

int master_poll_result(struct master_poll *p, json_t **answer, struct error *e)
{
    int left = 0;
    CURLMsg *message = curl_multi_info_read(p->multi, &left);
    if (!message || message->msg != CURLMSG_DONE)
        return 0;
    CURLcode code = message->data.result;
    int err = read_result(p, code, answer, e);
    poll_end_call(p);
    return err;
}

// Connecting a datagram socket sends nothing, but gives it the local address of the route.
static void find_local_address(const struct addrinfo *to, char *out, size_t cap)
{
    struct sockaddr_storage local;
    socklen_t len = sizeof local;
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0 ||
        getsockname(fd, (struct sockaddr *)&local, &len) != 0 ||
        getnameinfo((struct sockaddr *)&local, len, out, (socklen_t)cap, NULL, 0, NI_NUMERICHOST) !=
            0)
        out[0] = '\0';
    close(fd);
}

void master_poll_local_address(const struct master_poll *p, char *out, size_t cap)
{
    CURLU *url = curl_url();
    char *host = NULL;
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    out[0] = '\0';
    if (url && curl_url_set(url, CURLUPART_URL, p->url, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        getaddrinfo(host, "9", &hints, &found) == 0)
        find_local_address(found, out, cap);
    if (found)
        freeaddrinfo(found);
    curl_free(host);
    curl_url_cleanup(url);
}
