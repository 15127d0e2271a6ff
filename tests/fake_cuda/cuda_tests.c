/*
 * The real driver's files on the fake libcuda: cases beside the contract's tests, which run on it
 * too. Opening a device under every refusal, each of them leaving nothing behind. Symbols that are
 * missing. The kernels' module. Streams are in streams.c.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system.h"
#include "driver/cuda_state.h"
#include "driver/driver.h"
#include "mend/mend_devices.h"
#include "mend/mend_frameworks.h"
#include "mend/mend_sleep.h"
#include "tests/fake_cuda/found.h"
#include "tests/support/options.h"
#include "tests/support/test.h"

FAKE_TEST(a_device_is_described_and_probed)
{
    ASSERT_OK(cuda->device_open(cuda, 0, &info));
    EXPECT_STR_EQ("fake device 0", info.name);
    EXPECT_INT_EQ(12080, info.driver_version);
    EXPECT_INT_EQ(9, info.compute_major);
    EXPECT_INT_EQ(1, info.compute_minor);
    EXPECT_U64_EQ(UINT64_C(1) << 30, info.total_bytes);
    EXPECT_U64_EQ(UINT64_C(2) << 20, info.granularity_bytes);
    EXPECT_U64_EQ(UINT64_C(4) << 20, info.recommended_bytes);
    EXPECT_TRUE(info.virtual_memory);
    EXPECT_TRUE(info.multicast && info.memory_pools);
    EXPECT_FALSE(info.integrated);
    EXPECT_U64_EQ(0, info.peers);
    EXPECT_TRUE(info.rdma);
    EXPECT_TRUE(info.share_file_descriptor);
    EXPECT_TRUE(info.share_fabric);
    EXPECT_OK(cuda->device_close(cuda, 0));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_CONTEXT, cuda->device_close(cuda, 0));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_DEVICE, cuda->device_open(cuda, 1, &info));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_DEVICE, cuda->device_open(cuda, -1, &info));
    const uint64_t before_ms = mend_now_ms(), now_ms = cuda->clock_ns(cuda) / 1000000;
    EXPECT_TRUE(before_ms <= now_ms && now_ms <= mend_now_ms());
}

/* Opens and closes device 0 under the switches as they are, and breaks no rule of the driver. */
static mend_status probe(void)
{
    const uint64_t violations = ledger_of_fake().violations;
    mend_status status = cuda->device_open(cuda, 0, &info);
    if (status == MEND_DRIVER_OK) {
        EXPECT_OK(cuda->device_close(cuda, 0));
    }
    EXPECT_U64_EQ(violations, ledger_of_fake().violations);
    return status;
}

/* One call of this kind answers so, after so many others. */
static void fail(const char *call, uint64_t after_calls, mend_status status)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = call;
    fault.after_calls = after_calls;
    fault.status = status;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(fake->sim, &fault));
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

FAKE_TEST(what_is_refused_is_dropped_with_a_log_line)
{
    log_lines lines = {0};
    fake->switches.create_refusal = MEND_DRIVER_NOT_PERMITTED;
    mend_log_set_sink(keep_line, &lines);
    EXPECT_OK(probe());
    mend_log_set_sink(NULL, NULL);
    EXPECT_TRUE(info.virtual_memory);
    EXPECT_FALSE(info.share_file_descriptor);
    EXPECT_FALSE(info.share_fabric);
    EXPECT_FALSE(info.rdma);
    EXPECT_U64_EQ(3, lines.count);
    EXPECT_TRUE(strstr(lines.text, "sharing by fabric handle: no (CUDA_ERROR_NOT_PERMITTED)"));
    expect_nothing_left();

    ASSERT_TRUE(find_both()); /* forgets the found functions */
    fake->switches.fabric_is_refused = true;
    EXPECT_OK(probe());
    EXPECT_TRUE(info.share_file_descriptor);
    EXPECT_FALSE(info.share_fabric); /* claimed, and refused */
    expect_nothing_left();

    ASSERT_TRUE(find_both());
    fake->switches.larger_page_bytes = UINT64_C(32) << 20;
    EXPECT_OK(probe());
    EXPECT_FALSE(info.share_file_descriptor); /* one pool has pages of one size */

    ASSERT_TRUE(find_both());
    fake->switches.everything_claimed = false;
    EXPECT_OK(probe());
    EXPECT_FALSE(info.share_file_descriptor || info.share_fabric || info.rdma);

    ASSERT_TRUE(find_both());
    fail("export_handle", 0, MEND_DRIVER_ILLEGAL_ADDRESS); /* says nothing about the feature */
    EXPECT_INT_EQ(MEND_DRIVER_ILLEGAL_ADDRESS, probe());
    expect_nothing_left();
}

static mend_cu_functions all_functions;

