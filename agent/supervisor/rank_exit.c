#include "agent/supervisor/rank_exit.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"

enum { SHELL_SIGNAL_BASE = 128 }; // the exit code of a shell is this plus the signal of its child

static bool is_termination(int signal)
{
    return signal == SIGTERM || signal == SIGKILL;
}

enum rank_exit rank_exit_classify(int wait_status, bool asked_to_end)
{
    if (WIFSIGNALED(wait_status))
        return asked_to_end && is_termination(WTERMSIG(wait_status)) ? RANK_TERMINATED
                                                                     : RANK_FAILED;
    if (!WIFEXITED(wait_status))
        return RANK_RUNNING;
    int code = WEXITSTATUS(wait_status);
    if (code == 0)
        return RANK_SUCCEEDED;
    return asked_to_end && is_termination(code - SHELL_SIGNAL_BASE) ? RANK_TERMINATED : RANK_FAILED;
}

int rank_exit_code(int wait_status)
{
    return WIFSIGNALED(wait_status) ? SHELL_SIGNAL_BASE + WTERMSIG(wait_status)
                                    : WEXITSTATUS(wait_status);
}

bool rank_exit_blames_peer(const char *last_lines)
{
    static const char *const signs[] = {
        "NCCL error",    "ncclRemoteError",          "ncclSystemError", "ncclInternalError",
        "NCCL watchdog", "Connection reset by peer", "Broken pipe",     "Connection closed by peer",
        "lost a peer"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strcasestr(last_lines, signs[i]))
            return true;
    return false;
}

bool rank_exit_lost_contact(const char *text)
{
    static const char *const signs[] = {"timed out", "timeout", "connection refused", "heartbeat",
                                        "rendezvous"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strcasestr(text, signs[i]))
            return true;
    return rank_exit_blames_peer(text);
}
