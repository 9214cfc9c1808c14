#include <stdio.h>
#include <string.h>

#include "agent/supervisor/spawner.h"
#include "base/version.h"

static const char usage[] =
    "Usage: muster-supervisor FOLDER\n"
    "\n"
    "Keeps the tasks of an agent, which starts it. It is no command for people:\n"
    "start muster-agent.\n";

int main(int argc, char **argv)
{
    struct error e = {0};
    bool help = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("muster-supervisor %s\n", muster_version);
        return 0;
    }
    if (argc != 2 || help) {
        fputs(usage, help ? stdout : stderr);
        return help ? 0 : err_exit_code(ERR_INVALID);
    }
    int rc = spawner_run(argv[1], &e);
    if (rc != 0)
        fprintf(stderr, "muster-supervisor: %s\n", e.text);
    return err_exit_code(rc);
}
