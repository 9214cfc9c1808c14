// The program that tasks find as `muster`: it reports by itself and leaves all else to the real
// program. It is linked statically, because a shell script may report hundreds of times a second,
// and loading the libraries and tables of the real program takes longer than a report.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/os/file.h"
#include "base/os/proc.h"
#include "cli/common/flagset.h"
#include "cli/output/terminal.h"
#include "cli/task/report.h"

// Reads the arguments of a report. False: they ask for help, for a format, or are wrong, and the
// real program answers that.
static bool read_report(struct cli *c, int argc, char **argv)
{
    struct flag flags[FLAGSET_MAX];
    struct error unused;
    if (argc < 2 || strcmp(argv[1], "report") != 0)
        return false;
    c->args = arena_alloc(&c->arena, (size_t)argc * sizeof *c->args);
    flagset_select(&c->options, REPORT_FLAGS, flags);
    int err = flags_parse(flags, argc - 1, argv + 1, c->args, &c->arg_count, &unused);
    for (int i = 0; i < c->arg_count; i++)
        if (*c->args[i] == '\0')
            return false;
    return !err && !c->options.help && !c->options.format;
}

// The build tree and an installation have the same layout: bin/ and libexec/muster/.
// A link in bin/ that leads to this program would start it for ever.
static int run_real_program(char **argv, struct error *e)
{
    struct stat own, other;
    char *folder = proc_self_dir(), *program = path_join(folder, "../../bin/muster");
    bool same = stat("/proc/self/exe", &own) == 0 && stat(program, &other) == 0 &&
                own.st_dev == other.st_dev && own.st_ino == other.st_ino;
    if (!same)
        execv(program, argv);
    int err = same ? error_set(e, ERR_STATE,
                               "%s is a link to the small program for tasks; install the real "
                               "program there",
                               program)
                   : error_set_errno(e, ERR_IO, errno, "cannot start %s", program);
    free(program);
    free(folder);
    return err;
}

int main(int argc, char **argv)
{
    struct cli c = {.options = {.step = -1}};
    struct error e = {0};
    int err = read_report(&c, argc, argv) ? run_report(&c, NULL, &e) : run_real_program(argv, &e);
    if (err) {
        terminal_begin();
        fprintf(stderr, "muster: %s\n", e.text);
        terminal_end();
    }
    arena_free(&c.arena);
    return err ? err_exit_code(err) : 0;
}
