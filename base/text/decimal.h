// A faster strtod(3) with the same result, the nearest double: metrics come as numbers of 17
// digits. Any thread.
#ifndef MUSTER_BASE_TEXT_DECIMAL_H
#define MUSTER_BASE_TEXT_DECIMAL_H

// `text` begins with a JSON number; a character that cannot continue the number must follow it.
double decimal_to_double(const char *text);

#endif
