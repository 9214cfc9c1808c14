// The filter language of lists: text to a tree, and back. Pure; any thread. Memory is in the
// caller's arena.
//
//   state = RUNNING and (validation.loss < 0.3 or hparams.optimizer = "adam") and not archived
//
// A test of a value that an object does not have is false, so `not (loss < 1)` is true for objects
// without a loss; != means `not =`, and `not in` means `not (in)`. An object with several values of
// a field (labels; hyperparameters over an experiment's trials) passes if one of them does.
//
// The table of fields drives the parser, its messages, the help text and completion. The master
// makes SQL from the tree (db/lists/filter_sql.h).
#ifndef MUSTER_API_FILTER_H
#define MUSTER_API_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum {
    FILTER_LENGTH_MAX = 4096, // bytes of a text
    FILTER_DEPTH_MAX = 16,    // nesting of parentheses and nots
    FILTER_TESTS_MAX = 64,
    FILTER_VALUES_MAX = 256, // in all tests together
    FILTER_KEYS_MAX = 4,     // keys of a sort
    FILTER_PARTS_MAX = 16,   // parts of a name: hparams.optimizer.momentum has three
};

// Bits: the lists that have a field. Runs are trials with fields of their experiments, for the
// filters of Determined's web client (filter_json.h).
enum filter_list { FILTER_EXPERIMENTS = 1, FILTER_TRIALS = 2, FILTER_RUNS = 4 };

enum filter_type {
    FILTER_NUMBER,
    FILTER_TEXT,
    FILTER_STATE,
    FILTER_TIME,     // microseconds since 1970
    FILTER_DURATION, // seconds
    FILTER_FLAG,
    FILTER_WORDS,  // full text
    FILTER_METRIC, // training.NAME, validation.NAME: a number for each name
    FILTER_HPARAM, // hparams.PATH: a number or a text for each path
};

struct filter_field {
    const char *name; // the table ends with NULL
    enum filter_type type;
    unsigned lists;
    bool optional; // an object may have no value: the bare name tests whether it has one
    bool sortable;
    const char *help;
};

extern const struct filter_field filter_fields[];

enum filter_pick { FILTER_LAST, FILTER_MIN, FILTER_MAX }; // which value of a metric

struct filter_name { // "validation.loss.min"
    const struct filter_field *field;
    const char *parts[FILTER_PARTS_MAX]; // after the field's own name
    size_t part_count;
    const char *key; // the parts with dots between; "": none
    enum filter_pick pick;
};

enum filter_op {
    FILTER_EQ,
    FILTER_NE,
    FILTER_LT,
    FILTER_LE,
    FILTER_GT,
    FILTER_GE,
    FILTER_IN,
    FILTER_NOT_IN,
    FILTER_HAS,   // ~ contains, ignoring the case of ASCII letters
    FILTER_FINDS, // : full text
    FILTER_IS,    // the bare name
};

enum filter_kind { FILTER_IS_NUMBER, FILTER_IS_TEXT, FILTER_IS_TIME, FILTER_IS_AGO };

struct filter_value {
    enum filter_kind kind;
    double number;    // FILTER_IS_NUMBER; true and false are 1 and 0
    const char *text; // FILTER_IS_TEXT
    int64_t time;     // FILTER_IS_TIME: microseconds since 1970; FILTER_IS_AGO: before now
};

enum filter_shape { FILTER_AND, FILTER_OR, FILTER_NOT, FILTER_TEST };

struct filter_node {
    enum filter_shape shape;
    struct filter_node *child, *next; // AND, OR: two or more children; NOT: one
    struct filter_name name;          // TEST
    enum filter_op op;
    struct filter_value *values;
    size_t value_count;
};

struct filter_key { // a key of a sort
    struct filter_name name;
    bool descending;
};

// *out is NULL if the text is blank. ERR_INVALID and ERR_TOO_LARGE name the column (from 1, in
// characters) and what was expected there.
int filter_parse(struct arena *arena, enum filter_list list, const char *text,
                 struct filter_node **out, struct error *e);

// "-validation.loss,id": the sort keys, most significant first.
int filter_parse_sort(struct arena *arena, enum filter_list list, const char *text,
                      struct filter_key keys[FILTER_KEYS_MAX], size_t *count, struct error *e);

void filter_print(const struct filter_node *tree,
                  struct buf *out); // its text parses to an equal tree
const char *filter_op_text(enum filter_op op);
void filter_document(struct buf *out); // appends the help text

#endif
