/*
 * The real driver's files on the fake libcuda: what the contract's tests, which run on it too, do
 * not see. Opening a device under every refusal, each of them leaving nothing behind; symbols that
 * are missing; the kernels' module. What it says of streams is in streams.c.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/cuda.h"
#include "driver/cuda_state.h"
#include "mend/mend_devices.h"
#include "tests/fake_cuda/found.h"
#include "tests/support/test.h"

MEND_TEST(fake_cuda, a_device_is_described_and_probed)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    ASSERT_TRUE(find_both(&fake, &driver));
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, 0, &info));
    EXPECT_STR_EQ("fake device 0", info.name);
    EXPECT_INT_EQ(12080, info.driver_version);
    EXPECT_INT_EQ(9, info.compute_major);
    EXPECT_U64_EQ(UINT64_C(1) << 30, info.total_bytes);
    EXPECT_U64_EQ(UINT64_C(2) << 20, info.granularity_bytes);
    EXPECT_U64_EQ(UINT64_C(4) << 20, info.recommended_bytes);
    EXPECT_TRUE(info.virtual_memory);
    EXPECT_TRUE(info.aliasing);
    EXPECT_TRUE(info.aliases_at_once);
    EXPECT_TRUE(info.multicast);
    EXPECT_FALSE(info.integrated);
    EXPECT_U64_EQ(0, info.peers);
    EXPECT_TRUE(info.rdma);
    EXPECT_TRUE(info.share_file_descriptor);
    EXPECT_TRUE(info.share_fabric);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 0));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_CONTEXT, driver->device_close(driver, 0));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_DEVICE, driver->device_open(driver, 1, &info));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_DEVICE, driver->device_open(driver, -1, &info));
    expect_nothing_left(fake);
}

/* Opens and closes device 0 under the switches as they are. */
static mend_status probe(const mend_driver *driver, mend_device_info *info)
{
    mend_status status = driver->device_open(driver, 0, info);
    if (status == MEND_DRIVER_OK) {
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 0));
    }
    return status;
}

typedef struct log_lines {
    unsigned count;
    char text[1024];
} log_lines;

static void keep_line(void *context, mend_log_level level, const char *line)
{
    log_lines *lines = context;
    (void)level;
    lines->count++;
    strncat(lines->text, line, sizeof(lines->text) - strlen(lines->text) - 1);
}

MEND_TEST(fake_cuda, what_is_refused_is_dropped_with_a_log_line)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    log_lines lines = {0};
    ASSERT_TRUE(find_both(&fake, &driver));
    fake->switches.create_refusal = MEND_DRIVER_NOT_PERMITTED;
    mend_log_set_sink(keep_line, &lines);
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    mend_log_set_sink(NULL, NULL);
    EXPECT_TRUE(info.virtual_memory);
    EXPECT_FALSE(info.share_file_descriptor);
    EXPECT_FALSE(info.share_fabric);
    EXPECT_FALSE(info.rdma);
    EXPECT_U64_EQ(3, lines.count);
    EXPECT_TRUE(strstr(lines.text, "sharing by fabric handle: no (CUDA_ERROR_NOT_PERMITTED)"));
    expect_nothing_left(fake);

    ASSERT_TRUE(find_both(&fake, &driver)); /* forgets what was found */
    fake->switches.fabric_is_refused = true;
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    EXPECT_TRUE(info.share_file_descriptor);
    EXPECT_FALSE(info.share_fabric); /* claimed, and refused */
    expect_nothing_left(fake);

    ASSERT_TRUE(find_both(&fake, &driver));
    fake->switches.larger_page_bytes = UINT64_C(32) << 20;
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    EXPECT_FALSE(info.share_file_descriptor); /* one pool has pages of one size */
    expect_nothing_left(fake);
}

MEND_TEST(fake_cuda, a_device_says_which_others_reach_its_memory)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    ASSERT_TRUE(find_both(&fake, &driver));
    fake->switches.more_devices = 3;
    fake->switches.peers = 0xd; /* 0 itself, 2 and 3 */
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    EXPECT_U64_EQ(0xc, info.peers);
    fake->switches.more_devices = 2; /* what is not visible is no peer */
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    EXPECT_U64_EQ(0x4, info.peers);
    expect_nothing_left(fake);
}

MEND_TEST(fake_cuda, a_device_says_whether_its_memory_is_the_hosts)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    ASSERT_TRUE(find_both(&fake, &driver));
    fake->switches.is_integrated = true;
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    EXPECT_TRUE(info.integrated);
    expect_nothing_left(fake);
}

