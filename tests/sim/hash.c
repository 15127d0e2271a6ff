/* The hash of a trial's state, for the search through small worlds: small_worlds.h lists its
 * inputs. */
#include "alloc/heap.h"
#include "layout/layout.h"
#include "pool/pool.h"
#include "tests/sim/trial.h"

typedef struct hasher {
    const trial *t;
    uint64_t value;
    uint64_t base; /* the lowest address reserved */
} hasher;

static void mix(hasher *h, uint64_t number)
{
    uint64_t z = (h->value ^ number) * UINT64_C(0x9E3779B97F4A7C15);
    h->value = z ^ (z >> 29);
}

static void mix_address(hasher *h, uint64_t address)
{
    mix(h, address != 0 ? address - h->base + 1 : 0);
}

static uint64_t lowest_address(const trial *t)
{
    uint64_t lowest = UINT64_MAX;
    for (int i = 0; i < t->pool_count; i++) {
        const mend_list *head = &t->pools[i].pool->heap.space.reservations;
        for (const mend_list *at = head->next; at != head; at = at->next) {
            uint64_t address = MEND_CONTAINER_OF(at, mend_reservation, link)->address;
            lowest = mend_min_u64(lowest, address);
        }
    }
    return lowest;
}

/* ---- the pool -------------------------------------------------------------------------------- */

static void mix_stamp(hasher *h, const mend_streams *streams, mend_stamp stamp)
{
    const mend_stream_state *state = &streams->items[stamp.stream];
    bool has_passed = stamp.epoch != 0 && mend_stamp_has_passed(streams, stamp);
    mix(h, stamp.stream);
    mix(h, has_passed ? 1 : stamp.epoch == 0 ? 0 : 2 + stamp.epoch - state->passed_epoch);
}

static void mix_waits(hasher *h, const mend_streams *streams, const mend_waits *waits)
{
    mix_stamp(h, streams, waits->first);
    for (const mend_wait *at = waits->others; at != NULL; at = at->next) {
        mix_stamp(h, streams, at->stamp);
    }
    mix(h, 77);
}

static void mix_space(hasher *h, const mend_space *space)
{
    const mend_list *head = &space->reservations;
    for (const mend_list *at = head->next; at != head; at = at->next) {
        const mend_reservation *reservation = MEND_CONTAINER_OF(at, mend_reservation, link);
        mix_address(h, reservation->address);
        mix(h, reservation->size_bytes);
        mix(h, (uint64_t)reservation->zone);
    }
    mix(h, space->ask_bytes);
    mix(h, space->refused_bytes);
}

static void mix_zone(hasher *h, const mend_heap *heap, const mend_zone *zone)
{
    for (mend_tree_node *at = mend_tree_first(&zone->segment_ends); at != NULL;
         at = mend_tree_next(at)) {
        const mend_span *span = MEND_CONTAINER_OF(at, mend_span, by_end);
        for (; span != NULL; span = span->previous) {
            mix_address(h, span->address);
            mix(h, span->size_bytes * 4 + span->live * 2 + span->cached);
            mix_waits(h, &heap->streams, &span->waits);
        }
    }
}

static void mix_chunks(hasher *h, const mend_heap *heap)
{
    for (mend_tree_node *at = mend_tree_first(&heap->chunks.all); at != NULL;
         at = mend_tree_next(at)) {
        const mend_chunk *chunk = MEND_CONTAINER_OF(at, mend_chunk, memory.by_number);
        mix_address(h, chunk->address);
        mix(h, chunk->size_bytes);
        mix(h, chunk->live_bytes * 4 + (uint64_t)chunk->missing);
    }
    for (const mend_chunk *chunk = mend_chunk_from(&heap->chunks, 0); chunk != NULL;
         chunk = mend_chunk_next(chunk)) {
        mix(h, mend_chunk_sleeps(chunk) ? chunk->live_bytes : 0);
    }
    for (const mend_retired *retired = mend_retire_first(heap); retired != NULL;
         retired = mend_retire_next(retired)) {
        mix_address(h, retired->address);
        mix(h, retired->size_bytes);
        mix_waits(h, &heap->streams, &retired->waits);
    }
}

