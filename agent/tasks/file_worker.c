#include "agent/tasks/file_worker.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "agent/tasks/taskdir.h"
#include "api/archive/archive.h"
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

struct file_job {
    char *id; // fetch the files of this task; NULL: remove `folder`
    char *folder;
    char *url;
};

struct file_worker {
    const struct master_endpoint *master;
    struct inbox *inbox;
    struct mailbox *jobs;
    struct client *client; // opened with the first job
    atomic_bool stop;
    pthread_t thread;
};

static void file_job_free(struct file_job *job)
{
    free(job->id);
    free(job->folder);
    free(job->url);
    free(job);
}

static int download_archive(struct file_worker *w, const char *url, void **tgz, size_t *len,
                            struct error *e)
{
    json_t *answer = NULL;
    int err =
        w->client ? 0 : master_client_open(w->master, FETCH_TIMEOUT_S, &w->stop, &w->client, e);
    if (!err)
        err = client_call(w->client, "GET", url, NULL, &answer, e);
    if (!err) {
        const json_t *text = jget(answer, "b64Tgz");
        err = base64_decode(json_is_string(text) ? json_string_value(text) : "",
                            json_string_length(text), tgz, len);
        if (err)
            error_set(e, ERR_PEER, "%s: the master's answer holds no archive", url);
    }
    json_decref(answer);
    return err;
}

static int fetch_files(struct file_worker *w, const struct file_job *job, struct error *e)
{
    char *work = path_join(job->folder, TASKDIR_WORK);
    void *tgz = NULL;
    size_t len = 0;
    int err = dir_remove_tree(work, e); // a former agent may have been killed while it unpacked
    if (!err)
        err = download_archive(w, job->url, &tgz, &len, e);
    if (!err)
        err = archive_unpack(tgz, len, work, LIMIT_MODEL_DEFINITION, e);
    free(tgz);
    free(work);
    return err ? error_prefix(e, "cannot fetch the files of the experiment") : 0;
}

static void run_job(struct file_worker *w, const struct file_job *job)
{
    struct error e = {0};
    char quoted[ERROR_TEXT_MAX];
    if (job->id) {
        fetch_files(w, job, &e);
        inbox_send(w->inbox, INBOX_FETCHED, job->id, &e);
    } else if (dir_remove_tree(job->folder, &e) != 0) {
        log_warn("cannot remove a folder", "err=%s", log_quote(quoted, sizeof quoted, e.text));
    }
}

static void *file_worker_thread(void *arg)
{
    struct file_worker *w = arg;
    void *job = NULL;
    while (mailbox_receive(w->jobs, &job, 1, INT64_MAX) == 1) {
        if (!atomic_load(&w->stop))
            run_job(w, job);
        file_job_free(job);
    }
    return NULL;
}

int file_worker_start(const struct master_endpoint *master, struct inbox *inbox,
                      struct file_worker **out, struct error *e)
{
    struct file_worker *w = xcalloc(1, sizeof *w);
    w->master = master;
    w->inbox = inbox;
    w->jobs = mailbox_new(JOBS_MAX);
    int err = pthread_create(&w->thread, NULL, file_worker_thread, w);
    if (err) {
        mailbox_free(w->jobs);
        free(w);
        return error_set_errno(e, ERR_INTERNAL, err, "cannot start a thread");
    }
    *out = w;
    return 0;
}

void file_worker_stop(struct file_worker *w)
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

static void add_job(struct file_worker *w, const char *id, const char *folder, const char *url)
{
    struct file_job *job = xcalloc(1, sizeof *job);
    job->id = xstrdup(id);
    job->folder = xstrdup(folder);
    job->url = xstrdup(url);
    must(mailbox_send(w->jobs, job) == 0); // no machine has so many tasks
}

void file_worker_fetch(struct file_worker *w, const char *id, const char *dir, const char *url)
{
    add_job(w, id, dir, url);
}

void file_worker_remove(struct file_worker *w, const char *folder)
{
    add_job(w, NULL, folder, NULL);
}
