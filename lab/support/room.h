/* Arrays that double. */
#ifndef MEND_LAB_SUPPORT_ROOM_H
#define MEND_LAB_SUPPORT_ROOM_H

#include <stdlib.h>

/* The array with space for one more object than `count`. NULL: malloc failed, and it stays as it
 * is.
 */
static inline void *mend_with_room(void *array, size_t count, size_t *room, size_t object_bytes)
{
    if (count < *room) {
        return array;
    }
    const size_t larger = *room == 0 ? 1024 : *room * 2;
    void *grown = reallocarray(array, larger, object_bytes);
    *room = grown != NULL ? larger : *room;
    return grown;
}

#endif
