/* Blocks: allocation and free. */
#include "hooks/hooks.h"
#include "layout/layout.h"
#include "mend/mend_frameworks.h"
#include "pool/pool.h"
#include "tests/sim/asleep.h"
#include "tests/sim/quotas.h"
#include "tests/sim/ranges.h"

#define LLU(value) ((unsigned long long)(value))

static void *pointer_of(const trial_block *block)
{
    return (void *)(uintptr_t)block->address;
}

/* The high half of the code names the base, the low half the part of it. */
static uint64_t drawn_size(const trial *t, uint8_t code)
{
    static const int shifts[] = {0, 512, -512, 1};
    uint64_t high = code >> 4;
    uint64_t part = (code & 15u) + 1;
    uint64_t small = (uint64_t)t->config.small_request_granules * 512;
    uint64_t chunk = t->page_bytes * (t->config.chunk_pages != 0 ? t->config.chunk_pages : 1);
    uint64_t bytes;
    if (high < 4) {
        return 1 + (high * 16 + part) * 100;
    }
    if (high < 6) {
        bytes = small * part / 8 + (high - 4);
    } else if (high < 9) {
        bytes = t->page_bytes * part / 4 + (uint64_t)(int64_t)shifts[high - 6];
    } else if (high < 13) {
        bytes = chunk * part / 4 + (uint64_t)(int64_t)shifts[high - 9];
    } else if (high == 13) {
        bytes = t->device_bytes / 64 * part;
    } else if (high == 14) {
        bytes = t->device_bytes / 16 * part;
    } else {
        bytes = t->device_bytes - mend_min_u64((part - 1) * t->page_bytes, t->device_bytes / 2);
    }
    return mend_max_u64(bytes, 1);
}

/* A guard fills the rest of 512 bytes, so that sizes are as without it. */
static uint64_t size_of(const trial *t, uint8_t code)
{
    const uint64_t bytes = drawn_size(t, code);
    return (t->config.check & MEND_CHECK_GUARD) != 0 ? mend_align_up(bytes, 512) - 16 : bytes;
}

static bool overlaps_any(const trial *t, uint64_t address, uint64_t size_bytes)
{
    TRIAL_EACH_BLOCK(const trial_block, other, t) {
        if (other->live && address < other->address + other->size_bytes &&
            other->address < address + size_bytes) {
            return true;
        }
    }
    return false;
}

static void count_alloc_in_zone(trial_zone *zone, const trial_block *block)
{
    if (block->range == 0) {
        zone->live_blocks++;
        zone->requested_bytes += block->requested_bytes;
        zone->allocations++;
        zone->allocated_bytes += block->size_bytes;
        zone->allocated_requested_bytes += block->requested_bytes;
    }
    zone->live_bytes += block->size_bytes;
    zone->peak_live_blocks = mend_max_u64(zone->peak_live_blocks, zone->live_blocks);
    zone->peak_live_bytes = mend_max_u64(zone->peak_live_bytes, zone->live_bytes);
    zone->peak_requested_bytes = mend_max_u64(zone->peak_requested_bytes, zone->requested_bytes);
}

/* Pages are in no zone, and their bytes live. */
void trial_count_alloc(trial *t, const trial_block *block)
{
    trial_pool *pool = &t->pools[block->pool];
    count_alloc_in_zone(&pool->zones[ALL_ZONES], block);
    if (block->range != 0) {
        pool->range_bytes += block->size_bytes;
        pool->peak_range_bytes = mend_max_u64(pool->peak_range_bytes, pool->range_bytes);
        pool->pages_committed++;
        return;
    }
    count_alloc_in_zone(&pool->zones[block->zone], block);
}

/* The stream that asks, or none, and the call in its thread. */
static mend_result call_for(trial *t, const operation *op, trial_call *call)
{
    int stream = op->stream % t->stream_count;
    bool is_for_any = call->graph_pool == NULL && op->thread == 3 &&
                      (t->config.hooks || op->kind == OP_ROOM || op->slot % 4 == 1);
    call->at = stream;
    call->stream = is_for_any ? MEND_NO_STREAM : trial_handle(t, stream, op->amount & 2);
    return trial_call_pool(t, trial_thread_of(t, stream, op->thread), call);
}

