#include "lab/replay/rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/align.h"
#include "base/error.h"
#include "driver/driver.h"
#include "lab/driver/kernels.h"
#include "lab/driver/traced.h"

/* ---- the device ------------------------------------------------------------------------------ */

/* Some policies have a table of the device's pages: this bounds the host memory for it. */
#define MOST_MEMORY_BYTES (16 * MEND_TIB)
#define MOST_LIVE_BYTES   (4 * MEND_TIB)

/* Between the granules that are compared where contents are sampled: a hundredth of all bytes. */
#define SAMPLE_STRIDE_BYTES (128 * MEND_GRANULE_BYTES)

/* Of the simulated device, by default. */
#define SIMULATED_PAGE_BYTES (2 * MEND_MIB)

/* A size that no policy fills: the most wasteful policy needs 20 times the peak on the worst known
 * workload. If bytes are real, addresses and host memory limit it. */
static uint64_t unlimited_bytes(const mend_trace *trace, bool has_content)
{
    uint64_t peak_bytes = trace->peak_live_bytes;
    uint64_t wanted_bytes = has_content ? mend_max_u64(4 * MEND_GIB, 32 * peak_bytes)
                                        : mend_max_u64(MEND_TIB, 64 * peak_bytes);
    return mend_min_u64(wanted_bytes, MOST_MEMORY_BYTES);
}

static mend_result check_bounds(const mend_trace *trace, uint64_t capacity_bytes)
{
    if (capacity_bytes > MOST_MEMORY_BYTES) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT, "a capacity of more than 16 TiB");
    }
    if (trace->peak_live_bytes > MOST_LIVE_BYTES) {
        return mend_fail(MEND_ERROR_INVALID_ARGUMENT,
                         "more than 4 TiB are live at a time; --scale makes it less");
    }
    return MEND_OK;
}

/* Memory held by others, in addition to these bytes, in complete pages. */
static uint64_t others_beside(const mend_replay_options *options, uint64_t memory_bytes)
{
    const uint64_t percent = options->others_percent;
    uint64_t bytes = options->others_bytes != 0 ? options->others_bytes
                                                : memory_bytes / (100 - percent) * percent;
    return mend_align_down(bytes, SIMULATED_PAGE_BYTES);
}

static mend_result create_sim(mend_replay_rig *rig, const mend_trace *trace)
{
    bool has_content = rig->options->check_content;
    mend_result result = check_bounds(trace, rig->capacity_bytes);
    if (result != MEND_OK) {
        return result;
    }
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    uint64_t memory_bytes =
        rig->capacity_bytes != 0 ? rig->capacity_bytes : unlimited_bytes(trace, has_content);
    rig->others_bytes = others_beside(rig->options, memory_bytes);
    config.memory_bytes = memory_bytes + rig->others_bytes;
    config.content = has_content ? MEND_SIM_CONTENT_BYTES : MEND_SIM_CONTENT_NONE;
    mend_sim_prices by_default = MEND_SIM_PRICES_INIT;
    (void)mend_sim_prices_named(mend_replay_lists[0], &by_default);
    config.prices = rig->options->prices != NULL ? rig->options->prices : &by_default;
    config.has_no_context_events = rig->options->lacks_context_events;
    if (!has_content) {
        /* A replay is not about addresses: there are enough for every stream to reserve its own. */
        uint64_t reservations_bytes = 4 * (trace->stream_count + 1) * config.memory_bytes;
        config.address_bytes =
            mend_min_u64(mend_max_u64(128 * MEND_TIB, reservations_bytes), UINT64_C(1) << 61);
    }
    result = mend_sim_create(&config, &rig->sim);
    if (result != MEND_OK) {
        return mend_fail(result, "the simulated device of %llu bytes cannot be made",
                         (unsigned long long)config.memory_bytes);
    }
    rig->inner = mend_sim_driver(rig->sim);
    mend_sim_set_foreign_bytes(rig->sim, 0, rig->others_bytes);
    return MEND_OK;
}

static mend_result check(mend_status status, const char *call)
{
    if (status == MEND_DRIVER_OK) {
        return MEND_OK;
    }
    mend_result result = status == MEND_DRIVER_NO_DEVICE || status == MEND_DRIVER_INVALID_DEVICE
                             ? MEND_ERROR_NO_DEVICE
                             : MEND_ERROR_DRIVER;
    return mend_fail_driver(result, call, status, mend_status_name(status), "%s failed: %s", call,
                            mend_status_name(status));
}

