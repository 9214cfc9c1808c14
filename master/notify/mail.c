#include "master/notify/mail.h"

#include <curl/curl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "master/notify/webhook_delivery.h"

enum {
    POLL_S = 2,
    TIMEOUT_S = 30,
    PASSWORD_MAX = 4096,
    MESSAGE_MAX = 1 << 20,
    ADDRESS_MAX = 320,
};

struct mailer {
    struct db *db;
    struct db_reader *reader;
    struct mailer_options o;
    char *password;
    int64_t failures, next_at; // in a row; monotonic: the next attempt
    pthread_t thread;
    bool runs;
    sem_t wake; // posted to stop
    atomic_bool stopping;
};

// --- the message ---------------------------------------------------------------------------------

static bool is_ascii(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text > '~')
            return false;
    return true;
}

// Appends the text with blanks in place of control characters, encoded if it is not ASCII.
static void put_header(struct buf *out, const char *name, const char *text)
{
    char *clean = xstrdup(text);
    for (char *c = clean; *c; c++)
        *c = (unsigned char)*c < ' ' || *c == 0x7f ? ' ' : *c;
    char *encoded = is_ascii(clean) ? NULL : base64_encode(clean, strlen(clean));
    buf_printf(out, encoded ? "%s: =?UTF-8?B?%s?=\r\n" : "%s: %s\r\n", name,
               encoded ? encoded : clean);
    free(encoded);
    free(clean);
}

static void put_body(struct buf *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            buf_puts(out, "\r\n");
        else if (*text != '\r')
            buf_append(out, text, 1);
    buf_puts(out, "\r\n");
}

char *mail_compose(const struct mailer_options *o, const char *subject, const char *body,
                   int64_t wall_us, const char *message_id)
{
    char date[64];
    time_t at = (time_t)(wall_us / 1000000);
    struct tm utc;
    struct buf out;
    buf_init(&out, MESSAGE_MAX);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S +0000", gmtime_r(&at, &utc));
    put_header(&out, "Date", date);
    put_header(&out, "From", o->from);
    for (int i = 0; i < o->to_count; i++) // a line has at most 998 bytes (RFC 5322, 2.1.1)
        buf_printf(&out, "%s%s", i ? ",\r\n " : "To: ", o->to[i]);
    buf_puts(&out, "\r\n");
    put_header(&out, "Subject", subject);
    buf_printf(&out, "Message-ID: <%s@muster>\r\n", message_id);
    buf_puts(&out, "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=UTF-8\r\n"
                   "Content-Transfer-Encoding: 8bit\r\nAuto-Submitted: auto-generated\r\n\r\n");
    put_body(&out, body);
    must(!out.err);
    return buf_take(&out);
}

// --- one attempt ---------------------------------------------------------------------------------

struct unsent {
    const char *text;
    size_t left;
};

static size_t give(char *to, size_t size, size_t count, void *ctx)
{
    struct unsent *u = ctx;
    size_t n = size * count < u->left ? size * count : u->left;
    memcpy(to, u->text, n);
    u->text += n;
    u->left -= n;
    return n;
}

static int is_stopping(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct mailer *m = ctx;
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load(&m->stopping);
}

