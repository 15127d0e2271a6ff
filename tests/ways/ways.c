/*
 * Each public call once, with every function of the library instrumented: writes the addresses of
 * the functions that it enters, so that ways.py can count them.
 *
 * A line is "= NAME", the address of a function entered, or "-" where one is left.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "mend/mend.h"
#include "mend/mend_range.h"
#include "mend/mend_sim.h"
#include "mend/mend_sleep.h"

#define PLAIN __attribute__((no_instrument_function))
#define MIB   (UINT64_C(1) << 20)

enum { MOST_BLOCKS = 512 };

static bool is_counting;

PLAIN void __cyg_profile_func_enter(void *function, void *caller);
PLAIN void __cyg_profile_func_exit(void *function, void *caller);

PLAIN void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    if (is_counting) {
        printf("%" PRIxPTR "\n", (uintptr_t)function);
    }
}

PLAIN void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
    if (is_counting) {
        puts("-");
    }
}

/* The call between both, which must have this result. */
PLAIN static void begin(const char *name)
{
    printf("= %s\n", name);
    is_counting = true;
}

PLAIN static void end(mend_result expected, mend_result result)
{
    is_counting = false;
    if (result != expected) {
        fprintf(stderr, "%s, not %s\n", mend_result_name(result), mend_result_name(expected));
        exit(1);
    }
}

PLAIN static void expect(mend_result result)
{
    end(MEND_OK, result);
}

PLAIN static mend_pool *open_pool(void)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    mend_sim *sim = NULL;
    mend_pool *pool = NULL;
    expect(mend_sim_create(&device, &sim));
    config.driver = mend_sim_driver(sim);
    config.limit_bytes = 1024 * MIB;
    expect(mend_pool_create(&config, &pool));
    return pool;
}

PLAIN static void with_room(void)
{
    mend_pool *pool = open_pool();
    void *blocks[6];
    void *more = NULL;
    for (int i = 0; i < 6; i++) {
        expect(mend_alloc(pool, 8 * MIB, NULL, &blocks[i]));
    }
    begin("free");
    end(MEND_OK, mend_free(pool, blocks[3], NULL));
    begin("hit");
    end(MEND_OK, mend_alloc(pool, 8 * MIB, NULL, &blocks[3]));
    expect(mend_free(pool, blocks[2], NULL));
    expect(mend_free(pool, blocks[3], NULL));
    begin("a run fits");
    end(MEND_OK, mend_alloc(pool, 6 * MIB, NULL, &more));
    begin("creates 20 MiB");
    end(MEND_OK, mend_alloc(pool, 20 * MIB, NULL, &more));
}

/* Every second block of a full pool is freed. */
PLAIN static mend_pool *open_half_full(uint64_t block_bytes)
{
    mend_pool *pool = open_pool();
    void *blocks[MOST_BLOCKS];
    int count = 0;
    while (count < MOST_BLOCKS && mend_alloc(pool, block_bytes, NULL, &blocks[count]) == MEND_OK) {
        count++;
    }
    for (int i = 0; i < count; i += 2) {
        expect(mend_free(pool, blocks[i], NULL));
    }
    return pool;
}

PLAIN static void near_the_limit(void)
{
    void *block = NULL;
    mend_pool *pool = open_half_full(8 * MIB);
    begin("moves chunks");
    end(MEND_OK, mend_alloc(pool, 120 * MIB, NULL, &block));
    begin("out of memory");
    end(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(pool, 900 * MIB, NULL, &block));
    pool = open_half_full(3 * MIB);
    expect(mend_alloc(pool, 120 * MIB, NULL, &block));
    begin("out of memory, compacting");
    end(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(pool, 900 * MIB, NULL, &block));
}

PLAIN static void range_and_sleep(void)
{
    mend_pool *pool = open_pool();
    mend_range *range = NULL;
    void *block = NULL;
    mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
    mend_sleep_report report = MEND_SLEEP_REPORT_INIT;
    expect(mend_range_create(pool, 512 * MIB, NULL, &range));
    begin("commits 20 MiB");
    end(MEND_OK, mend_range_commit(range, 0, 20 * MIB, NULL));
    begin("decommits 2 MiB");
    end(MEND_OK, mend_range_decommit(range, 18 * MIB, 2 * MIB, NULL));
    for (int i = 0; i < 4; i++) {
        expect(mend_alloc(pool, 8 * MIB, NULL, &block));
    }
    begin("sleeps");
    end(MEND_OK, mend_sleep(pool, &options, &report));
    begin("wakes");
    end(MEND_OK, mend_wake(pool, NULL, 0, NULL));
}

PLAIN int main(void)
{
    with_room();
    near_the_limit();
    range_and_sleep();
    return 0;
}
