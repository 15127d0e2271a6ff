#include "tests/support/kit.h"

#include <stdlib.h>
#include <string.h>

#include "lab/heap/explain.h"
#include "tests/support/regions.h"

#define EXPECT_AT(expected, actual) MEND_TEST_RESULT(at.file, at.line, expected, actual, (void)0)

bool kit_open_streams(mend_world *w)
{
    w->driver = mend_sim_driver(w->sim);
    bool is_open = w->driver->device_open(w->driver, 0, &w->info) == MEND_DRIVER_OK;
    for (int i = 0; i < MEND_WORLD_STREAMS; i++) {
        is_open = is_open && mend_sim_stream_create(w->sim, NULL, &w->streams[i]) == MEND_OK;
    }
    return is_open;
}

bool kit_open(mend_world *w)
{
    return mend_world_open(w) && kit_open_streams(w);
}

bool kit_open_on(mend_world *w, const mend_driver *driver)
{
    return mend_world_open_pool(w, driver) && kit_open_streams(w);
}

bool kit_open_default(mend_world *w)
{
    mend_world_init(w);
    return kit_open(w);
}

static bool open_on(mend_world *w, int devices, uint64_t memory_bytes,
                    void (*configure)(mend_world *))
{
    mend_world_init(w);
    w->sim_config.device_count = devices;
    w->sim_config.memory_bytes = memory_bytes;
    w->pool_config.peers = devices > 1 ? 2 : 0;
    if (configure != NULL) {
        configure(w);
    }
    return kit_open(w);
}

bool kit_open_with(mend_world *w, uint64_t memory_bytes, void (*configure)(mend_world *))
{
    return open_on(w, 1, memory_bytes, configure);
}

bool kit_open_allowing(mend_world *w, uint64_t memory_bytes, int stream_waits)
{
    mend_world_init(w);
    w->sim_config.memory_bytes = memory_bytes;
    w->pool_config.allow_stream_waits = stream_waits;
    return kit_open(w);
}

bool kit_open_beside_another(mend_world *w, uint64_t memory_bytes, void (*configure)(mend_world *))
{
    return open_on(w, 2, memory_bytes, configure);
}

static void close_streams(mend_world *w)
{
    for (int i = 0; i < MEND_WORLD_STREAMS; i++) {
        EXPECT_RESULT(MEND_OK, mend_unregister_stream(w->pool, w->streams[i]));
        EXPECT_RESULT(MEND_OK, mend_sim_stream_destroy(w->sim, w->streams[i]));
    }
    EXPECT_INT_EQ(MEND_DRIVER_OK, w->driver->device_close(w->driver, 0));
}

static void free_what_is_left(mend_world *w)
{
    size_t count = 0;
    mend_region *regions = mend_regions_of(w->pool, &count);
    for (size_t i = 0; i < count; i++) {
        if (regions[i].kind == MEND_REGION_LIVE && regions[i].graph_pool == NULL) {
            EXPECT_RESULT(MEND_OK, mend_free(w->pool, regions[i].address, w->streams[0]));
        }
    }
    free(regions);
}

