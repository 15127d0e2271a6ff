/*
 * Checks of struct_size, for public structs that may grow. Every version of such a struct ends at a
 * multiple of the size of a pointer. So another size would end inside a member, and half of it
 * would be read or written.
 */
#ifndef MEND_BASE_STRUCT_SIZE_H
#define MEND_BASE_STRUCT_SIZE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether some version of the struct, a later one included, has this size. `least_bytes`: the end
 * of its last member that is larger than a pointer, or else the size of struct_size. */
static inline bool mend_struct_size_is_whole(size_t struct_size, size_t least_bytes)
{
    return struct_size >= least_bytes && struct_size % sizeof(size_t) == 0;
}

/* The same for a struct without members larger than a pointer. */
#define MEND_STRUCT_IS_WHOLE(pointer)                                                              \
    mend_struct_size_is_whole((pointer)->struct_size, sizeof((pointer)->struct_size))

#endif
