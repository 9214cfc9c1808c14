// Macros for the rows of the tables of keys (expconf_*.c).
#ifndef MUSTER_API_EXPCONF_ROWS_H
#define MUSTER_API_EXPCONF_ROWS_H

#include "base/text/schema.h"

#define END                                                                                        \
    {                                                                                              \
        .name = NULL                                                                               \
    }
#define BIG 1e15 // below 2^53: every JSON reader keeps such integers exactly

#define STRING(key, def, text)                                                                     \
    {                                                                                              \
        .name = key, .type = SCHEMA_STRING, .fallback = def, .doc = text                           \
    }
#define STRING_REQUIRED(key, text)                                                                 \
    {                                                                                              \
        .name = key, .type = SCHEMA_STRING, .required = true, .doc = text                          \
    }
#define STRING_OR_NULL(key, text)                                                                  \
    {                                                                                              \
        .name = key, .type = SCHEMA_STRING, .nullable = true, .fallback = "null", .doc = text      \
    }
#define INT(key, low, high, def, text)                                                             \
    {                                                                                              \
        .name = key, .type = SCHEMA_INT, .min = low, .max = high, .fallback = def, .doc = text     \
    }
#define INT_REQUIRED(key, low, high, text)                                                         \
    {                                                                                              \
        .name = key, .type = SCHEMA_INT, .min = low, .max = high, .required = true, .doc = text    \
    }
#define INT_OPTIONAL(key, low, high, text)                                                         \
    {                                                                                              \
        .name = key, .type = SCHEMA_INT, .min = low, .max = high, .doc = text                      \
    }
#define INT_OR_NULL(key, low, high, text)                                                          \
    {                                                                                              \
        .name = key, .type = SCHEMA_INT, .min = low, .max = high, .nullable = true,                \
        .fallback = "null", .doc = text                                                            \
    }
#define NUMBER(key, low, high, def, text)                                                          \
    {                                                                                              \
        .name = key, .type = SCHEMA_NUMBER, .min = low, .max = high, .fallback = def, .doc = text  \
    }
#define NUMBER_REQUIRED(key, low, high, text)                                                      \
    {                                                                                              \
        .name = key, .type = SCHEMA_NUMBER, .min = low, .max = high, .required = true, .doc = text \
    }
#define BOOL(key, def, text)                                                                       \
    {                                                                                              \
        .name = key, .type = SCHEMA_BOOL, .fallback = def, .doc = text                             \
    }
#define WORD(key, list, def, text)                                                                 \
    {                                                                                              \
        .name = key, .type = SCHEMA_ENUM, .words = list, .fallback = def, .doc = text              \
    }
#define OBJECT(key, list, def, text)                                                               \
    {                                                                                              \
        .name = key, .type = SCHEMA_OBJECT, .fields = list, .fallback = def, .doc = text           \
    }
#define UNION(key, by, list, text)                                                                 \
    {                                                                                              \
        .name = key, .type = SCHEMA_UNION, .tag = by, .variants = list, .required = true,          \
        .doc = text                                                                                \
    }
#define LIST(key, of, def, text)                                                                   \
    {                                                                                              \
        .name = key, .type = SCHEMA_LIST, .element = of, .fallback = def, .doc = text              \
    }
#define MAP(key, of, def, text)                                                                    \
    {                                                                                              \
        .name = key, .type = SCHEMA_MAP, .element = of, .fallback = def, .doc = text               \
    }
#define ONE_OF(key, list, def, text)                                                               \
    {                                                                                              \
        .name = key, .type = SCHEMA_ONE_OF, .fields = list, .nullable = true, .fallback = def,     \
        .doc = text                                                                                \
    }
#define ANYTHING(key, def, text)                                                                   \
    {                                                                                              \
        .name = key, .type = SCHEMA_ANY, .nullable = true, .fallback = def, .doc = text            \
    }

#endif
