// The table of all statements, and the conversion of a statement's values from their struct
// (statements.h) to the list that batches keep and SQLite binds.

#include <string.h>

#include "base/log.h"
#include "db/store.h"

// Every member of such a struct is eight bytes wide, and a blob is twice as wide. The members are
// therefore read in order, without a table of offsets.
_Static_assert(sizeof(int64_t) == 8 && sizeof(double) == 8 && sizeof(void *) == 8 &&
                   sizeof(struct db_blob) == 16,
               "values lie at multiples of eight bytes");

enum { END, INTEGER, REAL, TEXT, BLOB, INTEGER_OR_NULL }; // types of the .def files

#define TYPE_integer         INTEGER
#define TYPE_real            REAL
#define TYPE_text            TEXT
#define TYPE_blob            BLOB
#define TYPE_integer_or_null INTEGER_OR_NULL

static const struct {
    const char *name, *sql;
    bool write;
    const unsigned char *types; // of its values; ends with END
    const char *columns;        // names of its columns: "id,name,"
} statements[STMT_COUNT] = {
#define V(type, name)            TYPE_##type,
#define C(type, name, ...)       #name ","
#define PART(row, name)          row##_ROW(C, C)
#define WRITE(name, values, sql) {#name, sql, true, (const unsigned char[]){values END}, ""},
#define READ(name, values, columns, sql)                                                           \
    {#name, sql, false, (const unsigned char[]){values END}, columns},
#include "db/statements/all.def"
};

const char *stmt_name(enum stmt stmt)
{
    return statements[stmt].name;
}

const char *stmt_sql(enum stmt stmt)
{
    return statements[stmt].sql;
}

bool stmt_is_write(enum stmt stmt)
{
    return statements[stmt].write;
}

const char *stmt_columns(enum stmt stmt)
{
    return statements[stmt].columns;
}

size_t stmt_value_count(enum stmt stmt)
{
    return strlen((const char *)statements[stmt].types);
}

struct db_value db_value_integer(int64_t value)
{
    return (struct db_value){.type = DB_INTEGER, .i = value};
}

struct db_value db_value_real(double value)
{
    return (struct db_value){.type = DB_REAL, .d = value};
}

struct db_value db_value_text(const char *value)
{
    return value ? (struct db_value){.type = DB_TEXT, .p = value, .len = strlen(value)}
                 : (struct db_value){.type = DB_NULL};
}

size_t stmt_values(enum stmt stmt, const void *values, struct db_value out[PARAMS_MAX])
{
    const unsigned char *types = statements[stmt].types;
    const union {
        int64_t integer;
        double real;
        const char *text;
        const int64_t *integer_or_null;
        const void *data;
        size_t len;
    } *member = values;
    size_t n = 0;
    for (; types[n] != END; n++) {
        must(n < PARAMS_MAX);
        member++; // skips the first member, `given`
        switch (types[n]) {
        case INTEGER:
            out[n] = db_value_integer(member->integer);
            break;
        case REAL:
            out[n] = db_value_real(member->real);
            break;
        case TEXT:
            out[n] = db_value_text(member->text);
            break;
        case INTEGER_OR_NULL:
            out[n] = member->integer_or_null ? db_value_integer(*member->integer_or_null)
                                             : (struct db_value){.type = DB_NULL};
            break;
        default:
            out[n] = (struct db_value){.type = DB_BLOB, .p = member->data};
            out[n].len = (++member)->len;
        }
    }
    return n;
}
