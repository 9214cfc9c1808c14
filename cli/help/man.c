// Manual pages in roff with the man macros: for this command a page for each noun, from its tables;
// for the other programs from the output of their --help.
#include <ctype.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/os/file.h"
#include "cli/commands/commands.h"
#include "cli/common/flagset.h"
#include "cli/help/help.h"

extern char **environ;

enum { PAGE_MAX = 4 << 20 };

static const struct {
    const char *name;
    int section;
    const char *about;
} programs[] = {
    {"muster-master", 8, "the daemon that runs a cluster"},
    {"muster-agent", 8, "the daemon that runs tasks on a machine of the cluster"},
    {"muster-trainer", 1, "train models described in an experiment file"},
};
enum { PROGRAMS = sizeof(programs) / sizeof(programs[0]) };

// --- roff ----------------------------------------------------------------------------------------

// Appends text literally: no character of it is a roff request.
static void page_text_n(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool at_start = out->len == 0 || out->data[out->len - 1] == '\n';
        if (at_start && (text[i] == '.' || text[i] == '\''))
            buf_puts(out, "\\&");
        if (text[i] == '\\')
            buf_puts(out, "\\e");
        else if (text[i] == '-')
            buf_puts(out, "\\-");
        else if (text[i] == '\'')
            buf_puts(out, "\\(aq");
        else
            buf_append(out, &text[i], 1);
    }
}

static void page_text(struct buf *out, const char *text)
{
    page_text_n(out, text, strlen(text));
}

static void page_bold(struct buf *out, const char *text)
{
    buf_puts(out, "\\fB");
    page_text(out, text);
    buf_puts(out, "\\fR");
}

static void page_title(struct buf *out, const char *name, int section, const char *about)
{
    char *upper = xstrdup(name);
    for (char *p = upper; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    buf_puts(out, ".\\\" Made by muster man.\n.TH ");
    page_text(out, upper);
    buf_printf(out, " %d \"\" \"Muster %s\" \"Muster manual\"\n.SH NAME\n", section,
               MUSTER_VERSION);
    page_text(out, name);
    buf_puts(out, " \\- ");
    page_text(out, about);
    buf_puts(out, "\n");
    free(upper);
}

static void page_example(struct buf *out, const char *text)
{
    buf_puts(out, ".PP\n.RS 4\n.nf\n");
    page_text(out, text);
    buf_puts(out, "\n.fi\n.RE\n");
}

// --- this command --------------------------------------------------------------------------------

static void page_flags(struct buf *out, const struct flag *flags)
{
    for (const struct flag *f = flags; f->name; f++) {
        char letter[8] = "";
        if (f->letter != '\0')
            snprintf(letter, sizeof(letter), "-%c, ", f->letter);
        buf_puts(out, ".TP\n\\fB");
        page_text(out, letter);
        buf_puts(out, "\\-\\-");
        page_text(out, f->name);
        buf_puts(out, "\\fR");
        if (f->value_name) {
            buf_puts(out, " \\fI");
            page_text(out, f->value_name);
            buf_puts(out, "\\fR");
        }
        buf_puts(out, "\n");
        page_text(out, f->help);
        if (f->env)
            buf_printf(out, " [$%s]", f->env);
        buf_puts(out, "\n");
    }
}

static void page_usage(struct buf *out, const struct command *k)
{
    buf_puts(out, "\\fBmuster ");
    page_text(out, k->noun);
    if (k->verb) {
        buf_puts(out, " ");
        page_text(out, k->verb);
    }
    buf_puts(out, "\\fR");
    if (*k->args != '\0') {
        buf_puts(out, " \\fI");
        page_text(out, k->args);
        buf_puts(out, "\\fR");
    }
    buf_puts(out, k->flags && *k->flags != '\0' ? " [flags]\n" : "\n");
}

static void page_command(struct buf *out, const struct command *k)
{
    struct cli_options unused;
    struct flag flags[FLAGSET_MAX];
    buf_puts(out, ".SS ");
    page_usage(out, k);
    page_text(out, k->help);
    buf_puts(out, ".\n");
    flagset_own(&unused, k->flags, flags);
    page_flags(out, flags);
    if (k->columns) {
        buf_puts(out, ".PP\nColumns: ");
        for (const char *p = k->columns; *p != '\0'; p++) {
            page_text_n(out, p, 1);
            buf_puts(out, *p == ',' ? " " : "");
        }
        buf_puts(out, "\n");
    }
    if (k->example)
        page_example(out, k->example);
    if (help_note(k))
        page_example(out, help_note(k));
}

static void page_tail(struct buf *out)
{
    struct cli_options unused;
    struct flag flags[FLAGSET_MAX];
    flagset_select(&unused, NULL, flags);
    buf_puts(out, ".SH FLAGS OF EVERY COMMAND\n");
    page_flags(out, flags);
    buf_puts(out, ".SH FILES\n.TP\n$XDG_CONFIG_HOME/muster/credentials.json\n");
    page_text(
        out,
        "the saved tokens of muster login, for each master; only their owner can read the file\n");
    buf_puts(out, ".SH EXIT STATUS\n0 on success; muster help exit\\-codes lists the others.\n.SH "
                  "SEE ALSO\n");
    const char *last = "", *glue = "";
    for (size_t i = 0; i < command_count; i++) {
        const struct command *k = &commands[i];
        if (k->verb && strcmp(last, k->noun) != 0) {
            buf_puts(out, glue);
            page_bold(out, "muster-");
            page_bold(out, k->noun);
            buf_puts(out, "(1)");
            glue = ",\n";
        }
        last = k->noun;
    }
    for (int i = 0; i < PROGRAMS; i++) {
        buf_puts(out, ",\n");
        page_bold(out, programs[i].name);
        buf_printf(out, "(%d)", programs[i].section);
    }
    buf_puts(out, "\n");
}

// muster(1): lists every command; commands of one word are explained in full.
static void make_overview_page(struct buf *out)
{
    page_title(out, "muster", 1, "submit, watch and control training experiments");
    buf_puts(out, ".SH SYNOPSIS\n\\fBmuster\\fR \\fINOUN VERB\\fR [\\fIARGUMENT\\fR...] [flags]\n"
                  ".SH COMMANDS\n");
    for (size_t i = 0; i < command_count; i++) {
        const struct command *k = &commands[i];
        if (k->help && !k->verb) {
            page_command(out, k);
        } else if (k->help) {
            buf_puts(out, ".TP\n");
            page_usage(out, k);
            page_text(out, k->help);
            buf_puts(out, "\n");
        }
    }
    page_tail(out);
}

// The page of one command.
static void make_command_page(struct buf *out, const struct command *k)
{
    char *name = xasprintf("muster-%s%s%s", k->noun, k->verb ? "-" : "", k->verb ? k->verb : "");
    page_title(out, name, 1, k->help);
    buf_puts(out, ".SH COMMANDS\n");
    page_command(out, k);
    page_tail(out);
    free(name);
}

static void make_noun_page(struct buf *out, const char *noun)
{
    char *name = xasprintf("muster-%s", noun), *about = xasprintf("commands of muster %s", noun);
    page_title(out, name, 1, about);
    buf_puts(out, ".SH SYNOPSIS\n\\fBmuster ");
    page_text(out, noun);
    buf_puts(out, "\\fR \\fIVERB\\fR [\\fIARGUMENT\\fR...] [flags]\n.SH COMMANDS\n");
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].noun, noun) == 0)
            page_command(out, &commands[i]);
    page_tail(out);
    free(about);
    free(name);
}

