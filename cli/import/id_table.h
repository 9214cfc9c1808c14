// A hash table from ids to values, for the objects of an import. The values belong to its user.
// Pure.
#ifndef MUSTER_CLI_IMPORT_ID_TABLE_H
#define MUSTER_CLI_IMPORT_ID_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct id_table { // starts as zeros
    struct id_slot {
        int64_t id;
        void *value; // NULL: free
    } * slots;
    size_t size, count; // size: 0 or a power of two
};

void id_table_put(struct id_table *t, int64_t id, void *value); // the id must be new
void *id_table_find(const struct id_table *t, int64_t id);      // NULL: none
void id_table_free(struct id_table *t, void (*free_value)(void *value));

#endif
