/*
 * One story that makes every call of the driver's table, and of the simulated device beside it, run
 * again and again: each time another of its host allocations fails, or another of its calls is
 * refused. The call says so, is made once more and succeeds, and at the end nothing is left. By the
 * device alone and through the decorator that traces.
 */
#include <string.h>
#include <unistd.h>

#include "base/align.h"
#include "lab/driver/traced.h"
#include "mend/mend_sim.h"
#include "tests/support/host_memory.h"
#include "tests/support/options.h"
#include "tests/support/test.h"

enum { PAGE = 64 << 10, PIECE = 4096 };

typedef enum hardship {
    HOST_MEMORY, /* an allocation of the host fails */
    DRIVER       /* a call of the table is refused */
} hardship;

typedef struct story {
    hardship kind;
    uint64_t position; /* of the allocation, or call, that fails */
    unsigned failures;
    mend_sim *sim;
    mend_driver *traced;
    const mend_driver *driver; /* the outermost */
    mend_context context;
    mend_stream stream;
    mend_stream blocking;
    mend_event event;
    uint64_t address; /* of a reservation of two pages, the first mapped */
    mend_chunk_handle chunk;
} story;

/* A call of either kind, made again if it failed as it must. The first failure is over then. */
static void account(story *s, bool failed_as_it_must, const char *text)
{
    s->failures++;
    if (!failed_as_it_must) {
        mend_test_fail(__FILE__, __LINE__, "position %llu: %s failed otherwise",
                       (unsigned long long)s->position, text);
    }
}

