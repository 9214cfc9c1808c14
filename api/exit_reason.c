#include "api/exit_reason.h"

#include <string.h>

// Skips "WORD NUMBER: " if something follows it.
static const char *skip_number(const char *reason, const char *word)
{
    size_t len = strlen(word), digits = 0;
    if (strncmp(reason, word, len) == 0)
        digits = strspn(reason + len, "0123456789");
    return digits > 0 && strncmp(reason + len + digits, ": ", 2) == 0 ? reason + len + digits + 2
                                                                      : reason;
}

const char *exit_reason_error(const char *reason)
{
    return skip_number(skip_number(reason, "rank "), "exit ");
}
