#include "trainer/commands.h"

#include <stdio.h>

int command_failed(const char *command, const struct error *e)
{
    fflush(stdout);
    fprintf(stderr, "muster-trainer %s: %s\n", command, e->text);
    return err_exit_code(e->code);
}
