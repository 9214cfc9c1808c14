// A map from ids to objects: an array sorted by id. Ids mostly grow, so that a new object is added
// at the end. The owner frees `items`, and the objects. Core thread alone.
#ifndef MUSTER_MASTER_KERNEL_BY_ID_H
#define MUSTER_MASTER_KERNEL_BY_ID_H

#include <stddef.h>
#include <stdint.h>

struct by_id {
    struct by_id_item {
        int64_t id;
        void *value;
    } * items;
    size_t count, cap;
};

void by_id_put(struct by_id *set, int64_t id, void *value);
void *by_id_find(const struct by_id *set, int64_t id); // NULL: none
void by_id_remove(struct by_id *set, int64_t id);

#endif
