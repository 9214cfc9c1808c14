#include "master/notify/webhook_delivery.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/rng.h"

enum {
    POLL_MS = 1000,
    BACKOFF_MAX_S = 600,
    GIVE_UP_S = 24 * 3600, // after the event
    KEY_BYTES = 32,
    KEY_MAX = 1024,
};

struct webhook_send { // one attempt
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    bool anywhere, refused; // it may connect to private addresses; it tried to without permission
    int64_t row, webhook, attempts, created;
    char text[CURL_ERROR_SIZE];
};

struct delivery {
    struct db *db;
    struct db_reader *reader;
    char *key;
    _Atomic(CURLM *) multi;           // NULL until the first send: libcurl is large
    struct webhook_send sends[SENDS]; // easy NULL: free
    int active;
    pthread_t thread;
    sem_t wake; // posted for new events, and beside `stopping`
    bool started;
    atomic_bool stopping;
};

int64_t delivery_backoff(int64_t attempts)
{
    return attempts < 9 ? 1LL << attempts : BACKOFF_MAX_S;
}

// --- permitted addresses -------------------------------------------------------------------------

static bool is_public4(uint32_t a)
{
    static const struct {
        uint32_t net;
        int bits;
    } closed[] = {
        {0x00000000, 8},  // this network
        {0x0a000000, 8},  // private
        {0x64400000, 10}, // carrier-grade NAT
        {0x7f000000, 8},  // loopback
        {0xa9fe0000, 16}, // link-local, and metadata services of clouds
        {0xac100000, 12}, // private
        {0xc0000000, 24}, // protocol assignments
        {0xc0a80000, 16}, // private
        {0xc6120000, 15}, // benchmarks
        {0xe0000000, 3},  // multicast and reserved
    };
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        if (!((a ^ closed[i].net) >> (32 - closed[i].bits)))
            return false;
    return true;
}

static bool is_public6(const struct in6_addr *a)
{
    const uint8_t *b = a->s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(a) || IN6_IS_ADDR_V4COMPAT(a) || (b[0] == 0 && b[1] == 0x64))
        return is_public4((uint32_t)b[12] << 24 | (uint32_t)b[13] << 16 | (uint32_t)b[14] << 8 |
                          b[15]);
    return (b[0] & 0xe0) == 0x20 && !(b[0] == 0x20 && b[1] == 0x02); // global, no 6to4
}

