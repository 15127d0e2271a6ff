/* One trial: its world is made, each operation is taken, all is checked. */
#include "tests/sim/executor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/pool.h"
#include "tests/sim/asleep.h"
#include "tests/sim/quotas.h"
#include "tests/sim/ranges.h"
#include "tests/support/place.h"

static const operation nothing;

const trial_config trial_config_default = {
#define X(field, usual, meaning) .field = usual,
    TRIAL_CONFIG(X)
#undef X
};

/* ---- its world ------------------------------------------------------------------------------- */

/* Whether the pool has seen the stream captured, and may ask about it. */
static bool pool_has_seen(const mend_streams *streams, const trial_stream *stream)
{
    bool has_seen = false;
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count && !streams->verify; i++) {
        const mend_stream_state *state = &streams->items[i];
        has_seen |= state->known && state->seen_captured && state->handle == stream->handle;
    }
    return has_seen;
}

/* Ways in which a pool learns of the capture of a stream, see memory/waits.h: the legacy stream
 * tells of blocking ones, graph pools of any pool that are begun are watched, and streams are asked
 * that a call named, or which any pool saw captured before, and captures that are served. The pools
 * of a trial are on one device, but for one, which no stream of the trial uses. */
static bool pool_must_know(const trial *t, int pool, const trial_stream *stream)
{
    const mend_streams *streams = &t->pools[pool].pool->heap.streams;
    bool must_know = stream->blocking || (stream->seen & trial_bit(pool)) != 0;
    bool every = false;
    for (int i = 0; i < t->pool_count; i++) {
        must_know |= pool_has_seen(&t->pools[i].pool->heap.streams, stream);
    }
    for (int i = 0; i < TRIAL_GRAPH_POOLS; i++) {
        const trial_graph_pool *graph_pool = &t->graph_pools[i];
        bool is_begun = graph_pool->graph_pool != NULL && graph_pool->begun;
        must_know |= is_begun && graph_pool->takes == stream->handle && !stream->is_new;
        every |= is_begun && graph_pool->takes == MEND_EVERY_STREAM;
    }
    for (uint32_t i = MEND_STREAM_UNKNOWN + 1; i < streams->count && !must_know; i++) {
        const mend_stream_state *state = &streams->items[i];
        bool is_asked = (state->seen_captured && (state->graph_pool == 0 || !streams->verify)) ||
                        (!streams->verify && (every || state->graph_pool == 0));
        bool is_served = (state->graph_pool & MEND_GRAPH_POOL_OF_CAPTURE) != 0 &&
                         state->seen_captured && state->handle == stream->handle;
        must_know = state->known && ((state->id == stream->id && is_asked) || is_served);
    }
    return must_know;
}

/* A pool that knows of one capture waits for nothing, nor does one that it asks for memory. One
 * that knows of none may spoil them. */
bool trial_a_capture_is_known(const trial *t)
{
    bool knows_one = false;
    for (int k = 0; k < t->stream_count; k++) {
        knows_one |= t->streams[k].captured && pool_must_know(t, t->calling->pool, &t->streams[k]);
    }
    return knows_one;
}

/* A capture was spoilt by a pool that could not know of it. */
static bool is_unseen_capture(const trial *t, const char *explanation)
{
    const trial_call *call = t->calling;
    return t->captures > 0 && call != NULL &&
           !(call->kind == CALL_ALLOC && call->stream != MEND_NO_STREAM &&
             trial_is_recorded(t, call->at) && t->pool_count == 1) &&
           !(trial_a_capture_is_known(t) && !t->ambush.was_unseen) &&
           strstr(explanation, "captured") != NULL;
}

/* The first rule that is broken, unless the program breaks it itself. */
static void note_violation(void *context, const char *explanation)
{
    trial *t = context;
    if (t->forgiving) {
        return;
    }
    if (is_unseen_capture(t, explanation)) {
        t->has_spoilt = true;
    } else if (t->violation[0] == '\0') {
        snprintf(t->violation, sizeof(t->violation), "%s", explanation);
    }
}

