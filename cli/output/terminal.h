// Filters standard output and error if they are terminals. Other people write names, logs, reasons
// and errors, and a terminal obeys control sequences in them. So everything that this program
// prints on a terminal passes a filter that escapes unprintable characters (base/printable.h); line
// breaks and tabs stay. The program's own control sequences bypass the filter by
// terminal_control().
//
// Output into a pipe or a file stays unchanged. One thread.
#ifndef MUSTER_CLI_TERMINAL_H
#define MUSTER_CLI_TERMINAL_H

#include <stdio.h>

// Installs the filter on stdout and stderr if they are terminals. Call it before printing anything.
void terminal_begin(void);
// Writes buffered output.
void terminal_end(void);

// Sends `sequence`, such as "\r\033[K", to the terminal of `to`; does nothing without a terminal.
void terminal_control(FILE *to, const char *sequence);

#endif