/* Memory of the host is asked for at the node that the device names, or at node 0. */
MEND_TEST(fake_cuda, memory_of_the_host_is_that_of_the_nearest_node)
{
    const int nodes[] = {0, 3, -1};
    const mend_chunk_properties properties = {.on_host = true};
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    ASSERT_TRUE(find_both(&fake, &driver));
    for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
        mend_chunk_handle handle = 0;
        fake->switches.host_node = nodes[i];
        ASSERT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, 0, &info));
        EXPECT_U64_EQ(info.granularity_bytes, info.host_page_bytes);
        EXPECT_INT_EQ(MEND_DRIVER_OK,
                      driver->create(driver, info.host_page_bytes, &properties, &handle));
        mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
        EXPECT_INT_EQ(MEND_OK, mend_sim_get_ledger(fake->sim, &ledger));
        EXPECT_U64_EQ(1, ledger.host_chunks);
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->release(driver, handle));
        EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 0));
    }
    fake->switches.no_host_chunks = true;
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    EXPECT_U64_EQ(0, info.host_page_bytes);
    expect_nothing_left(fake);
}

/* Whether the device creates anything when it is opened. */
static bool tries_to_create(fake_cuda *fake, const mend_driver *driver, mend_device_info *info)
{
    uint64_t calls = mend_sim_call_count(fake->sim);
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, info));
    return mend_sim_call_count(fake->sim) - calls > 8;
}

MEND_TEST(fake_cuda, what_a_device_can_do_is_tried_once)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info first;
    mend_device_info again;
    ASSERT_TRUE(find_both(&fake, &driver));
    EXPECT_TRUE(tries_to_create(fake, driver, &first));
    memset(&again, 0x5a, sizeof(again));
    EXPECT_FALSE(tries_to_create(fake, driver, &again));
    EXPECT_TRUE(again.virtual_memory && again.aliasing && again.rdma);
    EXPECT_TRUE(again.share_file_descriptor);
    EXPECT_TRUE(again.share_fabric);
    EXPECT_U64_EQ(first.granularity_bytes, again.granularity_bytes);
    EXPECT_U64_EQ(first.recommended_bytes, again.recommended_bytes);
    EXPECT_STR_EQ(first.name, again.name);
    EXPECT_PTR_EQ(first.context, again.context);
    expect_nothing_left(fake);
}

/* Nor is a device without virtual memory: that may be a matter of the moment. */
MEND_TEST(fake_cuda, what_failed_for_lack_of_memory_is_tried_again)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = "export_handle";
    ASSERT_TRUE(find_both(&fake, &driver));
    ASSERT_RESULT(MEND_OK, mend_sim_fail(fake->sim, &fault));
    EXPECT_TRUE(tries_to_create(fake, driver, &info));
    EXPECT_FALSE(info.share_file_descriptor);
    EXPECT_TRUE(tries_to_create(fake, driver, &info));
    EXPECT_TRUE(info.share_file_descriptor);
    expect_nothing_left(fake);
}

MEND_TEST(fake_cuda, without_virtual_memory_a_device_still_opens)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    ASSERT_TRUE(find_both(&fake, &driver));
    fake->switches.virtual_memory_claimed = false;
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    EXPECT_FALSE(info.virtual_memory);
    EXPECT_FALSE(info.aliasing);
    EXPECT_FALSE(info.share_file_descriptor);

    /* Claimed, but the calls fail. */
    static const char *const calls[] = {"reserve", "create", "map", "set_access"};
    fake->switches.virtual_memory_claimed = true;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        mend_sim_fault fault = MEND_SIM_FAULT_INIT;
        fault.call = calls[i];
        fault.status = MEND_DRIVER_NOT_SUPPORTED;
        ASSERT_RESULT(MEND_OK, mend_sim_fail(fake->sim, &fault));
        EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
        EXPECT_FALSE(info.virtual_memory);
        EXPECT_FALSE(info.share_file_descriptor);
        expect_nothing_left(fake);
    }
}

/* Opens a device while call number `position` of this kind runs out of memory. */
static mend_status probe_with_fault(fake_cuda *fake, const mend_driver *driver, const char *call,
                                    uint64_t position, mend_device_info *info)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = call;
    fault.after_calls = position;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(fake->sim, &fault));
    memset(info, 0x5a, sizeof(*info));
    mend_status status = probe(driver, info);
    mend_sim_clear_faults(fake->sim);
    expect_nothing_left(fake);
    return status;
}

/* A lack of memory says nothing about the device: it is the answer, as long as the pool's own needs
 * are tried. */
