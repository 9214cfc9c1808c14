#include "agent/isolation/devices.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/isolation/attach.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

#define NVIDIA "/proc/driver/nvidia"

enum { TEXT_MAX = 4096, NODES_MAX = 1024 };

// The mount of the new folder comes last, over the old one, which the nodes are taken from.
struct nodes {
    int clones[NODES_MAX];
    char *paths[NODES_MAX];
    size_t count;
};

// --- the driver's texts --------------------------------------------------------------------------

void devices_gpu_folder(const char *bus_id, char out[32])
{
    const char *colon = strchr(bus_id, ':');
    size_t domain = colon ? (size_t)(colon - bus_id) : 0;
    snprintf(out, 32, "%s", domain > 4 ? bus_id + domain - 4 : bus_id);
    for (char *c = out; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

int devices_number(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at && at[strlen(key)] == ':' ? (int)strtol(at + strlen(key) + 1, NULL, 10) : -1;
}

static int read_number(const char *path, const char *key)
{
    char *text = NULL;
    size_t len;
    int number = file_read(path, TEXT_MAX, &text, &len, NULL) == 0 ? devices_number(text, key) : -1;
    free(text);
    return number;
}

// --- the list ------------------------------------------------------------------------------------

static bool is_listed(const struct nodes *n, const char *path)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->paths[i], path) == 0)
            return true;
    return false;
}

// Devices that this machine does not have are omitted.
static void add_node(struct nodes *n, const char *path)
{
    struct stat st;
    bool device = stat(path, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode));
    int clone = device && n->count < NODES_MAX && !is_listed(n, path) ? attach_clone(path) : -1;
    if (clone < 0)
        return;
    n->clones[n->count] = clone;
    n->paths[n->count++] = xstrdup(path);
}

static void add_numbered(struct nodes *n, const char *prefix, int number)
{
    char *path = xasprintf("%s%d", prefix, number);
    if (number >= 0)
        add_node(n, path);
    free(path);
}

static int gpu_minor(const char *bus_id)
{
    char folder[32];
    devices_gpu_folder(bus_id, folder);
    char *path = xasprintf(NVIDIA "/gpus/%s/information", folder);
    int minor = read_number(path, "Device Minor");
    free(path);
    return minor;
}

// A compute instance of the MIG instance `folder`: its folder is "ciN".
static void add_compute_instances(struct nodes *n, const char *folder)
{
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        char *path = xasprintf("%s/%s/access", folder, entry->d_name);
        if (strncmp(entry->d_name, "ci", 2) == 0)
            add_numbered(n, "/dev/nvidia-caps/nvidia-cap", read_number(path, "DeviceFileMinor"));
        free(path);
    }
    if (list)
        closedir(list);
}

static void add_folder(struct nodes *n, const char *folder, const char *prefix)
{
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list));) {
        char *path = path_join(folder, entry->d_name);
        if (entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            add_node(n, path);
        free(path);
    }
    if (list)
        closedir(list);
}

// A driver that does not tell the number of its device must not cost the task its GPU.
static void add_all_gpus(struct nodes *n, const char *bus_id)
{
    log_warn("the device of a GPU is unknown; a task sees all GPUs", "gpu=%s", bus_id);
    add_folder(n, "/dev", "nvidia");
    add_folder(n, "/dev/nvidia-caps", "");
}

static void add_gpu(struct nodes *n, const json_t *gpu)
{
    const char *bus_id = jget_string(gpu, "busId", "");
    int minor = gpu_minor(bus_id);
    int64_t instance = jget_int(gpu, "instance", -1);
    if (minor < 0)
        add_all_gpus(n, bus_id);
    else
        add_numbered(n, "/dev/nvidia", minor);
    if (minor < 0 || instance < 0)
        return;
    char *folder = xasprintf(NVIDIA "/capabilities/gpu%d/mig/gi%d", minor, (int)instance);
    char *path = path_join(folder, "access");
    add_numbered(n, "/dev/nvidia-caps/nvidia-cap", read_number(path, "DeviceFileMinor"));
    add_compute_instances(n, folder);
    free(path);
    free(folder);
}

static void gather_nodes(struct nodes *n, const json_t *gpus)
{
    static const char *const always[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                         "/dev/random", "/dev/urandom", "/dev/tty"};
    static const char *const of_gpus[] = {"/dev/nvidiactl", "/dev/nvidia-uvm",
                                          "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset",
                                          "/dev/gdrdrv"};
    size_t i;
    json_t *gpu;
    for (i = 0; i < sizeof always / sizeof *always; i++)
        add_node(n, always[i]);
    add_folder(n, "/dev/infiniband", "");
    if (json_array_size(gpus) == 0)
        return;
    for (i = 0; i < sizeof of_gpus / sizeof *of_gpus; i++)
        add_node(n, of_gpus[i]);
    add_folder(n, "/dev/nvidia-caps-imex-channels", "");
    json_array_foreach(gpus, i, gpu) add_gpu(n, gpu);
}

// --- the folder ----------------------------------------------------------------------------------

static int attach_nodes(const struct nodes *n, struct error *e)
{
    int err = 0;
    for (size_t i = 0; i < n->count && !err; i++)
        err = attach_at(n->clones[i], n->paths[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, e);
    return err;
}

static int make_links(struct error *e)
{
    static const char *const links[][2] = {
        {"/proc/self/fd", "/dev/fd"},       {"/proc/self/fd/0", "/dev/stdin"},
        {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"},
        {"pts/ptmx", "/dev/ptmx"},
    };
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (symlink(links[i][0], links[i][1]) != 0)
            return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot create %s", links[i][1]);
    return 0;
}

int devices_mount_shm(struct error *e)
{
    if (mount("muster", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0)
        return 0;
    return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot mount over /dev/shm");
}

static int mount_terminals(struct error *e)
{
    if (mkdir("/dev/pts", 0755) == 0 && mkdir("/dev/shm", 0755) == 0 &&
        mount("muster", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=0620") == 0)
        return 0;
    return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot mount over /dev/pts");
}

static int fill_folder(const struct nodes *n, struct error *e)
{
    if (mount("muster", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,mode=0755") != 0)
        return error_set_errno(e, ERR_FORBIDDEN, errno, "cannot mount over /dev");
    int err = attach_nodes(n, e);
    err = err ? err : make_links(e);
    err = err ? err : mount_terminals(e);
    if (!err && mount(NULL, "/dev", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC,
                      NULL) != 0)
        err = error_set_errno(e, ERR_FORBIDDEN, errno, "cannot make /dev read-only");
    return err ? err : devices_mount_shm(e);
}

int devices_mount(const json_t *gpus, struct error *e)
{
    struct nodes *n = xcalloc(1, sizeof *n);
    gather_nodes(n, gpus);
    int err = fill_folder(n, e);
    for (size_t i = 0; i < n->count; i++) {
        close(n->clones[i]);
        free(n->paths[i]);
    }
    free(n);
    return err;
}