#define TRY(call, good, expected_failure)                                                          \
    do {                                                                                           \
        mend_test_watch_host_memory(s->kind == HOST_MEMORY);                                       \
        int mend_status_seen = (int)(call);                                                        \
        mend_test_watch_host_memory(false);                                                        \
        if (mend_status_seen != (int)(good)) {                                                     \
            account(s, mend_status_seen == (int)(expected_failure), #call);                        \
            EXPECT_INT_EQ(good, call);                                                             \
        }                                                                                          \
    } while (0)
#define DRIVE(member, ...)                                                                         \
    TRY(s->driver->member(s->driver, ##__VA_ARGS__), MEND_DRIVER_OK, MEND_DRIVER_OUT_OF_MEMORY)
#define CALL(call) TRY(call, MEND_OK, MEND_ERROR_OUT_OF_HOST_MEMORY)

static void begin(story *s, bool traced)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    mend_device_info info;
    int current;
    config.memory_bytes = 64 * MEND_MIB;
    config.page_bytes = PAGE;
    config.content = MEND_SIM_CONTENT_BYTES;
    config.fabric = MEND_SIM_FABRIC_WORKS;
    mend_test_fail_host_memory_after(s->position, s->kind == HOST_MEMORY);
    CALL(mend_sim_create(&config, &s->sim));
    s->driver = mend_sim_driver(s->sim);
    if (s->kind == DRIVER) {
        mend_sim_fault fault = MEND_SIM_FAULT_INIT;
        fault.after_calls = s->position;
        EXPECT_RESULT(MEND_OK, mend_sim_fail(s->sim, &fault));
    } else {
        mend_sim_fault never = MEND_SIM_FAULT_INIT;
        never.after_calls = UINT64_MAX;
        CALL(mend_sim_fail(s->sim, &never));
    }
    if (traced) {
        CALL(mend_traced_driver_create(s->driver, &s->traced));
        s->driver = s->traced;
    }
    DRIVE(device_open, 0, &info);
    s->context = info.context;
    DRIVE(context_push, s->context);
    DRIVE(context_device, &current);
    DRIVE(stream_create, &s->stream);
    CALL(mend_sim_stream_create(s->sim, KIT_OPTIONS(mend_sim_stream_options, .is_blocking = 1),
                                &s->blocking));
    DRIVE(event_create, &s->event);
}

static void use_memory(story *s)
{
    static const int device = 0;
    mend_chunk_properties shared = {.share_types = MEND_SHARE_FILE_DESCRIPTOR | MEND_SHARE_FABRIC};
    mend_chunk_handle imported = 0;
    mend_chunk_handle again = 0;
    mend_chunk_handle by_fabric = 0;
    int descriptor = -1;
    unsigned char fabric[MEND_FABRIC_HANDLE_BYTES];
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    DRIVE(reserve, 2 * PAGE, 0, 0, &s->address);
    DRIVE(create, PAGE, &shared, &s->chunk);
    DRIVE(map, s->address, PAGE, 0, s->chunk);
    DRIVE(set_access, s->address, PAGE, &device, 1, MEND_ACCESS_READ_WRITE);
    DRIVE(export_handle, s->chunk, MEND_SHARE_FILE_DESCRIPTOR, &descriptor);
    DRIVE(import_handle, &descriptor, MEND_SHARE_FILE_DESCRIPTOR, &imported);
    DRIVE(import_handle, &descriptor, MEND_SHARE_FILE_DESCRIPTOR, &again);
    DRIVE(export_handle, s->chunk, MEND_SHARE_FABRIC, fabric);
    DRIVE(import_handle, fabric, MEND_SHARE_FABRIC, &by_fabric);
    DRIVE(memory_info, &free_bytes, &total_bytes);
    DRIVE(release, imported);
    DRIVE(release, again);
    DRIVE(release, by_fabric);
    close(descriptor);
}

static void use_work(story *s)
{
    uint8_t bytes[PIECE];
    uint64_t plain = 0;
    uint64_t async = 0;
    void *pinned = NULL;
    mend_stream_info info;
    mend_capture_mode mode = MEND_CAPTURE_MODE_GLOBAL;
    mend_kernel kernel = {.kind = MEND_KERNEL_WRITE,
                          .address = s->address,
                          .granule_bytes = 512,
                          .stride_bytes = 512,
                          .granule_count = 2};
    memset(bytes, 7, sizeof(bytes));
    DRIVE(exchange_capture_mode, &mode);
    DRIVE(plain_alloc, PIECE, &plain);
    DRIVE(host_alloc, PIECE, &pinned);
    DRIVE(async_alloc, PIECE, s->stream, &async);
    DRIVE(fill, s->address, 3, PIECE, s->stream);
    DRIVE(copy, plain, (uint64_t)(uintptr_t)bytes, PIECE, s->stream);
    DRIVE(copy, async, plain, PIECE, s->stream);
    DRIVE(copy, (uint64_t)(uintptr_t)bytes, async, PIECE, s->stream);
    DRIVE(copy, (uint64_t)(uintptr_t)pinned, plain, PIECE, s->stream);
    DRIVE(launch, s->stream, &kernel);
    DRIVE(launch, MEND_STREAM_PER_THREAD, &kernel);
    DRIVE(event_record, s->event, s->stream);
    DRIVE(stream_wait, s->blocking, s->event);
    DRIVE(stream_get_info, NULL, &info);
    DRIVE(event_synchronize, s->event);
    DRIVE(event_query, s->event);
    DRIVE(stream_synchronize, s->stream);
    DRIVE(stream_query, s->stream);
    DRIVE(async_free, async, s->stream);
    DRIVE(host_free, pinned);
    DRIVE(plain_free, plain);
    DRIVE(context_synchronize);
    EXPECT_INT_EQ(7, bytes[0]);
}

/* Beside the table: captures, graphs and the device's own work. */
static void use_graphs(story *s)
{
    mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                          .kind = MEND_SIM_WORK_WRITE,
                          .address = s->address,
                          .size_bytes = PIECE};
    mend_sim_graph *graph = NULL;
    CALL(mend_sim_launch(s->sim, s->blocking, &work));
    CALL(mend_sim_stream_wait(s->sim, s->stream, s->blocking));
    CALL(mend_sim_begin_capture(s->sim, s->blocking, MEND_SIM_CAPTURE_RELAXED));
    CALL(mend_sim_stream_wait(s->sim, s->stream, s->blocking));
    CALL(mend_sim_launch(s->sim, s->stream, &work));
    CALL(mend_sim_stream_wait(s->sim, s->blocking, s->stream));
    CALL(mend_sim_end_capture(s->sim, s->blocking, &graph));
    CALL(mend_sim_graph_launch(s->sim, graph, s->stream, 0));
    mend_sim_graph_destroy(s->sim, graph);
    DRIVE(context_synchronize);
}

static void end(story *s)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    DRIVE(unmap, s->address, PAGE);
    DRIVE(release, s->chunk);
    DRIVE(address_free, s->address, 2 * PAGE);
    DRIVE(event_destroy, s->event);
    DRIVE(stream_destroy, s->stream);
    EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(s->sim, s->blocking));
    DRIVE(context_pop);
    DRIVE(device_close, 0);
    mend_test_heal_host_memory();
    EXPECT_RESULT(MEND_OK, mend_sim_get_ledger(s->sim, &ledger));
    EXPECT_U64_EQ(0, ledger.chunks + ledger.mappings + ledger.reservations + ledger.streams +
                         ledger.plain_allocations + ledger.host_allocations + ledger.events +
                         ledger.contexts_open);
    EXPECT_STR_EQ("", mend_sim_first_violation(s->sim));
    mend_traced_driver_destroy(s->traced);
    mend_sim_destroy(s->sim);
}

/* At every position until one is behind the end of the story. */
static void tell_all(hardship kind, bool traced, unsigned least_positions)
{
    uint64_t position = 0;
    for (;; position++) {
        story s = {.kind = kind, .position = position};
        begin(&s, traced);
        use_memory(&s);
        use_work(&s);
        use_graphs(&s);
        end(&s);
        if (s.failures == 0 || mend_test_has_failed()) {
            break;
        }
        EXPECT_U64_EQ(1, s.failures);
    }
    EXPECT_TRUE(position >= least_positions);
}

MEND_TEST(sim_story, any_host_allocation_may_fail)
{
    tell_all(HOST_MEMORY, false, 15);
    tell_all(HOST_MEMORY, true, 16);
}

MEND_TEST(sim_story, any_call_may_be_refused)
{
    tell_all(DRIVER, false, 30);
    tell_all(DRIVER, true, 30);
}
