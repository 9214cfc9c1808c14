#include "agent/tasks/file_worker.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "agent/tasks/taskdir.h"
#include "api/archive.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

enum {
    JOBS_MAX = 65536,
    FETCH_TIMEOUT_S = 300,
};

struct job {
    char *id; // NULL: remove
    char *folder;
    char *url;
};

struct worker {
    const struct master_link *master;
    struct notes *notes;
    struct mailbox *jobs;
    struct client *client; // of the thread; NULL: not yet
    atomic_bool stop;
    pthread_t thread;
};

static void free_job(struct job *job)
{
    free(job->id);
    free(job->folder);
    free(job->url);
    free(job);
}

static int download(struct worker *w, const char *url, void **tgz, size_t *len, struct error *e)
{
    json_t *answer = NULL;
    int rc = w->client ? 0 : link_open(w->master, FETCH_TIMEOUT_S, &w->stop, &w->client, e);
    if (rc == 0)
        rc = client_call(w->client, "GET", url, NULL, &answer, e);
    if (rc == 0) {
        const json_t *text = jget(answer, "b64Tgz");
        rc = base64_decode(json_is_string(text) ? json_string_value(text) : "",
                           json_string_length(text), tgz, len);
        if (rc != 0)
            error_set(e, ERR_PEER, "%s: the master's answer holds no archive", url);
    }
    json_decref(answer);
    return rc;
}

static int fetch(struct worker *w, const struct job *job, struct error *e)
{
    char *work = path_join(job->folder, TASKDIR_WORK);
    void *tgz = NULL;
    size_t len = 0;
    int rc = dir_remove_tree(work, e); // of an agent that was killed here
    if (rc == 0)
        rc = download(w, job->url, &tgz, &len, e);
    if (rc == 0)
        rc = archive_unpack(tgz, len, work, LIMIT_MODEL_DEFINITION, e);
    free(tgz);
    free(work);
    return rc == 0 ? 0 : error_prefix(e, "the experiment's files could not be brought here");
}

static void do_job(struct worker *w, const struct job *job)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    if (job->id) {
        fetch(w, job, &e);
        notes_send(w->notes, NOTE_FETCHED, job->id, &e);
    } else if (dir_remove_tree(job->folder, &e) != 0) {
        log_warn("a folder could not be removed", "err=%s",
                 log_quote(quoted, sizeof quoted, e.text));
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    void *job = NULL;
    while (mailbox_receive(w->jobs, &job, 1, INT64_MAX) == 1) {
        if (!atomic_load(&w->stop))
            do_job(w, job);
        free_job(job);
    }
    return NULL;
}

int worker_start(const struct master_link *master, struct notes *notes, struct worker **out,
                 struct error *e)
{
    struct worker *w = xcalloc(1, sizeof *w);
    w->master = master;
    w->notes = notes;
    w->jobs = mailbox_new(JOBS_MAX);
    int err = pthread_create(&w->thread, NULL, work, w);
    if (err) {
        mailbox_free(w->jobs);
        free(w);
        return error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread");
    }
    *out = w;
    return 0;
}

void worker_stop(struct worker *w)
{
    if (!w)
        return;
    atomic_store(&w->stop, true);
    mailbox_close(w->jobs);
    pthread_join(w->thread, NULL);
    mailbox_free(w->jobs);
    client_close(w->client);
    free(w);
}

static void add_job(struct worker *w, const char *id, const char *folder, const char *url)
{
    struct job *job = xcalloc(1, sizeof *job);
    job->id = xstrdup(id);
    job->folder = xstrdup(folder);
    job->url = xstrdup(url);
    must(mailbox_send(w->jobs, job) == 0); // a machine has not that many tasks
}

void worker_fetch(struct worker *w, const char *id, const char *dir, const char *url)
{
    add_job(w, id, dir, url);
}

void worker_remove(struct worker *w, const char *folder)
{
    add_job(w, NULL, folder, NULL);
}