/* Where nothing holds memory, a trim that waits leaves none, and no figure of any. */
static void expect_all_released(mend_world *w)
{
    const mend_stats held = mend_world_stats(w);
    mend_sim_clear_faults(w->sim);
    if (held.ranges + held.graph_pools + held.captures + held.pinned_bytes + held.imports > 0) {
        return;
    }
    EXPECT_RESULT(MEND_OK, mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    const mend_stats is = mend_world_stats(w);
    EXPECT_U64_EQ(0, is.reserved_bytes + is.live_bytes + is.requested_bytes + is.live_blocks);
    EXPECT_U64_EQ(0, is.mapped_bytes + is.mappings + is.chunks + is.pending_bytes);
    EXPECT_U64_EQ(0, is.exported_bytes + is.asleep_bytes + is.backup_host_bytes);
    EXPECT_U64_EQ(is.allocations, is.frees);
    EXPECT_LEDGER(w, plain_allocations, 0);
}

void kit_expect_no_context(const mend_world *w)
{
    int device;
    const mend_driver *driver = mend_sim_driver(w->sim);
    EXPECT_INT_EQ(MEND_DRIVER_INVALID_CONTEXT, driver->context_device(driver, &device));
}

void kit_close(mend_world *w)
{
    mend_sim_advance(w->sim, UINT64_C(1) << 30);
    mend_world_check(w);
    free_what_is_left(w);
    mend_world_check(w);
    expect_all_released(w);
    kit_expect_no_context(w);
    mend_world_check(w);
    if (w->driver != NULL) {
        close_streams(w);
    }
    mend_world_close(w);
}

void kit_expect_event_at(kit_line at, mend_pool *pool, mend_event_kind kind, mend_event_cause cause,
                         uint64_t size_bytes)
{
    mend_history_event is = {.kind = 0};
    EXPECT_AT(MEND_OK, mend_history_read(pool, &(uint64_t){0}, &is, sizeof(is), 1, &(size_t){0}));
    MEND_TEST_CHECK_AT(at.file, at.line,
                       is.kind == (int)kind && is.cause == (int)cause &&
                           is.size_bytes == size_bytes,
                       (void)0, "the event is of kind %d, cause %d, %llu bytes", is.kind, is.cause,
                       (unsigned long long)is.size_bytes);
}

void *kit_alloc_at(kit_line at, mend_pool *pool, uint64_t size_bytes, mend_stream stream)
{
    void *block = NULL;
    EXPECT_AT(MEND_OK, mend_alloc(pool, size_bytes, stream, &block));
    return block;
}

void *kit_alloc_with_at(kit_line at, mend_pool *pool, uint64_t size_bytes, mend_stream stream,
                        const mend_alloc_options *options)
{
    void *block = NULL;
    EXPECT_AT(MEND_OK, mend_alloc_with(pool, size_bytes, stream, options, &block));
    return block;
}

void kit_free_at(kit_line at, mend_world *w, void *block, mend_stream stream)
{
    EXPECT_AT(MEND_OK, mend_free(w->pool, block, stream));
}

void kit_alloc_row_at(kit_line at, mend_world *w, void *blocks[], size_t count, uint64_t size_bytes,
                      mend_stream stream, bool written)
{
    for (size_t i = 0; i < count; i++) {
        blocks[i] = written ? kit_alloc_written_at(at, w, size_bytes, stream)
                            : kit_alloc_at(at, w->pool, size_bytes, stream);
    }
}

void kit_free_row_at(kit_line at, mend_world *w, void *const blocks[], size_t count,
                     mend_stream stream)
{
    for (size_t i = 0; i < count; i++) {
        kit_free_at(at, w, blocks[i], stream);
    }
}

void kit_expect_trim_at(kit_line at, mend_world *w, uint64_t keep_bytes, uint64_t released_bytes)
{
    uint64_t released = UINT64_MAX;
    EXPECT_AT(MEND_OK, mend_trim(w->pool, keep_bytes, MEND_TRIM_IDLE, &released));
    MEND_TEST_CHECK_AT(at.file, at.line, released == released_bytes, (void)0,
                       "released %llu bytes, expected %llu", (unsigned long long)released,
                       (unsigned long long)released_bytes);
}

mend_block_info kit_info_at(kit_line at, mend_pool *pool, const void *pointer)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    EXPECT_AT(MEND_OK, mend_get_block_info(pool, pointer, &info));
    return info;
}

mend_pool *kit_pool_at(kit_line at, mend_world *w)
{
    mend_pool *pool = NULL;
    EXPECT_AT(MEND_OK, mend_world_create_pool(w, &pool));
    return pool;
}

mend_stream kit_stream_at(kit_line at, mend_world *w)
{
    mend_stream stream = NULL;
    EXPECT_AT(MEND_OK, mend_sim_stream_create(w->sim, NULL, &stream));
    return stream;
}

void kit_end_stream_at(kit_line at, mend_world *w, mend_stream stream)
{
    EXPECT_AT(MEND_OK, mend_unregister_stream(w->pool, stream));
    EXPECT_AT(MEND_OK, mend_sim_stream_destroy(w->sim, stream));
}

mend_stats kit_stats_at(kit_line at, mend_pool *pool)
{
    mend_stats stats = MEND_STATS_INIT;
    EXPECT_AT(MEND_OK, mend_get_stats(pool, &stats));
    return stats;
}

void kit_expect_words_at(kit_line at, const char *words)
{
    mend_error error = MEND_ERROR_INIT;
    EXPECT_AT(MEND_OK, mend_get_last_error(&error));
    MEND_TEST_CHECK_AT(at.file, at.line, strstr(error.message, words) != NULL, (void)0,
                       "\"%s\" does not say \"%s\"", error.message, words);
}

mend_oom_report kit_oom_report_at(kit_line at)
{
    mend_error error = MEND_ERROR_INIT;
    EXPECT_AT(MEND_OK, mend_get_last_error(&error));
    MEND_TEST_CHECK_AT(at.file, at.line, error.oom_report != NULL, (void)0, "there is no report");
    return error.oom_report != NULL ? *error.oom_report : (mend_oom_report){0};
}

