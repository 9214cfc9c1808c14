#include "base/text/log_text.h"

static int is_control(unsigned char c)
{
    return c == 0x7f || (c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != 0x1b);
}

size_t log_text_span(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && !is_control((unsigned char)text[n]))
        n++;
    return n;
}
