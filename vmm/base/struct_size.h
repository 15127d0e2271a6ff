/*
 * Checks of struct_size, for public structs that may grow. Every version of such a struct ends at a
 * multiple of the size of a pointer. So another size would end inside a member, and half of it
 * would be read or written.
 */
#ifndef MEND_BASE_STRUCT_SIZE_H
#define MEND_BASE_STRUCT_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether some version of the struct, a later one included, has this size. `least_bytes` is the end
 * of its last member larger than a pointer, or else the size of struct_size. */
static inline bool mend_struct_size_is_whole(size_t struct_size, size_t least_bytes)
{
    return struct_size >= least_bytes && struct_size % sizeof(size_t) == 0;
}

/* The same for a struct without members larger than a pointer. */
#define MEND_STRUCT_IS_WHOLE(pointer)                                                              \
    mend_struct_size_is_whole((pointer)->struct_size, sizeof((pointer)->struct_size))

/* Copies a caller's struct, whose version may be older: members that it does not know stay. False:
 * its size is wrong, or it is newer than the library. Both begin with struct_size. */
static inline bool mend_struct_read(void *to, const void *given, size_t to_bytes)
{
    size_t given_bytes;
    memcpy(&given_bytes, given, sizeof(given_bytes));
    if (!mend_struct_size_is_whole(given_bytes, sizeof(size_t)) || given_bytes > to_bytes) {
        return false;
    }
    memcpy(to, given, given_bytes);
    memcpy(to, &to_bytes, sizeof(to_bytes));
    return true;
}

/* Fills a caller's struct as far as both know it. Its struct_size stays. */
static inline void mend_struct_write(void *given, const void *from, size_t from_bytes)
{
    size_t given_bytes;
    memcpy(&given_bytes, given, sizeof(given_bytes));
    memcpy(given, from, given_bytes < from_bytes ? given_bytes : from_bytes);
    memcpy(given, &given_bytes, sizeof(given_bytes));
}

/* Copies element `at` of an array whose elements have `from_bytes`: 0 in missing members. Or to
 * element `at` of an array whose elements have `to_bytes`. */
static inline void mend_element_read(void *to, size_t to_bytes, const void *array,
                                     size_t from_bytes, size_t at)
{
    memset(to, 0, to_bytes);
    memcpy(to, (const char *)array + at * from_bytes,
           from_bytes < to_bytes ? from_bytes : to_bytes);
}
static inline void mend_element_write(void *array, size_t to_bytes, size_t at, const void *from,
                                      size_t from_bytes)
{
    mend_element_read((char *)array + at * to_bytes, to_bytes, from, from_bytes, 0);
}

#endif
