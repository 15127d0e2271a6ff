/*
 * Structs of the interface that grow: what struct_size may say. Every version of one ends where a
 * pointer could begin, so that a size which does not cuts through a member, and half of it would be
 * read or written.
 */
#ifndef MEND_BASE_STRUCT_SIZE_H
#define MEND_BASE_STRUCT_SIZE_H

#include <stdbool.h>
#include <stddef.h>

/* Some version of the struct may be so long, a later one included. `least_bytes`: where its last
 * member ends that is larger than a pointer, or struct_size itself. */
static inline bool mend_struct_size_is_whole(size_t struct_size, size_t least_bytes)
{
    return struct_size >= least_bytes && struct_size % sizeof(size_t) == 0;
}

/* The same of a struct of members as large as a pointer at most. */
#define MEND_STRUCT_IS_WHOLE(pointer)                                                              \
    mend_struct_size_is_whole((pointer)->struct_size, sizeof((pointer)->struct_size))

#endif
