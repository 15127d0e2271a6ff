/* Refusals of the simulated device: bad arguments. */
#include <string.h>
#include <unistd.h>

#include "lab/driver/traced.h"
#include "tests/unit/sim/sim_fixture.h"

/* With a message of its own. */
#define EXPECT_REFUSED(call)                                                                       \
    do {                                                                                           \
        mend_sim_event_time(NULL, NULL, NULL);                                                     \
        EXPECT_RESULT(MEND_ERROR_INVALID_ARGUMENT, call);                                          \
        EXPECT_TRUE(strstr(mend_sim_last_message(), "event_time") == NULL);                        \
    } while (0)

static const mend_stream none = (mend_stream)(uintptr_t)0x77;

MEND_TEST(sim_arguments, configurations_out_of_bounds_are_refused)
{
    mend_sim *sim = NULL;
    const mend_sim_config valid = MEND_SIM_CONFIG_INIT;
    const mend_sim_config bad[] = {
        {.struct_size = 0},
        {.struct_size = valid.struct_size + 8}, /* of a newer version than the library */
#define BAD(...) {.struct_size = sizeof(mend_sim_config), __VA_ARGS__}
        BAD(.page_bytes = 192 * MEND_KIB),
        BAD(.page_bytes = 3 * MEND_MIB),
        BAD(.page_bytes = 16),
        BAD(.page_bytes = UINT64_C(1) << 63),
        BAD(.page_bytes = 512, .content = MEND_SIM_CONTENT_BYTES), /* below a page of the host */
        BAD(.memory_bytes = UINT64_MAX),
        BAD(.address_bytes = UINT64_MAX),
        BAD(.address_bytes = 512),
        BAD(.device_count = -1),
        BAD(.device_count = 1000),
        BAD(.device_count = 1 << 20),
        BAD(.content = (mend_sim_content)2),
        BAD(.fabric = (mend_sim_fabric)3),
#undef BAD
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        EXPECT_REFUSED(mend_sim_create(&bad[i], &sim));
    }
    EXPECT_REFUSED(mend_sim_create(NULL, &sim));
    EXPECT_REFUSED(mend_sim_create(&valid, NULL));
    EXPECT_PTR_EQ(NULL, sim);
    mend_sim_destroy(NULL);
}

MEND_TEST(sim_arguments, nothing_is_asked_of_no_device)
{
    mend_stream stream = NULL;
    mend_sim_graph *graph = NULL;
    mend_sim_work work = {.struct_size = sizeof(mend_sim_work), .kind = MEND_SIM_WORK_TOUCH};
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    EXPECT_REFUSED(mend_sim_stream_create(NULL, NULL, &stream));
    EXPECT_REFUSED(mend_sim_stream_destroy(NULL, NULL));
    EXPECT_REFUSED(mend_sim_launch(NULL, NULL, &work));
    EXPECT_REFUSED(mend_sim_stream_wait(NULL, NULL, NULL));
    EXPECT_REFUSED(mend_sim_begin_capture(NULL, NULL, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_REFUSED(mend_sim_end_capture(NULL, NULL, &graph));
    EXPECT_REFUSED(mend_sim_graph_launch(NULL, NULL, NULL, 0));
    EXPECT_REFUSED(mend_sim_fail(NULL, &fault));
    EXPECT_REFUSED(mend_sim_get_ledger(NULL, &ledger));
    mend_sim_graph_destroy(NULL, NULL);
    mend_traced_driver_destroy(NULL);
}

MEND_TEST(sim_arguments, a_device_that_nobody_has_opened_has_no_streams)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    mend_device_info info;
    mend_stream stream = NULL;
    mend_sim *sim = NULL;
    config.device_count = 2;
    EXPECT_RESULT(MEND_OK, mend_sim_create(&config, &sim));
    const mend_driver *driver = mend_sim_driver(sim);
    EXPECT_REFUSED(
        mend_sim_stream_create(sim, KIT_OPTIONS(mend_sim_stream_options, .device = 1), &stream));
    EXPECT_REFUSED(mend_sim_stream_create(
        sim, KIT_OPTIONS(mend_sim_stream_options, .device = 1, .is_blocking = 1), &stream));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, 1, &info));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_create(
                               sim, KIT_OPTIONS(mend_sim_stream_options, .device = 1), &stream));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(sim, stream));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 1));
    mend_sim_destroy(sim);
}

