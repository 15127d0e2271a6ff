/* Pins: ranges of addresses whose mappings must stay as they are, because something outside of the
 * pool knows them: a network card, a collective library, another process. A pinned chunk keeps its
 * address and its physical memory, with live blocks or without. A pin is added under both locks, so
 * that no chunk is claimed or frozen. Exports pin their chunks themselves, so that a program does
 * not undo these pins. */

#include "pool/pool.h"
#include "share/share.h"

typedef struct pinned_range {
    mend_tree_node by_address;
    uint64_t address;
    uint64_t size_bytes;
    uint64_t count; /* of pins that were not undone */
} pinned_range;

#define RANGE_OF(node) MEND_CONTAINER_OR_NULL(node, pinned_range, by_address)

MEND_TREE_ORDER_BY_TWO(compare_ranges, pinned_range, by_address, address, size_bytes);

void mend_pins_init(mend_heap *heap)
{
    mend_tree_init(&heap->pins.ranges, compare_ranges);
    mend_slab_init(&heap->pins.nodes, sizeof(pinned_range));
}

static pinned_range *find(const mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    pinned_range key = {.address = address, .size_bytes = size_bytes};
    pinned_range *range = RANGE_OF(mend_tree_at_or_after(&heap->pins.ranges, &key.by_address));
    return range != NULL && range->address == address && range->size_bytes == size_bytes ? range
                                                                                         : NULL;
}

static mend_result add(mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    const uint64_t end = address + size_bytes;
    assert(mend_mutex_is_held(&heap->grow));
    assert(end > address);
    uint64_t mapped_end = address;
    MEND_CHUNKS_EACH(const mend_chunk, chunk, heap, address, end) {
        const bool is_next = chunk->address <= mapped_end;
        mapped_end = is_next ? chunk->address + chunk->size_bytes : mapped_end;
    }
    if (mapped_end < end) {
        const mend_span *block = mend_heap_block_at(heap, address);
        if (block != NULL && block->chunk == NULL && end <= mend_span_end(block)) {
            return mend_failure(MEND_ERROR_NOT_SUPPORTED,
                                "the block at 0x%lx is passed through to the driver, and is where "
                                "it is without a pin",
                                block->address);
        }
        return mend_failure(MEND_ERROR_FOREIGN_POINTER,
                            "0x%lx to 0x%lx is not all mapped memory of this pool", address, end);
    }
    MEND_TRY(mend_heap_check_awake(heap, address, size_bytes, "mend_pin"));
    pinned_range *range = find(heap, address, size_bytes);
    if (range == NULL) {
        if (!mend_slab_reserve(&heap->pins.nodes, 1)) {
            return mend_no_host_memory("a pin");
        }
        range = mend_slab_take(&heap->pins.nodes);
        range->address = address;
        range->size_bytes = size_bytes;
        mend_tree_insert(&heap->pins.ranges, &range->by_address);
    }
    range->count++;
    MEND_CHUNKS_EACH(mend_chunk, chunk, heap, address, end) {
        mend_chunk_pin(&heap->chunks, chunk);
    }
    mend_events_note(&heap->events, MEND_EVENT_PIN, address, size_bytes, 0);
    return MEND_OK;
}

static mend_result remove_pin(mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    assert(mend_mutex_is_held(&heap->state));
    pinned_range *range = find(heap, address, size_bytes);
    if (range == NULL) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "no pin of %lu bytes at 0x%lx is left to undo", size_bytes, address);
    }
    MEND_CHUNKS_EACH(mend_chunk, chunk, heap, address, address + size_bytes) {
        mend_chunk_unpin(&heap->chunks, chunk);
    }
    mend_events_note(&heap->events, MEND_EVENT_UNPIN, address, size_bytes, 0);
    if (--range->count == 0) {
        mend_tree_remove(&heap->pins.ranges, &range->by_address);
        mend_slab_give(&heap->pins.nodes, range);
    }
    return MEND_OK;
}

/* Blocks in one chunk are not looked for in a chunk without pins: the validation of spans finds one
 * that does not pin it. */
uint64_t mend_pins_of(const mend_heap *heap, const mend_chunk *chunk)
{
    uint64_t pins = 0;
    const uint64_t end = chunk->address + chunk->size_bytes;
    const bool may_hold = chunk->address != 0 && chunk->pins > 0;
    const mend_span *span = may_hold ? mend_heap_span_at(heap, chunk->address) : NULL;
    for (; span != NULL && span->address < end; span = span->next) {
        pins += span->in_one_chunk && span->chunk == chunk;
    }
    MEND_TREE_EACH(const pinned_range, range, by_address, &heap->pins.ranges) {
        bool covers = chunk->address != 0 && range->address < end &&
                      chunk->address < range->address + range->size_bytes;
        pins += covers ? range->count : 0;
    }
    return pins;
}

/* ---- the calls ------------------------------------------------------------------------------- */

static mend_result change(mend_pool *pool, const void *pointer, uint64_t size_bytes,
                          mend_result (*change_pins)(mend_heap *, uint64_t, uint64_t),
                          const char *mistake)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    MEND_INVALID_IF(pool == NULL || pointer == NULL || size_bytes == 0 ||
                        size_bytes > UINT64_MAX - address,
                    mistake);
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(pool, change_pins(&pool->heap, address, size_bytes));
}

mend_result mend_pin(mend_pool *pool, const void *pointer, uint64_t size_bytes)
{
    return change(pool, pointer, size_bytes, add,
                  "mend_pin: pool or pointer is NULL, size_bytes is 0 or too large");
}

mend_result mend_unpin(mend_pool *pool, const void *pointer, uint64_t size_bytes)
{
    return change(pool, pointer, size_bytes, remove_pin,
                  "mend_unpin: pool or pointer is NULL, size_bytes is 0 or too large");
}
