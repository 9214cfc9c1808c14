// Manual pages: of this command from its tables, a page for each noun; of the programs beside it
// from what their --help says, which comes from their tables. roff with the man macros.
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

// Text as it stands: no character of it is a request.
static void put_text(struct buf *out, const char *text, size_t len)
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

static void put(struct buf *out, const char *text)
{
    put_text(out, text, strlen(text));
}

static void put_bold(struct buf *out, const char *text)
{
    buf_puts(out, "\\fB");
    put(out, text);
    buf_puts(out, "\\fR");
}

static void put_title(struct buf *out, const char *name, int section, const char *about)
{
    char *upper = xstrdup(name);
    for (char *p = upper; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    buf_puts(out, ".\\\" Made by muster man.\n.TH ");
    put(out, upper);
    buf_printf(out, " %d \"\" \"Muster %s\" \"Muster manual\"\n.SH NAME\n", section,
               MUSTER_VERSION);
    put(out, name);
    buf_puts(out, " \\- ");
    put(out, about);
    buf_puts(out, "\n");
    free(upper);
}

static void put_example(struct buf *out, const char *text)
{
    buf_puts(out, ".PP\n.RS 4\n.nf\n");
    put(out, text);
    buf_puts(out, "\n.fi\n.RE\n");
}

// --- this command --------------------------------------------------------------------------------

static void put_flags(struct buf *out, const struct flag *flags)
{
    for (const struct flag *f = flags; f->name; f++) {
        char letter[8] = "";
        if (f->letter != '\0')
            snprintf(letter, sizeof(letter), "-%c, ", f->letter);
        buf_puts(out, ".TP\n\\fB");
        put(out, letter);
        buf_puts(out, "\\-\\-");
        put(out, f->name);
        buf_puts(out, "\\fR");
        if (f->value_name) {
            buf_puts(out, " \\fI");
            put(out, f->value_name);
            buf_puts(out, "\\fR");
        }
        buf_puts(out, "\n");
        put(out, f->help);
        if (f->env)
            buf_printf(out, " [$%s]", f->env);
        buf_puts(out, "\n");
    }
}

static void put_usage(struct buf *out, const struct command *k)
{
    buf_puts(out, "\\fBmuster ");
    put(out, k->noun);
    if (k->verb) {
        buf_puts(out, " ");
        put(out, k->verb);
    }
    buf_puts(out, "\\fR");
    if (*k->args != '\0') {
        buf_puts(out, " \\fI");
        put(out, k->args);
        buf_puts(out, "\\fR");
    }
    buf_puts(out, k->flags && *k->flags != '\0' ? " [flags]\n" : "\n");
}

static void put_command(struct buf *out, const struct command *k)
{
    struct cli_options unused;
    struct flag flags[FLAGSET_MAX];
    buf_puts(out, ".SS ");
    put_usage(out, k);
    put(out, k->help);
    buf_puts(out, ".\n");
    flagset_own(&unused, k->flags, flags);
    put_flags(out, flags);
    if (k->columns) {
        buf_puts(out, ".PP\nColumns: ");
        for (const char *p = k->columns; *p != '\0'; p++) {
            put_text(out, p, 1);
            buf_puts(out, *p == ',' ? " " : "");
        }
        buf_puts(out, "\n");
    }
    if (k->example)
        put_example(out, k->example);
    if (help_note(k))
        put_example(out, help_note(k));
}

static void put_tail(struct buf *out)
{
    struct cli_options unused;
    struct flag flags[FLAGSET_MAX];
    flagset_select(&unused, NULL, flags);
    buf_puts(out, ".SH FLAGS OF EVERY COMMAND\n");
    put_flags(out, flags);
    buf_puts(out, ".SH FILES\n.TP\n$XDG_CONFIG_HOME/muster/credentials.json\n");
    put(out, "the tokens of muster login, for each master; readable by their owner alone\n");
    buf_puts(out, ".SH EXIT STATUS\n0 when it was done; muster help exit\\-codes lists the "
                  "others.\n.SH SEE ALSO\n");
    const char *last = "", *glue = "";
    for (size_t i = 0; i < command_count; i++) {
        const struct command *k = &commands[i];
        if (k->verb && strcmp(last, k->noun) != 0) {
            buf_puts(out, glue);
            put_bold(out, "muster-");
            put_bold(out, k->noun);
            buf_puts(out, "(1)");
            glue = ",\n";
        }
        last = k->noun;
    }
    for (int i = 0; i < PROGRAMS; i++) {
        buf_puts(out, ",\n");
        put_bold(out, programs[i].name);
        buf_printf(out, "(%d)", programs[i].section);
    }
    buf_puts(out, "\n");
}

// muster(1): every command in a line, those of one word in full.
static void page_of_all(struct buf *out)
{
    put_title(out, "muster", 1, "submit, watch and steer training experiments");
    buf_puts(out, ".SH SYNOPSIS\n\\fBmuster\\fR \\fINOUN VERB\\fR [\\fIARGUMENT\\fR...] [flags]\n"
                  ".SH COMMANDS\n");
    for (size_t i = 0; i < command_count; i++) {
        const struct command *k = &commands[i];
        if (k->help && !k->verb) {
            put_command(out, k);
        } else if (k->help) {
            buf_puts(out, ".TP\n");
            put_usage(out, k);
            put(out, k->help);
            buf_puts(out, "\n");
        }
    }
    put_tail(out);
}

// One command alone, also one of one word.
static void page_of_command(struct buf *out, const struct command *k)
{
    char *name = xasprintf("muster-%s%s%s", k->noun, k->verb ? "-" : "", k->verb ? k->verb : "");
    put_title(out, name, 1, k->help);
    buf_puts(out, ".SH COMMANDS\n");
    put_command(out, k);
    put_tail(out);
    free(name);
}

static void page_of_noun(struct buf *out, const char *noun)
{
    char *name = xasprintf("muster-%s", noun), *about = xasprintf("commands of muster %s", noun);
    put_title(out, name, 1, about);
    buf_puts(out, ".SH SYNOPSIS\n\\fBmuster ");
    put(out, noun);
    buf_puts(out, "\\fR \\fIVERB\\fR [\\fIARGUMENT\\fR...] [flags]\n.SH COMMANDS\n");
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].noun, noun) == 0)
            put_command(out, &commands[i]);
    put_tail(out);
    free(about);
    free(name);
}