void kit_expect_error_at(kit_line at, mend_result result)
{
    mend_error error = MEND_ERROR_INIT;
    EXPECT_AT(MEND_OK, mend_get_last_error(&error));
    EXPECT_AT(result, error.result);
}

/* The report speaks of each reason why free memory waits, and of no other. */
static void expect_reasons(kit_line at, mend_world *w, mend_stream stream)
{
    mend_error error = MEND_ERROR_INIT;
    mend_explanation why;
    uint64_t waits[MEND_FREE_REASONS] = {0};
    EXPECT_AT(MEND_OK, mend_get_last_error(&error));
    EXPECT_AT(MEND_OK, mend_pool_explain(w->pool, stream, &why));
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        for (int place = 0; place < MEND_FREE_PLACES; place++) {
            for (int reason = 0; reason < MEND_FREE_REASONS; reason++) {
                waits[reason] += why.free_bytes[zone][place][reason];
            }
        }
    }
    const mend_oom_report *report = error.oom_report; /* an empty chunk counts for its longest */
    const bool is_right =
        report == NULL ||
        ((report->graph_pool_bytes > 0) == (waits[MEND_FREE_GRAPH_POOLS] > 0) &&
         (report->waiting_context_bytes > 0 || waits[MEND_FREE_STREAMLESS] == 0) &&
         (report->waiting_stream_bytes > 0 || waits[MEND_FREE_STREAMS] == 0));
    MEND_TEST_CHECK_AT(at.file, at.line, is_right, (void)0, "a report of %s waits otherwise",
                       error.message);
}

void kit_expect_none_at(kit_line at, mend_world *w, uint64_t size_bytes, mend_stream stream,
                        const char *advice)
{
    void *block = NULL;
    EXPECT_AT(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(w->pool, size_bytes, stream, &block));
    MEND_TEST_CHECK_AT(at.file, at.line, block == NULL, (void)0, "a refusal has set the output");
    kit_expect_words_at(at, advice);
    expect_reasons(at, w, stream);
    mend_world_check(w);
}

void kit_launch_at(kit_line at, mend_world *w, mend_stream stream, mend_sim_work_kind kind,
                   const void *block, uint64_t size_bytes, uint64_t tag, uint64_t finish_ns)
{
    mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                          .kind = kind,
                          .address = (uint64_t)(uintptr_t)block,
                          .size_bytes = size_bytes,
                          .tag = tag,
                          .finish_ns = finish_ns};
    EXPECT_AT(MEND_OK, mend_sim_launch(w->sim, stream, &work));
}

static void expect_ok_at(kit_line at, mend_status status, const char *call)
{
    MEND_TEST_CHECK_AT(at.file, at.line, status == MEND_DRIVER_OK, (void)0, "%s: %d", call,
                       (int)status);
}

static void spin(kit_line at, mend_world *w, mend_stream stream, uint64_t duration_ns)
{
    const mend_kernel kernel = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    expect_ok_at(at, w->driver->context_push(w->driver, w->info.context), "context_push");
    expect_ok_at(at, w->driver->launch(w->driver, stream, &kernel), "launch");
    expect_ok_at(at, w->driver->context_pop(w->driver), "context_pop");
}

void kit_use_at(kit_line at, mend_world *w, mend_stream stream, const void *block,
                uint64_t size_bytes, uint64_t duration_ns)
{
    uint64_t tag = __atomic_add_fetch(&w->last_tag, 1, __ATOMIC_RELAXED);
    kit_launch_at(at, w, stream, MEND_SIM_WORK_WRITE, block, size_bytes, tag, 0);
    spin(at, w, stream, duration_ns);
    kit_launch_at(at, w, stream, MEND_SIM_WORK_VERIFY, block, size_bytes, tag, 0);
}

void *kit_alloc_used_at(kit_line at, mend_world *w, uint64_t size_bytes, mend_stream stream,
                        uint64_t duration_ns)
{
    void *block = kit_alloc_at(at, w->pool, size_bytes, stream);
    kit_use_at(at, w, stream, block, size_bytes, duration_ns);
    return block;
}

void *kit_leave_in_flight_at(kit_line at, mend_world *w, uint64_t size_bytes, mend_stream stream,
                             uint64_t duration_ns, mend_stream freed_on)
{
    void *block = kit_alloc_used_at(at, w, size_bytes, stream, duration_ns);
    kit_free_at(at, w, block, freed_on);
    return block;
}

