// Functions that the sources of filtered lists share:
//   filtered_list.c         parameters, the page, the answer
//   filtered_list_cursor.c  cursors and the values of `show`
//   filtered_list_driver.c  the choice of the test that drives the query
//   filtered_list_sql.c     the SQL of a page
#ifndef MUSTER_MASTER_VIEWS_LISTS_FILTERED_LIST_INTERNAL_H
#define MUSTER_MASTER_VIEWS_LISTS_FILTERED_LIST_INTERNAL_H

#include "master/views/lists/filtered_list.h"

enum filtered_list_phase {
    PHASE_ALL,
    PHASE_HAVE,
    PHASE_NONE
}; // rows that have a value to be sorted by, or none

struct filtered_list_query { // of one query
    enum filtered_list_phase phase;
    const struct sql_field *walk; // NULL: driven or sorted
};

static inline struct error *filtered_list_first_error(struct filtered_list *g)
{
    return g->error.code ? NULL : &g->error;
}

static inline const struct sql_field *filtered_list_key_field(const struct filtered_list *g,
                                                              size_t key)
{
    return sql_field_of(g->context.table, &g->keys[key].name);
}

void filtered_list_read_cursor(struct filtered_list *g);
void filtered_list_save_cursor(struct filtered_list *g, struct db_rows *rows);
void filtered_list_write_cursor(struct filtered_list *g);
json_t *filtered_list_cursor_value(const struct filtered_list *g, size_t key);
void filtered_list_save_values(struct filtered_list *g, struct db_rows *rows);
int filtered_list_write_values(struct filtered_list *g, struct error *e);
void filtered_list_add_conditions(struct filtered_list *g, const struct filter_node *covered,
                                  struct sql *out);
void filtered_list_add_source(struct filtered_list *g, const struct filtered_list_query *p,
                              struct sql *out);
void filtered_list_add_page(struct filtered_list *g, const struct filtered_list_query *p,
                            struct sql *out);
int filtered_list_read_count(struct filtered_list *g, const struct sql *s, int64_t *out,
                             struct error *e);
int filtered_list_choose_driver(struct filtered_list *g, struct error *e);

#endif
