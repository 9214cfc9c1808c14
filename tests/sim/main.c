// Runs seeds in parallel processes. For a seed that fails it reports the broken invariant, the
// command that replays it, and the few outside events that cause it.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "tests/sim/shrink.h"

enum { JOBS_MAX = 64, SEEDS_DEFAULT = 1000, SHRINK_US = 45 * SECOND };

struct sim_options {
    uint64_t first, last;
    int jobs, trace;
    bool keep_going;
    const char *without;
};

struct child_slot { // a place for a running child
    pid_t pid;
    struct seed_job job;
};

static const char usage[] =
    "usage: tests/sim/run [--seeds A..B] [--jobs N] [--keep-going]\n"
    "       tests/sim/run --seed S [--trace | --outside] [--without N,N,..]\n"
    "Simulates clusters, one for each seed: 1 to MUSTER_SIM_SEEDS, or 1000, when none is named.\n"
    "--trace prints every event, --outside what people and faults do; --without leaves events of\n"
    "the plan out.\n";

// --- the store every run begins with -------------------------------------------------------------

static void add_user(struct db_batch *b, const char *name, int64_t admin)
{
    DB_ADD(b, USER_INSERT, name, "", admin, 1, "", 1);
}

static struct db *make_template(void)
{
    struct db *db;
    struct error e = {0};
    if (db_open_memory(NULL, &db, &e)) {
        fprintf(stderr, "%s\n", e.text);
        exit(2);
    }
    struct db_batch *b = db_batch_new();
    add_user(b, "ada", 1);
    add_user(b, "ben", 0);
    add_user(b, "cleo", 0);
    for (int64_t i = 1; i <= 2; i++) {
        const char *name = i == 1 ? "first" : "second";
        DB_ADD(b, WORKSPACE_INSERT, DB_NOT_NULL(i), name, 1, 1);
        DB_ADD(b, PROJECT_INSERT, i, name, i, "", 1, 1, "");
    }
    if (db_commit_wait(db, b, &e)) {
        fprintf(stderr, "%s\n", e.text);
        exit(2);
    }
    return db;
}

// --- many seeds ----------------------------------------------------------------------------------

struct totals {
    uint64_t seeds, failed, steps, checks;
    uint64_t worst; // the lowest failed seed, which is reported
    struct verdict verdict;
};

static void finished(struct totals *all, const struct child_slot *s, int status)
{
    const struct verdict *v = s->job.verdict;
    all->seeds++;
    all->steps += v->steps;
    all->checks += v->checks;
    if (!job_failed(&s->job, status))
        return;
    printf("seed %llu at %.3f s: %s: %s\n", (unsigned long long)s->job.seed,
           (double)v->now / SECOND, v->name, v->text);
    if (!all->failed++ || s->job.seed < all->worst) {
        all->worst = s->job.seed;
        all->verdict = *v;
    }
}

static void wait_for_one(struct totals *all, struct child_slot *slots, int jobs)
{
    int status = 0;
    pid_t pid = wait(&status);
    for (int i = 0; i < jobs; i++)
        if (slots[i].pid == pid) {
            slots[i].pid = 0;
            finished(all, &slots[i], status);
        }
}

static struct child_slot *free_slot(struct child_slot *slots, int jobs)
{
    for (int i = 0; i < jobs; i++)
        if (!slots[i].pid)
            return &slots[i];
    return NULL;
}

static void progress(const struct totals *all, const struct sim_options *o, int64_t began, bool end)
{
    static int64_t last;
    double seconds = (double)(clock_mono_us() - began) / SECOND;
    if (!end && (!isatty(STDERR_FILENO) || clock_mono_us() < last + SECOND / 2))
        return;
    last = clock_mono_us();
    fprintf(stderr, "%s%llu of %llu seeds, %.1f a second, %llu events, %llu failed%s",
            end ? "" : "\r", (unsigned long long)all->seeds,
            (unsigned long long)(o->last - o->first + 1), (double)all->seeds / seconds,
            (unsigned long long)all->steps, (unsigned long long)all->failed, end ? "\n" : " ");
}

static struct totals run_all(const struct sim_options *o, struct db *template,
                             struct verdict *verdicts)
{
    struct child_slot slots[JOBS_MAX] = {0};
    struct totals all = {0};
    int running = 0;
    int64_t began = clock_mono_us();
    for (uint64_t seed = o->first; seed <= o->last || running;) {
        bool stop = seed > o->last || (all.failed && !o->keep_going);
        struct child_slot *s = stop ? NULL : free_slot(slots, o->jobs);
        if (s) {
            s->job = (struct seed_job){.seed = seed++, .verdict = &verdicts[s - slots]};
            s->pid = job_start(&s->job, template);
            running++;
        } else if (running) {
            wait_for_one(&all, slots, o->jobs);
            running--;
        } else {
            break;
        }
        progress(&all, o, began, false);
    }
    progress(&all, o, began, true);
    return all;
}