/* Small blocks may lie in the large zone. */
int trial_zone_at(const trial *t, int pool, uint64_t address)
{
    const mend_span *span = mend_heap_span_at(&t->pools[pool].pool->heap, address);
    return span != NULL ? span->zone : MEND_ZONE_LARGE;
}

/* A block's, or a page's. */
static const mend_span *span_at(const trial *t, int pool, uint64_t address)
{
    const mend_heap *heap = &t->pools[pool].pool->heap;
    const mend_span *span = mend_pointer_map_find(&heap->blocks, address);
    return span != NULL ? span : mend_heap_span_at(heap, address);
}

uint32_t trial_scope_at(const trial *t, int pool, uint64_t address)
{
    const mend_span *span = span_at(t, pool, address);
    return span != NULL ? span->scope : 0;
}

void trial_expect_stack(trial *t, trial_block *block, uint32_t stack)
{
    const mend_span *span = span_at(t, block->pool, block->address);
    const uint32_t found = span != NULL ? span->stack : 0;
    block->stack = stack;
    trial_claim(t, TRIAL_MODEL, found == stack, "a block's stack is %u, and was to be %u", found,
                stack);
}

/* The model's side of an allocation into a free slot. */
static void enter_block(trial *t, const operation *op, const trial_call *call)
{
    uint64_t address = (uint64_t)(uintptr_t)call->pointer;
    uint64_t guard_bytes = t->pools[call->pool].pool->heap.config.guard_bytes;
    uint64_t size_bytes = mend_align_up(call->size_bytes + guard_bytes, 512);
    trial_claim(t, TRIAL_MODEL,
                address % mend_max_u64(call->alignment_bytes, 512) == 0 &&
                    (call->wanted == NULL || call->pointer == call->wanted) &&
                    !overlaps_any(t, address, size_bytes),
                "a block at 0x%llx is not aligned, or lies in another", LLU(address));
    bool may_be_of_graph_pool =
        call->pool == 0 && call->stream != MEND_NO_STREAM && !trial_is_plain(call);
    const uint64_t tag = trial_sleep_tag(call);
    trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    *block = (trial_block){
        .live = true,
        .pool = call->pool,
        .address = address,
        .size_bytes = size_bytes,
        .requested_bytes = call->size_bytes,
        .allocated_on = call->stream,
        .home = call->at,
        .zone = trial_zone_at(t, call->pool, address),
        .scope = trial_scope_at(t, call->pool, address),
        .in_one_chunk = call->in_one_chunk && !trial_is_plain(call),
        .sleep_tag = tag != 0 ? tag : call->size_bytes,
        .own_tag = call->graph_pool != NULL ? call->size_bytes : 0,
        .graph_pool = may_be_of_graph_pool ? trial_graph_pool_taking(t, call->stream) : NOBODY};
    trial_expect_stack(t, block, trial_stack_of(op, call->size_bytes));
    if (call->graph_pool != NULL) {
        block->graph_pool = op->amount / 4 % TRIAL_GRAPH_POOLS; /* as trial_alloc_in names it */
    }
    if (call->stream != MEND_NO_STREAM && block->graph_pool == NOBODY &&
        trial_is_recorded(t, call->at)) {
        block->graph_pool = trial_capture_graph_pool(t, call->at);
    }
    trial_count_alloc(t, block);
}

/* A block in a free slot, by a call that has its size, its alignment and its pool. */
static mend_result take_block(trial *t, const operation *op, trial_call *call)
{
    const mend_result result = call_for(t, op, call);
    if (result == MEND_OK) {
        enter_block(t, op, call);
        trial_check_home(t, call);
    }
    return result;
}

