// The double that is nearest to a decimal number, as strtod(3) gives it, several times as fast:
// most of what a training reports has 17 digits. Any thread.
#ifndef MUSTER_BASE_TEXT_DECIMAL_H
#define MUSTER_BASE_TEXT_DECIMAL_H

// `text` begins with a number as JSON writes them, which ends before a letter that is no part of
// one.
double decimal_to_double(const char *text);

#endif
