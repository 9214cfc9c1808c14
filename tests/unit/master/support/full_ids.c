#include "tests/unit/master/support/full_ids.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "master/common/task_id.h"

const char *full_id(const char *text)
{
    static char texts[16][ALLOCATION_ID];
    static unsigned turn;
    struct task_id id;
    if (!text || !task_id_read(text, &id) || !id.is_short)
        return text;
    char *out = texts[turn++ % 16];
    task_id_make(out, "cluster", id.experiment, id.trial);
    if (id.number)
        snprintf(out + strlen(out), ALLOCATION_ID - strlen(out), "-%lld", (long long)id.number);
    if (id.epoch)
        snprintf(out + strlen(out), ALLOCATION_ID - strlen(out), ".%lld", (long long)id.epoch);
    return out;
}

char *with_full_ids(const char *text)
{
    static const char ends[] = "\"'/ ";
    struct buf out;
    buf_init(&out, 256 << 20);
    while (*text) {
        size_t plain = strcspn(text, ends);
        size_t between = text[plain] ? strcspn(text + plain + 1, ends) : 0;
        char id[ALLOCATION_ID];
        buf_append(&out, text, plain + (text[plain] != '\0'));
        text += plain + (text[plain] != '\0');
        bool fits = between < sizeof id && strspn(text, "0123456789.-") == between;
        if (!fits)
            continue;
        snprintf(id, sizeof id, "%.*s", (int)between, text);
        buf_printf(&out, "%s", full_id(id));
        text += between;
    }
    char *full = xstrdup(buf_str(&out));
    buf_free(&out);
    return full;
}