/* Which of the program's streams a handle means. */
static uint64_t number_of(const trial *t, mend_stream handle)
{
    for (int i = 0; i < t->stream_count; i++) {
        if (t->streams[i].handle == handle) {
            return (uint64_t)i + 1;
        }
    }
    return 0;
}

static void mix_streams(hasher *h, const mend_streams *streams)
{
    for (uint32_t i = 0; i < streams->count; i++) {
        const mend_stream_state *state = &streams->items[i];
        mix(h, number_of(h->t, state->handle));
        mix(h, state->known + 2u * state->open + 4u * state->seen_captured);
        mix(h, state->graph_pool);
        mix(h, state->open_epoch - state->passed_epoch);
        mix(h, state->fence_count);
        mix(h, state->open_bytes);
        for (size_t k = 0; k < state->waited_capacity; k++) {
            uint64_t passed = streams->items[k].passed_epoch;
            mix(h, state->waited_epochs[k] > passed ? state->waited_epochs[k] - passed : 0);
        }
    }
    mix(h, streams->idle_event_count);
}

static void mix_pool(hasher *h, const mend_heap *heap)
{
    mix_space(h, &heap->space);
    for (int zone = 0; zone < MEND_ZONE_COUNT; zone++) {
        mix_zone(h, heap, &heap->zones[zone]);
    }
    mix_chunks(h, heap);
    mix_streams(h, &heap->streams);
    mix(h, heap->config.limit_bytes);
    mix(h, heap->frees.early_fences_left);
    for (const mend_list *at = heap->graph_pools.list.next; at != &heap->graph_pools.list;
         at = at->next) {
        const mend_graph_pool *graph_pool = MEND_CONTAINER_OF(at, mend_graph_pool, link);
        mix(h, graph_pool->number * 2 + graph_pool->is_begun);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static void mix_model(hasher *h)
{
    const trial *t = h->t;
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        const trial_block *block = &t->blocks[i];
        if (block->live) {
            mix(h, (uint64_t)i);
            mix_address(h, block->address);
            mix(h,
                (uint64_t)(block->home * 8 + block->used * 4 + block->written * 2 + block->frozen));
            mix(h, (uint64_t)block->readers << 32 | block->declared);
            mix(h, (uint64_t)(block->graph_pool + 1));
            mix(h, block->written_in);
        }
    }
    for (int i = 0; i < TRIAL_GRAPH_POOLS; i++) {
        const trial_graph_pool *graph_pool = &t->graph_pools[i];
        mix(h, graph_pool->graph_pool != NULL ? 1u + graph_pool->begun : 0);
        mix(h, (uint64_t)(graph_pool->last_stream + 1));
        mix(h, graph_pool->launches);
    }
    for (int i = 0; i < TRIAL_GRAPHS; i++) {
        mix(h, t->graphs[i].graph != NULL ? 1 + t->graphs[i].graph_pools : 0);
        mix(h, t->graphs[i].recorded);
    }
}

/* A look spoils no capture. */
static void mix_device(hasher *h)
{
    const trial *t = h->t;
    mend_capture_mode mode = MEND_CAPTURE_MODE_RELAXED;
    t->device->exchange_capture_mode(t->device, &mode);
    for (int i = 0; i < t->stream_count; i++) {
        const trial_stream *stream = &t->streams[i];
        bool is_open = trial_is_open(t, i) && stream->thread == ANY_THREAD;
        mix(h, stream->captured + 2u * stream->spoilt);
        mix(h, stream->captured ? stream->recorded : 0);
        mix(h, is_open ? (uint64_t)t->device->stream_query(t->device, stream->handle) : 0);
    }
    t->device->exchange_capture_mode(t->device, &mode);
}

uint64_t trial_state_hash(trial *t)
{
    hasher h = {.t = t, .value = 1, .base = lowest_address(t)};
    for (int i = 0; i < t->pool_count; i++) {
        mix_pool(&h, &t->pools[i].pool->heap);
    }
    mix_model(&h);
    mix_device(&h);
    return h.value;
}