void trial_borrow_beside(trial *t)
{
    const int pool = TRIAL_POOLS - 1;
    operation op = {.slot = t->op->slot % 3}; /* the thread's options follow that */
    int stream = 0;
    /* The slot of the request under way stays free. */
    while (op.slot < TRIAL_BLOCKS &&
           (t->blocks[op.slot].live || op.slot == t->op->slot % TRIAL_BLOCKS)) {
        op.slot = (uint8_t)(op.slot + 3);
    }
    while (stream < t->stream_count && (!trial_is_open(t, stream) || t->streams[stream].foreign ||
                                        t->streams[stream].thread != ANY_THREAD)) {
        stream++;
    }
    if (t->pool_count < TRIAL_POOLS || op.slot >= TRIAL_BLOCKS || stream == t->stream_count ||
        t->captures > 0 || trial_graph_pool_taking(t, trial_handle(t, stream, false)) != NOBODY) {
        return;
    }
    trial_call call = {.kind = CALL_ALLOC,
                       .pool = pool,
                       .at = stream,
                       .stream = trial_handle(t, stream, false),
                       .size_bytes = mend_max_u64(t->pools[pool].limit_bytes / 4, 1),
                       .alignment_bytes = 1};
    if (trial_call_pool(t, HERE, &call) == MEND_OK) {
        enter_block(t, &op, &call);
        trial_free_here(t, t->calling_thread, true, &t->blocks[op.slot]);
    }
}

static void free_at_once(trial *t, const operation *op)
{
    trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    trial_free_here(t, trial_thread_of(t, block->home, op->thread), false, block);
}

/* Requests so much in the place of a request that was refused. The report is about the state
 * before, without the help of others. Callbacks come before CPU stalls, and their frees may join
 * memory of a graph pool, which then continues no more. */
static void ask_instead(trial *t, const operation *op, const trial_call *refused, uint64_t bytes)
{
    trial_call call = {.kind = CALL_ALLOC,
                       .pool = refused->pool,
                       .size_bytes = bytes,
                       .alignment_bytes = refused->alignment_bytes,
                       .in_one_chunk = refused->in_one_chunk};
    t->callbacks_rest = true;
    mend_result result = take_block(t, op, &call);
    t->callbacks_rest = false;
    if (!call.faulty) {
        trial_check_report(t, refused, &call);
    }
    if (result == MEND_OK) {
        free_at_once(t, op);
    }
}

/* The same again, unless peers help, which may give more each time, and the size that would fit by
 * the report. */
static void follow_report(trial *t, const operation *op, const trial_call *refused)
{
    if (t->pool_count == 1) {
        ask_instead(t, op, refused, refused->size_bytes);
    }
    if (refused->fitting_bytes > 0) {
        ask_instead(t, op, refused, refused->fitting_bytes);
    }
}

bool trial_alloc(trial *t, const operation *op)
{
    const int pool = op->kind == OP_SIBLING_ALLOC;
    if (t->blocks[op->slot % TRIAL_BLOCKS].live || pool >= t->pool_count) {
        return false;
    }
    trial_call call = {.kind = CALL_ALLOC,
                       .pool = pool,
                       .size_bytes = size_of(t, op->size),
                       .alignment_bytes = UINT64_C(1) << (op->alignment % 22)};
    const trial_block *former = &t->blocks[op->slot % TRIAL_BLOCKS];
    if ((op->amount & 8) != 0 && former->address != 0 && !t->config.hooks) {
        call.wanted = pointer_of(former);
        call.alignment_bytes = 512;
        call.size_bytes = op->size % 2 == 0 ? former->requested_bytes : call.size_bytes;
    }
    call.in_one_chunk = (op->amount & 16) != 0 && call.wanted == NULL && !t->config.hooks;
    const mend_result result = take_block(t, op, &call);
    if (result == MEND_OK && (op->amount & 1)) {
        trial_use(t, op, true);
    } else if (result == MEND_ERROR_OUT_OF_MEMORY && !call.faulty && (op->amount & 32) &&
               call.wanted == NULL) {
        follow_report(t, op, &call);
    }
    return true;
}

bool trial_alloc_in(trial *t, const operation *op)
{
    const trial_graph_pool *graph_pool = &t->graph_pools[op->amount / 4 % TRIAL_GRAPH_POOLS];
    if (t->blocks[op->slot % TRIAL_BLOCKS].live || graph_pool->graph_pool == NULL) {
        return false;
    }
    const trial_block *former = &t->blocks[op->slot % TRIAL_BLOCKS];
    trial_call call = {.kind = CALL_ALLOC,
                       .graph_pool = graph_pool->graph_pool,
                       .size_bytes = size_of(t, op->size),
                       .alignment_bytes = UINT64_C(1) << (op->alignment % 22),
                       .in_one_chunk = op->amount % 16 == 14};
    if (op->amount % 4 == 1 && former->address != 0) {
        call.wanted = pointer_of(former);
        call.alignment_bytes = 512;
        call.in_one_chunk = false;
    }
    if (take_block(t, op, &call) == MEND_OK && (op->amount & 1)) {
        trial_use(t, op, true);
    }
    return true;
}

