/* The table doubles when it is half full. An entry that is removed leaves no mark: later ones of
 * its cluster move back. */
#include "base/pointer_map.h"

#include <stdlib.h>

#include "base/slab.h"

enum { FIRST_CAPACITY = 256 };

void mend_pointer_map_init(mend_pointer_map *map)
{
    *map = (mend_pointer_map){0};
}

void mend_pointer_map_clear(mend_pointer_map *map)
{
    assert(map->promised_count == 0);
    free(map->entries);
    mend_pointer_map_init(map);
}

static void place(mend_pointer_map *map, uint64_t key, void *value)
{
    assert(key != 0);
    assert(value != NULL);
    assert((map->count + 1) * 2 <= map->capacity);
    size_t at = mend_pointer_map_home(map, key);
    while (map->entries[at].key != 0) {
        assert(map->entries[at].key != key);
        at = (at + 1) & (map->capacity - 1);
    }
    map->entries[at] = (mend_pointer_entry){key, value};
    map->count++;
}

bool mend_pointer_map_grow(mend_pointer_map *map)
{
    mend_pointer_map larger = {.capacity = map->capacity ? map->capacity * 2 : FIRST_CAPACITY,
                               .promised_count = map->promised_count};
    larger.entries = calloc(larger.capacity, sizeof(mend_pointer_entry));
    if (larger.entries == NULL) {
        return false;
    }
    mend_pages_prefer_large(larger.entries, larger.capacity * sizeof(mend_pointer_entry));
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->entries[i].key != 0) {
            place(&larger, map->entries[i].key, map->entries[i].value);
        }
    }
    assert(larger.count == map->count);
    free(map->entries);
    *map = larger;
    return true;
}

bool mend_pointer_map_promise(mend_pointer_map *map)
{
    bool is_reserved = mend_pointer_map_reserve(map);
    map->promised_count += is_reserved;
    return is_reserved;
}

void mend_pointer_map_end_promise(mend_pointer_map *map)
{
    assert(map->promised_count > 0);
    map->promised_count--;
}

void mend_pointer_map_insert(mend_pointer_map *map, uint64_t key, void *value)
{
    assert(map->count + map->promised_count < map->capacity / 2);
    place(map, key, value);
}

void *mend_pointer_map_remove(mend_pointer_map *map, uint64_t key)
{
    if (map->capacity == 0) {
        return NULL;
    }
    size_t mask = map->capacity - 1;
    size_t hole = mend_pointer_map_home(map, key);
    while (map->entries[hole].key != key && map->entries[hole].key != 0) {
        hole = (hole + 1) & mask;
    }
    void *value = map->entries[hole].value;
    if (value == NULL) { /* an empty entry */
        return NULL;
    }
    /* Moves later entries of the same cluster back, so that no search stops early at the hole. */
    for (size_t at = (hole + 1) & mask; map->entries[at].key != 0; at = (at + 1) & mask) {
        size_t home = mend_pointer_map_home(map, map->entries[at].key);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->entries[hole] = map->entries[at];
            hole = at;
        }
    }
    assert(map->count > 0);
    map->entries[hole] = (mend_pointer_entry){0, NULL};
    map->count--;
    return value;
}