// --- other programs ----------------------------------------------------------------------

// Runs PROGRAM [WORD] --help; the program is in the folder of this one.
static int read_help(const char *program, const char *word, char **text, struct error *e)
{
    char self[4096] = "", block[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = n > 0 ? strrchr(self, '/') : NULL;
    char *path = xasprintf("%.*s/%s", slash ? (int)(slash - self) : 0, self, program);
    char *argv[] = {path, word ? (char *)word : "--help", word ? "--help" : NULL, NULL};
    int ends[2], status = 0;
    pid_t child = 0;
    struct buf out;
    buf_init(&out, PAGE_MAX);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int failed = pipe(ends) != 0 ? errno : 0;
    if (failed == 0) {
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        posix_spawn_file_actions_addclose(&actions, ends[0]);
        failed = posix_spawn(&child, path, &actions, NULL, argv, environ);
        close(ends[1]);
        while (failed == 0 && (n = read(ends[0], block, sizeof(block))) > 0)
            buf_append(&out, block, (size_t)n);
        close(ends[0]);
    }
    if (failed == 0 && (waitpid(child, &status, 0) < 0 || status != 0))
        failed = ENOEXEC;
    posix_spawn_file_actions_destroy(&actions);
    *text = buf_take(&out);
    int err = failed == 0 ? 0 : error_set_errno(e, ERR_NOT_FOUND, failed, "cannot run %s", path);
    free(path);
    return err;
}

static void page_heading(struct buf *out, const char *line, size_t len)
{
    buf_puts(out, ".SH ");
    for (size_t i = 0; i < len; i++) {
        char upper = (char)toupper((unsigned char)line[i]);
        page_text_n(out, &upper, 1);
    }
    buf_puts(out, "\n");
}

// "  -p, --port N   port of the API": the flag, at least two blanks, the description.
static void page_flag_line(struct buf *out, const char *line, size_t len)
{
    size_t at = strspn(line, " "), end = at;
    while (end + 1 < len && !(line[end] == ' ' && line[end + 1] == ' '))
        end++;
    end = end + 1 < len ? end : len;
    size_t help = end;
    while (help < len && line[help] == ' ')
        help++;
    buf_puts(out, ".TP\n\\fB");
    page_text_n(out, line + at, end - at);
    buf_puts(out, "\\fR\n");
    page_text_n(out, line + help, len - help);
    buf_puts(out, "\n");
}

// Converts the programs' help: headings end with a colon, flags and examples are indented.
static void page_help(struct buf *out, const char *text)
{
    bool verbatim = false;
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t len = strcspn(line, "\n"), indent = strspn(line, " ");
        bool flag = (indent == 2 || indent == 6) && indent < len && line[indent] == '-';
        bool example = indent > 0 && indent < len && !flag;
        if (verbatim != example) {
            buf_puts(out, example ? ".PP\n.RS 4\n.nf\n" : ".fi\n.RE\n");
            verbatim = example;
        }
        if (len == 0) {
            buf_puts(out, ".PP\n");
        } else if (flag) {
            page_flag_line(out, line, len);
        } else if (indent == 0 && line[len - 1] == ':' && len < 32) {
            page_heading(out, line, len - 1);
        } else {
            page_text_n(out, line + (indent < 2 ? indent : 2), len - (indent < 2 ? indent : 2));
            buf_puts(out, "\n");
        }
        if (line[len] == '\0')
            break;
    }
    buf_puts(out, verbatim ? ".fi\n.RE\n" : "");
}