/* The effects of a request that its own pool did not serve at once. */
static uint64_t efforts(trial *t, int pool)
{
    mend_stats stats = trial_stats(t, pool);
    return stats.host_waits + stats.pressure_calls + stats.peer_pool_trims + stats.compactions;
}

bool trial_ask_room(trial *t, const operation *op)
{
    trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    trial_call ask = {.kind = CALL_ROOM, .room = MEND_AVAILABLE_INIT};
    if (block->live || call_for(t, op, &ask) != MEND_OK || ask.faulty) {
        return !block->live;
    }
    trial_check_least_room(t, &ask);
    const uint64_t most_bytes = (op->amount & 4) != 0 ? size_of(t, op->size) : UINT64_MAX;
    trial_call call = {.kind = CALL_ALLOC,
                       .size_bytes = mend_min_u64(ask.room.now_bytes, most_bytes),
                       .alignment_bytes = 512};
    uint64_t before = efforts(t, 0);
    uint64_t calls_before = trial_stats(t, 0).pressure_calls;
    if (call.size_bytes == 0) {
        return true;
    }
    mend_result result = take_block(t, op, &call);
    /* A request that would fit calls the callbacks too if the pool would grow above its soft limit.
     * They change what there is, so the result says nothing about the memory before. */
    const bool is_changed = t->has_soft_limit && trial_stats(t, 0).pressure_calls > calls_before;
    if (!call.faulty && !is_changed) {
        trial_check_room(t, &ask, &call, result == MEND_OK && efforts(t, 0) == before);
    }
    if (result == MEND_OK) {
        free_at_once(t, op);
    } else if (result == MEND_ERROR_OUT_OF_MEMORY && !call.faulty && (op->amount & 2)) {
        follow_report(t, op, &call);
    }
    return true;
}

static void count_free_in_zone(trial_zone *zone, const trial_block *block)
{
    zone->live_bytes -= block->size_bytes;
    zone->live_blocks -= block->range == 0;
    zone->requested_bytes -= block->range == 0 ? block->requested_bytes : 0;
}

void trial_end_block(trial *t, trial_block *block)
{
    trial_pool *pool = &t->pools[block->pool];
    trial_end_export(t, block);
    block->live = false;
    count_free_in_zone(&pool->zones[ALL_ZONES], block);
    if (block->range != 0) {
        pool->range_bytes -= block->size_bytes;
        pool->pages_decommitted++;
        return;
    }
    count_free_in_zone(&pool->zones[block->zone], block);
    pool->frees++;
}

mend_result trial_free_by_pointer(const trial_call *call, mend_pool *pool)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    mend_result result = mend_pool_free_untagged(pool, call->pointer, &info);
    trial_claim(call->trial, TRIAL_MODEL,
                result != MEND_OK || (info.base == call->pointer && info.stream == call->stream &&
                                      info.pool == pool),
                "a free of a pointer alone described another block");
    return result == MEND_OK && info.tag != 0 ? mend_free(pool, call->pointer, call->stream)
                                              : result;
}

static void flip_behind(const trial_block *block)
{
    *((unsigned char *)pointer_of(block) + block->requested_bytes) ^= 1;
}

/* A mistake of the program: it writes behind the end of a block, whose guard its free will read. */
static bool damage(const trial *t, const trial_block *block)
{
    mend_heap *heap = &t->pools[block->pool].pool->heap;
    bool is_captured = false;
    for (int i = 0; i < t->stream_count; i++) {
        is_captured |= t->streams[i].captured;
    }
    mend_heap_lock(heap);
    const mend_span *span = mend_heap_find(heap, block->address);
    const bool is_read = span != NULL && span->is_guarded && !span->of_graph_pool &&
                         !mend_layout_sleeps(heap, span) && !mend_layout_misses_mapping(heap, span);
    mend_heap_unlock(heap);
    if (!is_read || is_captured || t->stopped || t->may_be_lost || t->config.content == 0 ||
        t->pools[block->pool].frees % 4 != 0) {
        return false;
    }
    flip_behind(block);
    return true;
}