static mend_status create_of_one_type(mend_cu_chunk *chunk, size_t bytes,
                                      const mend_cu_chunk_properties *properties,
                                      unsigned long long flags)
{
    const int types = properties->share_types;
    return (types & (types - 1)) != 0 ? MEND_DRIVER_NOT_PERMITTED
                                      : all_functions.cuMemCreate(chunk, bytes, properties, flags);
}

/* A pool would ask for both at once. */
FAKE_TEST(of_share_types_that_are_refused_together_the_first_remains)
{
    mend_cuda *state = mend_cuda_of(cuda);
    all_functions = state->functions;
    state->functions.cuMemCreate = create_of_one_type;
    EXPECT_OK(probe());
    EXPECT_TRUE(info.share_file_descriptor && info.rdma);
    EXPECT_FALSE(info.share_fabric);
    state->functions = all_functions;
}

/* As on WSL: the driver claims RDMA, creates memory for it, and refuses all access. */
FAKE_TEST(what_cannot_be_accessed_is_dropped)
{
    fail("set_access", 3, 999); /* after a page, a file descriptor, a fabric handle */
    EXPECT_OK(probe());
    EXPECT_TRUE(info.virtual_memory && info.share_file_descriptor && info.share_fabric);
    EXPECT_FALSE(info.rdma);
    expect_nothing_left();
}

FAKE_TEST(a_device_says_which_others_reach_its_memory)
{
    fake->switches.more_devices = 3;
    fake->switches.peers = 0xd; /* 0 itself, 2 and 3 */
    EXPECT_OK(probe());
    EXPECT_U64_EQ(0xc, info.peers);
    ASSERT_TRUE(find_both()); /* forgets what it knows */
    fake->switches.peers = 0xd;
    fake->switches.more_devices = 2; /* an invisible device is no peer */
    EXPECT_OK(probe());
    EXPECT_U64_EQ(0x4, info.peers);
}

FAKE_TEST(a_device_says_whether_its_memory_is_the_hosts)
{
    fake->switches.is_integrated = true;
    EXPECT_OK(probe());
    EXPECT_TRUE(info.integrated);
}

/* Much is kept in registered pages. Otherwise, or where the device or a refusal says no, it is in
 * memory of the driver's own. Pages that the driver does not let go stay, to be retried. A child of
 * fork does not get them. */
