/* The functions with which a program creates, configures, reads and destroys a simulated device. */
#include "sim/state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/align.h"
#include "sim/captures.h"
#include "sim/shares.h"
#include "sim/table.h"

#define DEFAULT_MEMORY_BYTES  (80 * MEND_GIB)
#define DEFAULT_PAGE_BYTES    (2 * MEND_MIB)
#define DEFAULT_ADDRESS_BYTES (128 * MEND_TIB)
#define MOST_BYTES            (UINT64_C(1) << 62)
#define MOST_ENTRIES          (UINT64_C(1) << 20)

/* Handles of streams and of events have ranges of their own. */
#define STREAM_HANDLES ((uintptr_t)0x10000)
#define EVENT_HANDLES  ((uintptr_t)0x80000000)

static_assert(STREAM_HANDLES < EVENT_HANDLES, "no stream has the handle of an event");
static_assert(MEND_SIM_MOST_DEVICES <= 64, "a device is a bit of a number");

static mend_result fill_defaults(mend_sim_config *config)
{
    if (config->page_bytes == 0) {
        config->page_bytes = DEFAULT_PAGE_BYTES;
    }
    if (config->memory_bytes == 0) {
        config->memory_bytes = DEFAULT_MEMORY_BYTES;
    }
    if (config->address_bytes == 0) {
        config->address_bytes = DEFAULT_ADDRESS_BYTES;
    }
    if (config->device_count == 0) {
        config->device_count = 1;
    }
    uint64_t least_page = config->content == MEND_SIM_CONTENT_BYTES
                              ? (uint64_t)sysconf(_SC_PAGESIZE)
                              : MEND_GRANULE_BYTES;
    if (!mend_is_power_of_two(config->page_bytes) || config->page_bytes < least_page ||
        config->page_bytes > MOST_BYTES) {
        return mend_sim_invalid(
            "mend_sim_config.page_bytes is no power of two, or is below 512 bytes "
            "or, with contents, a page of the host");
    }
    if (config->memory_bytes > MOST_BYTES || config->address_bytes > MOST_BYTES ||
        config->address_bytes < config->page_bytes || config->queue_entries > MOST_ENTRIES) {
        return mend_sim_invalid("mend_sim_config: memory_bytes, address_bytes or queue_entries is "
                                "too large, or no page fits the addresses");
    }
    if (config->device_count < 1 || config->device_count > MEND_SIM_MOST_DEVICES) {
        return mend_sim_invalid("mend_sim_config.device_count is not 1 to 16");
    }
    if ((unsigned)config->content > MEND_SIM_CONTENT_BYTES ||
        (unsigned)config->fabric > MEND_SIM_FABRIC_REFUSED || config->peer_group < 0) {
        return mend_sim_invalid("mend_sim_config: no such content, fabric or peer_group");
    }
    int *switches[] = {&config->prices_advance_clock,  &config->identity_in_capture,
                       &config->is_integrated,         &config->has_rdma,
                       &config->has_no_virtual_memory, &config->fresh_is_zero,
                       &config->has_no_context_events, &config->has_no_memory_pools};
    for (size_t i = 0; i < sizeof(switches) / sizeof(*switches); i++) {
        if (*switches[i] < -1 || *switches[i] > 1) {
            return mend_sim_invalid("mend_sim_config: a switch is not -1, 0 or 1");
        }
        *switches[i] = *switches[i] == 1; /* all are off by default */
    }
    config->memory_bytes = mend_align_up(config->memory_bytes, config->page_bytes);
    return MEND_OK;
}

static void init_state(mend_sim *sim)
{
    mend_mutex_init(&sim->mutex, MEND_RANK_DRIVER);
    mend_list_init(&sim->streams);
    mend_list_init(&sim->threads);
    mend_list_init(&sim->captures);
    mend_list_init(&sim->keepers);
    mend_pointer_map_init(&sim->chunks);
    mend_sim_handles_init(&sim->stream_handles, STREAM_HANDLES);
    mend_sim_handles_init(&sim->event_handles, EVENT_HANDLES);
    mend_sim_mappings_init(sim);
    mend_sim_shares_init(sim);
    mend_sim_items_init(sim);
    mend_sim_host_init(sim);
#define X(kind) mend_slab_init(&sim->kind##_slab, sizeof(mend_sim_##kind));
    MEND_SIM_SLABS(X)
#undef X
    mend_sim_table_fill(sim);
}

