#include "agent/supervisor/startup_hook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/tasks/task_spec.h"
#include "agent/tasks/taskdir.h"
#include "base/os/file.h"
#include "base/text/json.h"

enum { ENVIRONMENT_MAX = 8 << 20 }; // bytes; Linux starts no program with more than 6 MiB

// The standard input of the shell is the file for the environment.
static const char script[] = "set -e\n. ./" STARTUP_HOOK " </dev/null\nexec env -0 >&0\n";

bool startup_hook_exists(const char *dir)
{
    char *path = path_join(dir, TASKDIR_WORK "/" STARTUP_HOOK);
    struct stat st;
    bool exists = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    free(path);
    return exists;
}

int startup_hook_start(struct rank_process *hook, const char *dir, const json_t *spec, int *env_fd,
                       struct error *e)
{
    json_t *env = task_spec_environment(spec, json_array_get(jget(spec, "ranks"), 0));
    json_t *argv = json_pack("[s, s, s]", "sh", "-c", script);
    *env_fd = memfd_create("environment", MFD_CLOEXEC);
    int err = *env_fd < 0 ? error_set_errno(e, ERR_IO, errno, "cannot create a file in memory")
                          : rank_process_spawn(hook, dir, argv, env, *env_fd, e);
    json_decref(argv);
    json_decref(env);
    return err ? error_prefix(e, STARTUP_HOOK) : 0;
}

// The shell sets these itself.
static bool is_of_shell(const char *name)
{
    static const char *const names[] = {"_", "PWD", "OLDPWD", "SHLVL"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

// `variable` is NAME=VALUE. A variable whose value is not UTF-8 is omitted.
static void set_variable(json_t *env, char *variable)
{
    char *equals = strchr(variable, '=');
    json_t *value = equals ? json_string(equals + 1) : NULL;
    if (value) {
        *equals = '\0';
        if (!is_of_shell(variable))
            json_object_set(env, variable, value);
    }
    json_decref(value);
}

int startup_hook_apply(int env_fd, json_t *spec, struct error *e)
{
    char *text = NULL;
    size_t len = 0;
    if (lseek(env_fd, 0, SEEK_SET) != 0)
        return error_set_errno(e, ERR_IO, errno, STARTUP_HOOK ": cannot read its environment");
    int err = file_read_fd(env_fd, "environment", ENVIRONMENT_MAX, &text, &len, e);
    if (err)
        return error_prefix(e, STARTUP_HOOK);
    for (size_t at = 0; at < len;) {
        char *variable = text + at;
        at += strlen(variable) + 1;
        set_variable(json_object_get(spec, "env"), variable);
    }
    free(text);
    return 0;
}
