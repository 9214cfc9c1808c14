#include <stdio.h>
#include <string.h>

#include "agent/supervisor/spawner.h"
#include "base/version.h"

static const char usage[] =
    "Usage: muster-supervisor FOLDER\n"
    "\n"
    "Supervises the tasks of an agent. Only muster-agent starts this program;\n"
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
    int err = spawner_run(argv[1], &e);
    if (err)
        fprintf(stderr, "muster-supervisor: %s\n", e.text);
    return err_exit_code(err);
}
