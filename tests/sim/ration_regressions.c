/* Pools beside others: a part of the device that stays free, and a limit shared by a file. Sizes:
 * 0xe3 is a quarter of the device, 0xe7 half of it, 0xeb three quarters. */
#include "tests/sim/expect.h"

static trial_config small_device(void)
{
    trial_config config = trial_config_default;
    config.device_pages = 16;
    return config;
}

MEND_TEST(sim_rations, no_creation_takes_what_stays_free)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .size = 0xeb},
        {.kind = OP_ALLOC, .slot = 1, .size = 0xe3},
        {.kind = OP_FOREIGN, .amount = 64},
        {.kind = OP_ALLOC, .slot = 2, .size = 0xe3},
        {.kind = OP_FOREIGN},
        {.kind = OP_ALLOC, .slot = 3, .size = 0xe3},
    };
    trial_config config = small_device();
    config.keep_free_percent = 50;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

MEND_TEST(sim_rations, a_collection_gives_back_what_the_device_lacks)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .size = 0xe7},
        {.kind = OP_FREE},
        {.kind = OP_FOREIGN, .amount = 128},
        {.kind = OP_TRIM, .stream = 2},
    };
    trial_config config = small_device();
    config.keep_free_percent = 50;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* Two pools and another process, which dies with what it holds. */
MEND_TEST(sim_rations, a_shared_limit_holds_for_all)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .size = 0xe3},
        {.kind = OP_SIBLING_ALLOC, .slot = 1, .size = 0xe7},
        {.kind = OP_MEMBER, .amount = 100},
        {.kind = OP_SIBLING_ALLOC, .slot = 2, .size = 0xe1},
        {.kind = OP_FREE},
        {.kind = OP_TRIM},
        {.kind = OP_MEMBER, .amount = 200},
        {.kind = OP_ALLOC, .slot = 3, .size = 0xe3},
        {.kind = OP_MEMBER, .slot = 1, .amount = 0},
        {.kind = OP_FAULT, .size = FAULT_OF_CREATE},
        {.kind = OP_ALLOC, .slot = 4, .size = 0xe1},
        {.kind = OP_ALLOC, .slot = 4, .size = 0xe1},
        {.kind = OP_SIBLING_ALLOC, .slot = 5, .size = 0xe1},
    };
    trial_config config = small_device();
    config.file_percent = 50;
    config.peer_pool = 1;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

/* A chunk was given back to be made again in the right size, and the device lacked too much. */
MEND_TEST(sim_regressions, no_chunk_is_made_again_while_the_device_lacks_memory)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .size = 20},      {.kind = OP_ALLOC, .slot = 1, .size = 154},
        {.kind = OP_FOREIGN, .amount = 243}, {.kind = OP_FREE},
        {.kind = OP_ALLOC, .alignment = 15},
    };
    trial_config config = small_device();
    config.keep_free_percent = 30;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

MEND_TEST(sim_regressions, no_chunk_becomes_pages_while_the_device_lacks_memory)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .slot = 5, .size = 130},
        {.kind = OP_RANGE_CREATE},
        {.kind = OP_FREE, .slot = 5},
        {.kind = OP_FOREIGN, .amount = 236},
        {.kind = OP_COMMIT},
    };
    trial_config config = trial_config_default;
    config.keep_free_percent = 10;
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}