static void set_login(CURL *easy, const struct mailer *m)
{
    curl_easy_setopt(easy, CURLOPT_USE_SSL,
                     m->password ? (long)CURLUSESSL_ALL : (long)CURLUSESSL_TRY);
    if (m->password) {
        curl_easy_setopt(easy, CURLOPT_USERNAME, m->o.user);
        curl_easy_setopt(easy, CURLOPT_PASSWORD, m->password);
    } else if (!strncmp(m->o.url, "smtp:", 5)) {
        // STARTTLS is optional here, so an attacker on the way can leave it out of the server's
        // answer: checking the certificate would protect nothing, and only keep e-mails from
        // servers that signed their own.
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

// `all`: the e-mail goes to all people or to none.
static int send_to(struct mailer *m, const char *text, bool all, struct error *e)
{
    char reason[CURL_ERROR_SIZE] = "", address[ADDRESS_MAX];
    struct unsent unsent = {text, strlen(text)};
    struct curl_slist *to = NULL;
    CURL *easy = curl_easy_init();
    must(easy);
    for (int i = 0; i < m->o.to_count; i++)
        to = curl_slist_append(to, m->o.to[i]);
    snprintf(address, sizeof address, "<%s>", m->o.from);
    curl_easy_setopt(easy, CURLOPT_URL, m->o.url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    curl_easy_setopt(easy, CURLOPT_MAIL_FROM, address);
    curl_easy_setopt(easy, CURLOPT_MAIL_RCPT, to);
    curl_easy_setopt(easy, CURLOPT_MAIL_RCPT_ALLLOWFAILS, all ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, give);
    curl_easy_setopt(easy, CURLOPT_READDATA, &unsent);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, is_stopping);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, m);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
    set_login(easy, m);
    CURLcode code = curl_easy_perform(easy);
    curl_slist_free_all(to);
    curl_easy_cleanup(easy);
    return code == CURLE_OK
               ? 0
               : error_set(e, ERR_PEER, "%s", *reason ? reason : curl_easy_strerror(code));
}

// An address that the server refuses does not keep the e-mail from the others.
static int send_message(struct mailer *m, const char *text, struct error *e)
{
    char quoted[512];
    int err = send_to(m, text, true, e);
    if (!err || m->o.to_count == 1 || !strstr(e->text, "RCPT failed"))
        return err;
    log_warn("the mail server refuses one of the addresses; the others are tried without it",
             "err=%s", log_quote(quoted, sizeof quoted, e->text));
    return send_to(m, text, false, e);
}

// --- the outbox ----------------------------------------------------------------------------------

struct gathered { // the e-mails that wait, as one
    int64_t count, last_id, oldest;
    int64_t last_overdue; // id of the last one that has waited for MAIL_GIVE_UP_S; 0: none
    char *subject;
    struct buf body;
};

static void gather(const struct mailer *m, int64_t now, struct gathered *out)
{
    *out = (struct gathered){0};
    buf_init(&out->body, MESSAGE_MAX / 2);
    struct db_rows *rows = DB_QUERY(m->reader, MAIL_WAITING, (int64_t)MAIL_TOGETHER);
    while (db_next(rows) == 1) {
        int64_t created = DB_GET(rows, MAIL_WAITING, created_at);
        if (!out->count++) {
            out->oldest = created;
            out->subject = xstrdup(DB_GET(rows, MAIL_WAITING, subject));
        }
        out->last_id = DB_GET(rows, MAIL_WAITING, id);
        if (now - created > MAIL_GIVE_UP_S * 1000000LL)
            out->last_overdue = out->last_id;
        buf_printf(&out->body, "%s\n\n", DB_GET(rows, MAIL_WAITING, body));
    }
    db_rows_close(rows);
}

static char *subject_of(const struct mailer *m, const struct gathered *g)
{
    return g->count > 1 ? xasprintf("[%s] %s, and %lld more", m->o.cluster_name, g->subject,
                                    (long long)g->count - 1)
                        : xasprintf("[%s] %s", m->o.cluster_name, g->subject);
}

static void forget_until(struct mailer *m, int64_t last_id)
{
    struct db_batch *b = db_batch_new();
    DB_ADD(b, MAIL_DELETE, last_id);
    if (db_commit_wait(m->db, b, NULL)) // the master ends; it must not send this again and again
        atomic_store(&m->stopping, true);
}

static void send_gathered(struct mailer *m, const struct gathered *g, int64_t now)
{
    char id[UUID_TEXT], quoted[512];
    struct error e = {0};
    uuid_make(id);
    char *subject = subject_of(m, g);
    char *text = mail_compose(&m->o, subject, buf_str(&g->body), now, id);
    int err = send_message(m, text, &e);
    free(text);
    free(subject);
    if (err && atomic_load(&m->stopping)) // this attempt was aborted
        return;
    if (err)
        log_warn(g->last_overdue ? "an e-mail was given up" : "an e-mail could not be sent",
                 "err=%s", log_quote(quoted, sizeof quoted, e.text));
    if (!err || g->last_overdue)
        forget_until(m, err ? g->last_overdue : g->last_id);
    m->next_at = err ? clock_mono_us() + delivery_backoff(m->failures) * 1000000 : 0;
    m->failures = err ? m->failures + 1 : 0;
}

static void look(struct mailer *m)
{
    struct gathered g;
    int64_t now = clock_wall_us();
    if (clock_mono_us() < m->next_at)
        return;
    gather(m, now, &g);
    int64_t age = now - g.oldest; // negative: the clock was set back
    if (g.count && (age < 0 || age >= MAIL_GATHER_S * 1000000LL || g.count == MAIL_TOGETHER))
        send_gathered(m, &g, now);
    free(g.subject);
    buf_free(&g.body);
}

static void *run(void *arg)
{
    struct mailer *m = arg;
    while (!atomic_load(&m->stopping)) {
        look(m);
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += POLL_S;
        sem_clockwait(&m->wake, CLOCK_MONOTONIC, &until);
    }
    return NULL;
}

// --- start and stop ------------------------------------------------------------------------------

static bool is_address(const char *text)
{
    const char *at = strchr(text, '@');
    bool good = at && at > text && at[1] && strlen(text) < ADDRESS_MAX - 2;
    for (const char *c = text; good && *c; c++)
        good = *c > ' ' && *c <= '~' && !strchr("<>,;\"", *c);
    return good;
}

// The text behind the scheme: HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT.
static bool is_host_and_port(const char *text)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    bool bracket = *text == '[';
    size_t host = bracket ? 1 + strspn(text + 1, "0123456789abcdefABCDEF:.") : strspn(text, name);
    if (host == 0 || (bracket && (host == 1 || text[host++] != ']')))
        return false;
    text += host;
    if (*text == ':') {
        size_t digits = strspn(text + 1, "0123456789");
        long port = strtol(text + 1, NULL, 10);
        if (digits == 0 || port < 1 || port > 65535)
            return false;
        text += 1 + digits;
    }
    return !strcmp(text, "") || !strcmp(text, "/");
}

