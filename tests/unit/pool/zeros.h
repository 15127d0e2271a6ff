/* Steps of the tests of pages that read as zeros. */
#ifndef MEND_TESTS_UNIT_POOL_ZEROS_H
#define MEND_TESTS_UNIT_POOL_ZEROS_H

#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "tests/unit/pool/pages.h"

enum { PAGES = 16 };

static inline mend_result map_zeros(mend_range *range, uint64_t first, uint64_t count)
{
    return mend_range_map_zeros(range, first * PAGE, count * PAGE);
}

/* Whether the device reads nothing but zeros in a page. */
static inline bool reads_zeros(mend_world *w, mend_range *range, uint64_t page)
{
    const mend_driver *driver = w->driver;
    unsigned char *seen = malloc(PAGE);
    if (seen == NULL) {
        return false;
    }
    bool all = true;
    memset(seen, 1, PAGE);
    EXPECT_INT_EQ(0, driver->context_push(driver, w->info.context));
    EXPECT_INT_EQ(
        0, driver->copy(driver, (uintptr_t)seen, (uintptr_t)at(range, page * PAGE), PAGE, NULL));
    EXPECT_INT_EQ(0, driver->context_synchronize(driver));
    EXPECT_INT_EQ(0, driver->context_pop(driver));
    for (uint64_t i = 0; i < PAGE; i++) {
        all = all && seen[i] == 0;
    }
    free(seen);
    return all;
}

static inline void expect_zeros(mend_world *w, mend_range *range, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        EXPECT_TRUE(reads_zeros(w, range, i));
    }
}

#endif
