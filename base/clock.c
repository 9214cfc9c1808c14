#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"

enum { SECOND_US = 1000000 };

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    must(clock_gettime(id, &now) == 0);
    return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

int64_t clock_wall_us(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t clock_mono_us(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_cpu_us(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void clock_sleep_us(int64_t us)
{
    if (us <= 0)
        return;
    struct timespec rest = {.tv_sec = us / SECOND_US, .tv_nsec = us % SECOND_US * 1000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

// Writes `number` with `digits` digits; returns the end of the text.
static char *write_digits(char *out, int number, int digits)
{
    for (int i = digits - 1; i >= 0; i--, number /= 10)
        out[i] = (char)('0' + number % 10);
    return out + digits;
}

// Written by hand, because strftime() took a sixth of the time of a list with many timestamps.
const char *clock_format(int64_t wall_us, char out[CLOCK_RFC3339_MAX])
{
    int64_t micros = wall_us % SECOND_US;
    if (micros < 0) // before 1970
        micros += SECOND_US;
    time_t seconds = (time_t)((wall_us - micros) / SECOND_US);
    struct tm tm;
    must(gmtime_r(&seconds, &tm));
    int year = tm.tm_year + 1900;
    if (year < 0 || year > 9999) { // outside RFC 3339
        size_t len = strftime(out, CLOCK_RFC3339_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(out + len, CLOCK_RFC3339_MAX - len, ".%06dZ", (int)micros);
        return out;
    }
    const struct {
        int number, digits;
        char sign;
    } parts[] = {{year, 4, '-'},       {tm.tm_mon + 1, 2, '-'}, {tm.tm_mday, 2, 'T'},
                 {tm.tm_hour, 2, ':'}, {tm.tm_min, 2, ':'},     {tm.tm_sec, 2, '.'},
                 {(int)micros, 6, 'Z'}};
    char *at = out;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        at = write_digits(at, parts[i].number, parts[i].digits);
        *at++ = parts[i].sign;
    }
    *at = '\0';
    return out;
}

// Reads exactly `count` digits at *text and moves past them.
static bool parse_digits(const char **text, int count, int *out)
{
    *out = 0;
    for (int i = 0; i < count; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        *out = *out * 10 + (**text - '0');
    }
    return true;
}

static bool parse_character(const char **text, char upper, char lower)
{
    if (**text != upper && **text != lower)
        return false;
    (*text)++;
    return true;
}

static bool parse_date(const char **text, struct tm *tm)
{
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year, month, day;
    if (!parse_digits(text, 4, &year) || !parse_character(text, '-', '-') ||
        !parse_digits(text, 2, &month) || !parse_character(text, '-', '-') ||
        !parse_digits(text, 2, &day) || month < 1 || month > 12)
        return false;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    int days = month_days[month - 1] + (month == 2 && leap);
    tm->tm_year = year - 1900;
    tm->tm_mon = month - 1;
    tm->tm_mday = day;
    return day >= 1 && day <= days;
}

// Accepts second 60, a leap second; timegm() carries it into the next minute.
static bool parse_time(const char **text, struct tm *tm)
{
    return parse_digits(text, 2, &tm->tm_hour) && parse_character(text, ':', ':') &&
           parse_digits(text, 2, &tm->tm_min) && parse_character(text, ':', ':') &&
           parse_digits(text, 2, &tm->tm_sec) && tm->tm_hour <= 23 && tm->tm_min <= 59 &&
           tm->tm_sec <= 60;
}

// Ignores the digits after the sixth.
static bool parse_fraction(const char **text, int *micros)
{
    *micros = 0;
    if (!parse_character(text, '.', '.'))
        return true;
    int scale = SECOND_US / 10, digit;
    if (!parse_digits(text, 1, &digit))
        return false;
    do {
        *micros += digit * scale;
        scale /= 10;
    } while (**text >= '0' && **text <= '9' && parse_digits(text, 1, &digit));
    return true;
}

static bool parse_offset(const char **text, int *seconds)
{
    *seconds = 0;
    if (parse_character(text, 'Z', 'z'))
        return true;
    int sign = **text == '-' ? -1 : 1, hours, minutes;
    if (!parse_character(text, '+', '-') || !parse_digits(text, 2, &hours) ||
        !parse_character(text, ':', ':') || !parse_digits(text, 2, &minutes) || hours > 23 ||
        minutes > 59)
        return false;
    *seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

int clock_parse(const char *rfc3339, int64_t *wall_us)
{
    struct tm tm = {0};
    int micros, offset;
    if (!parse_date(&rfc3339, &tm) || !parse_character(&rfc3339, 'T', 't') ||
        !parse_time(&rfc3339, &tm) || !parse_fraction(&rfc3339, &micros) ||
        !parse_offset(&rfc3339, &offset) || *rfc3339 != '\0')
        return ERR_INVALID;
    *wall_us = ((int64_t)timegm(&tm) - offset) * SECOND_US + micros;
    return 0;
}

const char *duration_format(int64_t us, char *out, size_t cap)
{
    const char *sign = us < 0 ? "-" : "";
    uint64_t left = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
    uint64_t seconds = left / SECOND_US;
    unsigned long long days = seconds / 86400, hours = seconds / 3600, minutes = seconds / 60;
    if (days > 0)
        snprintf(out, cap, "%s%llud %02lluh", sign, days, hours % 24);
    else if (hours > 0)
        snprintf(out, cap, "%s%lluh %02llum", sign, hours, minutes % 60);
    else if (minutes > 0)
        snprintf(out, cap, "%s%llum %02llus", sign, minutes, (unsigned long long)seconds % 60);
    else if (seconds > 0)
        snprintf(out, cap, "%s%llu.%llu s", sign, (unsigned long long)seconds,
                 (unsigned long long)(left / 100000 % 10));
    else if (left == 0)
        snprintf(out, cap, "0 s");
    else if (left >= 1000)
        snprintf(out, cap, "%s%llu ms", sign, (unsigned long long)(left / 1000));
    else
        snprintf(out, cap, "%s%llu us", sign, (unsigned long long)left);
    return out;
}

// Returns the microseconds of the unit at `text`, or 0 for an unknown unit. *len: bytes of its
// name.
static double parse_unit(const char *text, size_t *len)
{
    static const struct {
        const char *name;
        double us;
    } units[] = {{"ns", 1e-3}, {"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"m", 60e6}, {"h", 3600e6}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        *len = strlen(units[i].name);
        if (!strncmp(text, units[i].name, *len))
            return units[i].us;
    }
    return 0;
}

int duration_parse(const char *text, int64_t *us)
{
    const double limit = 9e18;
    bool negative = *text == '-';
    double sum = 0;
    text += negative || *text == '+';
    if (!*text)
        return ERR_INVALID;
    while (*text) {
        char *end;
        size_t len;
        if (!isdigit((unsigned char)*text) && *text != '.')
            return ERR_INVALID;
        double number = strtod(text, &end);
        double unit = parse_unit(end, &len);
        if (end == text || strpbrk(text, "xXpPeE") || unit == 0)
            return ERR_INVALID;
        sum += number * unit;
        text = end + len;
    }
    if (!(sum < limit))
        return ERR_INVALID;
    *us = (int64_t)(negative ? -sum : sum);
    return 0;
}
