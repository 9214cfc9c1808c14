#include "trainer/commands/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"

int command_failed(const char *command, const struct error *e)
{
    fflush(stdout);
    fprintf(stderr, "muster-trainer %s: %s\n", command, e->text);
    return err_exit_code(e->code);
}

int command_parse(const struct command_syntax *syntax, int argc, char **argv, const bool *help,
                  const char **rest, struct error *e)
{
    const char **found = xcalloc((size_t)argc, sizeof *found);
    int count = 0;
    int err = flags_parse(syntax->flags, argc, argv, found, &count, e);
    if (!err && *help) {
        fputs(syntax->head, stdout);
        flags_help(syntax->flags, stdout);
        fputs(syntax->tail, stdout);
    } else if (!err && count != syntax->count) {
        err = error_set(e, ERR_INVALID, "%s", syntax->usage);
    } else if (!err) {
        memcpy(rest, found, (size_t)count * sizeof *rest);
    }
    free(found);
    return err;
}

int command_check_output(const char *format, struct error *e)
{
    if (strcmp(format, "table") == 0 || strcmp(format, "json") == 0)
        return 0;
    return error_set(e, ERR_INVALID, "--output must be table or json, not \"%s\"", format);
}

void command_print_json(const json_t *answer)
{
    char *text = json_text(answer);
    puts(text);
    free(text);
}
