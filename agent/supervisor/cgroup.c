#include "agent/supervisor/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/failures/memory.h"
#include "base/arena.h"
#include "base/os/file.h"

enum {
    FILE_BYTES = 4096,         // of a file of a group
    MOUNTS_BYTES = 1 << 20,    // of /proc/self/mountinfo
    PATH_BYTES = 4096,         // of a path in /proc/self/cgroup
    SLOT_WEIGHT = 100,         // the kernel's weight of a group that says nothing
    WEIGHT_MAX = 10000,        // the kernel's
    RESERVE_PERCENT = 3,       // of memory, which all tasks together leave to the agent
    RESERVE_BYTES = 256 << 20, // .. at least
};

static const struct {
    unsigned bit;
    const char *name;
} controllers[] = {{CGROUP_PIDS, "pids"}, {CGROUP_MEMORY, "memory"}, {CGROUP_CPU, "cpu"}};

struct cgroup {
    char *path;
    int dir, procs; // descriptors of the folder and of cgroup.procs
    unsigned controllers;
};

// --- texts of the kernel -------------------------------------------------------------------------

unsigned cgroup_parse_controllers(const char *text)
{
    unsigned found = 0;
    while (*text) {
        size_t len = strcspn(text, " \n");
        for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++)
            if (strlen(controllers[i].name) == len && !strncmp(text, controllers[i].name, len))
                found |= controllers[i].bit;
        text += len + (text[len] != '\0');
    }
    return found;
}

// A line is "36 35 0:31 ROOT MOUNT-POINT OPTIONS [FIELDS] - TYPE SOURCE OPTIONS".
char *cgroup_parse_mount(const char *mountinfo)
{
    for (const char *line = mountinfo; *line;) {
        const char *end = strchrnul(line, '\n'),
                   *type = memmem(line, (size_t)(end - line), " - ", 3);
        const char *at = line;
        for (int i = 0; i < 4 && at && at < end; i++)
            at = memchr(at, ' ', (size_t)(end - at)) ? strchr(at, ' ') + 1 : NULL;
        if (type && at && at < end && !strncmp(type + 3, "cgroup2 ", 8))
            return xasprintf("%.*s", (int)strcspn(at, " "), at);
        line = *end ? end + 1 : end;
    }
    return NULL;
}

char *cgroup_parse_own(const char *text)
{
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        if (!strncmp(line, "0::/", 4))
            return xasprintf("%.*s", (int)len - 3, line + 3);
        line += len + (line[len] != '\0');
    }
    return NULL;
}

int64_t cgroup_weight(int64_t slots)
{
    int64_t weight = (slots > 0 ? slots : 1) * SLOT_WEIGHT;
    return weight < WEIGHT_MAX ? weight : WEIGHT_MAX;
}

// --- files ---------------------------------------------------------------------------------------

static bool write_text(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
    size_t len = strlen(text);
    bool ok = fd >= 0 && write(fd, text, len) == (ssize_t)len;
    int code = errno;
    if (fd >= 0)
        close(fd);
    errno = code;
    return ok;
}

static bool write_number(int dir, const char *name, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return write_text(dir, name, text);
}

// "": it cannot be read.
static void read_text(int dir, const char *name, char out[FILE_BYTES])
{
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, out, FILE_BYTES - 1) : 0;
    out[len > 0 ? len : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

static int64_t read_field(int dir, const char *name, const char *field)
{
    char text[FILE_BYTES];
    read_text(dir, name, text);
    return memory_read_field(text, field);
}

static int open_folder(const char *path, int *fd, struct error *e)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd >= 0 ? 0
                    : error_set_errno(e, ERR_FORBIDDEN, errno, "cannot open the cgroup %s", path);
}

// Lets the children of a group have limits, and returns the controllers for which that works.
static unsigned enable_controllers(int dir)
{
    char text[FILE_BYTES], word[16];
    read_text(dir, "cgroup.controllers", text);
    unsigned present = cgroup_parse_controllers(text);
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++) {
        snprintf(word, sizeof word, "+%s", controllers[i].name);
        if (present & controllers[i].bit)
            write_text(dir, "cgroup.subtree_control", word);
    }
    read_text(dir, "cgroup.subtree_control", text);
    return cgroup_parse_controllers(text);
}

// --- agent ---------------------------------------------------------------------------------------

static int find_base(const char *delegated, char **base, struct error *e)
{
    char *mounts = NULL, *own = NULL, *path = NULL;
    size_t len = 0;
    int err = file_read("/proc/self/mountinfo", MOUNTS_BYTES, &mounts, &len, e);
    if (!err)
        err = file_read("/proc/self/cgroup", PATH_BYTES, &own, &len, e);
    char *mount = err ? NULL : cgroup_parse_mount(mounts);
    if (!err && !mount)
        err = error_set(e, ERR_FORBIDDEN,
                        "this machine has no cgroups of version 2; start it with "
                        "systemd.unified_cgroup_hierarchy=1");
    if (!err)
        path = delegated        ? xstrdup(delegated)
               : geteuid() == 0 ? xstrdup("/")
                                : cgroup_parse_own(own);
    if (!err)
        *base = xasprintf("%s%s", mount, path && strcmp(path, "/") != 0 ? path : "");
    free(path);
    free(mount);
    free(own);
    free(mounts);
    return err;
}

