/* Devices, contexts, and properties of a device. */
#include <string.h>

#include "tests/contract/contract.h"

CONTRACT_TEST(contract_device, describes_itself)
{
    int count = 0;
    PASS(device_count, &count);
    EXPECT_TRUE(count >= 1);
    EXPECT_TRUE(strlen(c->info.name) > 0);
    EXPECT_TRUE(c->info.context != NULL);
    EXPECT_TRUE(c->info.virtual_memory);
    EXPECT_TRUE(mend_is_power_of_two(c->info.granularity_bytes));
    EXPECT_U64_EQ(0, c->info.recommended_bytes % c->info.granularity_bytes);
    EXPECT_TRUE(c->info.total_bytes >= 64 * c->info.granularity_bytes);
}

CONTRACT_TEST(contract_device, unknown_ordinals_are_invalid)
{
    mend_device_info untouched = {.total_bytes = 77};
    int count = 0;
    PASS(device_count, &count);
    ANSWER(MEND_DRIVER_INVALID_DEVICE, device_open, count, &untouched);
    ANSWER(MEND_DRIVER_INVALID_DEVICE, device_open, -1, &untouched);
    EXPECT_U64_EQ(77, untouched.total_bytes);
}

CONTRACT_TEST(contract_device, opening_is_counted)
{
    mend_device_info again;
    PASS(device_open, 0, &again);
    EXPECT_PTR_EQ(c->info.context, again.context);
    PASS(device_close, 0);
    /* The first opening still holds: calls that need a context work. */
    EXPECT_TRUE(contract_free_bytes(c) > 0);
}

CONTRACT_TEST(contract_device, contexts_stack)
{
    PASS(context_push, c->info.context);
    PASS(context_pop);
    EXPECT_TRUE(contract_free_bytes(c) > 0);
}

/* To ask where none is current is no mistake. */
CONTRACT_TEST(contract_device, a_thread_learns_its_device)
{
    int device = 77;
    PASS(context_device, &device);
    EXPECT_INT_EQ(0, device);
    PASS(context_pop);
    device = 77;
    ANSWER(MEND_DRIVER_INVALID_CONTEXT, context_device, &device);
    EXPECT_INT_EQ(77, device);
    PASS(context_push, c->info.context);
}

CONTRACT_TEST(contract_device, calls_that_need_a_context_say_so)
{
    uint64_t free_bytes = 77;
    uint64_t total_bytes = 77;
    mend_event event = NULL;
    PASS(context_pop);
    REFUSE(MEND_DRIVER_INVALID_CONTEXT, memory_info, &free_bytes, &total_bytes);
    REFUSE(MEND_DRIVER_INVALID_CONTEXT, event_create, &event);
    EXPECT_U64_EQ(77, free_bytes);
    EXPECT_TRUE(event == NULL);
    PASS(context_push, c->info.context);
}

CONTRACT_TEST(contract_device, virtual_memory_needs_no_context)
{
    PASS(context_pop);
    uint64_t address = contract_reserve(c, c->page);
    contract_map_new(c, address, c->page);
    contract_drop(c, address, c->page, c->page);
    PASS(context_push, c->info.context);
}

CONTRACT_TEST(contract_device, capture_mode_is_exchanged)
{
    mend_capture_mode mode = MEND_CAPTURE_MODE_RELAXED;
    PASS(exchange_capture_mode, &mode);
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_GLOBAL, mode);
    PASS(exchange_capture_mode, &mode);
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_RELAXED, mode);
}

CONTRACT_TEST(contract_device, clock_never_goes_back)
{
    uint64_t before = c->driver->clock_ns(c->driver);
    contract_spin(c, c->stream, 1000);
    PASS(stream_synchronize, c->stream);
    EXPECT_TRUE(c->driver->clock_ns(c->driver) >= before);
}

CONTRACT_TEST(contract_device, results_have_names)
{
    EXPECT_STR_EQ("CUDA_ERROR_OUT_OF_MEMORY",
                  c->driver->status_name(c->driver, MEND_DRIVER_OUT_OF_MEMORY));
    EXPECT_TRUE(c->driver->status_name(c->driver, 123456) != NULL);
}
