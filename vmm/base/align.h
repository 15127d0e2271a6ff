/* Sizes: of memory, and of public structs that may grow. */
#ifndef MEND_BASE_ALIGN_H
#define MEND_BASE_ALIGN_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MEND_KIB (UINT64_C(1) << 10)
#define MEND_MIB (UINT64_C(1) << 20)
#define MEND_GIB (UINT64_C(1) << 30)
#define MEND_TIB (UINT64_C(1) << 40)

/* No two blocks share a granule: sizes are multiples of it, addresses are aligned to it. */
#define MEND_GRANULE_BYTES UINT64_C(512)
static_assert((MEND_GRANULE_BYTES & (MEND_GRANULE_BYTES - 1)) == 0, "a granule is a power of two");

static inline bool mend_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* `alignment` is not 0 and need not be a power of two. The caller makes sure that nothing
 * overflows. */
static inline uint64_t mend_align_down(uint64_t value, uint64_t alignment)
{
    assert(alignment != 0);
    return value - value % alignment;
}

static inline uint64_t mend_align_up(uint64_t value, uint64_t alignment)
{
    assert(value <= UINT64_MAX - (alignment - 1));
    return mend_align_down(value + (alignment - 1), alignment);
}

/* The largest power of two that is not above `value`. `value` is not 0. */
static inline uint64_t mend_power_of_two_floor(uint64_t value)
{
    assert(value != 0);
    return UINT64_C(1) << (63 - __builtin_clzll(value));
}

static inline uint64_t mend_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static inline uint64_t mend_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Of any number of bytes: no product overflows. */
static inline uint64_t mend_percent_of(uint64_t bytes, uint64_t percent)
{
    return bytes / 100 * percent + bytes % 100 * percent / 100;
}

/* For sorting: negative, 0 or positive. */
static inline int mend_compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Raises *peak to `value` if that is more. The usual case is one branch not taken and no store. */
static inline void mend_raise_u64(uint64_t *peak, uint64_t value)
{
    if (value > *peak) {
        *peak = value;
    }
}

/* The structure that contains `member` at `pointer`. */
#define MEND_CONTAINER_OF(pointer, type, member)                                                   \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* The same, or NULL for NULL. The pointer, often a search, is evaluated once. */
#define MEND_CONTAINER_OR_NULL(pointer, type, member)                                              \
    ((type *)mend_container_or_null((pointer), offsetof(type, member)))
static inline void *mend_container_or_null(const void *member, size_t offset_bytes)
{
    return member != NULL ? (char *)member - offset_bytes : NULL;
}

/* ---- struct_size ----------------------------------------------------------------------------- */

/* Every version of a public struct that may grow ends at a multiple of the size of a pointer. So
 * another size would end inside a member, and half of it would be read or written. */

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
