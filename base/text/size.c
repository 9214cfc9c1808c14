#include "base/text/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int scale_of(const char *unit, double *scale)
{
    static const struct {
        const char *word;
        double scale;
    } units[] = {{"", 1},
                 {"K", 1 << 10},
                 {"KiB", 1 << 10},
                 {"M", 1 << 20},
                 {"MiB", 1 << 20},
                 {"G", 1 << 30},
                 {"GiB", 1 << 30},
                 {"T", 1024.0 * (1 << 30)},
                 {"TiB", 1024.0 * (1 << 30)}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i].word)) {
            *scale = units[i].scale;
            return 0;
        }
    return -1;
}

int disk_size_parse(const char *text, struct disk_size *out, struct error *e)
{
    char *unit;
    double scale, number = strtod(text, &unit);
    bool sound = unit != text && number >= 0 && *text >= '0' && *text <= '9';
    *out = (struct disk_size){0};
    if (sound && !strcmp(unit, "%") && number < 100) {
        out->percent = number;
        return 0;
    }
    if (sound && !scale_of(unit, &scale) && number * scale < 1e18) {
        out->bytes = (uint64_t)(number * scale);
        return 0;
    }
    return error_set(
        e, ERR_INVALID,
        "\"%.64s\" is no size: give bytes with a unit (2GiB, 500M), a part of the disk "
        "below 100 %% (5%%), or 0 for none",
        text);
}

uint64_t disk_size_of(const struct disk_size *f, uint64_t total)
{
    uint64_t part = (uint64_t)((double)total * f->percent / 100);
    if (!f->percent)
        return f->bytes;
    return f->bytes && f->bytes < part ? f->bytes : part;
}

const char *size_text(uint64_t bytes, char out[SIZE_TEXT])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double size = (double)bytes;
    int unit = 0;
    for (; size >= 1024 && unit < 5; unit++)
        size /= 1024;
    snprintf(out, SIZE_TEXT, "%.*f %s", unit && size < 100, size, units[unit]);
    return out;
}