MEND_TEST(fake_cuda, a_probe_that_runs_out_of_memory_fails_and_undoes_all)
{
    static const struct {
        const char *call;
        unsigned needed; /* calls of this kind until aliasing is known */
    } steps[] = {{"device_open", 1},
                 {"context_push", 1},
                 {"exchange_capture_mode", 1},
                 {"reserve", 1},
                 {"create", 1},
                 {"map", 2},
                 {"set_access", 2},
                 {"fill", 3},
                 {"copy", 3},
                 {"stream_create", 1},
                 {"stream_synchronize", 3}};
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    ASSERT_TRUE(find_both(&fake, &driver));
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        for (unsigned position = 0; position < steps[i].needed; position++) {
            EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY,
                          probe_with_fault(fake, driver, steps[i].call, position, &info));
            EXPECT_INT_EQ(0x5a, info.name[0]); /* untouched */
        }
    }
}

/* A pool can do without: what was not found to work is not used. */
MEND_TEST(fake_cuda, aliases_are_used_at_once_only_where_that_was_tried)
{
    static const struct {
        const char *call;
        unsigned position; /* the first call of this kind that tries it */
    } steps[] = {{"stream_create", 1}, {"fill", 3}, {"copy", 3}, {"stream_synchronize", 3}};
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    ASSERT_TRUE(find_both(&fake, &driver));
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        EXPECT_INT_EQ(MEND_DRIVER_OK,
                      probe_with_fault(fake, driver, steps[i].call, steps[i].position, &info));
        EXPECT_TRUE(info.aliasing);
        EXPECT_FALSE(info.aliases_at_once);
    }
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    EXPECT_TRUE(info.aliases_at_once);
}

MEND_TEST(fake_cuda, what_is_not_needed_is_dropped_when_memory_is_short)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    ASSERT_TRUE(find_both(&fake, &driver));
    /* The second chunk is the one to share. */
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe_with_fault(fake, driver, "create", 1, &info));
    EXPECT_TRUE(info.virtual_memory);
    EXPECT_TRUE(info.aliasing);
    EXPECT_FALSE(info.share_file_descriptor);
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe_with_fault(fake, driver, "export_handle", 0, &info));
    EXPECT_FALSE(info.share_file_descriptor);
}

MEND_TEST(fake_cuda, any_function_that_is_missing_is_named)
{
    fake_cuda *fake = find_fake();
    mend_cu_functions functions;
    mend_error error = MEND_ERROR_INIT;
    ASSERT_TRUE(fake != NULL);
    ASSERT_RESULT(MEND_OK, mend_cuda_load(&functions));
    EXPECT_TRUE((functions.cuStreamGetId == NULL) == is_old());
    if (is_old()) {
        return; /* without cuGetProcAddress the fake cannot hide a symbol */
    }
#define X(name, version, suffix, parameters)                                                       \
    fake->switches.missing_function = #name;                                                       \
    EXPECT_RESULT(MEND_ERROR_NO_DRIVER, mend_cuda_load(&functions));                               \
    ASSERT_RESULT(MEND_OK, mend_last_error(&error));                                               \
    EXPECT_TRUE(strstr(error.message, "has no " #name suffix ";") != NULL);
    MEND_CU_FUNCTIONS(X)
#undef X
    fake->switches.missing_function = "cuStreamGetId";
    EXPECT_RESULT(MEND_OK, mend_cuda_load(&functions));
    EXPECT_TRUE(functions.cuStreamGetId == NULL);
}

/* A pool may be made while others capture: the probe takes, touches and gives back. */
MEND_TEST(fake_cuda, a_device_opens_beside_a_capture)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    mend_stream stream = NULL;
    ASSERT_TRUE(find_both(&fake, &driver));
    uint64_t violations = ledger_of(fake).violations;
    ASSERT_RESULT(MEND_OK, mend_sim_stream_create_blocking(fake->sim, &stream));
    ASSERT_RESULT(MEND_OK, mend_sim_begin_capture(fake->sim, stream, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    EXPECT_TRUE(info.virtual_memory);
    EXPECT_TRUE(info.aliasing);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(fake->sim, stream, NULL));
    EXPECT_U64_EQ(violations, ledger_of(fake).violations);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(fake->sim, stream));
    expect_nothing_left(fake);
}

/* The probe works in relaxed mode; the thread is in its own again when it has ended. */
MEND_TEST(fake_cuda, a_device_that_opens_leaves_the_thread_in_its_capture_mode)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    mend_capture_mode mode = MEND_CAPTURE_MODE_THREAD_LOCAL;
    ASSERT_TRUE(find_both(&fake, &driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->exchange_capture_mode(driver, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_GLOBAL, mode);
    EXPECT_INT_EQ(MEND_DRIVER_OK, probe(driver, &info));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->exchange_capture_mode(driver, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_THREAD_LOCAL, mode);
    expect_nothing_left(fake);
}

MEND_TEST(fake_cuda, kernels_are_loaded_once_and_unloaded_with_the_device)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 10};
    ASSERT_TRUE(find_both(&fake, &driver));
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, 0, &info));
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, 0, &info));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_CONTEXT, driver->launch(driver, NULL, &spin));
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->context_push(driver, info.context));
    EXPECT_U64_EQ(0, fake->modules);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->launch(driver, NULL, &spin));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->launch(driver, NULL, &spin));
    EXPECT_U64_EQ(1, fake->modules);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_synchronize(driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->context_pop(driver));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 0));
    EXPECT_U64_EQ(1, fake->modules); /* open once more */
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 0));
    expect_nothing_left(fake);
}

