#include "agent/supervisor/rank_exit.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/error.h"

enum { BY_SHELL = 128 }; // a shell adds this to the signal that ended its child

static bool ends_all(int signal)
{
    return signal == SIGTERM || signal == SIGKILL;
}

enum verdict judge_status(int wait_status, bool told)
{
    if (WIFSIGNALED(wait_status))
        return told && ends_all(WTERMSIG(wait_status)) ? VERDICT_ENDED : VERDICT_FAILED;
    if (!WIFEXITED(wait_status))
        return VERDICT_RUNS;
    int code = WEXITSTATUS(wait_status);
    if (code == 0)
        return VERDICT_WELL;
    return told && ends_all(code - BY_SHELL) ? VERDICT_ENDED : VERDICT_FAILED;
}

bool judge_blames_peers(const char *words)
{
    static const char *const signs[] = {
        "NCCL error",    "ncclRemoteError",          "ncclSystemError", "ncclInternalError",
        "NCCL watchdog", "Connection reset by peer", "Broken pipe",     "Connection closed by peer",
        "lost a peer"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strcasestr(words, signs[i]))
            return true;
    return false;
}