static bool open_device(trial *t)
{
    const trial_config *config = &t->config;
    mend_sim_config sim_config = MEND_SIM_CONFIG_INIT;
    mend_sim_prices prices = MEND_SIM_PRICES_INIT;
    mend_sim_prices_named("reference", &prices);
    if (config->prices == 2) {
        prices.set_access.call_ns *= 100;
        prices.create.call_ns *= 100;
        prices.scrub.mib_ns = 1000000;
    }
    t->page_bytes = (uint64_t)config->page_kib * MEND_KIB;
    t->device_bytes = t->page_bytes * config->device_pages;
    sim_config.memory_bytes = t->device_bytes;
    sim_config.page_bytes = t->page_bytes;
    sim_config.device_count = config->joins ? 2 : 1 + trial_other_devices(config);
    sim_config.address_bytes = t->device_bytes * config->address_devices;
    sim_config.content = config->content ? MEND_SIM_CONTENT_BYTES : MEND_SIM_CONTENT_NONE;
    sim_config.prices_advance_clock = config->prices != 0;
    sim_config.prices = &prices;
    sim_config.queue_entries = config->queue;
    /* So that a missing wait behind a copy or fill shows. */
    sim_config.copy_ns = config->check != 0 ? 3000 : 100;
    sim_config.fabric = (mend_sim_fabric)config->fabric;
    sim_config.has_no_virtual_memory =
        config->plain == PLAIN_BY_POOLS || config->plain == PLAIN_WITHOUT_POOLS;
    sim_config.has_no_memory_pools = config->plain == PLAIN_WITHOUT_POOLS;
    sim_config.has_no_context_events = config->no_context_fences == 1;
    sim_config.on_violation = note_violation;
    sim_config.violation_context = t;
    mend_result result = mend_sim_create(&sim_config, &t->sim);
    if (!trial_claim(t, TRIAL_RESULT, result == MEND_OK, "mend_sim_create: %s",
                     mend_result_name(result))) {
        return false;
    }
    mend_sim_set_event_delay(t->sim, config->event_delay_ns);
    t->device = mend_sim_driver(t->sim);
    trial_witness_init(t);
    result = mend_traced_driver_create(&t->witness.table, &t->traced);
    return trial_claim(t, TRIAL_RESULT, result == MEND_OK, "no traced driver");
}

static bool open_pools(trial *t)
{
    const trial_config *config = &t->config;
    mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
    pool_config.driver = t->traced;
    pool_config.address_reservation_bytes = t->device_bytes * config->reserve_devices;
    pool_config.limit_bytes = t->device_bytes * config->limit_percent / 100;
    pool_config.growth_percent = (int)config->growth_percent;
    pool_config.soft_limit_bytes = t->device_bytes * config->soft_limit_percent / 100;
    pool_config.allow_stream_waits = config->no_stream_waits ? -1 : 0;
    pool_config.allow_context_fences = config->no_context_fences == 2 ? -1 : 0;
    pool_config.detect_destroyed_streams = config->vanish != 0;
    pool_config.shareable = config->fabric != 0 ? MEND_SHAREABLE_FABRIC : !trial_passes_all(t);
    pool_config.plain = config->plain == PLAIN_BY_CONFIG;
    pool_config.strategy = (int)config->strategy;
    pool_config.observe = (const char *[]){NULL, "poison", "guard", "poison,guard"}[config->check];
    for (int i = 0; config->neighbour == 0 && i < trial_other_devices(config); i++) {
        pool_config.peers |= UINT64_C(2) << i;
    }
    if (!trial_open_quota(t, &pool_config) || !trial_open_recording(t, &pool_config)) {
        return false;
    }
    const mend_test_sizes placement = {
        .chunk_bytes = t->page_bytes * config->chunk_pages,
        .small_chunk_bytes = t->page_bytes * config->small_chunk_pages,
        .small_request_bytes = (uint64_t)config->small_request_granules * 512,
        .unfenced_bytes = t->page_bytes * config->unfenced_pages,
        .low_pressure_percent = config->low_pressure_percent,
    };
    int wanted = config->peer_pool ? 2 : 1;
    const uint64_t limit_bytes = pool_config.limit_bytes;
    while (t->pool_count < wanted) {
        trial_pool *pool = &t->pools[t->pool_count];
        bool is_default = config->hooks && t->pool_count == 0;
        mend_result result = is_default ? trial_hooks_open(t, &pool_config, &pool->pool)
                                        : mend_pool_create(&pool_config, &pool->pool);
        if (!trial_claim(t, TRIAL_RESULT, result == MEND_OK, "mend_pool_create: %s",
                         mend_result_name(result))) {
            return false;
        }
        mend_test_place(pool->pool, &placement);
        pool->pool->idle_ns = config->idle_ns;
        t->has_soft_limit = config->soft_limit_percent > 0;
        pool->soft_limit_bytes = t->device_bytes * config->soft_limit_percent / 100;
        pool->limit_bytes = limit_bytes != 0 ? limit_bytes : t->device_bytes;
        t->pool_count++;
        for (int device = 1; config->neighbour == 2 && device <= trial_other_devices(config);
             device++) {
            trial_expect(t, "mend_enable_peer", MEND_OK, mend_enable_peer(pool->pool, device));
        }
    }
    mend_result result = MEND_OK;
    if (config->foreign &&
        config->neighbour == 1) { /* which lets the two use each other's memory */
        pool_config.device = 1;
        result = mend_pool_create(&pool_config, &t->neighbour);
    }
    return trial_claim(t, TRIAL_RESULT, result == MEND_OK, "a pool of the other device: %s",
                       mend_result_name(result));
}