MEND_TEST(fake_cuda, a_chunk_passes_through_a_file_descriptor)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    mend_chunk_properties shared = {.share_types = MEND_SHARE_FILE_DESCRIPTOR};
    mend_chunk_handle chunk = 0;
    mend_chunk_handle imported = 0;
    int descriptor = -1;
    ASSERT_TRUE(find_both(&fake, &driver));
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, 0, &info));
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->create(driver, info.granularity_bytes, &shared, &chunk));
    ASSERT_INT_EQ(MEND_DRIVER_OK,
                  driver->export_handle(driver, chunk, MEND_SHARE_FILE_DESCRIPTOR, &descriptor));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->import_handle(driver, &descriptor,
                                                        MEND_SHARE_FILE_DESCRIPTOR, &imported));
    close(descriptor);
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->release(driver, imported));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->release(driver, chunk));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 0));
    expect_nothing_left(fake);
}

MEND_TEST(fake_cuda, a_chunk_passes_through_a_fabric_handle)
{
    fake_cuda *fake;
    const mend_driver *driver;
    mend_device_info info;
    mend_chunk_properties shared = {.share_types = MEND_SHARE_FILE_DESCRIPTOR | MEND_SHARE_FABRIC};
    mend_chunk_handle chunk = 0;
    mend_chunk_handle imported = 0;
    unsigned char fabric[MEND_FABRIC_HANDLE_BYTES];
    ASSERT_TRUE(find_both(&fake, &driver));
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->device_open(driver, 0, &info));
    ASSERT_TRUE(info.share_fabric);
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->create(driver, info.granularity_bytes, &shared, &chunk));
    ASSERT_INT_EQ(MEND_DRIVER_OK, driver->export_handle(driver, chunk, MEND_SHARE_FABRIC, fabric));
    EXPECT_INT_EQ(MEND_DRIVER_OK,
                  driver->import_handle(driver, fabric, MEND_SHARE_FABRIC, &imported));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->release(driver, imported));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->release(driver, chunk));
    EXPECT_INT_EQ(MEND_DRIVER_OK, driver->device_close(driver, 0));
    expect_nothing_left(fake);
}

/* What a user does who names no driver. */
MEND_TEST(fake_cuda, a_pool_runs_on_it_by_default)
{
    fake_cuda *fake = find_fake();
    mend_pool *pool = NULL;
    void *pointer[3] = {NULL};
    const uint64_t mib = UINT64_C(1) << 20;
    ASSERT_TRUE(fake != NULL);
    ASSERT_RESULT(MEND_OK, mend_pool_create(NULL, &pool));
    for (size_t i = 0; i < 3; i++) {
        EXPECT_RESULT(MEND_OK, mend_alloc(pool, (10 + i) * mib, NULL, &pointer[i]));
    }
    EXPECT_RESULT(MEND_OK, mend_free(pool, pointer[1], NULL));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(pool, 2048 * mib, NULL, &pointer[1]));
    EXPECT_RESULT(MEND_OK, mend_free(pool, pointer[0], NULL));
    EXPECT_RESULT(MEND_OK, mend_free(pool, pointer[2], NULL));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(pool));
    expect_nothing_left(fake);
}

/* Nor for the default pools. */
MEND_TEST(fake_cuda, default_pools_run_on_it_by_default)
{
    fake_cuda *fake = find_fake();
    mend_pool *pool = NULL;
    void *pointer = NULL;
    int current = 77;
    ASSERT_TRUE(fake != NULL);
    EXPECT_RESULT(MEND_OK, mend_current_device(&current));
    EXPECT_INT_EQ(0, current);
    EXPECT_RESULT(MEND_OK, mend_device_alloc(MEND_ALL_DEVICES, 512, NULL, &pointer));
    ASSERT_RESULT(MEND_OK, mend_pool_for_device(0, &pool));
    EXPECT_RESULT(MEND_OK, mend_device_free(0, pointer, 512, NULL));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(pool));
    expect_nothing_left(fake);
}
