// The characters that a log line may hold. Control bytes in the output of programs, above all NUL,
// would end the line early or change the terminal of its reader. Pure; any thread.
#ifndef MUSTER_BASE_TEXT_LOG_TEXT_H
#define MUSTER_BASE_TEXT_LOG_TEXT_H

#include <stddef.h>

// Takes the place of each byte that a line may not hold: U+FFFD.
#define LOG_TEXT_MARK "\xEF\xBF\xBD"

// The number of bytes before the first control byte. Tabs, line ends and escape (of colours) are no
// control bytes here.
size_t log_text_span(const char *text, size_t len);

#endif
