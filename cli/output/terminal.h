// Standard output and error on a terminal. Names, logs, reasons and errors are text of others, and
// a terminal obeys what it is sent; so everything that this program prints on one passes a filter
// that escapes what is not shown as it is (base/printable.h). Line breaks and tabs stay. What this
// program itself wants of the terminal goes past the filter, by terminal_control().
//
// Standard output into a pipe or a file is not touched. One thread.
#ifndef MUSTER_CLI_TERMINAL_H
#define MUSTER_CLI_TERMINAL_H

#include <stdio.h>

// Puts the filter before stdout and stderr where these are terminals; before anything is printed.
void terminal_begin(void);
// Writes what the streams still hold.
void terminal_end(void);

// Sends `sequence`, such as "\r\033[K", to the terminal behind `to`; nothing if there is none.
void terminal_control(FILE *to, const char *sequence);

#endif
