/* Steps of the tests of ranges. */
#ifndef MEND_TESTS_UNIT_POOL_PAGES_H
#define MEND_TESTS_UNIT_POOL_PAGES_H

#include "mend/mend_range.h"
#include "tests/support/kit.h"

#define PAGE (256 * MEND_KIB)

static inline mend_range *create(mend_world *w, uint64_t size_bytes, uint64_t page_bytes)
{
    mend_range_options options = MEND_RANGE_OPTIONS_INIT;
    options.page_bytes = page_bytes;
    options.tag = 7;
    mend_range *range = NULL;
    EXPECT_OK(mend_range_create(w->pool, size_bytes, &options, &range));
    return range;
}

static inline mend_range_info info_of(mend_range *range)
{
    mend_range_info info = MEND_RANGE_INFO_INIT;
    EXPECT_OK(mend_range_get_info(range, &info));
    return info;
}

static inline void *at(mend_range *range, uint64_t offset_bytes)
{
    return (char *)info_of(range).base + offset_bytes;
}

static inline uint64_t calls_of(mend_world *w)
{
    return mend_sim_call_count(w->sim);
}

/* The GPU writes the pages, and compares them. */
static inline void use(mend_world *w, mend_range *range, uint64_t offset_bytes, uint64_t size_bytes,
                       mend_stream stream)
{
    kit_use(w, stream, at(range, offset_bytes), size_bytes, 100);
}

static inline void expect_commit(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes,
                                 mend_stream stream)
{
    EXPECT_OK(mend_range_commit(range, offset_bytes, size_bytes, stream));
}

static inline void expect_decommit(mend_range *range, uint64_t offset_bytes, uint64_t size_bytes,
                                   mend_stream stream)
{
    EXPECT_OK(mend_range_decommit(range, offset_bytes, size_bytes, stream));
}

/* A case with a range of 1 GiB, which ends before the pool. The pool has a limit, or none (0). */
#define RANGE_TEST(suite, name, limit)                                                             \
    static void suite##_##name##_of(mend_world *w, mend_range *range);                             \
    KIT_TEST_IN(suite, name, kit_open_set(w, w->pool_config.limit_bytes = (limit)))                \
    {                                                                                              \
        mend_range *range = create(w, MEND_GIB, PAGE);                                             \
        suite##_##name##_of(w, range);                                                             \
        EXPECT_OK(mend_range_destroy(range, MEND_NO_STREAM));                                      \
    }                                                                                              \
    static void suite##_##name##_of(KIT_UNUSED mend_world *w, mend_range *range)

#endif
