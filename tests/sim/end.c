/*
 * The end of a trial. All that stood in the way goes: faults, captures, graph pools, other
 * processes, the user's own blocks. Then whatever fits must succeed, and after destroy nothing is
 * left.
 */
#include "pool/pool.h"
#include "tests/sim/asleep.h"
#include "tests/sim/quotas.h"
#include "tests/sim/ranges.h"

#define LLU(value) ((unsigned long long)(value))

#define FAR_NS     (UINT64_C(1) << 40)

static void clear_the_way(trial *t)
{
    mend_sim_set_call_observer(t->sim, NULL, NULL);
    mend_sim_clear_faults(t->sim);
    mend_sim_set_event_delay(t->sim, 0);
    mend_sim_set_foreign_bytes(t->sim, 0, 0);
    t->ambush.set = false;
    mend_sim_set_quota(t->sim, 0, 0);
    t->foreign_bytes = 0;
    t->hidden_quota_bytes = 0;
    trial_end_member(t);
    t->faults_stand = false;
    t->malloc_fails = false;
    t->disturbed = false;
    if (!t->stopped) {
        trial_end_captures(t);
    }
    trial_end_graph_pools(t);
    trial_end_graphs(t);
    for (int i = 0; i < TRIAL_CALLBACKS; i++) {
        trial_change_callback(t, &(operation){.kind = OP_REMOVE_CALLBACK, .slot = (uint8_t)i});
    }
}

/* Where streams may vanish the pool asks only the stream that a call names. */
static void name_streams(trial *t)
{
    for (int i = 0; i < t->stream_count && t->config.vanish; i++) {
        trial_forget(t, &(operation){.kind = OP_FORGET, .stream = (uint8_t)i});
    }
}

/* Each block is compared once more. */
static void free_all(trial *t)
{
    enum { LOOKS_BEFORE = 32 };
    for (int i = 0; i < TRIAL_BLOCKS && t->outcome->verdict == TRIAL_HOLDS; i++) {
        operation op = {.kind = OP_FREE, .slot = (uint8_t)i, .amount = LOOKS_BEFORE};
        trial_free(t, &op);
    }
}

/* Work looks at all blocks and imports once more, and the pools do not hear of their end. */
static void leave_suddenly(trial *t)
{
    enum { LONG = 4 };
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        const operation look = {.kind = OP_VERIFY, .slot = (uint8_t)i, .amount = LONG};
        trial_use(t, &look, false);
    }
    for (int i = 0; i < TRIAL_IMPORTS; i++) {
        const operation look = {.kind = OP_USE_IMPORT, .slot = (uint8_t)i, .amount = LONG};
        trial_use_import(t, &look);
    }
    trial_check(t);
    for (int i = 0; i < TRIAL_PINS; i++) {
        t->pins[i] = (trial_pinned){0};
    }
}

/* One block as large as there is memory, in a pool whose neighbors hold nothing they could not
 * keep. */
static void fill(trial *t, int pool)
{
    for (int i = 0; i < t->pool_count; i++) {
        if (i != pool) {
            mend_trim(t->pools[i].pool, 0, MEND_TRIM_IDLE, NULL);
        }
    }
    uint64_t own_bytes = trial_stats(t, pool).reserved_bytes;
    uint64_t size_bytes = mend_align_down(trial_quota_room(t) + own_bytes, t->page_bytes);
    size_bytes = trial_passes_all(t) ? trial_plain_largest(t, pool) : size_bytes;
    mend_stream stream = trial_handle(t, 0, false);
    void *pointer = NULL;
    mend_set_alloc_options(NULL, NULL);
    if (size_bytes == 0) {
        return;
    }
    size_bytes -= t->pools[pool].pool->heap.config.guard_bytes;
    mend_result result = mend_alloc(t->pools[pool].pool, size_bytes, stream, &pointer);
    mend_error error = MEND_ERROR_INIT;
    mend_get_last_error(&error);
    trial_claim(t, TRIAL_LIVENESS, result == MEND_OK,
                "in the end %llu bytes do not fit in pool %d: %s (%s)", LLU(size_bytes), pool,
                mend_result_name(result), result == MEND_OK ? "" : error.message);
    if (result == MEND_OK) {
        result = mend_free(t->pools[pool].pool, pointer, stream);
        trial_claim(t, TRIAL_LIVENESS, result == MEND_OK, "and is not freed: %s",
                    mend_result_name(result));
    }
}

/* Whether something was freed that only a wait for the context covers: without a stream, or on the
 * own stream of a thread. Memory of importers was no part of the large block, so that the block may
 * not have waited for it. */
