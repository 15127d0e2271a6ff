/* Conditions at every point, and at the end. */
#include "base/align.h"
#include "check/check.h"
#include "pool/pool.h"
#include "tests/interleave/arena.h"

static bool has_graph_pools(const arena *a)
{
    for (int i = 0; i < PROGRAM_GRAPH_POOLS; i++) {
        if (a->graph_pools[i].graph_pool != NULL || a->graph_pools[i].is_busy) {
            return true;
        }
    }
    return a->restorations > 0;
}

/* Empty chunks, and new ones. While graph pools hold on to memory, the latter alone. */
static uint64_t room_of(arena *a, const mend_stats *stats)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(a->sim, &ledger);
    uint64_t on_device = a->program->memory_bytes - ledger.chunk_bytes;
    uint64_t under_limit =
        stats->limit_bytes > stats->reserved_bytes ? stats->limit_bytes - stats->reserved_bytes : 0;
    uint64_t creatable = mend_align_down(mend_min_u64(on_device, under_limit), ARENA_PAGE_BYTES);
    return (has_graph_pools(a) ? 0 : stats->free_empty_bytes) + creatable;
}

static void watch_pool(arena *a, int number, arena_thread *self)
{
    mend_pool *pool = a->pools[number].pool;
    if (schedule_is_held(&pool->heap.state.mutex)) {
        return;
    }
    char finding[MEND_VALIDATE_FINDING_BYTES];
    bool is_quiet = !schedule_is_held(&pool->heap.grow.mutex);
    if (!(is_quiet ? mend_observe_validate(&pool->heap, finding)
                   : mend_observe_validate_sums(&pool->heap, finding))) {
        arena_find(a, "pool %d: %s", number, finding);
    }
    if (self->pool == number) {
        mend_stats stats = MEND_STATS_INIT;
        mend_pool_statistics(pool, &stats);
        self->has_room = true;
        self->room_bytes = room_of(a, &stats);
    }
}

void arena_watch(void *context, int thread)
{
    arena *a = context;
    for (int i = 0; i < PROGRAM_POOLS; i++) {
        if (a->pools[i].pool != NULL) {
            watch_pool(a, i, &a->threads[thread]);
        }
    }
}

/* Peer pools take the memory of a pool at the same moment. */
void arena_check_refusal(arena *a, uint64_t size_bytes)
{
    const arena_thread *self = arena_self(a);
    if (self->has_room && !a->has_peer_pools && !a->has_failed_calls &&
        size_bytes <= self->room_bytes) {
        arena_find(a, "%llu bytes were refused, with room for %llu", (unsigned long long)size_bytes,
                   (unsigned long long)self->room_bytes);
    }
}

void arena_check_device(arena *a)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(a->sim, &ledger);
    if (ledger.violations > 0) {
        arena_find(a, "a rule of the driver was broken: %s", mend_sim_first_violation(a->sim));
    }
    if (ledger.content_errors > 0) {
        arena_find(a, "%llu granules hold wrong bytes", (unsigned long long)ledger.content_errors);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void free_everything(arena *a)
{
    for (int i = 0; i < PROGRAM_GRAPH_POOLS; i++) {
        arena_do(a, &(program_op){.kind = PROGRAM_GRAPH_POOL_END, .graph_pool = i});
        arena_do(a, &(program_op){.kind = PROGRAM_GRAPH_POOL_RELEASE, .graph_pool = i});
    }
    for (int i = 0; i < PROGRAM_CALLBACKS; i++) {
        arena_do(a, &(program_op){.kind = PROGRAM_REMOVE_CALLBACK, .callback = i});
    }
    for (int i = 0; i < PROGRAM_SLOTS; i++) {
        arena_do(a, &(program_op){.kind = PROGRAM_FREE, .slot = i});
    }
}

static void compare_with_device(arena *a)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(a->sim, &ledger);
    uint64_t reserved_bytes = 0;
    uint64_t mappings = 0;
    uint64_t address_bytes = 0;
    for (int i = 0; i < PROGRAM_POOLS; i++) {
        mend_stats stats = MEND_STATS_INIT;
        if (a->pools[i].pool != NULL && mend_get_stats(a->pools[i].pool, &stats) == MEND_OK) {
            reserved_bytes += stats.reserved_bytes;
            mappings += stats.mappings;
            address_bytes += stats.address_bytes;
        }
    }
    if (reserved_bytes != ledger.chunk_bytes || mappings != ledger.mappings ||
        address_bytes != ledger.address_bytes) {
        arena_find(a, "the device lends %llu bytes, %llu mappings; the pools know of %llu, %llu",
                   (unsigned long long)ledger.chunk_bytes, (unsigned long long)ledger.mappings,
                   (unsigned long long)reserved_bytes, (unsigned long long)mappings);
    }
}

/* One block as large as the device must fit, and then everything can be released. */
static void take_everything(arena *a)
{
    mend_pool *pool = a->pools[0].pool;
    mend_set_limit(pool, 0);
    program_op largest = {.kind = PROGRAM_ALLOC, .bytes = a->program->memory_bytes};
    arena_do(a, &largest);
    if (a->slots[0].pointer == NULL) {
        arena_find(a, "in the end one block as large as the device does not fit");
    }
    arena_do(a, &(program_op){.kind = PROGRAM_FREE});
    mend_sim_advance(a->sim, 1000);
    mend_stats stats = MEND_STATS_INIT;
    mend_trim(pool, 0, MEND_TRIM_IDLE, NULL);
    mend_get_stats(pool, &stats);
    if (stats.reserved_bytes > 0) {
        arena_find(a, "in the end a trim leaves %llu bytes",
                   (unsigned long long)stats.reserved_bytes);
    }
}

void arena_end(arena *a)
{
    mend_sim_clear_faults(a->sim);
    a->has_failed_calls = a->is_broken;
    free_everything(a);
    mend_sim_advance(a->sim, 1000);
    for (int i = 0; i < PROGRAM_POOLS; i++) {
        char finding[MEND_VALIDATE_FINDING_BYTES];
        if (a->pools[i].pool != NULL && !mend_pool_validate(a->pools[i].pool, finding)) {
            arena_find(a, "in the end, pool %d: %s", i, finding);
        }
    }
    if (!a->has_lost_memory) {
        compare_with_device(a);
    }
    for (int i = 1; i < PROGRAM_POOLS; i++) {
        arena_do(a, &(program_op){.kind = PROGRAM_POOL_DESTROY, .pool = i});
    }
    if (!a->has_lost_memory) {
        take_everything(a);
    }
    if (mend_pool_destroy(a->pools[0].pool) != MEND_OK && !a->is_broken) {
        arena_find(a, "the pool is destroyed with an error");
    }
    arena_check_device(a);
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim_get_ledger(a->sim, &ledger);
    uint64_t left = ledger.chunks + ledger.mappings + ledger.reservations + ledger.events;
    if (ledger.contexts_open > 0 || (left > 0 && !a->has_lost_memory)) {
        arena_find(a, "something is left on the device");
    }
}