// Adds the help of each command that the program lists: "  run       train an experiment file".
static int page_commands(struct buf *out, const char *program, const char *text, struct error *e)
{
    int err = 0;
    for (const char *line = text; !err && line && *line != '\0';
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t word = strspn(line, " ") == 2 ? strspn(line + 2, "abcdefghijklmnopqrstuvwxyz") : 0;
        if (word < 2 || strncmp(line + 2 + word, "  ", 2) != 0)
            continue;
        char *name = strndup(line + 2, word), *help = NULL;
        err = read_help(program, name, &help, e);
        if (!err) {
            char *title = xasprintf("%s %s", program, name);
            page_heading(out, title, strlen(title));
            page_help(out, help);
            free(title);
        }
        free(help);
        free(name);
    }
    return err;
}

static int make_program_page(struct buf *out, int index, struct error *e)
{
    char *text = NULL;
    const char *name = programs[index].name;
    int err = read_help(name, NULL, &text, e);
    if (!err) {
        page_title(out, name, programs[index].section, programs[index].about);
        buf_puts(out, ".SH DESCRIPTION\n");
        page_help(out, text);
        err = strcmp(name, "muster-trainer") == 0 ? page_commands(out, name, text, e) : 0;
    }
    if (!err) {
        buf_puts(out, ".SH SEE ALSO\n");
        page_bold(out, "muster");
        buf_puts(out, "(1)\n");
    }
    free(text);
    return err;
}

// --- the command ---------------------------------------------------------------------------------

// Makes the page "muster", "experiment", "muster-experiment" or "muster-master"; with a verb, the
// page of that command.
static int make_page(const char *name, const char *verb, struct buf *out, int *section,
                     struct error *e)
{
    *section = 1;
    for (int i = 0; i < PROGRAMS; i++) {
        if (strcmp(name, programs[i].name) == 0) {
            *section = programs[i].section;
            return make_program_page(out, i, e);
        }
    }
    if (strcmp(name, "muster") == 0) {
        make_overview_page(out);
        return 0;
    }
    const char *noun = command_noun(strncmp(name, "muster-", 7) == 0 ? name + 7 : name);
    if (help_is_topic(noun, verb)) {
        make_noun_page(out, noun);
        return 0;
    }
    const struct command *command = command_find(noun, verb, e);
    if (!command || !command->help)
        return !command ? e->code : error_set(e, ERR_INVALID, "there is no page \"%s\"", name);
    make_command_page(out, command);
    return 0;
}

static int write_page(const char *folder, const char *name, struct error *e)
{
    struct buf out;
    int section;
    buf_init(&out, PAGE_MAX);
    int err = make_page(name, NULL, &out, &section, e);
    if (!err) {
        bool of_noun = strncmp(name, "muster", 6) != 0;
        char *path = xasprintf("%s/%s%s.%d", folder, of_noun ? "muster-" : "", name, section);
        err = file_write_durable(path, buf_str(&out), out.len, 0644, e);
        free(path);
    }
    buf_free(&out);
    return err;
}

static int write_all_pages(const char *folder, struct error *e)
{
    const char *last = "";
    int err = dir_make(folder, 0755, e);
    err = err ? err : write_page(folder, "muster", e);
    for (size_t i = 0; i < command_count && !err; i++) {
        if (commands[i].verb && strcmp(last, commands[i].noun) != 0)
            err = write_page(folder, commands[i].noun, e);
        last = commands[i].noun;
    }
    for (int i = 0; i < PROGRAMS && !err; i++)
        err = write_page(folder, programs[i].name, e);
    return err;
}

int run_man(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    if (c->options.to)
        return write_all_pages(c->options.to, e);
    struct buf out;
    int section;
    buf_init(&out, PAGE_MAX);
    int err = make_page(c->arg_count > 0 ? c->args[0] : "muster",
                        c->arg_count > 1 ? command_verb(c->args[1]) : NULL, &out, &section, e);
    if (!err)
        fwrite(out.data, 1, out.len, stdout);
    buf_free(&out);
    return err;
}