static bool has_unfenced(const trial *t, int pool)
{
    const mend_streams *streams = &t->pools[pool].pool->heap.streams;
    bool any = false;
    for (uint32_t i = MEND_STREAM_UNKNOWN; i < streams->count; i++) {
        const mend_stream_state *state = &streams->items[i];
        any |= state->open && (i == MEND_STREAM_UNKNOWN || state->handle == MEND_STREAM_PER_THREAD);
    }
    return any;
}

static void prove_alive(trial *t)
{
    mend_sim_advance(t->sim, FAR_NS);
    for (int i = 0; i < t->pool_count; i++) {
        mend_result result = mend_set_limit(t->pools[i].pool, 0);
        trial_claim(t, TRIAL_LIVENESS, result == MEND_OK, "mend_set_limit: %s",
                    mend_result_name(result));
        t->pools[i].limit_bytes = t->device_bytes;
        fill(t, i);
    }
    mend_sim_advance(t->sim, FAR_NS);
    for (int i = 0; i < t->pool_count && t->outcome->verdict == TRIAL_HOLDS; i++) {
        mend_result result = has_unfenced(t, i)
                                 ? mend_trim(t->pools[i].pool, 0, MEND_TRIM_WAIT, NULL)
                                 : mend_trim(t->pools[i].pool, 0, MEND_TRIM_IDLE, NULL);
        mend_stats stats = trial_stats(t, i);
        trial_claim(t, TRIAL_LIVENESS,
                    result == MEND_OK && stats.reserved_bytes == 0 && stats.retired_bytes == 0,
                    "a trim of the idle pool %d leaves %llu bytes: %s", i,
                    LLU(stats.reserved_bytes), mend_result_name(result));
    }
    trial_claim(t, TRIAL_LIVENESS, trial_ledger(t).pending_work == 0, "work never ends");
    trial_check_device(t);
}

static void destroy_pools(trial *t, bool is_whole)
{
    trial_forget_shares(t);
    for (int i = 0; i < t->pool_count; i++) {
        trial_check_recording(t, i);
        mend_result result = mend_pool_destroy(t->pools[i].pool);
        trial_claim(t, TRIAL_REMAINS,
                    result == MEND_OK || (t->may_be_lost && result == MEND_ERROR_DRIVER),
                    "mend_pool_destroy: %s", mend_result_name(result));
        mend_follower_end(&t->pools[i].follower);
        t->pools[i].pool = NULL;
    }
    mend_result result = mend_pool_destroy(t->neighbour);
    trial_claim(t, TRIAL_REMAINS,
                result == MEND_OK || (t->may_be_lost && result == MEND_ERROR_DRIVER),
                "the end of the pool of the other device: %s", mend_result_name(result));
    t->neighbour = NULL;
    mend_sim_advance(t->sim, FAR_NS); /* running work finds its lost memory */
    trial_check_device(t);
    mend_sim_ledger ledger = trial_ledger(t);
    trial_claim(t, TRIAL_REMAINS,
                !is_whole ||
                    (ledger.chunks == 0 && ledger.mappings == 0 && ledger.reservations == 0 &&
                     ledger.events == 0 && ledger.contexts_open == 0),
                "left on the device: %llu chunks, %llu mappings, %llu reservations, %llu events, "
                "%llu contexts",
                LLU(ledger.chunks), LLU(ledger.mappings), LLU(ledger.reservations),
                LLU(ledger.events), LLU(ledger.contexts_open));
}

static void add_up(trial *t)
{
    trial_tally *tally = &t->outcome->tally;
    mend_driver_counters counters;
    mend_traced_driver_get(t->traced, &counters);
    for (int i = 0; i < MEND_DRIVER_CALL_COUNT; i++) {
        tally->failed_calls[i] = counters.call[i].failures;
    }
    tally->stats = trial_stats(t, 0);
}

void trial_finish(trial *t)
{
    t->step = t->outcome->verdict == TRIAL_HOLDS ? t->step : t->outcome->step;
    clear_the_way(t);
    trial_hooks_end_allocators(t);
    trial_map_again(t);
    bool is_whole = !t->may_be_lost && !t->stopped;
    if (is_whole) { /* a wake names none, and waits in no capture */
        name_streams(t);
    }
    trial_wake_all(t);
    bool is_sudden = is_whole && t->config.sudden != 0 && !t->config.hooks;
    if (is_sudden) {
        leave_suddenly(t);
    } else {
        free_all(t);
        trial_end_pins(t);
        trial_end_ranges(t);
    }
    is_whole = is_whole && !t->may_be_lost;
    if (is_whole && !is_sudden && t->outcome->verdict == TRIAL_HOLDS) {
        name_streams(t);
        trial_end_shares(t);
        trial_check(t);
    }
    if (is_whole && !is_sudden && t->outcome->verdict == TRIAL_HOLDS) {
        prove_alive(t);
    }
    add_up(t);
    trial_close_streams(t);
    destroy_pools(t, is_whole);
    trial_hooks_close(t);
}