FAKE_TEST(what_sleeps_is_kept_in_registered_pages)
{
    static const struct {
        uint64_t size_bytes;
        bool is_claimed;
        mend_status refusal;
        bool is_registered;
    } cases[] = {
        {UINT64_C(1) << 20, true, MEND_DRIVER_OK, false},
        {UINT64_C(2) << 20, true, MEND_DRIVER_OK, true},
        {UINT64_C(8) << 20, true, MEND_DRIVER_OK, true},
        {UINT64_C(8) << 20, false, MEND_DRIVER_OK, false},
        {UINT64_C(8) << 20, true, MEND_DRIVER_NOT_SUPPORTED, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        mend_pool *pool = NULL;
        void *block = NULL;
        const void *host = NULL;
        unsigned char resident = 0;
        mend_pool_config config = MEND_POOL_CONFIG_INIT;
        mend_sleep_options options = MEND_SLEEP_OPTIONS_INIT;
        ASSERT_TRUE(find_both());
        fake->switches.everything_claimed = cases[i].is_claimed;
        fake->switches.register_refusal = cases[i].refusal;
        ASSERT_RESULT(MEND_OK, mend_pool_create(&config, &pool));
        EXPECT_RESULT(MEND_OK, mend_alloc(pool, cases[i].size_bytes, NULL, &block));
        EXPECT_RESULT(MEND_OK, mend_sleep(pool, &options, NULL));
        EXPECT_RESULT(MEND_OK,
                      mend_wake(pool, NULL, 0, NULL)); /* the backup is left for the next */
        EXPECT_RESULT(MEND_OK, mend_sleep(pool, &options, NULL));
        EXPECT_TRUE(cases[i].is_registered == (fake->registered > 0));
        EXPECT_TRUE(cases[i].is_registered == (ledger_of_fake().host_allocations == 0));
        EXPECT_RESULT(MEND_OK, mend_read_backup(pool, block, 1 << 20, NULL, &host));
        const char *last = (const char *)host + (1 << 20) - 1;
        const char was_last = *last;
        if (cases[i].is_registered) {
            const pid_t child = fork();
            if (child == 0) {
                _exit(mincore((void *)(uintptr_t)host, 4096, &resident) == 0 ? 1 : 0);
            }
            int status = -1;
            EXPECT_INT_EQ(child, waitpid(child, &status, 0));
            EXPECT_INT_EQ(0, status);
            fake->switches.register_refusal = MEND_DRIVER_UNKNOWN;
        }
        EXPECT_RESULT(MEND_OK, mend_free(pool, block, NULL));
        EXPECT_TRUE(cases[i].is_registered == (fake->registered > 0));
        EXPECT_TRUE(!cases[i].is_registered || *last == was_last);
        fake->switches.register_refusal = MEND_DRIVER_OK;
        EXPECT_RESULT(MEND_OK, mend_pool_destroy(pool));
        expect_nothing_left();
    }
}

/* Whether the device creates anything when it is opened. */
static bool tries_to_create(void)
{
    uint64_t calls = mend_sim_call_count(fake->sim);
    EXPECT_OK(probe());
    return mend_sim_call_count(fake->sim) - calls > 8;
}

FAKE_TEST(what_a_device_can_do_is_tried_once)
{
    EXPECT_TRUE(tries_to_create());
    const mend_device_info first = info;
    memset(&info, 0x5a, sizeof(info));
    EXPECT_FALSE(tries_to_create());
    EXPECT_TRUE(info.virtual_memory && info.rdma);
    EXPECT_TRUE(info.share_file_descriptor);
    EXPECT_TRUE(info.share_fabric);
    EXPECT_U64_EQ(first.granularity_bytes, info.granularity_bytes);
    EXPECT_U64_EQ(first.recommended_bytes, info.recommended_bytes);
    EXPECT_STR_EQ(first.name, info.name);
    EXPECT_PTR_EQ(first.context, info.context);
}

/* Nor is a device without virtual memory: that may be a matter of the moment. */
FAKE_TEST(what_failed_for_lack_of_memory_is_tried_again)
{
    static const mend_status lacks[] = {MEND_DRIVER_OUT_OF_MEMORY, MEND_DRIVER_NOT_READY};
    for (int i = 0; i < 2; i++) {
        ASSERT_TRUE(find_both());
        fail("export_handle", 0, lacks[i]);
        EXPECT_TRUE(tries_to_create());
        EXPECT_FALSE(info.share_file_descriptor);
        EXPECT_TRUE(tries_to_create());
        EXPECT_TRUE(info.share_file_descriptor);
    }
}

FAKE_TEST(without_virtual_memory_a_device_still_opens)
{
    fake->switches.virtual_memory_claimed = false;
    EXPECT_OK(probe());
    EXPECT_FALSE(info.virtual_memory);
    EXPECT_FALSE(info.share_file_descriptor);

    /* Claimed, but the calls fail. */
    static const char *const calls[] = {"reserve", "create", "map", "set_access"};
    fake->switches.virtual_memory_claimed = true;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        fail(calls[i], 0, MEND_DRIVER_NOT_SUPPORTED);
        EXPECT_OK(probe());
        EXPECT_FALSE(info.virtual_memory);
        EXPECT_FALSE(info.share_file_descriptor);
        expect_nothing_left();
        EXPECT_OK(probe());
        EXPECT_TRUE(info.virtual_memory); /* by now */
        ASSERT_TRUE(find_both());
    }
}

/* Opens a device while call number `position` of this kind runs out of memory. */
static mend_status probe_with_fault(const char *call, uint64_t position)
{
    fail(call, position, MEND_DRIVER_OUT_OF_MEMORY);
    memset(&info, 0x5a, sizeof(info));
    mend_status status = probe();
    mend_sim_clear_faults(fake->sim);
    expect_nothing_left();
    return status;
}

/* Too little memory says nothing about the device: it is the result, while the pool's own needs are
 * tried. */
FAKE_TEST(a_probe_that_runs_out_of_memory_fails_and_undoes_all)
{
    static const char *const steps[] = {
        "device_open", "context_push", "exchange_capture_mode", "reserve", "create",
        "map",         "set_access",
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        EXPECT_INT_EQ(MEND_DRIVER_OUT_OF_MEMORY, probe_with_fault(steps[i], 0));
        EXPECT_INT_EQ(0x5a, info.name[0]); /* untouched */
    }
}

FAKE_TEST(what_is_not_needed_is_dropped_when_memory_is_short)
{
    /* The second chunk is the one to share. */
    EXPECT_OK(probe_with_fault("create", 1));
    EXPECT_TRUE(info.virtual_memory);
    EXPECT_FALSE(info.share_file_descriptor);
    EXPECT_OK(probe_with_fault("export_handle", 0));
    EXPECT_FALSE(info.share_file_descriptor);
}