static mend_result create_streams(mend_replay_rig *rig, const mend_trace *trace)
{
    rig->streams = calloc(trace->stream_count, sizeof(mend_stream));
    if (rig->streams == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no host memory for streams");
    }
    while (rig->stream_count < trace->stream_count) {
        size_t index = rig->stream_count;
        if (rig->options->task_events > 0) {
            rig->streams[index] = MEND_STREAM_PER_THREAD;
        } else if (trace->stream_names[index] != 0) {
            mend_status status = rig->inner->stream_create(rig->inner, &rig->streams[index]);
            if (status != MEND_DRIVER_OK) {
                return check(status, "cuStreamCreate");
            }
        }
        rig->stream_count++;
    }
    return MEND_OK;
}

/* The counter of differences that kernels of a real device add to. */
static mend_result create_counter(mend_replay_rig *rig)
{
    const mend_driver *inner = rig->inner;
    mend_status status = inner->plain_alloc(inner, MEND_GRANULE_BYTES, &rig->counter_address);
    if (status == MEND_DRIVER_OK) {
        status = inner->fill(inner, rig->counter_address, 0, MEND_GRANULE_BYTES, NULL);
    }
    if (status == MEND_DRIVER_OK) {
        status = inner->context_synchronize(inner);
    }
    return check(status, "cuMemAlloc");
}

static void destroy_streams(mend_replay_rig *rig)
{
    if (rig->baton != NULL) {
        rig->inner->event_destroy(rig->inner, rig->baton);
    }
    for (size_t i = 0; i < rig->stream_count; i++) {
        if (rig->streams[i] != NULL && rig->streams[i] != MEND_STREAM_PER_THREAD) {
            rig->inner->stream_destroy(rig->inner, rig->streams[i]);
        }
    }
    free(rig->streams);
}

/* The first launch takes memory of its own, which is no part of the capacity. */
static mend_status take_ballast(mend_replay_rig *rig)
{
    const mend_driver *inner = rig->inner;
    mend_status status = inner->launch(inner, NULL, &(mend_kernel){.kind = MEND_KERNEL_SPIN});
    if (status == MEND_DRIVER_OK) {
        status = inner->context_synchronize(inner);
    }
    return status == MEND_DRIVER_OK ? mend_replay_ballast_open(&rig->ballast, inner,
                                                               rig->page_bytes, rig->capacity_bytes)
                                    : status;
}

static mend_result open_device(mend_replay_rig *rig, const mend_trace *trace)
{
    const mend_driver *inner = rig->inner;
    mend_result result = check(inner->device_open(inner, 0, &rig->info), "opening the device");
    if (result != MEND_OK) {
        return result;
    }
    rig->page_bytes = mend_max_u64(rig->info.granularity_bytes, MEND_GRANULE_BYTES);
    rig->capacity_bytes = mend_align_up(rig->capacity_bytes, rig->page_bytes);
    rig->limit_bytes = rig->capacity_bytes != 0 ? rig->capacity_bytes + rig->others_bytes : 0;
    result = mend_replay_rig_enter(rig);
    if (result == MEND_OK) {
        result = create_streams(rig, trace);
        if (result == MEND_OK && rig->sim == NULL && rig->options->check_content) {
            result = create_counter(rig);
        }
        if (result == MEND_OK && rig->options->has_load) {
            result = check(mend_replay_load_open(&rig->load, inner), "starting a load");
        }
        if (result == MEND_OK && rig->options->has_ballast && rig->capacity_bytes != 0) {
            result = check(take_ballast(rig), "filling the device down to the capacity");
        }
        if (result == MEND_OK) {
            return MEND_OK;
        }
        destroy_streams(rig);
        mend_replay_rig_leave(rig);
    }
    inner->device_close(inner, 0);
    return result;
}