mend_result mend_sim_create(const mend_sim_config *config, mend_sim **sim)
{
    mend_sim_config filled = MEND_SIM_CONFIG_INIT;
    if (config == NULL || sim == NULL || !MEND_STRUCT_IS_WHOLE(config) ||
        config->struct_size > sizeof(filled)) {
        return mend_sim_invalid("mend_sim_create: config or sim is NULL, or struct_size is wrong: "
                                "begin with MEND_SIM_CONFIG_INIT");
    }
    memcpy(&filled, config, config->struct_size);
    mend_result result = fill_defaults(&filled);
    if (result != MEND_OK) {
        return result;
    }
    mend_sim *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    made->config = filled;
    made->config.prices = NULL;
    if (!mend_sim_prices_apply(made, filled.prices)) {
        free(made);
        return mend_sim_invalid("mend_sim_prices.struct_size is wrong: begin with "
                                "MEND_SIM_PRICES_INIT");
    }
    init_state(made);
    if (mend_sim_content_open(made) != MEND_DRIVER_OK ||
        mend_sim_space_init(made) != MEND_DRIVER_OK) {
        mend_sim_destroy(made);
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    *sim = made;
    return MEND_OK;
}

void mend_sim_destroy(mend_sim *sim)
{
    if (sim == NULL) {
        return;
    }
    mend_sim_items_clear(sim);
    mend_sim_keepers_clear(sim);
    mend_sim_faults_drop_all(sim);
    mend_sim_shares_clear(sim);
    MEND_LIST_EACH(mend_sim_stream, stream, link, &sim->streams) {
        free(stream->queue);
    }
    mend_sim_host_clear(sim);
    mend_sim_content_close(sim);
    mend_pointer_map_clear(&sim->chunks);
    mend_sim_handles_clear(&sim->stream_handles);
    mend_sim_handles_clear(&sim->event_handles);
#define X(kind) mend_slab_clear(&sim->kind##_slab);
    MEND_SIM_SLABS(X)
    X(share)
    X(pinned)
#undef X
    mend_mutex_destroy(&sim->mutex);
    free(sim);
}

const mend_driver *mend_sim_driver(mend_sim *sim)
{
    return &sim->table;
}

/* NULL: such a stream can be made. Otherwise why not. */
static const char *refusal_of(mend_sim *sim, const mend_sim_stream_options *options)
{
    if (!MEND_STRUCT_IS_WHOLE(options) || options->struct_size > sizeof(*options)) {
        return "mend_sim_stream_options.struct_size is wrong: begin with "
               "MEND_SIM_STREAM_OPTIONS_INIT";
    }
    if (options->device < 0 || options->device >= sim->config.device_count) {
        return "mend_sim_stream_create: there is no such device";
    }
    if (options->green < 0 || options->green > MEND_SIM_MOST_GREEN ||
        (options->green > 0 && (options->is_blocking == 1 || options->device != 0))) {
        return "mend_sim_stream_create: green is not 0 to 7, or of a blocking stream, or not of "
               "device 0";
    }
    /* No program has a stream of a device whose context it did not open, as in CUDA: its first use
     * would look like a mistake of the pool. Programs that make their streams before a pool use
     * device 0. */
    mend_mutex_lock(&sim->mutex);
    const bool is_open = options->device == 0 || sim->devices[options->device].open_count > 0;
    mend_mutex_unlock(&sim->mutex);
    return is_open ? NULL
                   : "mend_sim_stream_create: the device is closed; a pool "
                     "of it, or device_open of the driver's table, opens it";
}

mend_result mend_sim_stream_create(mend_sim *sim, const mend_sim_stream_options *options,
                                   mend_stream *stream)
{
    const mend_sim_stream_options usual = MEND_SIM_STREAM_OPTIONS_INIT;
    options = options != NULL ? options : &usual;
    if (sim == NULL || stream == NULL) {
        return mend_sim_invalid("mend_sim_stream_create: sim or stream is NULL");
    }
    const char *refusal = refusal_of(sim, options);
    if (refusal != NULL) {
        return mend_sim_invalid(refusal);
    }
    const int context =
        options->green > 0 ? options->green * MEND_SIM_MOST_DEVICES : options->device;
    mend_mutex_lock(&sim->mutex);
    mend_sim_stream *made = mend_sim_stream_make(
        sim, context,
        options->is_blocking == 1 ? MEND_SIM_STREAM_BLOCKING : MEND_SIM_STREAM_NON_BLOCKING);
    if (made != NULL) {
        *stream = (mend_stream)made->handle;
    }
    mend_mutex_unlock(&sim->mutex);
    return made != NULL ? MEND_OK : MEND_ERROR_OUT_OF_HOST_MEMORY;
}

mend_result mend_sim_stream_destroy(mend_sim *sim, mend_stream stream)
{
    if (sim == NULL) {
        return mend_sim_invalid("mend_sim_stream_destroy: sim is NULL");
    }
    mend_mutex_lock(&sim->mutex);
    sim->call = MEND_CALL_stream_destroy;
    mend_status status = mend_sim_do_stream_destroy(sim, stream);
    mend_mutex_unlock(&sim->mutex);
    return status == MEND_DRIVER_OK ? MEND_OK : MEND_ERROR_INVALID_ARGUMENT;
}

uint64_t mend_sim_call_count(mend_sim *sim)
{
    mend_mutex_lock(&sim->mutex);
    uint64_t count = sim->fallible_calls;
    mend_mutex_unlock(&sim->mutex);
    return count;
}

void mend_sim_set_foreign_bytes(mend_sim *sim, int device, uint64_t bytes)
{
    if (device < 0 || device >= sim->config.device_count) {
        return;
    }
    mend_mutex_lock(&sim->mutex);
    mend_sim_device *of = &sim->devices[device];
    assert(of->charged_bytes <= sim->config.memory_bytes);
    uint64_t former = of->foreign_bytes;
    of->foreign_bytes = mend_min_u64(bytes, sim->config.memory_bytes - of->charged_bytes);
    if (of->foreign_bytes < former) {
        mend_sim_faults_released(sim);
    }
    mend_mutex_unlock(&sim->mutex);
}

void mend_sim_set_quota(mend_sim *sim, int device, uint64_t bytes)
{
    if (device >= 0 && device < sim->config.device_count) {
        mend_mutex_lock(&sim->mutex);
        sim->devices[device].quota_bytes = bytes;
        mend_mutex_unlock(&sim->mutex);
    }
}

void mend_sim_set_event_delay(mend_sim *sim, uint64_t delay_ns)
{
    mend_mutex_lock(&sim->mutex);
    sim->event_delay_ns = delay_ns;
    mend_mutex_unlock(&sim->mutex);
}

mend_result mend_sim_get_ledger(mend_sim *sim, mend_sim_ledger *ledger)
{
    if (sim == NULL || ledger == NULL || !MEND_STRUCT_IS_WHOLE(ledger)) {
        return mend_sim_invalid(
            "mend_sim_get_ledger: sim or ledger is NULL, or its struct_size is wrong");
    }
    size_t given = ledger->struct_size;
    mend_mutex_lock(&sim->mutex);
    mend_sim_shares_sweep(sim);
    sim->ledger.struct_size = given;
    memcpy(ledger, &sim->ledger, given < sizeof(*ledger) ? given : sizeof(*ledger));
    mend_mutex_unlock(&sim->mutex);
    return MEND_OK;
}

const char *mend_sim_first_violation(mend_sim *sim)
{
    mend_mutex_lock(&sim->mutex);
    const char *explanation = sim->ledger.violations != 0 ? sim->first_violation : "";
    mend_mutex_unlock(&sim->mutex);
    return explanation;
}
