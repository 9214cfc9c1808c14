#include "base/pattern.h"

#include <string.h>

int pattern_compile(const char *text, const char *where, regex_t *out, struct error *e)
{
    if (strlen(text) > PATTERN_MAX)
        return error_set(e, ERR_TOO_LARGE, "%s: a pattern has at most %d bytes", where,
                         PATTERN_MAX);
    for (const char *c = text; *c; c++)
        if (*c == '{' || (*c == '\\' && c[1] >= '1' && c[1] <= '9'))
            return error_set(e, ERR_INVALID,
                             "%s: patterns have no {counts} and no back references here; write "
                             "them out",
                             where);
    int rc = regcomp(out, text, REG_EXTENDED | REG_NOSUB);
    if (rc) {
        char why[128];
        regerror(rc, out, why, sizeof why);
        return error_set(e, ERR_INVALID, "%s: \"%s\": %s", where, text, why);
    }
    return 0;
}