int mailer_check(const struct mailer_options *o, struct error *e)
{
    const char *rest = !strncmp(o->url, "smtp://", 7)    ? o->url + 7
                       : !strncmp(o->url, "smtps://", 8) ? o->url + 8
                                                         : "";
    if (strchr(rest, '@')) // others could read it in the command line and in the configuration
        return error_set(e, ERR_INVALID,
                         "--smtp-url contains a user or a password: give them with --smtp-user and "
                         "--smtp-password-file");
    if (!is_host_and_port(rest))
        return error_set(e, ERR_INVALID,
                         "--smtp-url: \"%.128s\" is no address like smtp://mail.example.org:25 or "
                         "smtps://mail.example.org",
                         o->url);
    if (!o->to_count)
        return error_set(e, ERR_INVALID, "--smtp-url needs --alert-mail ADDRESS, too");
    if (!is_address(o->from))
        return error_set(e, ERR_INVALID, "--smtp-from: \"%.128s\" is no e-mail address", o->from);
    for (int i = 0; i < o->to_count; i++)
        if (!is_address(o->to[i]))
            return error_set(e, ERR_INVALID, "--alert-mail: \"%.128s\" is no e-mail address",
                             o->to[i]);
    if (!o->user != !o->password_file)
        return error_set(e, ERR_INVALID,
                         "--smtp-user and --smtp-password-file belong together: give both or "
                         "neither");
    return 0;
}

int mailer_start(struct db *db, const struct mailer_options *o, struct mailer **out,
                 struct error *e)
{
    struct mailer *m = xcalloc(1, sizeof *m);
    size_t len;
    m->db = db;
    m->o = *o;
    sem_init(&m->wake, 0, 0);
    int rc =
        o->password_file ? file_read(o->password_file, PASSWORD_MAX, &m->password, &len, e) : 0;
    if (!rc && m->password)
        m->password[strcspn(m->password, "\r\n")] = '\0';
    if (!rc && m->password && !*m->password)
        rc = error_set(e, ERR_INVALID, "--smtp-password-file: %s contains no password",
                       o->password_file);
    if (!rc)
        rc = db_reader_open(db, &m->reader, e);
    int err = rc ? 0 : pthread_create(&m->thread, NULL, run, m);
    if (err)
        rc = error_set_errno(e, ERR_INTERNAL, err, "cannot start the thread for e-mails");
    m->runs = !rc;
    if (rc)
        mailer_stop(m);
    else
        *out = m;
    return rc;
}

void mailer_stop(struct mailer *m)
{
    if (!m)
        return;
    atomic_store(&m->stopping, true);
    sem_post(&m->wake);
    if (m->runs)
        pthread_join(m->thread, NULL);
    if (m->reader)
        db_reader_close(m->reader);
    if (m->password)
        explicit_bzero(m->password, strlen(m->password));
    free(m->password);
    sem_destroy(&m->wake);
    free(m);
}
