// A map from ids to objects: an array sorted by id. Ids mostly grow, so that a new object is added
// at the end. The owner frees `items`, and the objects. Core thread alone.
#ifndef MUSTER_MASTER_KERNEL_ID_MAP_H
#define MUSTER_MASTER_KERNEL_ID_MAP_H

#include <stddef.h>
#include <stdint.h>

struct id_map {
    struct id_map_item {
        int64_t id;
        void *value;
    } * items;
    size_t count, cap;
};

void id_map_put(struct id_map *set, int64_t id, void *value);
void *id_map_find(const struct id_map *set, int64_t id); // NULL: none
void id_map_remove(struct id_map *set, int64_t id);

#endif
