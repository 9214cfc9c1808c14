#include "agent/isolation/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/supervisor/cgroup.h"
#include "base/os/file.h"

// What installers of packages do with the files of their own task.
static const uint64_t root_keeps = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER |
                                   1u << CAP_FSETID | 1u << CAP_SETGID | 1u << CAP_SETUID;

static bool set_limit(int resource, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(resource, &now) != 0)
        return false;
    rlim_t max = now.rlim_max < value ? now.rlim_max : value;
    return setrlimit(resource, &(struct rlimit){max, max}) == 0;
}

static bool set_limits(const struct confinement *c)
{
    return set_limit(RLIMIT_CORE, 0) &&
           (c->processes == 0 || set_limit(RLIMIT_NPROC, (rlim_t)c->processes));
}

// A process without CAP_SETPCAP may not change the set; without privileges it has no use for it.
static bool drop_bounding_set(uint64_t keep)
{
    for (unsigned long cap = 0; cap < 64; cap++) {
        if (keep & UINT64_C(1) << cap)
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0 && errno != EINVAL && errno != EPERM)
            return false;
    }
    return true;
}

static bool set_capabilities(uint64_t keep)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {0};
    uint32_t low = (uint32_t)keep;
    sets[0].permitted = sets[0].effective = low;
    return syscall(SYS_capset, &header, sets) == 0;
}

// setresuid(2) of the C library would signal other threads; the child has none.
static bool switch_account(const struct task_account *a)
{
    return syscall(SYS_setgroups, a->group_count, a->groups) == 0 &&
           syscall(SYS_setresgid, a->gid, a->gid, a->gid) == 0 &&
           syscall(SYS_setresuid, a->uid, a->uid, a->uid) == 0;
}

// Where a machine runs out of memory, the kernel ends a task before the agent and its supervisors.
// A machine that does not permit the change works without it, and a higher score stays.
static void prefer_for_oom_kill(void)
{
    static const char score[] = "500"; // as if half of the machine's memory were the task's, too
    char now[16] = "";
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, now, sizeof now - 1) > 0 && strtol(now, NULL, 10) < strtol(score, NULL, 10))
        (void)file_write_all(fd, score, sizeof score - 1);
    close(fd);
}

const char *confine_process(const void *confinement)
{
    const struct confinement *c = confinement;
    uint64_t keep = c->keeps_root ? root_keeps : 0;
    prefer_for_oom_kill();
    if (c->cgroup > 0 && !cgroup_enter(c->cgroup))
        return "entering its cgroup";
    if (c->mount_namespace >= 0 && setns(c->mount_namespace, CLONE_NEWNS) != 0)
        return "entering the task's view of the files";
    if (!set_limits(c))
        return "setting its limits";
    if (c->no_privileges && !drop_bounding_set(keep))
        return "giving up capabilities";
    if (c->account.switches && !switch_account(&c->account))
        return "changing to its account";
    // As soon as both have the same account and no capabilities, a running program of the task
    // could otherwise look into this process and take descriptors of the supervisor from it: those
    // of its folders lead out of the task's view. Execve(2) closes them and undoes this. A change
    // of the account sets the value to fs.suid_dumpable.
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return "closing itself to other processes";
    if (c->no_privileges &&
        (!set_capabilities(keep) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0))
        return "giving up privileges";
    if (c->filter.len > 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &c->filter, 0, 0) != 0)
        return "installing the filter of system calls";
    return NULL;
}

bool confine_own_process(void)
{
    return drop_bounding_set(0) && set_capabilities(0) &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}
