/*
 * The state of each stream, and of all: the records that the files of this room work on.
 * physical/stream.h explains epochs, stamps and groups.
 */
#include "physical/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 8 };

bool mend_streams_grow(void *array, size_t *capacity, size_t count, size_t element_bytes)
{
    assert(count > 0);
    assert(element_bytes > 0);
    if (count <= *capacity) {
        return true;
    }
    size_t larger = *capacity ? *capacity : FIRST_CAPACITY;
    while (larger < count) {
        larger *= 2;
    }
    void *old;
    memcpy(&old, array, sizeof(old));
    assert((old == NULL) == (*capacity == 0));
    char *moved = realloc(old, larger * element_bytes);
    if (moved == NULL) {
        return false;
    }
    memset(moved + *capacity * element_bytes, 0, (larger - *capacity) * element_bytes);
    memcpy(array, &moved, sizeof(moved));
    assert(larger >= count);
    *capacity = larger;
    return true;
}