mend_result mend_replay_rig_open(mend_replay_rig *rig, const mend_trace *trace,
                                 const mend_replay_options *options, uint64_t capacity_bytes)
{
    *rig = (mend_replay_rig){.options = options, .capacity_bytes = capacity_bytes};
    mend_result result = options->device == MEND_REPLAY_SIM
                             ? create_sim(rig, trace)
                             : mend_cuda_driver_with_kernels(&rig->inner);
    if (result == MEND_OK && options->explain && rig->sim != NULL) {
        result = mend_causes_driver_create(rig->sim, rig->inner, &rig->causes);
    }
    if (result == MEND_OK) {
        const mend_driver *counted = rig->causes != NULL ? rig->causes : rig->inner;
        result = mend_traced_driver_create(counted, &rig->driver);
    }
    if (result == MEND_OK) {
        result = open_device(rig, trace);
    }
    if (result != MEND_OK) {
        mend_traced_driver_destroy(rig->driver);
        mend_causes_driver_destroy(rig->causes);
        mend_sim_destroy(rig->sim);
    }
    return result;
}

mend_result mend_replay_rig_enter(mend_replay_rig *rig)
{
    return check(rig->inner->context_push(rig->inner, rig->info.context), "cuCtxPushCurrent");
}

void mend_replay_rig_leave(mend_replay_rig *rig)
{
    rig->inner->context_pop(rig->inner);
}

/* ---- work ------------------------------------------------------------------------------------ */

void mend_replay_rig_tick(mend_replay_rig *rig)
{
    if (rig->sim != NULL) {
        mend_sim_advance(rig->sim, MEND_REPLAY_TICK_NS);
    }
    if (rig->load.stream != NULL) {
        mend_replay_load_tick(&rig->load, rig->inner);
    }
}

/* The cost of all calls so far, by the chosen cost table and by each. 0 on a real device. */
typedef struct rig_prices {
    uint64_t time_ns;
    uint64_t by_list_ns[MEND_REPLAY_LISTS];
} rig_prices;

static rig_prices priced(const mend_replay_rig *rig)
{
    rig_prices prices = {0};
    if (rig->sim != NULL) {
        mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
        mend_sim_get_ledger(rig->sim, &ledger);
        prices.time_ns = ledger.driver_time_ns;
        for (size_t i = 0; i < MEND_REPLAY_LISTS; i++) {
            mend_sim_prices list = MEND_SIM_PRICES_INIT;
            mend_sim_prices_named(mend_replay_lists[i], &list);
            prices.by_list_ns[i] = mend_sim_time_by(rig->sim, &list);
        }
    }
    return prices;
}

/* Calls since then are the program's cost, not the allocator's. */
static void leave_out(mend_replay_rig *rig, const rig_prices *before)
{
    rig_prices after = priced(rig);
    atomic_fetch_add(&rig->own_time_ns, after.time_ns - before->time_ns);
    for (size_t i = 0; i < MEND_REPLAY_LISTS; i++) {
        atomic_fetch_add(&rig->own_by_list_ns[i], after.by_list_ns[i] - before->by_list_ns[i]);
    }
}

mend_result mend_replay_rig_follow(mend_replay_rig *rig)
{
    const mend_driver *inner = rig->inner;
    rig_prices before = priced(rig);
    mend_status status = rig->baton != NULL
                             ? inner->stream_wait(inner, MEND_STREAM_PER_THREAD, rig->baton)
                             : MEND_DRIVER_OK;
    leave_out(rig, &before);
    return check(status, "cuStreamWaitEvent");
}

mend_result mend_replay_rig_pass_on(mend_replay_rig *rig)
{
    const mend_driver *inner = rig->inner;
    rig_prices before = priced(rig);
    mend_status status =
        rig->baton == NULL ? inner->event_create(inner, &rig->baton) : MEND_DRIVER_OK;
    if (status == MEND_DRIVER_OK) {
        status = inner->event_record(inner, rig->baton, MEND_STREAM_PER_THREAD);
    }
    leave_out(rig, &before);
    return check(status, "cuEventRecord");
}

/* Makes `later` wait for the work queued on `earlier`, as a program that passes a block between
 * streams does. */
static mend_result order_streams(mend_replay_rig *rig, uint16_t earlier, uint16_t later)
{
    const mend_driver *inner = rig->inner;
    rig_prices before = priced(rig);
    mend_event event;
    mend_status status = inner->event_create(inner, &event);
    if (status != MEND_DRIVER_OK) {
        return check(status, "cuEventCreate");
    }
    status = inner->event_record(inner, event, rig->streams[earlier]);
    if (status == MEND_DRIVER_OK) {
        status = inner->stream_wait(inner, rig->streams[later], event);
    }
    inner->event_destroy(inner, event);
    leave_out(rig, &before);
    return check(status, "cuStreamWaitEvent");
}

