// Help from the command table: overview, one noun, one command; exit codes from the error table.
#ifndef MUSTER_CLI_HELP_H
#define MUSTER_CLI_HELP_H

#include <stdio.h>

#include "cli/cli.h"

// Is `muster NOUN [VERB] --help` about the noun as a whole?
bool help_is_topic(const char *noun, const char *verb);
void help_topic(const char *noun, FILE *out); // NULL: the overview
void help_command(const struct command *command, FILE *out);
void help_scheduling(FILE *out); // scheduling.c
void help_data(FILE *out);       // data.c
void help_teams(FILE *out);      // teams.c
void help_figures(FILE *out);    // simulate_table.c
// What is said of a command beside its flags; NULL: nothing.
const char *help_note(const struct command *command);
// The names of the topics, blank-separated.
const char *help_topics(void);

#endif
