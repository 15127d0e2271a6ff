/*
 * Host memory that runs out where a test says. Programs that use it are linked with --wrap for
 * malloc, calloc, realloc and free, so that it works under sanitizers too.
 *
 * Only watched allocations count and fail: of the calling thread while it watches, except inside a
 * driver that is kept out of it. So a test watches during one call of Mend, and the simulated
 * device below goes on working.
 */
#ifndef MEND_TESTS_SUPPORT_HOST_MEMORY_H
#define MEND_TESTS_SUPPORT_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"
#include "mend/mend.h"

/* After `successes` more watched allocations the next `failures` return NULL. Per thread. */
void mend_test_fail_host_memory_after(uint64_t successes, uint64_t failures);

/* From now on none fails. */
void mend_test_heal_host_memory(void);

/* How many have failed since mend_test_fail_host_memory_after. */
uint64_t mend_test_failed_host_allocations(void);

/* How many have been watched since then, failed ones included. */
uint64_t mend_test_watched_host_allocations(void);

/* How many live, watched or not: allocations less frees, in linked code. Allocations of the
 * system's libraries that others free count as less. */
int64_t mend_test_live_host_allocations(void);

/* Starts or stops to trace the ways by which watched allocations are reached, and a number for all
 * since mend_test_fail_host_memory_after, another one for other ways. */
void mend_test_trace_host_memory(bool on);
uint64_t mend_test_ways_to_host_memory(void);

/* Starts or stops watching the calling thread's allocations. */
void mend_test_watch_host_memory(bool on);

/* The result of a call while the next `failures` of its allocations fail, after so many successes.
 */
#define mend_test_starve(successes, failures, call)                                                \
    (mend_test_fail_host_memory_after(successes, failures), mend_test_watch_host_memory(true),     \
     mend_test_starved(call))
static inline mend_result mend_test_starved(mend_result result)
{
    mend_test_watch_host_memory(false);
    mend_test_heal_host_memory();
    return result;
}

/* A driver whose calls go to `inner` unwatched. */
typedef struct mend_unwatched_driver {
    mend_driver table;
    const mend_driver *inner;
} mend_unwatched_driver;

void mend_unwatched_driver_init(mend_unwatched_driver *driver, const mend_driver *inner);

#endif