static int leave_base(int base, const char *path, struct error *e)
{
    if ((mkdirat(base, "agent", 0755) == 0 || errno == EEXIST) &&
        write_number(base, "agent/cgroup.procs", getpid()))
        return 0;
    return error_set_errno(e, ERR_FORBIDDEN, errno,
                           "cannot make groups in %s; start the agent as root, or by systemd-run "
                           "--user --scope -p Delegate=yes",
                           path);
}

// All tasks together leave some memory, so that the kernel kills a task and not the agent.
static void limit_all_tasks(int dir)
{
    int64_t machine = memory_bytes(), reserve = machine / 100 * RESERVE_PERCENT;
    reserve = reserve > RESERVE_BYTES ? reserve : RESERVE_BYTES;
    if (machine > 2 * reserve)
        write_number(dir, "memory.max", machine - reserve);
}

static int make_folder(int base, const char *path, const char *name, unsigned *found,
                       struct error *e)
{
    if (mkdirat(base, name, 0755) != 0 && errno != EEXIST)
        return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot make a cgroup in %s", path);
    int dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot open the cgroup %s/%s", path, name);
    limit_all_tasks(dir);
    *found = enable_controllers(dir);
    close(dir);
    return 0;
}

int cgroup_prepare(const char *delegated, const char *name, char **folder, unsigned *found,
                   struct error *e)
{
    char *path = NULL;
    int base = -1, err = find_base(delegated, &path, e);
    *folder = NULL;
    *found = 0;
    if (!err)
        err = open_folder(path, &base, e);
    if (!err && !delegated && geteuid() != 0)
        err = leave_base(base, path, e);
    if (!err) {
        enable_controllers(base);
        err = make_folder(base, path, name, found, e);
    }
    if (!err)
        *folder = path_join(path, name);
    if (base >= 0)
        close(base);
    free(path);
    return err;
}

void cgroup_clear(const char *folder, const char *task_id)
{
    int dir = -1;
    char *path = path_join(folder, task_id);
    if (open_folder(path, &dir, NULL) == 0) {
        write_text(dir, "cgroup.kill", "1");
        close(dir);
        rmdir(path); // fails while its processes end
    }
    free(path);
}

// --- supervisor ----------------------------------------------------------------------------------

static int make_group(const char *path, struct error *e)
{
    rmdir(path); // of a former supervisor, with its counters
    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        return 0;
    return error_set_errno(e, errno == ENOENT ? ERR_IO : ERR_FORBIDDEN, errno,
                           "cannot make the cgroup %s", path);
}

static int set_limit(struct cgroup *g, const char *name, int64_t limit, struct error *e)
{
    if (limit <= 0 || write_number(g->dir, name, limit))
        return 0;
    return error_set_errno(e, ERR_IO, errno, "cannot set %s of %s", name, g->path);
}

static int set_limits(struct cgroup *g, const struct cgroup_limits *limits, struct error *e)
{
    int err = 0;
    if (g->controllers & CGROUP_PIDS)
        err = set_limit(g, "pids.max", limits->processes, e);
    if (!err && (g->controllers & CGROUP_MEMORY))
        err = set_limit(g, "memory.max", limits->memory, e);
    if (!err && (g->controllers & CGROUP_MEMORY))
        err = set_limit(g, "memory.oom.group", 1, e);
    if (!err && (g->controllers & CGROUP_CPU))
        err = set_limit(g, "cpu.weight", cgroup_weight(limits->slots), e);
    return err;
}

int cgroup_create(const char *folder, const char *task_id, const struct cgroup_limits *limits,
                  struct cgroup **out, struct error *e)
{
    char text[FILE_BYTES];
    struct cgroup *g = xcalloc(1, sizeof *g);
    *g = (struct cgroup){.path = path_join(folder, task_id), .dir = -1, .procs = -1};
    int err = make_group(g->path, e);
    if (!err)
        err = open_folder(g->path, &g->dir, e);
    if (!err) {
        read_text(g->dir, "cgroup.controllers", text);
        g->controllers = cgroup_parse_controllers(text);
        err = set_limits(g, limits, e);
    }
    if (!err) {
        g->procs = openat(g->dir, "cgroup.procs", O_WRONLY | O_CLOEXEC);
        if (g->procs < 0)
            err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot use the cgroup %s", g->path);
    }
    if (err)
        cgroup_close(g);
    *out = err ? NULL : g;
    return err;
}

int cgroup_fd(const struct cgroup *g)
{
    return g->procs;
}

bool cgroup_enter(int fd)
{
    return write(fd, "0", 1) == 1; // the writer itself
}

unsigned cgroup_controllers(const struct cgroup *g)
{
    return g->controllers;
}

int64_t cgroup_memory_kills(const struct cgroup *g)
{
    return read_field(g->dir, "memory.events", "oom_kill ");
}

bool cgroup_refused_process(const struct cgroup *g)
{
    return read_field(g->dir, "pids.events", "max ") > 0;
}

bool cgroup_populated(const struct cgroup *g)
{
    return read_field(g->dir, "cgroup.events", "populated ") > 0;
}

void cgroup_kill(struct cgroup *g)
{
    if (g)
        write_text(g->dir, "cgroup.kill", "1");
}

void cgroup_close(struct cgroup *g)
{
    if (!g)
        return;
    if (g->procs >= 0)
        close(g->procs);
    if (g->dir >= 0)
        close(g->dir);
    rmdir(g->path);
    free(g->path);
    free(g);
}