bool delivery_is_public(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return is_public4(
            ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    return address->sa_family == AF_INET6 &&
           is_public6(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct webhook_send *s = ctx;
    (void)purpose;
    if (!s->anywhere && !delivery_is_public(&a->addr)) {
        s->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

void delivery_forget_proxies(void)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"};
    for (char **entry = environ; entry && *entry;) {
        char name[16];
        size_t len = strcspn(*entry, "="), i = 0, count = sizeof names / sizeof *names;
        snprintf(name, sizeof name, "%.*s", len < sizeof name ? (int)len : 0, *entry);
        while (i < count && strcasecmp(name, names[i]))
            i++;
        bool is_variable = (*entry)[len] == '='; // unsetenv() does not remove any other entry
        if (i < count && is_variable && !unsetenv(name))
            entry = environ; // unsetenv() moves the entries
        else
            entry++;
    }
}

// --- one attempt ---------------------------------------------------------------------------------

static size_t ignore_body(char *data, size_t size, size_t count, void *ctx)
{
    (void)data, (void)ctx;
    return size * count;
}

static void add_header(struct webhook_send *s, const char *format, const char *value)
{
    char line[192];
    snprintf(line, sizeof line, format, value);
    s->headers = curl_slist_append(s->headers, line);
    must(s->headers);
}

static void send_sign(const struct delivery *d, struct webhook_send *s)
{
    char hex[SHA256_HEX], time[24];
    snprintf(time, sizeof time, "%lld", (long long)(clock_wall_us() / 1000000));
    char *message = xasprintf("%s,%s", time, s->body);
    hmac_sha256_hex(d->key, message, hex);
    free(message);
    add_header(s, "X-Determined-AI-Signature: %s", hex);
    add_header(s, "X-Determined-AI-Signature-Timestamp: %s", time);
}

static void send_prepare(struct delivery *d, struct webhook_send *s, const char *url, bool anywhere,
                         const char *body)
{
    s->easy = curl_easy_init();
    must(s->easy);
    s->anywhere = anywhere;
    s->body = xstrdup(body);
    add_header(s, "Content-Type: %s", "application/json; charset=UTF-8");
    add_header(s, "User-Agent: %s", "muster/" MUSTER_VERSION);
    add_header(s, "Expect:%s", "");
    send_sign(d, s);
    curl_easy_setopt(s->easy, CURLOPT_URL, url);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDS, s->body);
    curl_easy_setopt(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(s->body));
    curl_easy_setopt(s->easy, CURLOPT_HTTPHEADER, s->headers);
    curl_easy_setopt(s->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(s->easy, CURLOPT_TIMEOUT, (long)SEND_TIMEOUT_S);
    curl_easy_setopt(s->easy, CURLOPT_CONNECTTIMEOUT, (long)SEND_TIMEOUT_S / 2);
    curl_easy_setopt(s->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(s->easy, CURLOPT_FRESH_CONNECT, 1L); // the address check is per connection
    curl_easy_setopt(s->easy, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, ignore_body);
    curl_easy_setopt(s->easy, CURLOPT_ERRORBUFFER, s->text);
    curl_easy_setopt(s->easy, CURLOPT_PROXY, ""); // a proxy would connect to unchecked addresses
    curl_easy_setopt(s->easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(s->easy, CURLOPT_OPENSOCKETDATA, s);
    curl_easy_setopt(s->easy, CURLOPT_PRIVATE, s);
}

static void send_clear(struct webhook_send *s)
{
    curl_easy_cleanup(s->easy);
    curl_slist_free_all(s->headers);
    free(s->body);
    *s = (struct webhook_send){0};
}

enum verdict { DELIVERED, REFUSED, RETRY };

static enum verdict send_verdict(const struct webhook_send *s, CURLcode code, struct error *e)
{
    long status = 0;
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    if (s->refused) {
        error_set(e, ERR_PEER,
                  "the address lies in a private network; only an administrator of the cluster "
                  "may have webhooks go there");
        return REFUSED;
    }
    if (!status) {
        error_set(e, ERR_PEER, "%s", *s->text ? s->text : curl_easy_strerror(code));
        return RETRY;
    }
    if (status >= 200 && status < 300)
        return DELIVERED;
    error_set(e, ERR_PEER, "the receiver answered with status %ld", status);
    return status >= 500 || status == 408 || status == 429 ? RETRY : REFUSED;
}

int delivery_try(struct delivery *d, const char *url, bool anywhere, const char *body,
                 struct error *e)
{
    struct webhook_send s = {0};
    send_prepare(d, &s, url, anywhere, body);
    CURLcode code = curl_easy_perform(s.easy);
    int rc = send_verdict(&s, code, e) == DELIVERED ? 0 : ERR_PEER;
    send_clear(&s);
    return rc;
}

// --- the outbox ----------------------------------------------------------------------------------

static struct webhook_send *find_free_send(struct delivery *d)
{
    for (int i = 0; i < SENDS; i++)
        if (!d->sends[i].easy)
            return &d->sends[i];
    return NULL;
}

static bool is_under_way(const struct delivery *d, int64_t webhook)
{
    for (int i = 0; i < SENDS; i++)
        if (d->sends[i].easy && d->sends[i].webhook == webhook)
            return true;
    return false;
}

// Starts the sends that are due, as far as slots are free.
static void start_due(struct delivery *d)
{
    struct webhook_send *s = find_free_send(d);
    if (!s)
        return;
    struct db_rows *rows = DB_QUERY(d->reader, OUTBOX_DUE, clock_wall_us(), (int64_t)2 * SENDS);
    while (s && db_next(rows) == 1) {
        if (is_under_way(d, DB_GET(rows, OUTBOX_DUE, webhook_id)))
            continue;
        if (!d->multi)
            d->multi = curl_multi_init();
        must(d->multi);
        s->row = DB_GET(rows, OUTBOX_DUE, id);
        s->webhook = DB_GET(rows, OUTBOX_DUE, webhook_id);
        s->attempts = DB_GET(rows, OUTBOX_DUE, attempts);
        s->created = DB_GET(rows, OUTBOX_DUE, created_at);
        send_prepare(d, s, DB_GET(rows, OUTBOX_DUE, url), DB_GET(rows, OUTBOX_DUE, by_admin),
                     DB_GET(rows, OUTBOX_DUE, payload));
        must(!curl_multi_add_handle(d->multi, s->easy));
        d->active++;
        s = find_free_send(d);
    }
    db_rows_close(rows);
}

static void send_finish(struct delivery *d, struct webhook_send *s, CURLcode code)
{
    char quoted[512];
    struct error e = {0};
    int64_t now = clock_wall_us(), wait = delivery_backoff(s->attempts) * 1000000;
    enum verdict verdict = send_verdict(s, code, &e);
    struct db_batch *b = db_batch_new();
    if (verdict == RETRY && now + wait < s->created + GIVE_UP_S * 1000000LL) {
        DB_ADD(b, OUTBOX_RETRY, now + wait, e.text, s->row);
    } else {
        DB_ADD(b, OUTBOX_DELETE, s->row);
        if (verdict != DELIVERED)
            log_warn("a webhook was given up", "webhook=%lld attempts=%lld err=%s",
                     (long long)s->webhook, (long long)s->attempts + 1,
                     log_quote(quoted, sizeof quoted, e.text));
    }
    // Commit before the next event of this webhook is looked up. A store that cannot be written
    // ends the master; until then the event must not be sent again and again.
    if (db_commit_wait(d->db, b, NULL))
        atomic_store(&d->stopping, true);
    curl_multi_remove_handle(d->multi, s->easy);
    send_clear(s);
    d->active--;
}

static void run_sends(struct delivery *d)
{
    int running, left;
    curl_multi_perform(d->multi, &running);
    for (const CURLMsg *m; (m = curl_multi_info_read(d->multi, &left));) {
        struct webhook_send *s = NULL;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s);
        send_finish(d, s, m->data.result);
        running = -1; // its webhook may have more events
    }
    if (running >= 0)
        curl_multi_poll(d->multi, NULL, 0, POLL_MS, NULL);
}

static void wait_for_events(struct delivery *d)
{
    int64_t until = clock_mono_us() + POLL_MS * 1000;
    struct timespec at = {.tv_sec = until / 1000000, .tv_nsec = until % 1000000 * 1000};
    sem_clockwait(&d->wake, CLOCK_MONOTONIC, &at);
}

static void *delivery_main(void *arg)
{
    struct delivery *d = arg;
    while (!atomic_load(&d->stopping)) {
        start_due(d);
        if (d->multi)
            run_sends(d);
        else
            wait_for_events(d);
    }
    return NULL;
}

int delivery_start(struct db *db, const char *key, struct delivery **out, struct error *e)
{
    struct delivery *d = xcalloc(1, sizeof *d);
    d->db = db;
    d->key = xstrdup(key);
    sem_init(&d->wake, 0, 0);
    int rc = db_reader_open(db, &d->reader, e);
    if (!rc) {
        int err = pthread_create(&d->thread, NULL, delivery_main, d);
        d->started = !err;
        if (err)
            rc = error_set_errno(e, ERR_INTERNAL, err, "cannot start the thread for webhooks");
    }
    if (rc)
        delivery_stop(d);
    else
        *out = d;
    return rc;
}

void delivery_wake(void *ctx)
{
    struct delivery *d = ctx;
    CURLM *multi = d->multi;
    sem_post(&d->wake);
    if (multi)
        curl_multi_wakeup(multi);
}

void delivery_stop(struct delivery *d)
{
    if (!d)
        return;
    atomic_store(&d->stopping, true);
    delivery_wake(d);
    if (d->started)
        pthread_join(d->thread, NULL);
    for (int i = 0; i < SENDS; i++)
        if (d->sends[i].easy) {
            curl_multi_remove_handle(d->multi, d->sends[i].easy);
            send_clear(&d->sends[i]);
        }
    if (d->multi)
        curl_multi_cleanup(d->multi);
    sem_destroy(&d->wake);
    if (d->reader)
        db_reader_close(d->reader);
    explicit_bzero(d->key, strlen(d->key));
    free(d->key);
    free(d);
}

int delivery_key(const char *path, char **out, struct error *e)
{
    uint8_t secret[KEY_BYTES];
    char hex[2 * KEY_BYTES + 1];
    size_t len;
    if (!path_exists(path)) {
        rng_secret(secret, sizeof secret);
        hex_encode(secret, sizeof secret, hex);
        char *line = xasprintf("%s\n", hex);
        int rc = file_write_durable(path, line, strlen(line), 0600, e);
        explicit_bzero(secret, sizeof secret);
        free(line);
        if (rc)
            return rc;
    }
    int rc = file_read(path, KEY_MAX, out, &len, e);
    if (rc)
        return rc;
    (*out)[strcspn(*out, "\r\n")] = '\0';
    if (**out)
        return 0;
    free(*out);
    return error_set(e, ERR_INVALID, "%s contains no key; remove the file to get a new one", path);
}