static void close_world(trial *t)
{
    mend_set_alloc_options(NULL, NULL); /* of a commit: others place as if nothing will sleep */
    for (int i = 0; i < t->pool_count; i++) {
        mend_pool_destroy(t->pools[i].pool);
    }
    mend_pool_destroy(t->neighbour);
    if (t->traced != NULL) {
        mend_traced_driver_destroy(t->traced);
    }
    trial_close_quota(t);
    trial_close_recording(t);
    if (t->turns.count > 0) {
        turns_close(&t->turns);
    }
    mend_sim_destroy(t->sim);
    free(t);
}

trial *trial_begin(const trial_config *config, trial_outcome *outcome)
{
    *outcome = (trial_outcome){.verdict = TRIAL_HOLDS};
    trial *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        outcome->verdict = TRIAL_RESULT;
        return NULL;
    }
    t->config = *config;
    t->outcome = outcome;
    t->op = &nothing;
    int threads = config->threads < 1 ? 1 : (int)config->threads;
    t->turns = (turn_table){0};
    if (!turns_open(&t->turns, threads < MOST_TURNS ? threads : MOST_TURNS) || !open_device(t) ||
        !open_pools(t) || !trial_open_streams(t)) {
        close_world(t);
        return NULL;
    }
    return t;
}

/* ---- its steps ------------------------------------------------------------------------------- */

bool trial_reset_peaks(trial *t, const operation *op)
{
    (void)op;
    for (int i = 0; i < t->pool_count; i++) {
        trial_pool *pool = &t->pools[i];
        trial_claim(t, TRIAL_RESULT, mend_reset_peak_stats(pool->pool) == MEND_OK,
                    "mend_reset_peak_stats");
        pool->peak_range_bytes = pool->range_bytes;
        for (int k = 0; k < TRIAL_ZONES; k++) {
            trial_zone *zone = &pool->zones[k];
            zone->peak_live_bytes = zone->live_bytes;
            zone->peak_live_blocks = zone->live_blocks;
            zone->peak_requested_bytes = zone->requested_bytes;
        }
    }
    t->were_reset = true;
    return true;
}

bool trial_use_block(trial *t, const operation *op)
{
    return trial_use(t, op, op->kind == OP_WRITE);
}

bool trial_await_all(trial *t, const operation *op)
{
    (void)op;
    return trial_synchronize(t);
}

static bool (*const takes[OP_COUNT])(trial *t, const operation *op) = {
#define X(kind, take, meaning) [OP_##kind] = trial_##take,
    OPERATION_KINDS(X)
#undef X
};

/* Disturbances planted for one call are over, so that later calls are checked in full. */
static void end_disturbance(trial *t)
{
    if (t->has_called && t->faults_stand && !t->faults_last && !t->may_be_lost) {
        mend_sim_clear_faults(t->sim);
        t->faults_stand = false;
    }
    t->disturbed = false;
}

/* Recorded work of captures is given up if the pool may have spoiled it. */
static void note_spoilt_captures(trial *t)
{
    if (!t->has_spoilt) {
        return;
    }
    for (int i = 0; i < t->stream_count; i++) {
        t->streams[i].spoilt |= t->streams[i].captured;
        t->streams[i].unsure |= t->streams[i].captured;
    }
    t->has_spoilt = false;
    t->outcome->tally.captures_spoilt++;
}

/* Once, beside the work of the first device: none of it may suffer. */
static void let_other_device_join(trial *t)
{
    if (t->config.joins == 0 || t->step < t->config.joins || t->has_joined || trial_is_faulty(t)) {
        return;
    }
    t->has_joined = true;
    for (int i = 0; i < t->pool_count; i++) {
        trial_expect(t, "mend_enable_peer", MEND_OK, mend_enable_peer(t->pools[i].pool, 1));
    }
}

void trial_step(trial *t, const operation *op)
{
    if (t->outcome->verdict != TRIAL_HOLDS) {
        return;
    }
    operation known = *op;
    known.kind %= OP_COUNT;
    trial_tally *tally = &t->outcome->tally;
    t->op = &known;
    t->has_called = false;
    t->may_unmap = false;
    let_other_device_join(t);
    bool is_done = takes[known.kind](t, &known);
    for (int i = 0; i < t->pool_count; i++) {
        trial_check_locks(t, i);
    }
    tally->done[known.kind] += is_done;
    tally->skipped[known.kind] += !is_done;
    tally->steps++;
    end_disturbance(t);
    note_spoilt_captures(t);
    trial_note_unmapped(t);
    trial_note_asleep(t);
    trial_check(t);
    t->op = &nothing;
    t->step++;
}

void trial_end(trial *t)
{
    t->op = &nothing;
    trial_finish(t);
    t->pool_count = 0;
    close_world(t);
}

void trial_run(const trial_config *config, const operation *ops, size_t count,
               trial_outcome *outcome)
{
    trial *t = trial_begin(config, outcome);
    if (t == NULL) {
        return;
    }
    for (size_t i = 0; i < count && outcome->verdict == TRIAL_HOLDS; i++) {
        trial_step(t, &ops[i]);
    }
    trial_end(t);
}
