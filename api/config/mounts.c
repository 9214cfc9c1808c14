#include "api/config/mounts.h"

#include <string.h>

#include "base/log.h"
#include "base/os/file.h"
#include "base/text/json.h"

// Whether the path has a component ".", ".." or "" (also at its end).
static bool is_crooked(const char *path)
{
    path += *path == '/';
    return !path_is_inside(path);
}

static int check_entry(const json_t *m, size_t i, struct error *e)
{
    const char *source = jget_string(m, "host_path", ""),
               *target = jget_string(m, "container_path", "");
    if (*source != '/')
        return error_set(e, ERR_INVALID,
                         "bind_mounts.%zu.host_path: \"%.200s\" is not an absolute path", i,
                         source);
    if (is_crooked(target))
        return error_set(
            e, ERR_INVALID,
            "bind_mounts.%zu.container_path: \"%.200s\" is not the path of a folder or "
            "file without \".\", \"..\" and double slashes",
            i, target);
    if (path_is_within(target, "/proc") || path_is_within(target, "/run/determined") ||
        !strcmp(target, "/run"))
        return error_set(e, ERR_INVALID,
                         "bind_mounts.%zu.container_path: %s has contents that programs need, and "
                         "may not be covered",
                         i, target);
    return 0;
}

int bind_mounts_check(const json_t *bind_mounts, struct error *e)
{
    size_t i;
    json_t *m;
    int err = 0;
    json_array_foreach(bind_mounts, i, m) err = err ? err : check_entry(m, i, e);
    return err;
}

// A task has folders of its own in the place of the machine's folders for temporary files.
static bool is_temporary(const char *path)
{
    return path_is_within(path, "/tmp") || path_is_within(path, "/var/tmp");
}

static bool is_needed(const json_t *m)
{
    const char *source = jget_string(m, "host_path", "");
    return jget_bool(m, "read_only", false) || is_temporary(source) ||
           strcmp(source, jget_string(m, "container_path", "")) != 0;
}

bool bind_mounts_present(const json_t *config)
{
    size_t i;
    json_t *m;
    json_array_foreach(jget(config, "bind_mounts"), i, m)
    {
        if (is_needed(m))
            return true;
    }
    return false;
}

bool shared_fs_needed(const json_t *config)
{
    const json_t *storage = jget(config, "checkpoint_storage");
    return !jget(config, "trainer") && !strcmp(jget_string(storage, "type", ""), "shared_fs");
}

static void add_mount(json_t *list, const char *source, const char *target, const json_t *m)
{
    json_t *mount = json_pack("{s:s, s:s, s:b, s:s, s:b}", "source", source, "target", target,
                              "readOnly", jget_bool(m, "read_only", false), "propagation",
                              jget_string(m, "propagation", ""), "required", !m);
    must(mount && !json_array_append_new(list, mount));
}

json_t *mounts_of_config(const json_t *config, bool trial)
{
    json_t *list = json_array(), *m;
    size_t i;
    must(list);
    json_array_foreach(jget(config, "bind_mounts"), i, m)
    {
        if (is_needed(m))
            add_mount(list, jget_string(m, "host_path", ""), jget_string(m, "container_path", ""),
                      m);
    }
    if (trial && shared_fs_needed(config))
        add_mount(list, jget_string(jget(config, "checkpoint_storage"), "host_path", ""),
                  SHARED_FS_MOUNT, NULL);
    return list;
}