static mend_result launch_sim(mend_replay_rig *rig, mend_sim_work_kind kind,
                              const mend_replay_use *use, uint16_t stream, uint64_t finish_ns)
{
    mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                          .kind = kind,
                          .address = use->address,
                          .size_bytes = mend_align_up(use->size_bytes, MEND_GRANULE_BYTES),
                          .tag = use->tag,
                          .finish_ns = finish_ns};
    return mend_sim_launch(rig->sim, rig->streams[stream], &work);
}

static mend_result launch_cuda(mend_replay_rig *rig, mend_kernel_kind kind,
                               const mend_replay_use *use, uint16_t stream)
{
    uint64_t size_bytes = mend_align_up(use->size_bytes, MEND_GRANULE_BYTES);
    /* A sample has the first granule of each stride: of every chunk there are many. */
    uint64_t stride_bytes = rig->options->sample_content ? SAMPLE_STRIDE_BYTES : MEND_GRANULE_BYTES;
    mend_kernel kernel = {.kind = kind,
                          .value = (uint32_t)(use->tag * UINT64_C(2654435761) + 1),
                          .address = use->address,
                          .granule_bytes = MEND_GRANULE_BYTES,
                          .stride_bytes = stride_bytes,
                          .granule_count =
                              (size_bytes + stride_bytes - MEND_GRANULE_BYTES) / stride_bytes,
                          .mismatches = rig->counter_address};
    return check(rig->inner->launch(rig->inner, rig->streams[stream], &kernel), "cuLaunchKernel");
}

mend_result mend_replay_rig_first_use(mend_replay_rig *rig, const mend_replay_use *use)
{
    if (!rig->options->check_content) {
        return MEND_OK;
    }
    return rig->sim != NULL ? launch_sim(rig, MEND_SIM_WORK_WRITE, use, use->stream, 0)
                            : launch_cuda(rig, MEND_KERNEL_WRITE, use, use->stream);
}

mend_result mend_replay_rig_last_use(mend_replay_rig *rig, const mend_replay_use *use,
                                     uint16_t last_stream)
{
    bool checks = rig->options->check_content;
    if (rig->sim == NULL && !checks) {
        return MEND_OK;
    }
    if (last_stream != use->stream) {
        mend_result result = order_streams(rig, use->stream, last_stream);
        if (result != MEND_OK) {
            return result;
        }
    }
    if (rig->sim == NULL) {
        return launch_cuda(rig, MEND_KERNEL_VERIFY, use, last_stream);
    }
    uint64_t finish_ns = mend_sim_now_ns(rig->sim) + rig->options->lag_events * MEND_REPLAY_TICK_NS;
    return launch_sim(rig, checks ? MEND_SIM_WORK_VERIFY : MEND_SIM_WORK_TOUCH, use, last_stream,
                      finish_ns);
}

/* ---- what happened --------------------------------------------------------------------------- */

void mend_replay_rig_read(mend_replay_rig *rig, mend_replay_traffic *traffic)
{
    mend_driver_counters counters;
    mend_traced_driver_get(rig->driver, &counters);
    const mend_call_counter *call = counters.call;
    uint64_t time_ns = 0;
    for (size_t i = 0; i < MEND_DRIVER_CALL_COUNT; i++) {
        time_ns += call[i].total_ns;
    }
    rig_prices prices = priced(rig);
    if (rig->sim != NULL) {
        time_ns = prices.time_ns - atomic_load(&rig->own_time_ns);
    }
    *traffic = (mend_replay_traffic){
        .calls =
            {
                .reserve_calls = call[MEND_CALL_reserve].calls,
                .address_free_calls = call[MEND_CALL_address_free].calls,
                .create_calls = call[MEND_CALL_create].calls,
                .release_calls = call[MEND_CALL_release].calls,
                .map_calls = call[MEND_CALL_map].calls,
                .unmap_calls = call[MEND_CALL_unmap].calls,
                .set_access_calls = call[MEND_CALL_set_access].calls,
                .malloc_calls =
                    call[MEND_CALL_plain_alloc].calls + call[MEND_CALL_async_alloc].calls,
                .free_calls = call[MEND_CALL_plain_free].calls + call[MEND_CALL_async_free].calls,
                .event_record_calls =
                    call[MEND_CALL_event_record].calls + call[MEND_CALL_context_record].calls,
                .event_query_calls = call[MEND_CALL_event_query].calls,
                .stream_wait_calls = call[MEND_CALL_stream_wait].calls,
                .synchronize_calls = call[MEND_CALL_context_synchronize].calls +
                                     call[MEND_CALL_stream_synchronize].calls +
                                     call[MEND_CALL_event_synchronize].calls,
            },
        .host_syncs = counters.host_syncs,
        .creates_refused = call[MEND_CALL_create].failures,
        .time_us = (double)time_ns / 1000,
    };
    for (size_t i = 0; i < MEND_REPLAY_LISTS; i++) {
        uint64_t own_ns = atomic_load(&rig->own_by_list_ns[i]);
        traffic->by_list.us[i] = (double)(prices.by_list_ns[i] - own_ns) / 1000;
    }
}

