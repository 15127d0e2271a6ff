/* Devices, contexts, and what a device says of itself. */
#include <string.h>

#include "tests/contract/contract.h"

CONTRACT_TEST(contract_device, describes_itself)
{
    int count = 0;
    EXPECT_OK(c->driver->device_count(c->driver, &count));
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
    EXPECT_OK(c->driver->device_count(c->driver, &count));
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, c->driver->device_open(c->driver, count, &untouched));
    EXPECT_STATUS(MEND_DRIVER_INVALID_DEVICE, c->driver->device_open(c->driver, -1, &untouched));
    EXPECT_U64_EQ(77, untouched.total_bytes);
}

CONTRACT_TEST(contract_device, opening_is_counted)
{
    mend_device_info again;
    EXPECT_OK(c->driver->device_open(c->driver, 0, &again));
    EXPECT_PTR_EQ(c->info.context, again.context);
    EXPECT_OK(c->driver->device_close(c->driver, 0));
    /* The first opening still holds: calls that need a context work. */
    EXPECT_TRUE(contract_free_bytes(c) > 0);
}

CONTRACT_TEST(contract_device, contexts_stack)
{
    EXPECT_OK(c->driver->context_push(c->driver, c->info.context));
    EXPECT_OK(c->driver->context_pop(c->driver));
    EXPECT_TRUE(contract_free_bytes(c) > 0);
}

/* To ask where none is current is no mistake. */
CONTRACT_TEST(contract_device, a_thread_learns_its_device)
{
    int device = 77;
    EXPECT_OK(c->driver->context_device(c->driver, &device));
    EXPECT_INT_EQ(0, device);
    EXPECT_OK(c->driver->context_pop(c->driver));
    device = 77;
    EXPECT_STATUS(MEND_DRIVER_INVALID_CONTEXT, c->driver->context_device(c->driver, &device));
    EXPECT_INT_EQ(77, device);
    EXPECT_OK(c->driver->context_push(c->driver, c->info.context));
}

CONTRACT_TEST(contract_device, calls_that_need_a_context_say_so)
{
    uint64_t free_bytes = 77;
    uint64_t total_bytes = 77;
    mend_event event = NULL;
    EXPECT_OK(c->driver->context_pop(c->driver));
    EXPECT_REFUSED(c, MEND_DRIVER_INVALID_CONTEXT,
                   c->driver->memory_info(c->driver, &free_bytes, &total_bytes));
    EXPECT_REFUSED(c, MEND_DRIVER_INVALID_CONTEXT, c->driver->event_create(c->driver, &event));
    EXPECT_U64_EQ(77, free_bytes);
    EXPECT_TRUE(event == NULL);
    EXPECT_OK(c->driver->context_push(c->driver, c->info.context));
}

CONTRACT_TEST(contract_device, virtual_memory_needs_no_context)
{
    EXPECT_OK(c->driver->context_pop(c->driver));
    uint64_t address = contract_reserve(c, c->page);
    contract_map_new(c, address, c->page);
    contract_drop(c, address, c->page, c->page);
    EXPECT_OK(c->driver->context_push(c->driver, c->info.context));
}

CONTRACT_TEST(contract_device, capture_mode_is_exchanged)
{
    mend_capture_mode mode = MEND_CAPTURE_MODE_RELAXED;
    EXPECT_OK(c->driver->exchange_capture_mode(c->driver, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_GLOBAL, mode);
    EXPECT_OK(c->driver->exchange_capture_mode(c->driver, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_RELAXED, mode);
}

CONTRACT_TEST(contract_device, clock_never_goes_back)
{
    uint64_t before = c->driver->clock_ns(c->driver);
    contract_spin(c, c->stream, 1000);
    EXPECT_OK(c->driver->stream_synchronize(c->driver, c->stream));
    EXPECT_TRUE(c->driver->clock_ns(c->driver) >= before);
}

CONTRACT_TEST(contract_device, results_have_names)
{
    EXPECT_STR_EQ("CUDA_ERROR_OUT_OF_MEMORY",
                  c->driver->status_name(c->driver, MEND_DRIVER_OUT_OF_MEMORY));
    EXPECT_TRUE(c->driver->status_name(c->driver, 123456) != NULL);
}
