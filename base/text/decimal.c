#include "base/text/decimal.h"

#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// A long double with a 64-bit mantissa holds integers up to 2^64 and powers of ten up to 10^27
// exactly, so their product or quotient has an error of at most half a unit in the last place.
// Rounding it to 53 bits gives the nearest double, unless the 11 bits that are dropped are exactly
// one half. strtod() converts these numbers and all numbers beyond the limits above.
#if LDBL_MANT_DIG == 64

enum { POWERS = 27, DIGITS_MAX = 19, DROPPED_BITS = 11 };

static const long double powers[POWERS + 1] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                               1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                               1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L,
                                               1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

struct decimal {
    uint64_t digits;
    int count, exponent;
};

static const char *parse_digits(const char *at, struct decimal *d, bool fraction)
{
    for (; *at >= '0' && *at <= '9'; at++) {
        d->digits = d->digits * 10 + (uint64_t)(*at - '0');
        d->count += d->digits > 0; // leading zeros do not count
        d->exponent -= fraction;
        if (d->count > DIGITS_MAX)
            return NULL;
    }
    return at;
}

static bool parse_exponent(const char *at, struct decimal *d)
{
    int exponent = 0;
    bool negative = *at == '-';
    at += *at == '-' || *at == '+';
    for (; *at >= '0' && *at <= '9' && exponent < 1000; at++)
        exponent = exponent * 10 + (*at - '0');
    d->exponent += negative ? -exponent : exponent;
    return d->exponent >= -POWERS && d->exponent <= POWERS;
}

static bool parse_exactly(const char *at, double *out)
{
    struct decimal d = {0};
    bool negative = *at == '-';
    uint64_t mantissa;
    at = parse_digits(at + negative, &d, false);
    if (at && *at == '.')
        at = parse_digits(at + 1, &d, true);
    if (!at || !parse_exponent(*at == 'e' || *at == 'E' ? at + 1 : "", &d))
        return false;
    long double value = (long double)d.digits;
    value = d.exponent < 0 ? value / powers[-d.exponent] : value * powers[d.exponent];
    memcpy(&mantissa, &value, sizeof mantissa);
    *out = (double)(negative ? -value : value);
    return (mantissa & ((1u << DROPPED_BITS) - 1)) != 1u << (DROPPED_BITS - 1);
}

double decimal_to_double(const char *text)
{
    double value;
    return parse_exactly(text, &value) ? value : strtod(text, NULL);
}

#else

double decimal_to_double(const char *text)
{
    return strtod(text, NULL);
}

#endif
