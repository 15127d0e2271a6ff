/* Sizes and powers of two. */
#ifndef MEND_BASE_ALIGN_H
#define MEND_BASE_ALIGN_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