// --- the programs beside it ----------------------------------------------------------------------

// What PROGRAM WORD --help prints; the program lies where this one does.
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

static void put_heading(struct buf *out, const char *line, size_t len)
{
    buf_puts(out, ".SH ");
    for (size_t i = 0; i < len; i++) {
        char upper = (char)toupper((unsigned char)line[i]);
        put_text(out, &upper, 1);
    }
    buf_puts(out, "\n");
}

// "  -p, --port N   port of the API": the name, and behind two blanks what it is.
static void put_flag_line(struct buf *out, const char *line, size_t len)
{
    size_t at = strspn(line, " "), end = at;
    while (end + 1 < len && !(line[end] == ' ' && line[end + 1] == ' '))
        end++;
    end = end + 1 < len ? end : len;
    size_t help = end;
    while (help < len && line[help] == ' ')
        help++;
    buf_puts(out, ".TP\n\\fB");
    put_text(out, line + at, end - at);
    buf_puts(out, "\\fR\n");
    put_text(out, line + help, len - help);
    buf_puts(out, "\n");
}

// Help as the programs write it: headings end with a colon, flags and examples are indented.
static void put_help(struct buf *out, const char *text)
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
            put_flag_line(out, line, len);
        } else if (indent == 0 && line[len - 1] == ':' && len < 32) {
            put_heading(out, line, len - 1);
        } else {
            put_text(out, line + (indent < 2 ? indent : 2), len - (indent < 2 ? indent : 2));
            buf_puts(out, "\n");
        }
        if (line[len] == '\0')
            break;
    }
    buf_puts(out, verbatim ? ".fi\n.RE\n" : "");
}

// The commands of a program that has some: "  run       train an experiment file".
static int put_commands(struct buf *out, const char *program, const char *text, struct error *e)
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
            put_heading(out, title, strlen(title));
            put_help(out, help);
            free(title);
        }
        free(help);
        free(name);
    }
    return err;
}

static int page_of_program(struct buf *out, int index, struct error *e)
{
    char *text = NULL;
    const char *name = programs[index].name;
    int err = read_help(name, NULL, &text, e);
    if (!err) {
        put_title(out, name, programs[index].section, programs[index].about);
        buf_puts(out, ".SH DESCRIPTION\n");
        put_help(out, text);
        err = strcmp(name, "muster-trainer") == 0 ? put_commands(out, name, text, e) : 0;
    }
    if (!err) {
        buf_puts(out, ".SH SEE ALSO\n");
        put_bold(out, "muster");
        buf_puts(out, "(1)\n");
    }
    free(text);
    return err;
}

// --- the command ---------------------------------------------------------------------------------

// The page called "muster", "experiment", "muster-experiment" or "muster-master"; with a verb, of
// that command alone.
static int make_page(const char *name, const char *verb, struct buf *out, int *section,
                     struct error *e)
{
    *section = 1;
    for (int i = 0; i < PROGRAMS; i++) {
        if (strcmp(name, programs[i].name) == 0) {
            *section = programs[i].section;
            return page_of_program(out, i, e);
        }
    }
    if (strcmp(name, "muster") == 0) {
        page_of_all(out);
        return 0;
    }
    const char *noun = command_noun(strncmp(name, "muster-", 7) == 0 ? name + 7 : name);
    if (help_is_topic(noun, verb)) {
        page_of_noun(out, noun);
        return 0;
    }
    const struct command *command = command_find(noun, verb, e);
    if (!command || !command->help)
        return !command ? e->code : error_set(e, ERR_INVALID, "there is no page \"%s\"", name);
    page_of_command(out, command);
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

static int write_all(const char *folder, struct error *e)
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
        return write_all(c->options.to, e);
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
