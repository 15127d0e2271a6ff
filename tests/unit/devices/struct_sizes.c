/* A struct_size that ends inside of a member is refused by every call that takes one, and nothing
 * is read or written by it. */
#include <stddef.h>
#include <string.h>

#include "mend/mend_devices.h"
#include "tests/support/test.h"
#include "tests/support/world.h"

static mend_world world;
static void *block;

static mend_result call_error(void *given)
{
    return mend_last_error(given);
}

static mend_result call_pool_config(void *given)
{
    mend_pool *pool = NULL;
    return mend_pool_create(given, &pool);
}

static mend_result call_device_config(void *given)
{
    return mend_set_default_config(0, given);
}

static mend_result call_block_info(void *given)
{
    return mend_get_block_info(world.pool, block, given);
}

static mend_result call_device_block_info(void *given)
{
    return mend_device_block_info(0, block, given);
}

static mend_result call_defrag_limits(void *given)
{
    return mend_defrag(world.pool, given, NULL);
}

static mend_result call_defrag_report(void *given)
{
    return mend_defrag(world.pool, NULL, given);
}

static mend_result call_room(void *given)
{
    return mend_get_room(world.pool, NULL, given);
}

static mend_result call_stats(void *given)
{
    return mend_get_stats(world.pool, given);
}

static mend_result call_set_allocator(void *given)
{
    return mend_set_allocator(0, given);
}

static mend_result call_get_allocator(void *given)
{
    return mend_get_allocator(0, given);
}

static mend_result call_sim_config(void *given)
{
    mend_sim *sim = NULL;
    return mend_sim_create(given, &sim);
}

static mend_result call_sim_fault(void *given)
{
    return mend_sim_fail(world.sim, given);
}

static mend_result call_sim_ledger(void *given)
{
    return mend_sim_get_ledger(world.sim, given);
}

/* X(call, type): those that take a versioned struct. */
#define CALLS(X)                                                                                   \
    X(call_error, mend_error)                                                                      \
    X(call_pool_config, mend_pool_config)                                                          \
    X(call_device_config, mend_pool_config)                                                        \
    X(call_block_info, mend_block_info)                                                            \
    X(call_device_block_info, mend_block_info)                                                     \
    X(call_defrag_limits, mend_defrag_limits)                                                      \
    X(call_defrag_report, mend_defrag_report)                                                      \
    X(call_room, mend_room)                                                                        \
    X(call_stats, mend_stats)                                                                      \
    X(call_set_allocator, mend_allocator)                                                          \
    X(call_get_allocator, mend_allocator)                                                          \
    X(call_sim_config, mend_sim_config)                                                            \
    X(call_sim_fault, mend_sim_fault)                                                              \
    X(call_sim_ledger, mend_sim_ledger)

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

MEND_TEST(struct_sizes, one_that_ends_inside_of_a_member_is_refused)
{
    mend_world_init(&world);
    ASSERT_TRUE(mend_world_open(&world));
    ASSERT_RESULT(MEND_OK, mend_alloc(world.pool, 1000, NULL, &block));
#define X(call, type)                                                                              \
    for (size_t bytes = 0; bytes < sizeof(type) + sizeof(size_t); bytes++) {                       \
        if (bytes % sizeof(size_t) != 0 || bytes == 0) {                                           \
            refuses(#call, call, bytes);                                                           \
        }                                                                                          \
    }
    CALLS(X)
#undef X
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
