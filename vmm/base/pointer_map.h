/* From an address to an object, in O(1): a hash table with open addressing. */
#ifndef MEND_BASE_POINTER_MAP_H
#define MEND_BASE_POINTER_MAP_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mend_pointer_entry {
    uint64_t key; /* 0: the entry is empty */
    void *value;
} mend_pointer_entry;

typedef struct mend_pointer_map {
    mend_pointer_entry *entries;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
    size_t promised_count; /* keys that operations in progress will insert */
} mend_pointer_map;

void mend_pointer_map_init(mend_pointer_map *map);
void mend_pointer_map_clear(mend_pointer_map *map);

/* Reserves an entry for one more key. False if malloc fails: nothing changed. */
bool mend_pointer_map_grow(mend_pointer_map *map);
static inline bool mend_pointer_map_reserve(mend_pointer_map *map)
{
    return (map->count + map->promised_count + 1) * 2 <= map->capacity ||
           mend_pointer_map_grow(map);
}

/* The same, but the entry stays reserved until mend_pointer_map_end_promise, whatever others
 * insert. */
bool mend_pointer_map_promise(mend_pointer_map *map);
void mend_pointer_map_end_promise(mend_pointer_map *map);

/* `key` is not 0 and not in the map, and the caller reserved its entry. */
void mend_pointer_map_insert(mend_pointer_map *map, uint64_t key, void *value);

/* The index where the search for a key begins. Addresses are multiples of 512: a multiplicative
 * hash spreads them. */
static inline size_t mend_pointer_map_home(const mend_pointer_map *map, uint64_t key)
{
    assert(map->capacity > 0);
    return (size_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 29) & (map->capacity - 1);
}

/* NULL if the key is not in the map. */
static inline void *mend_pointer_map_find(const mend_pointer_map *map, uint64_t key)
{
    if (map->capacity == 0) {
        return NULL;
    }
    for (size_t at = mend_pointer_map_home(map, key);; at = (at + 1) & (map->capacity - 1)) {
        const mend_pointer_entry *entry = &map->entries[at];
        if (entry->key == key) {
            return entry->value;
        }
        if (entry->key == 0) {
            return NULL;
        }
    }
}

void *mend_pointer_map_remove(mend_pointer_map *map, uint64_t key);

#endif
