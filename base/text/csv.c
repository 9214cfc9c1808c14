#include "base/text/csv.h"

#include <string.h>
#include <strings.h>

// Digits with at most one point and an exponent (-1.5, +3, .5e-7), or inf, infinity or nan.
static bool is_number(const char *text)
{
    static const char *const words[] = {"inf", "infinity", "nan"};
    text += *text == '-' || *text == '+';
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    size_t whole = strspn(text, "0123456789");
    text += whole;
    size_t part = *text == '.' ? strspn(text + 1, "0123456789") : 0;
    text += *text == '.' ? 1 + part : 0;
    if (whole + part > 0 && (*text == 'e' || *text == 'E')) {
        text += 1 + (text[1] == '-' || text[1] == '+');
        size_t exponent = strspn(text, "0123456789");
        return exponent > 0 && text[exponent] == '\0';
    }
    return whole + part > 0 && *text == '\0';
}

// Returns whether the cell needs the apostrophe.
static bool is_formula(const char *text)
{
    static const char *const full_width[] = {"\uff1d", "\uff0b", "\uff0d", "\uff20"};
    for (size_t i = 0; i < sizeof full_width / sizeof full_width[0]; i++)
        if (strncmp(text, full_width[i], strlen(full_width[i])) == 0)
            return true;
    return *text && strchr("=+-@\t\r\n", *text) && !is_number(text);
}

void csv_append_cell(struct buf *out, const char *text)
{
    const char *mark = is_formula(text) ? "'" : "";
    if (!strpbrk(text, ",\"\r\n")) {
        buf_printf(out, "%s%s", mark, text);
        return;
    }
    buf_printf(out, "\"%s", mark);
    for (const char *c = text; *c; c++) {
        if (*c == '"')
            buf_puts(out, "\"");
        buf_append(out, c, 1);
    }
    buf_puts(out, "\"");
}
