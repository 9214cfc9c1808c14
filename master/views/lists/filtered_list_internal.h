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
    PHASE_WITH_VALUE,
    PHASE_WITHOUT_VALUE
}; // which rows: all, those with a value of the first sort key, those without one

struct filtered_list_query { // one query; a page may need two
    enum filtered_list_phase phase;
    const struct sql_field *walk; // the field whose index is walked; NULL: driven or sorted
};

static inline struct error *filtered_list_first_error(struct filtered_list *l)
{
    return l->error.code ? NULL : &l->error;
}

static inline const struct sql_field *filtered_list_key_field(const struct filtered_list *l,
                                                              size_t key)
{
    return sql_field_of(l->context.table, &l->keys[key].name);
}

void filtered_list_read_cursor(struct filtered_list *l);
void filtered_list_save_cursor(struct filtered_list *l, struct db_rows *rows);
void filtered_list_write_cursor(struct filtered_list *l);
json_t *filtered_list_cursor_value(const struct filtered_list *l, size_t key);
void filtered_list_save_values(struct filtered_list *l, struct db_rows *rows);
int filtered_list_write_values(struct filtered_list *l, struct error *e);
void filtered_list_add_conditions(struct filtered_list *l, const struct filter_node *covered,
                                  struct sql *out);
void filtered_list_add_source(struct filtered_list *l, const struct filtered_list_query *p,
                              struct sql *out);
void filtered_list_add_page(struct filtered_list *l, const struct filtered_list_query *p,
                            struct sql *out);
int filtered_list_read_count(struct filtered_list *l, const struct sql *s, int64_t *out,
                             struct error *e);
int filtered_list_choose_driver(struct filtered_list *l, struct error *e);

#endif