// --- one seed ------------------------------------------------------------------------------------

static void read_without(const char *list, bool left_out[PLAN_MAX])
{
    for (const char *at = list; at && *at;) {
        char *end;
        unsigned long number = strtoul(at, &end, 10);
        if (end == at || number >= PLAN_MAX)
            break;
        left_out[number] = true;
        at = *end == ',' ? end + 1 : end;
    }
}

static bool run_one(const struct sim_options *o, struct db *template, struct verdict *verdict)
{
    int status = 0;
    struct seed_job job = {.seed = o->first, .trace = o->trace, .verdict = verdict};
    read_without(o->without, job.left_out);
    pid_t pid = job_start(&job, template);
    must(waitpid(pid, &status, 0) == pid);
    bool failed = job_failed(&job, status);
    if (failed)
        printf("seed %llu at %.3f s: %s: %s\n", (unsigned long long)job.seed,
               (double)verdict->now / SECOND, verdict->name, verdict->text);
    return failed;
}

static void explain(uint64_t seed, struct db *template, struct verdict *verdict)
{
    struct seed_job job = {.seed = seed, .verdict = verdict};
    int count = verdict->plan_count, status;
    printf("\nreplay: tests/sim/run --seed %llu --trace\n", (unsigned long long)seed);
    fflush(stdout);
    int left = job_shrink(&job, template, SHRINK_US);
    printf("shorter: tests/sim/run --seed %llu --trace --without ", (unsigned long long)seed);
    const char *comma = "";
    for (int i = 0; i < count; i++)
        if (job.left_out[i]) {
            printf("%s%d", comma, i);
            comma = ",";
        }
    printf("\n%d of %d outside events are enough:\n", left, count);
    job.quiet = false;
    job.trace = 1;
    pid_t pid = job_start(&job, template);
    must(waitpid(pid, &status, 0) == pid);
}

// --- arguments -----------------------------------------------------------------------------------

static bool read_seeds(const char *text, struct sim_options *o)
{
    char *end;
    o->first = strtoull(text, &end, 10);
    o->last = o->first;
    if (!strncmp(end, "..", 2))
        o->last = strtoull(end + 2, &end, 10);
    return end != text && !*end && o->last >= o->first;
}

static bool read_options(int argc, char **argv, struct sim_options *o)
{
    static const struct option list[] = {
        {"seeds", required_argument, NULL, 's'}, {"seed", required_argument, NULL, 'o'},
        {"jobs", required_argument, NULL, 'j'},  {"trace", no_argument, NULL, 't'},
        {"outside", no_argument, NULL, 'e'},     {"without", required_argument, NULL, 'w'},
        {"keep-going", no_argument, NULL, 'k'},  {NULL, 0, NULL, 0}};
    bool good = true;
    for (int c; good && (c = getopt_long(argc, argv, "", list, NULL)) != -1;)
        switch (c) {
        case 's':
        case 'o':
            good = read_seeds(optarg, o);
            break;
        case 'j':
            o->jobs = (int)strtol(optarg, NULL, 10);
            good = o->jobs > 0 && o->jobs <= JOBS_MAX;
            break;
        case 't':
        case 'e':
            o->trace = c == 't' ? 2 : 1;
            break;
        case 'w':
            o->without = optarg;
            break;
        case 'k':
            o->keep_going = true;
            break;
        default:
            good = false;
        }
    return good && optind == argc;
}

int main(int argc, char **argv)
{
    const char *count = getenv("MUSTER_SIM_SEEDS");
    struct sim_options o = {.first = 1, .jobs = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    o.last = count ? strtoull(count, NULL, 10) : SEEDS_DEFAULT;
    if (!read_options(argc, argv, &o) || !o.last) {
        fputs(usage, stderr);
        return 2;
    }
    log_set_level(LOG_LEVEL_ERROR);
    struct db *template = make_template();
    struct verdict *verdicts = mmap(NULL, (JOBS_MAX + 1) * sizeof *verdicts, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(verdicts != MAP_FAILED);
    bool failed = false;
    if (o.first == o.last) {
        failed = run_one(&o, template, verdicts);
    } else {
        struct totals all = run_all(&o, template, verdicts);
        failed = all.failed;
        *verdicts = all.verdict;
        if (failed)
            explain(all.worst, template, verdicts);
    }
    db_close(template);
    munmap(verdicts, (JOBS_MAX + 1) * sizeof *verdicts);
    return failed;
}