FAKE_TEST(any_function_that_is_missing_is_named)
{
    mend_cu_functions functions;
    mend_error error = MEND_ERROR_INIT;
    ASSERT_RESULT(MEND_OK, mend_cuda_load(&functions));
    EXPECT_TRUE((functions.cuStreamGetId == NULL) == is_old());
    if (is_old()) {
        return; /* without cuGetProcAddress the fake cannot hide a symbol */
    }
#define X(name, version, suffix, parameters)                                                       \
    fake->switches.missing_function = #name;                                                       \
    EXPECT_RESULT(MEND_ERROR_NO_DRIVER, mend_cuda_load(&functions));                               \
    ASSERT_RESULT(MEND_OK, mend_get_last_error(&error));                                           \
    EXPECT_TRUE(strstr(error.message, "has no " #name suffix ";") != NULL);
    MEND_CU_FUNCTIONS(X)
#undef X
    fake->switches.missing_function = "cuStreamGetId";
    EXPECT_RESULT(MEND_OK, mend_cuda_load(&functions));
    EXPECT_TRUE(functions.cuStreamGetId == NULL);
}

/* A pool may be made while others capture: the probe takes, touches and releases memory. */
FAKE_TEST(a_device_opens_beside_a_capture)
{
    mend_stream stream = NULL;
    ASSERT_RESULT(MEND_OK,
                  mend_sim_stream_create(
                      fake->sim, KIT_OPTIONS(mend_sim_stream_options, .is_blocking = 1), &stream));
    ASSERT_RESULT(MEND_OK, mend_sim_begin_capture(fake->sim, stream, MEND_SIM_CAPTURE_GLOBAL));
    EXPECT_OK(probe());
    EXPECT_TRUE(info.virtual_memory);
    EXPECT_RESULT(MEND_OK, mend_sim_end_capture(fake->sim, stream, NULL));
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(fake->sim, stream));
}

/* The probe works in relaxed mode. The thread is in its own again when it has ended. */
FAKE_TEST(a_device_that_opens_leaves_the_thread_in_its_capture_mode)
{
    mend_capture_mode mode = MEND_CAPTURE_MODE_THREAD_LOCAL;
    EXPECT_OK(cuda->exchange_capture_mode(cuda, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_GLOBAL, mode);
    EXPECT_OK(probe());
    EXPECT_OK(cuda->exchange_capture_mode(cuda, &mode));
    EXPECT_INT_EQ(MEND_CAPTURE_MODE_THREAD_LOCAL, mode);
}

FAKE_TEST(kernels_are_loaded_once_and_unloaded_with_the_device)
{
    mend_kernel spin = {.kind = MEND_KERNEL_SPIN, .duration_ns = 10};
    ASSERT_OK(cuda->device_open(cuda, 0, &info));
    ASSERT_OK(cuda->device_open(cuda, 0, &info));
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_CONTEXT, cuda->launch(cuda, NULL, &spin));
    ASSERT_OK(cuda->context_push(cuda, info.context));
    EXPECT_U64_EQ(0, fake->modules);
    EXPECT_OK(cuda->launch(cuda, NULL, &spin));
    EXPECT_OK(cuda->launch(cuda, NULL, &spin));
    EXPECT_U64_EQ(1, fake->modules);
    EXPECT_OK(cuda->context_synchronize(cuda));
    EXPECT_OK(cuda->context_pop(cuda));
    EXPECT_OK(cuda->device_close(cuda, 0));
    EXPECT_U64_EQ(1, fake->modules); /* open once more */
    EXPECT_OK(cuda->device_close(cuda, 0));
}

/* The calls of a user who names no driver. */
FAKE_TEST(a_pool_runs_on_it_by_default)
{
    mend_pool *pool = NULL;
    void *pointer[3] = {NULL};
    const uint64_t mib = UINT64_C(1) << 20;
    ASSERT_RESULT(MEND_OK, mend_pool_create(NULL, &pool));
    for (size_t i = 0; i < 3; i++) {
        EXPECT_RESULT(MEND_OK, mend_alloc(pool, (10 + i) * mib, NULL, &pointer[i]));
    }
    EXPECT_RESULT(MEND_OK, mend_free(pool, pointer[1], NULL));
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(pool, 2048 * mib, NULL, &pointer[1]));
    EXPECT_RESULT(MEND_OK, mend_free(pool, pointer[0], NULL));
    EXPECT_RESULT(MEND_OK, mend_free(pool, pointer[2], NULL));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(pool));
}

/* Nor for the default pools. */
FAKE_TEST(default_pools_run_on_it_by_default)
{
    mend_pool *pool = NULL;
    void *pointer = NULL;
    int current = 77;
    EXPECT_RESULT(MEND_OK, mend_current_device(&current));
    EXPECT_INT_EQ(0, current);
    EXPECT_RESULT(MEND_OK, mend_device_alloc(MEND_ALL_DEVICES, 512, NULL, &pointer));
    ASSERT_RESULT(MEND_OK, mend_pool_for_device(0, &pool));
    EXPECT_RESULT(MEND_OK, mend_device_free(0, pointer, 512, NULL));
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(pool));
}
