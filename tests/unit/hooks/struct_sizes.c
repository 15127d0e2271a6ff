/* Structs that may grow: a struct_size that ends inside of a member is refused by every call that
 * takes one, and nothing is read or written by it. For other versions the common members are
 * filled, and no others are touched. */
#include <stddef.h>
#include <string.h>

#include "mend/mend_devices.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_range.h"
#include "mend/mend_sleep.h"
#include "tests/support/test.h"
#include "tests/support/world.h"

static mend_world world;
static void *block;
static mend_range *range;

/* Calls that fill it. */
#define FILLING_CALLS(X)                                                                           \
    X(error, mend_error, mend_get_last_error(given))                                               \
    X(block_info, mend_block_info, mend_get_block_info(world.pool, block, given))                  \
    X(compact_report, mend_compact_report, mend_compact(world.pool, NULL, given))                  \
    X(sleep_report, mend_sleep_report,                                                             \
      (mend_wake(world.pool, NULL, 0, NULL), mend_sleep(world.pool, NULL, given)))                 \
    X(wake_report, mend_wake_report, mend_wake(world.pool, NULL, 0, given))                        \
    X(prepare_checkpoint_report, mend_prepare_checkpoint_report,                                   \
      mend_prepare_checkpoint(world.pool, given))                                                  \
    X(range_info, mend_range_info, mend_range_get_info(range, given))                              \
    X(room, mend_available, mend_get_available(world.pool, NULL, given))                           \
    X(stats, mend_stats, mend_get_stats(world.pool, given))                                        \
    X(get_allocator, mend_allocator, mend_get_allocator(0, given))                                 \
    X(sim_ledger, mend_sim_ledger, mend_sim_get_ledger(world.sim, given))

/* X(name, type, call): the calls that take a versioned struct, `given`. */
#define CALLS(X)                                                                                   \
    FILLING_CALLS(X)                                                                               \
    X(pool_config, mend_pool_config, mend_pool_create(given, &(mend_pool *){NULL}))                \
    X(device_config, mend_pool_config, mend_set_default_config(0, given))                          \
    X(device_block_info, mend_block_info, mend_device_block_info(0, block, given))                 \
    X(compact_limits, mend_compact_limits, mend_compact(world.pool, given, NULL))                  \
    X(set_allocator, mend_allocator, mend_set_allocator(0, given))                                 \
    X(sim_config, mend_sim_config, mend_sim_create(given, &(mend_sim *){NULL}))                    \
    X(sim_fault, mend_sim_fault, mend_sim_fail(world.sim, given))

#define X(name, type, call)                                                                        \
    static mend_result call_##name(void *given)                                                    \
    {                                                                                              \
        return call;                                                                               \
    }
CALLS(X)
#undef X

/* All bytes behind struct_size are 0x55: none of them may be read as a pointer or a number. */
static void refuses(const char *name, mend_result (*call)(void *), size_t struct_size)
{
    static _Alignas(max_align_t) unsigned char given[2048];
    static unsigned char before[sizeof(given)];
    memset(given, 0x55, sizeof(given));
    memcpy(given, &struct_size, sizeof(struct_size));
    memcpy(before, given, sizeof(given));
    mend_result result = call(given);
    MEND_TEST_CHECK(result == MEND_ERROR_INVALID_ARGUMENT, (void)0, "%s of struct_size %zu: %s",
                    name, struct_size, mend_result_name(result));
    MEND_TEST_CHECK(memcmp(before, given, sizeof(given)) == 0, (void)0,
                    "%s of struct_size %zu wrote", name, struct_size);
}

static bool open_all(void)
{
    mend_world_init(&world);
    return mend_world_open(&world) && mend_alloc(world.pool, 1000, NULL, &block) == MEND_OK &&
           mend_range_create(world.pool, 1000, NULL, &range) == MEND_OK;
}

MEND_TEST(struct_sizes, one_that_ends_inside_of_a_member_is_refused)
{
    ASSERT_TRUE(open_all());
#define X(name, type, call)                                                                        \
    for (size_t bytes = 0; bytes < sizeof(type) + sizeof(size_t); bytes++) {                       \
        if (bytes % sizeof(size_t) != 0 || bytes == 0) {                                           \
            refuses(#call, call_##name, bytes);                                                    \
        }                                                                                          \
    }
    CALLS(X)
#undef X
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, NULL));
    mend_world_close(&world);
}

/* Bytes that one of the sides does not know stay as they were. */
static void fills(const char *name, mend_result (*call)(void *), size_t struct_size, size_t known)
{
    _Alignas(max_align_t) unsigned char given[2048];
    size_t first = struct_size < known ? struct_size : known;
    size_t after = 0;
    memset(given, 0x55, sizeof(given));
    memcpy(given, &struct_size, sizeof(struct_size));
    mend_result result = call(given);
    memcpy(&after, given, sizeof(after));
    while (first < sizeof(given) && given[first] == 0x55) {
        first++;
    }
    MEND_TEST_CHECK(result == MEND_OK && after == struct_size && first == sizeof(given), (void)0,
                    "%s of struct_size %zu: %s, wrote byte %zu", name, struct_size,
                    mend_result_name(result), first);
}

MEND_TEST(struct_sizes, what_both_sides_know_is_filled_and_nothing_else)
{
    ASSERT_TRUE(open_all());
#define X(name, type, call)                                                                        \
    for (size_t bytes = call_##name == call_get_allocator                                          \
                            ? offsetof(mend_allocator, record_stream)                              \
                            : sizeof(size_t);                                                      \
         bytes < sizeof(type) + 3 * sizeof(size_t); bytes += sizeof(size_t)) {                     \
        fills(#call, call_##name, bytes, sizeof(type));                                            \
    }
    FILLING_CALLS(X)
#undef X
    EXPECT_RESULT(MEND_OK, mend_range_destroy(range, NULL));
    mend_world_close(&world);
}

/* The handler of an allocator is one member, and was there from the first version on. */
MEND_TEST(struct_sizes, an_allocator_has_all_of_its_handler)
{
    for (size_t bytes = sizeof(size_t); bytes < offsetof(mend_allocator, record_stream);
         bytes += sizeof(size_t)) {
        refuses("call_set_allocator", call_set_allocator, bytes);
        refuses("call_get_allocator", call_get_allocator, bytes);
    }
}