static bool free_on(trial *t, int thread, trial_block *block, mend_stream stream)
{
    bool is_its_own = stream == block->allocated_on;
    trial_call call = {.kind = CALL_FREE,
                       .pool = block->pool,
                       .stream = stream,
                       .pointer = pointer_of(block),
                       .by_pointer = is_its_own && t->pools[block->pool].frees % 2 == 1};
    if (block->range != 0) {
        call.kind = CALL_DECOMMIT;
        trial_name_page(t, block, &call);
    }
    call.expected = block->range == 0 && damage(t, block) ? MEND_ERROR_CORRUPTION : MEND_OK;
    mend_result result = trial_call_pool(t, thread, &call);
    if (result == MEND_ERROR_CORRUPTION) { /* which is told once */
        call.expected = MEND_OK;
        result = trial_call_pool(t, thread, &call);
    } else if (call.expected == MEND_ERROR_CORRUPTION && result != MEND_OK) {
        flip_behind(block); /* nobody has looked: a fault came before */
    }
    if (result == MEND_OK) {
        trial_end_block(t, block);
    }
    return result == MEND_OK;
}

/* The memory was free a moment ago, and nobody has taken it since. If it slept, or was the host's,
 * it may be no memory of the pool any more. */
static void free_again(trial *t, const trial_block *block, mend_stream stream)
{
    trial_pool *pool = &t->pools[block->pool];
    if (block->range != 0) {
        trial_decommit_again(t, block, stream);
        return;
    }
    if (trial_is_faulty(t) || pool->lost) {
        return;
    }
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    mend_result result = mend_get_block_info(pool->pool, pointer_of(block), &info);
    trial_check_locks(t, block->pool);
    trial_claim(t, TRIAL_RESULT,
                result == MEND_ERROR_DOUBLE_FREE || result == MEND_ERROR_FOREIGN_POINTER,
                "a look at a freed block: %s", mend_result_name(result));
    result = mend_free(pool->pool, pointer_of(block), stream);
    trial_claim(t, TRIAL_RESULT,
                result == MEND_ERROR_DOUBLE_FREE ||
                    ((block->asleep || block->zone == MEND_ZONE_PASSED) &&
                     result == MEND_ERROR_FOREIGN_POINTER),
                "a second free: %s", mend_result_name(result));
}

/* Where a block may be freed with only the present orders and declarations. */
static mend_stream stream_to_free_on(const trial *t, const trial_block *block)
{
    bool all_declared = (block->readers & ~block->declared) == 0;
    bool is_refused = block->range != 0 && t->streams[block->home].captured;
    return all_declared && !is_refused ? trial_handle(t, block->home, false) : MEND_NO_STREAM;
}

bool trial_free_here(trial *t, int thread, bool is_inside, trial_block *block)
{
    mend_stream stream = stream_to_free_on(t, block);
    int own = t->streams[block->home].thread;
    if (own != ANY_THREAD && own != thread) {
        stream = MEND_NO_STREAM;
    }
    return free_on(t, is_inside ? HERE : thread, block, stream);
}

/* The use of a block ends: on which stream is it freed, in which thread? False: on none. */
static bool leave_block(trial *t, const operation *op, trial_block *block, mend_stream *stream,
                        int *thread)
{
    int how = op->amount & 7;
    int elsewhere = op->stream % t->stream_count;
    bool is_busy = block->graph_pool != NOBODY || trial_is_in_capture(t, block) ||
                   !trial_is_open(t, block->home) || t->may_be_lost;
    if (block->graph_pool != NOBODY && trial_is_recorded(t, block->home) &&
        !trial_join_readers(t, block, false)) {
        return false;
    }
    *thread = trial_thread_of(t, block->home, op->thread);
    *stream = stream_to_free_on(t, block);
    if (how == 5) {
        *stream = MEND_NO_STREAM;
    } else if (how == 4 && !block->used && (block->range == 0 || !t->streams[elsewhere].captured)) {
        *stream = trial_handle(t, elsewhere, false); /* there is no use to come after */
        *thread = trial_thread_of(t, elsewhere, op->thread);
    } else if (!is_busy && how == 6 && t->captures == 0) {
        if (!trial_synchronize(t)) {
            return false;
        }
        block->readers = 0;
        block->home = elsewhere;
        *stream = trial_handle(t, elsewhere, op->amount & 16);
        *thread = trial_thread_of(t, elsewhere, op->thread);
    } else if (!is_busy) {
        if ((op->amount & 32) != 0) {
            trial_use(t, op, false); /* it may still run when the block is free */
        }
        if (how == 4 && trial_is_open(t, elsewhere) && !trial_move_to(t, block, elsewhere)) {
            return false;
        }
        if (!trial_join_readers(t, block, false)) {
            return false;
        }
        *thread = trial_thread_of(t, block->home, op->thread);
        *stream = trial_handle(t, block->home, op->amount & 16);
    }
    return true;
}

