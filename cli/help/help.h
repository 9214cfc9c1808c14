// Help from the command table: overview, one noun, one command; exit codes from the error table.
#ifndef MUSTER_CLI_HELP_H
#define MUSTER_CLI_HELP_H

#include <stdio.h>

#include "cli/cli.h"

// Whether `muster NOUN [VERB] --help` asks about the noun as a whole.
bool help_is_topic(const char *noun, const char *verb);
void help_topic(const char *noun, FILE *out); // NULL: the overview
void help_command(const struct command *command, FILE *out);
void help_scheduling(FILE *out); // help_scheduling.c
void help_data(FILE *out);       // help_data.c
void help_teams(FILE *out);      // help_teams.c
void help_figures(FILE *out);    // simulate_table.c
// An additional paragraph in the help of the command; NULL: none.
const char *help_note(const struct command *command);
// The names of the topics, separated by blanks.
const char *help_topics(void);

#endif
