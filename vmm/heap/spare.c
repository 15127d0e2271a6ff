#include "heap/spare.h"

#include "heap/attainable.h"
#include "heap/scarcity.h"

/* So much more than was live at most may be reserved to spare moves: at any time, and once the
 * moves of this window are worth it. */
enum { SPARE_PERCENT = 4, MOST_SPARE_PERCENT = 50 };

/* So much of the limit is never spent on it. */
enum { KEPT_PERCENT = 2 };

/* Moving a chunk (to map it, allow access and unmap it) costs the driver about as much as creating
 * so many bytes (docs/formats/costs.md). */
#define BYTES_WORTH_A_MOVE (32 * MEND_MIB)

/* A window lasts until so many times what is reserved was allocated. Moves that are rarer than that
 * are no reason to create anything. */
enum { RESERVES_OF_WINDOW = 64 };

void mend_spare_note_request(mend_heap *heap, uint64_t size_bytes)
{
    mend_spare *spare = &heap->spare;
    uint64_t live = heap->counters.live_bytes + size_bytes;
    uint64_t allocated = MEND_HEAP_SUM(heap, allocated_bytes);
    if (live <= heap->config.limit_bytes) { /* what asks for more than that tries its luck */
        spare->most_live_bytes = mend_max_u64(spare->most_live_bytes, live);
    }
    if ((allocated - spare->window_start_bytes) / RESERVES_OF_WINDOW >
        heap->chunks.reserved_bytes) {
        spare->window_start_bytes = allocated;
        spare->moved_chunks = 0;
        spare->was_refused = false;
    }
}

void mend_spare_note_moves(mend_heap *heap, uint64_t chunk_count)
{
    heap->spare.moved_chunks += chunk_count;
}

/* The last of the limit is left to requests that lack memory. */
static bool leaves_enough(const mend_heap *heap, uint64_t create_bytes)
{
    uint64_t kept = mend_attainable_limit(heap) / 100 * KEPT_PERCENT;
    return mend_heap_room_bytes(heap) >= create_bytes + kept;
}

bool mend_spare_allows(const mend_heap *heap, uint64_t create_bytes)
{
    const mend_spare *spare = &heap->spare;
    uint64_t wanted = heap->chunks.reserved_bytes + create_bytes;
    uint64_t live = spare->most_live_bytes;
    if (spare->was_refused || !leaves_enough(heap, create_bytes) ||
        mend_heap_scarcity(heap) == MEND_TIGHT) {
        return false;
    }
    bool is_paid = mend_heap_is_roomy(heap) && spare->moved_chunks * BYTES_WORTH_A_MOVE >= wanted;
    return wanted <= live + live / 100 * (is_paid ? MOST_SPARE_PERCENT : SPARE_PERCENT);
}

void mend_spare_note_creation(mend_heap *heap)
{
    mend_spare *spare = &heap->spare;
    uint64_t live = spare->most_live_bytes;
    if (heap->chunks.reserved_bytes > live + live / 100 * SPARE_PERCENT) {
        spare->moved_chunks = 0; /* spent */
    }
}

void mend_spare_note_refusal(mend_heap *heap)
{
    heap->spare.was_refused = true;
}

void mend_spare_forget(mend_heap *heap)
{
    heap->spare.most_live_bytes = heap->counters.live_bytes;
}