void mend_replay_rig_read_felt(mend_replay_rig *rig, uint64_t *driver_ns, uint64_t *host_syncs)
{
    mend_driver_counters counters;
    mend_sim_prices list = MEND_SIM_PRICES_INIT;
    mend_traced_driver_get(rig->driver, &counters);
    mend_sim_prices_named(mend_replay_lists[0], &list);
    *driver_ns = mend_sim_time_by(rig->sim, &list) - atomic_load(&rig->own_by_list_ns[0]);
    *host_syncs = counters.host_syncs;
}

void mend_replay_rig_read_costs(mend_replay_rig *rig, mend_replay_costs *costs)
{
    *costs = (mend_replay_costs){.is_complete = true};
    if (rig->causes != NULL) {
        mend_causes_driver_get(rig->causes, costs);
    }
}

mend_result mend_replay_rig_finish(mend_replay_rig *rig)
{
    return check(rig->inner->context_synchronize(rig->inner), "cuCtxSynchronize");
}

static void read_counter(mend_replay_rig *rig, mend_replay_result *result)
{
    const mend_driver *inner = rig->inner;
    uint64_t count = 0;
    mend_status status =
        inner->copy(inner, (uint64_t)(uintptr_t)&count, rig->counter_address, sizeof(count), NULL);
    if (status == MEND_DRIVER_OK) {
        status = inner->context_synchronize(inner);
    }
    if (status != MEND_DRIVER_OK) {
        mend_replay_note_problem(result, "the count of content errors cannot be read: %s",
                                 mend_status_name(status));
    }
    result->content_errors = count;
    inner->plain_free(inner, rig->counter_address);
}

/* Memory that remains after the allocator was destroyed is a leak. */
static void judge_sim(mend_replay_rig *rig, mend_replay_result *result)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(rig->sim, &ledger);
    result->counts_mappings = true;
    result->mappings_peak = ledger.peak_mappings;
    result->content_errors = result->content_checked ? ledger.content_errors : 0;
    if (ledger.violations > 0) {
        /* Later failures are consequences of this one. */
        result->problem[0] = 0;
        mend_replay_note_problem(result, "a rule of the driver was broken: %s",
                                 mend_sim_first_violation(rig->sim));
    }
    const struct {
        const char *what;
        uint64_t count;
    } left[] = {{"chunks", ledger.chunks},
                {"mappings", ledger.mappings},
                {"reservations", ledger.reservations},
                {"plain allocations", ledger.plain_allocations},
                {"events", ledger.events},
                {"open contexts", ledger.contexts_open}};
    for (size_t i = 0; i < sizeof(left) / sizeof(*left); i++) {
        if (left[i].count > 0) {
            mend_replay_note_problem(result, "%llu %s were left", (unsigned long long)left[i].count,
                                     left[i].what);
        }
    }
}

void mend_replay_rig_close(mend_replay_rig *rig, mend_replay_result *result)
{
    result->content_checked = rig->options->check_content;
    if (rig->counter_address != 0) {
        read_counter(rig, result);
    }
    mend_replay_ballast_close(&rig->ballast, rig->inner);
    if (rig->load.stream != NULL) {
        mend_replay_load_close(&rig->load, rig->inner);
    }
    destroy_streams(rig);
    mend_replay_rig_leave(rig);
    rig->inner->device_close(rig->inner, 0);
    if (rig->sim != NULL) {
        judge_sim(rig, result);
    }
    mend_traced_driver_destroy(rig->driver);
    mend_causes_driver_destroy(rig->causes);
    mend_sim_destroy(rig->sim);
}