SIM_TEST(sim_arguments, what_does_not_exist_is_refused)
{
    mend_sim_work work = {.struct_size = sizeof(mend_sim_work), .kind = (mend_sim_work_kind)9};
    mend_sim_ledger ledger = {0};
    mend_sim_graph *graph = NULL;
    mend_stream stream = NULL;
    const mend_sim_stream_options bad[] = {
        {.struct_size = sizeof(bad[0]), .device = -1}, {.struct_size = sizeof(bad[0]), .device = 1},
        {.struct_size = sizeof(bad[0]), .device = 64}, {.struct_size = sizeof(bad[0]), .green = -1},
        {.struct_size = sizeof(bad[0]), .green = 8},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        EXPECT_REFUSED(mend_sim_stream_create(f->sim, &bad[i], &stream));
    }
    EXPECT_REFUSED(mend_sim_stream_create(f->sim, NULL, NULL));
    EXPECT_REFUSED(mend_sim_stream_destroy(f->sim, none));
    EXPECT_REFUSED(mend_sim_stream_destroy(f->sim, NULL));
    EXPECT_REFUSED(mend_sim_launch(f->sim, NULL, NULL));
    EXPECT_REFUSED(mend_sim_launch(f->sim, NULL, &work));
    work.kind = MEND_SIM_WORK_TOUCH;
    EXPECT_REFUSED(mend_sim_launch(f->sim, none, &work));
    EXPECT_REFUSED(mend_sim_stream_wait(f->sim, none, NULL));
    EXPECT_REFUSED(mend_sim_stream_wait(f->sim, NULL, none));
    EXPECT_REFUSED(mend_sim_begin_capture(f->sim, none, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_REFUSED(mend_sim_begin_capture(f->sim, f->stream, (mend_sim_capture_mode)3));
    EXPECT_REFUSED(mend_sim_end_capture(f->sim, none, &graph));
    EXPECT_REFUSED(mend_sim_graph_launch(f->sim, NULL, f->stream, 0));
    mend_sim_graph_destroy(f->sim, NULL);
    EXPECT_REFUSED(mend_sim_fail(f->sim, NULL));
    EXPECT_REFUSED(mend_sim_get_ledger(f->sim, NULL));
    EXPECT_REFUSED(mend_sim_get_ledger(f->sim, &ledger));
    EXPECT_REFUSED(mend_sim_restore(f->sim));
    mend_sim_prices prices = MEND_SIM_PRICES_INIT;
    EXPECT_REFUSED(mend_sim_prices_named("free", &prices));
    EXPECT_TRUE(strstr(mend_sim_last_message(), "kvcached-a100") != NULL);
    mend_sim_set_foreign_bytes(f->sim, -1, f->page);
    mend_sim_set_foreign_bytes(f->sim, 1, f->page);
    mend_sim_set_quota(f->sim, -1, f->page);
    mend_sim_set_quota(f->sim, 1, f->page);
}

SIM_TEST(sim_arguments, faults_of_no_call_are_refused)
{
    const mend_sim_fault none_of_them[] = {
        {.struct_size = 0},
        {.struct_size = sizeof(mend_sim_fault) + 8}, /* of a newer version than the library */
        {.struct_size = sizeof(mend_sim_fault), .call = "cuMemMap"},
        {.struct_size = sizeof(mend_sim_fault), .call = "event_destroy"},
    };
    for (size_t i = 0; i < sizeof(none_of_them) / sizeof(none_of_them[0]); i++) {
        EXPECT_REFUSED(mend_sim_fail(f->sim, &none_of_them[i]));
    }
}

SIM_TEST(sim_arguments, plain_memory_is_refused_without_size_context_or_beside_captures)
{
    uint64_t address = 0;
    uint64_t plain = 0;
    ANSWER(OUT_OF_MEMORY, plain_alloc, UINT64_MAX, &address);
    ANSWER(OUT_OF_MEMORY, plain_alloc, 128 * MEND_MIB, &address);
    ANSWER(UNKNOWN, async_alloc, 512, none, &address);
    ANSWER(UNKNOWN, async_alloc, 512, MEND_NO_STREAM, &address);
    ANSWER(UNKNOWN, async_free, 512, MEND_NO_STREAM);
    PASS(plain_alloc, 512, &plain);
    ANSWER(INVALID_VALUE, async_free, plain, NULL);
    ANSWER(INVALID_VALUE, async_free, plain + f->page, NULL);
    ANSWER(UNKNOWN, async_free, plain, none);
    PASS(plain_free, plain);
    sim_fixture_begin_capture(f, f->stream);
    ANSWER(NOT_SUPPORTED, async_alloc, 512, f->stream, &address);
    ANSWER(NOT_SUPPORTED, async_free, plain, f->stream);
    ANSWER(CAPTURE_UNSUPPORTED, plain_alloc, 512, &address);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_sim_end_capture(f->sim, f->stream, NULL));
    PASS(context_pop);
    ANSWER(INVALID_CONTEXT, plain_alloc, 512, &address);
    ANSWER(INVALID_CONTEXT, plain_free, plain);
}

SIM_TEST(sim_arguments, work_streams_and_waits_need_a_context)
{
    uint8_t byte = 0;
    mend_stream other = NULL;
    mend_event event = NULL;
    mend_kernel spin = {.kind = MEND_KERNEL_SPIN};
    PASS(context_pop);
    ANSWER(INVALID_CONTEXT, stream_create, &other);
    ANSWER(INVALID_CONTEXT, fill, 512, 1, 1, f->stream);
    ANSWER(INVALID_CONTEXT, copy, 512, (uint64_t)(uintptr_t)&byte, 1, f->stream);
    ANSWER(INVALID_CONTEXT, launch, f->stream, &spin);
    ANSWER(INVALID_CONTEXT, event_create, &event);
    ANSWER(INVALID_CONTEXT, context_synchronize);
    EXPECT_PTR_EQ(NULL, other);
}

/* Memory that copies of a capture read and its kernels count into, not only written memory.
 * Untouched memory may go. */
SIM_TEST(sim_arguments, unmapping_what_a_capture_touches_is_noticed)
{
    enum { PAGES = 5 };
    uint64_t page = f->page;
    uint64_t address = 0;
    PASS(reserve, PAGES * page, 0, 0, &address);
    for (uint64_t i = 0; i < PAGES; i++) {
        sim_fixture_map_at(f, address + i * page, sim_fixture_chunk(f, page));
    }
    EXPECT_RESULT(MEND_OK, mend_sim_begin_capture(f->sim, f->stream, MEND_SIM_CAPTURE_RELAXED));
    mend_kernel verify = sim_kernel(MEND_KERNEL_VERIFY, address, 512, 1024, 8);
    verify.mismatches = address + 1 * page;
    mend_kernel nothing = {.kind = MEND_KERNEL_WRITE, .address = address + 4 * page};
    PASS(copy, address + 2 * page, address + 3 * page, 512, f->stream);
    PASS(launch, f->stream, &nothing);
    PASS(launch, f->stream, &verify);
    for (uint64_t i = 0; i < PAGES; i++) {
        PASS(unmap, address + i * page, page);
        EXPECT_U64_EQ(i < 4 ? i + 1 : 4, f->heard);
    }
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(f->sim, f->stream, NULL));
}