/* The graph pool that a block is freed in, if `op` says so: its own, or another one, whose memory
 * is then used after the block's uses. Not with hooks: memory of an allocator returns to it. */
static mend_graph_pool *graph_pool_to_free_in(trial *t, const operation *op,
                                              const trial_block *block, mend_stream stream)
{
    int number = block->graph_pool != NOBODY ? block->graph_pool : op->size % TRIAL_GRAPH_POOLS;
    bool is_possible = (op->amount & 64) != 0 && !t->config.hooks && block->pool == 0 &&
                       block->range == 0 && number < TRIAL_GRAPH_POOLS &&
                       stream != MEND_NO_STREAM && t->graph_pools[number].graph_pool != NULL;
    if (is_possible && block->graph_pool == NOBODY) {
        is_possible = stream == trial_handle(t, block->home, false) &&
                      trial_is_open(t, block->home) && !t->may_be_lost &&
                      trial_follow_graph_pool(t, number, block->home);
    }
    return is_possible ? t->graph_pools[number].graph_pool : NULL;
}

bool trial_free(trial *t, const operation *op)
{
    trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    mend_stream stream;
    int thread;
    if (!block->live || !leave_block(t, op, block, &stream, &thread)) {
        return false;
    }
    mend_graph_pool *graph_pool = graph_pool_to_free_in(t, op, block, stream);
    if (graph_pool != NULL) {
        trial_call call = {.kind = CALL_FREE,
                           .graph_pool = graph_pool,
                           .stream = stream,
                           .pointer = pointer_of(block)};
        if (trial_call_pool(t, thread, &call) == MEND_OK) {
            trial_end_block(t, block);
        }
        return true;
    }
    if (free_on(t, thread, block, stream) && (op->amount & 8)) {
        free_again(t, block, stream);
    }
    return true;
}

bool trial_info(trial *t, const operation *op)
{
    const trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    mend_pool *pool = t->pools[block->pool].pool;
    if (!block->live) {
        return false;
    }
    const char *inside = (const char *)pointer_of(block) + block->size_bytes * op->amount / 256;
    const bool by_hooks = t->config.hooks && block->pool == 0 && op->stream % 2 == 0;
    const int device = op->stream % 4 == 0 ? 0 : MEND_ALL_DEVICES;
    mend_result result = by_hooks ? mend_device_block_info(device, inside, &info)
                                  : mend_get_block_info(pool, inside, &info);
    trial_claim(t, TRIAL_MODEL, info.scope == block->scope, "a block's scope is %u, and was %u",
                info.scope, block->scope);
    trial_claim(t, TRIAL_MODEL, block->sleep_tag == 0 || info.sleep_tag == block->sleep_tag,
                "a block has the sleep tag %llu, and was to have %llu", LLU(info.sleep_tag),
                LLU(block->sleep_tag));
    trial_claim(
        t, TRIAL_MODEL,
        result == MEND_OK && info.base == pointer_of(block) &&
            info.requested_bytes == block->requested_bytes &&
            (info.usable_bytes == block->size_bytes || (t->config.check & MEND_CHECK_GUARD) != 0) &&
            info.stream == block->allocated_on && info.pool == pool &&
            (info.is_unmapped != 0) == block->unmapped && (info.is_asleep != 0) == block->asleep &&
            (info.contents_dropped != 0) == block->dropped,
        "the pool describes a block otherwise than it was asked for: %s", mend_result_name(result));
    return true;
}
