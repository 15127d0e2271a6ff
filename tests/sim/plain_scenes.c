/* Devices without virtual memory. Sizes: 0xe7 is half of the device, 0xeb three quarters. */
#include "tests/sim/expect.h"

static trial_config plain_device(void)
{
    trial_config config = trial_config_default;
    config.plain = 1;
    config.page_kib = 64;
    config.device_pages = 256;
    config.streams = 2;
    return config;
}

MEND_TEST(sim_plain, what_needs_virtual_memory_is_refused_by_name)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .amount = 1},
        {.kind = OP_SLEEP},
        {.kind = OP_RANGE_CREATE},
        {.kind = OP_EXPORT},
        {.kind = OP_VERIFY},
    };
    trial_config config = plain_device();
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}

MEND_TEST(sim_plain, blocks_pass_between_streams_and_memory_goes_back)
{
    static const operation ops[] = {
        {.kind = OP_ALLOC, .size = 0xe7, .amount = 1},
        {.kind = OP_ALLOC, .slot = 1, .size = 0xeb},
        {.kind = OP_FREE, .amount = 32},
        {.kind = OP_ALLOC, .slot = 1, .stream = 1, .size = 0xe7, .amount = 1},
        {.kind = OP_VERIFY, .slot = 1},
        {.kind = OP_FREE, .slot = 1, .amount = 32},
        {.kind = OP_TRIM},
        {.kind = OP_ALLOC, .size = 0xeb, .amount = 1},
        {.kind = OP_DEFRAG},
        {.kind = OP_VERIFY},
    };
    trial_config config = plain_device();
    expect_holds(&config, ops, sizeof(ops) / sizeof(ops[0]));
}
