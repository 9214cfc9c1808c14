#include "agent/isolation/system_calls.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"

const char *const system_calls_refused[] = {
    // another kernel, its modules and programs in it
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
    "create_module", "query_module", "get_kernel_syms", "bpf",
    // the kernel's store of keys, which the processes of an account share
    "add_key", "keyctl", "request_key",
    // mounts and namespaces
    "mount", "umount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr", "setns", "chroot",
    // files by their number, past the mounts that hide them
    "open_by_handle_at", "fanotify_init",
    // the machine
    "swapon", "swapoff", "reboot", "acct", "quotactl", "quotactl_fd", "syslog", "sethostname",
    "setdomainname", "vhangup", "nfsservctl", "lookup_dcookie",
    // its clock
    "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime",
    // hardware
    "iopl", "ioperm",
    // parts of the kernel with many faults, which training does not need
    "userfaultfd", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register",
    NULL};

// Flags of clone(2) and unshare(2) that make a namespace. In one of its own, a process may use the
// parts of the kernel that are for root.
static const uint64_t namespace_flags[] = {CLONE_NEWNS,    CLONE_NEWUSER, CLONE_NEWPID,
                                           CLONE_NEWNET,   CLONE_NEWIPC,  CLONE_NEWUTS,
                                           CLONE_NEWCGROUP};

// SO_PASSPIDFD and SO_PEERPIDFD of Linux 6.5, which older headers lack.
enum { SOCKET_PASS_PIDFD = 76, SOCKET_PEER_PIDFD = 77 };

enum { CLONE_NEW_TIME = 0x80 }; // CLONE_NEWTIME; in the flags of clone(2) this bit is a signal's

static int refuse_names(scmp_filter_ctx filter)
{
    int err = 0;
    for (const char *const *name = system_calls_refused; *name && !err; name++) {
        int number = seccomp_syscall_resolve_name(*name);
        if (number != __NR_SCMP_ERROR) // a library that does not know the call: an older one
            err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0);
    }
    return err;
}

static int refuse_bit(scmp_filter_ctx filter, int number, uint64_t bit)
{
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 1,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit));
}

// The flags of clone3(2) are in memory, where a filter cannot look. ENOSYS makes the C library use
// clone(2).
static int refuse_namespaces(scmp_filter_ctx filter)
{
    int err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    for (size_t i = 0; i < sizeof namespace_flags / sizeof *namespace_flags && !err; i++) {
        err = refuse_bit(filter, SCMP_SYS(clone), namespace_flags[i]);
        err = err ? err : refuse_bit(filter, SCMP_SYS(unshare), namespace_flags[i]);
    }
    return err ? err : refuse_bit(filter, SCMP_SYS(unshare), CLONE_NEW_TIME);
}

// Typing into the terminal of whoever has started the program.
static int refuse_typing(scmp_filter_ctx filter)
{
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                            SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, TIOCSTI));
}

// A descriptor of the process at the other end of a socket, also of one in another task: tasks
// share the network, with the abstract names of sockets. Whoever has the same account could take
// open files from it (pidfd_getfd(2)), which the ranks of a task may do among themselves.
static int refuse_peers(scmp_filter_ctx filter)
{
    int err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOPROTOOPT), SCMP_SYS(getsockopt), 2,
                               SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, SOL_SOCKET),
                               SCMP_A2(SCMP_CMP_MASKED_EQ, 0xffffffff, SOCKET_PEER_PIDFD));
    err = err ? err
              : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOPROTOOPT), SCMP_SYS(setsockopt), 2,
                                 SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, SOL_SOCKET),
                                 SCMP_A2(SCMP_CMP_MASKED_EQ, 0xffffffff, SOCKET_PASS_PIDFD));
#if defined(__x86_64__)
    // The old entrance of 32-bit programs, whose arguments are in memory.
    static const uint64_t options[] = {14, 15}; // SYS_SETSOCKOPT, SYS_GETSOCKOPT
    for (size_t i = 0; i < sizeof options / sizeof *options && !err; i++)
        err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(socketcall), 1,
                               SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffff, options[i]));
#endif
    return err;
}

static int add_architectures(scmp_filter_ctx filter)
{
    int err = 0;
#if defined(__x86_64__)
    err = seccomp_arch_add(filter, SCMP_ARCH_X86);
    err = err ? err : seccomp_arch_add(filter, SCMP_ARCH_X32);
#elif defined(__aarch64__)
    err = seccomp_arch_add(filter, SCMP_ARCH_ARM);
#endif
    return err ? err : seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
}

static int read_program(int fd, struct sock_fprog *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || lseek(fd, 0, SEEK_SET) != 0)
        return -errno;
    size_t size = (size_t)st.st_size;
    out->filter = xcalloc(size + 1, 1);
    out->len = (unsigned short)(size / sizeof *out->filter);
    if (read(fd, out->filter, size) == (ssize_t)size)
        return 0;
    free(out->filter);
    out->filter = NULL;
    return -EIO;
}

int system_calls_filter(struct sock_fprog *filter, struct error *e)
{
    *filter = (struct sock_fprog){0};
    scmp_filter_ctx rules = seccomp_init(SCMP_ACT_ALLOW);
    int fd = memfd_create("filter", MFD_CLOEXEC);
    int err = rules && fd >= 0 ? 0 : -ENOMEM;
    err = err ? err : add_architectures(rules);
    err = err ? err : refuse_names(rules);
    err = err ? err : refuse_namespaces(rules);
    err = err ? err : refuse_typing(rules);
    err = err ? err : refuse_peers(rules);
    err = err ? err : seccomp_export_bpf(rules, fd);
    err = err ? err : read_program(fd, filter);
    if (rules)
        seccomp_release(rules);
    if (fd >= 0)
        close(fd);
    return err ? error_set_errno(e, ERR_INTERNAL, -err, "cannot compile the filter of system calls")
               : 0;
}
