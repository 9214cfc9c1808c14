#include "agent/master_poll.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/client.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/text/json.h"

enum {
    CONNECT_TIMEOUT_MS = 5000,
    // The master parks a call for 4 s; an agent that is silent for 10 s counts as lost, so waiting
    // longer for an answer helps nobody.
    CALL_TIMEOUT_MS = 9000,
};

struct sync {
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    char *url;
    char *request;
    struct buf answer;
    bool posted;
    char detail[CURL_ERROR_SIZE];
};

static size_t on_data(char *bytes, size_t size, size_t count, void *ctx)
{
    struct sync *s = ctx;
    return buf_append(&s->answer, bytes, size * count) == 0 ? size * count : 0;
}

static void add_header(struct sync *s, const char *line)
{
    s->headers = curl_slist_append(s->headers, line);
    must(s->headers);
}

static void set_options(struct sync *s, const struct master_link *master)
{
    CURL *h = s->easy;
    curl_easy_setopt(h, CURLOPT_URL, s->url);
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    curl_easy_setopt(h, CURLOPT_USERAGENT, "muster-agent/" MUSTER_VERSION);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)CALL_TIMEOUT_MS);
    curl_easy_setopt(h, CURLOPT_HTTPHEADER, s->headers);
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, s->detail);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, s);
    if (master->ca_file)
        curl_easy_setopt(h, CURLOPT_CAINFO, master->ca_file);
}

int sync_open(const struct master_link *master, const char *agent_id, struct sync **out,
              struct error *e)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(e, ERR_INTERNAL, "cannot start libcurl");
    struct sync *s = xcalloc(1, sizeof *s);
    char *id = client_escape(agent_id);
    char *bearer = xasprintf("Authorization: Bearer %s", master->token);
    buf_init(&s->answer, LIMIT_BODY);
    s->multi = curl_multi_init();
    s->easy = curl_easy_init();
    must(s->multi && s->easy);
    s->url = xasprintf("%s/api/v1/agents/%s/sync", master->url, id);
    add_header(s, "Content-Type: application/json");
    add_header(s, "Expect:"); // no round trip before the body
    add_header(s, bearer);
    set_options(s, master);
    free(bearer);
    free(id);
    *out = s;
    return 0;
}

static void end_call(struct sync *s)
{
    if (s->posted)
        curl_multi_remove_handle(s->multi, s->easy);
    s->posted = false;
    free(s->request);
    s->request = NULL;
}

void sync_close(struct sync *s)
{
    if (!s)
        return;
    end_call(s);
    curl_easy_cleanup(s->easy);
    curl_multi_cleanup(s->multi);
    curl_slist_free_all(s->headers);
    buf_free(&s->answer);
    free(s->url);
    free(s);
}

void sync_post(struct sync *s, json_t *body)
{
    end_call(s);
    buf_reset(&s->answer);
    s->detail[0] = '\0';
    s->request = json_text(body);
    json_decref(body);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, s->request);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(s->request));
    must(curl_multi_add_handle(s->multi, s->easy) == CURLM_OK);
    s->posted = true;
    int running = 0;
    curl_multi_perform(s->multi, &running);
}

bool sync_is_posted(const struct sync *s)
{
    return s->posted;
}

void sync_wait(struct sync *s, struct curl_waitfd *fds, unsigned count, int timeout_ms)
{
    int running = 0;
    curl_multi_poll(s->multi, fds, count, timeout_ms, NULL);
    curl_multi_perform(s->multi, &running);
}

void sync_wake(void *sync)
{
    struct sync *s = sync;
    curl_multi_wakeup(s->multi);
}

static int transport_error(const struct sync *s, CURLcode code, struct error *e)
{
    const char *detail = s->detail[0] ? s->detail : curl_easy_strerror(code);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return error_set(e, ERR_TIMEOUT, "%s: %s", s->url, detail);
    if (code == CURLE_WRITE_ERROR && s->answer.err)
        return error_set(e, ERR_PEER, "%s: the answer is too large", s->url);
    return error_set(e, ERR_UNAVAILABLE, "%s: %s", s->url, detail);
}

static int status_error(const struct sync *s, long status, struct error *e)
{
    json_t *answer = json_loadb(buf_str(&s->answer), s->answer.len, 0, NULL);
    const char *text = jget_string(jget(answer, "error"), "error", NULL);
    if (!text)
        text = jget_string(answer, "message", "no reason given");
    int rc = error_set(e, err_from_http((int)status), "%s: HTTP %ld: %s", s->url, status, text);
    json_decref(answer);
    return rc;
}

static int read_result(struct sync *s, CURLcode code, json_t **answer, struct error *e)
{
    long status = 0;
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK)
        return transport_error(s, code, e);
    if (status < 200 || status > 299)
        return status_error(s, status, e);
    int rc = json_parse(buf_str(&s->answer), s->answer.len, "the master's answer", answer, e);
    return rc == 0 ? 1 : error_set(e, ERR_PEER, "%s: %s", s->url, e->text);
}

int sync_result(struct sync *s, json_t **answer, struct error *e)
{
    int left = 0;
    CURLMsg *message = curl_multi_info_read(s->multi, &left);
    if (!message || message->msg != CURLMSG_DONE)
        return 0;
    CURLcode code = message->data.result;
    int rc = read_result(s, code, answer, e);
    end_call(s);
    return rc;
}

// A datagram socket that is connected sends nothing, but has the local address of the way there.
static void address_towards(const struct addrinfo *to, char *out, size_t cap)
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

void sync_local_address(const struct sync *s, char *out, size_t cap)
{
    CURLU *url = curl_url();
    char *host = NULL;
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    out[0] = '\0';
    if (url && curl_url_set(url, CURLUPART_URL, s->url, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        getaddrinfo(host, "9", &hints, &found) == 0)
        address_towards(found, out, cap);
    if (found)
        freeaddrinfo(found);
    curl_free(host);
    curl_url_cleanup(url);
}