void *kit_alloc_written_at(kit_line at, mend_world *w, uint64_t size_bytes, mend_stream stream)
{
    void *block = kit_alloc_at(at, w->pool, size_bytes, stream);
    kit_launch_at(at, w, stream, MEND_SIM_WORK_WRITE, block, size_bytes, (uintptr_t)block, 0);
    return block;
}

void kit_release_row_at(kit_line at, mend_world *w, void *blocks[], size_t count,
                        uint64_t size_bytes, mend_stream stream)
{
    for (size_t i = 0; i < count; i++) {
        if (blocks[i] != NULL) {
            kit_launch_at(at, w, stream, MEND_SIM_WORK_VERIFY, blocks[i], size_bytes,
                          (uintptr_t)blocks[i], 0);
            kit_free_at(at, w, blocks[i], stream);
            blocks[i] = NULL;
        }
    }
}

void kit_expect_waits_at(kit_line at, mend_world *w, uint64_t stream_waits, uint64_t host_waits)
{
    mend_stats is = mend_world_stats(w);
    MEND_TEST_CHECK_AT(at.file, at.line, is.stream_waits == stream_waits, (void)0,
                       "stream_waits is %llu, expected %llu", (unsigned long long)is.stream_waits,
                       (unsigned long long)stream_waits);
    MEND_TEST_CHECK_AT(at.file, at.line, is.host_waits == host_waits, (void)0,
                       "host_waits is %llu, expected %llu", (unsigned long long)is.host_waits,
                       (unsigned long long)host_waits);
}

void kit_fail_at(kit_line at, mend_world *w, const char *call, uint64_t after_calls, uint64_t count,
                 int status)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = call;
    fault.after_calls = after_calls;
    fault.count = count;
    fault.status = status;
    EXPECT_AT(MEND_OK, mend_sim_fail(w->sim, &fault));
}

void kit_break_at(kit_line at, mend_world *w, const char *call)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.call = call;
    fault.status = 700;
    fault.sticky = 1;
    EXPECT_AT(MEND_OK, mend_sim_fail(w->sim, &fault));
}

int kit_count_pressure(void *count, mend_pool *pool, uint64_t needed_bytes)
{
    (void)pool;
    (void)needed_bytes;
    ++*(int *)count;
    return 0;
}

mend_graph_pool *kit_graph_pool_at(kit_line at, mend_world *w)
{
    mend_graph_pool *graph_pool = NULL;
    EXPECT_AT(MEND_OK, mend_graph_pool_create(w->pool, &graph_pool));
    return graph_pool;
}

void kit_end_graph_pool_at(kit_line at, mend_graph_pool *graph_pool, mend_stream stream)
{
    EXPECT_AT(MEND_OK, mend_graph_pool_end(graph_pool));
    EXPECT_AT(MEND_OK, mend_graph_pool_destroy(graph_pool, stream));
}

mend_graph_pool *kit_begin_graph_pool_at(kit_line at, mend_world *w, mend_stream stream)
{
    mend_graph_pool *graph_pool = kit_graph_pool_at(at, w);
    EXPECT_AT(MEND_OK, mend_graph_pool_begin(graph_pool, stream));
    return graph_pool;
}

void kit_begin_capture_at(kit_line at, mend_world *w, mend_stream stream)
{
    EXPECT_AT(MEND_OK, mend_sim_begin_capture(w->sim, stream, MEND_SIM_CAPTURE_GLOBAL));
}

mend_sim_graph *kit_end_capture_at(kit_line at, mend_world *w, mend_stream stream)
{
    mend_sim_graph *graph = NULL;
    EXPECT_AT(MEND_OK, mend_sim_end_capture(w->sim, stream, &graph));
    return graph;
}

mend_graph_pool *kit_begin_captured_graph_pool_at(kit_line at, mend_world *w, mend_stream stream)
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool_at(at, w, stream);
    kit_begin_capture_at(at, w, stream);
    return graph_pool;
}

mend_sim_graph *kit_end_captured_graph_pool_at(kit_line at, mend_world *w, mend_stream stream,
                                               mend_graph_pool *graph_pool)
{
    mend_sim_graph *graph = kit_end_capture_at(at, w, stream);
    EXPECT_AT(MEND_OK, mend_graph_pool_end(graph_pool));
    return graph;
}

void kit_launch_graph_at(kit_line at, mend_world *w, mend_sim_graph *graph, mend_stream stream)
{
    EXPECT_AT(MEND_OK, mend_sim_graph_launch(w->sim, graph, stream, 0));
}
