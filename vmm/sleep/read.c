/* Reads what is kept of sleeping memory, while it sleeps. */
#include "sleep/sleep.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "move/move.h"

static mend_result not_there(uint64_t address, const char *why)
{
    return mend_failure(MEND_ERROR_INVALID_ARGUMENT, "mend_read_kept: the memory at 0x%llx %s",
                        (unsigned long long)address, why);
}

/* The piece that holds a byte of the chunk; NULL: it was not kept. */
static const mend_kept_piece *piece_at(const mend_kept *kept, uint64_t offset_bytes)
{
    for (size_t i = 0; i < kept->piece_count; i++) {
        const mend_kept_piece *piece = &kept->pieces[i];
        if (offset_bytes >= piece->offset_bytes &&
            offset_bytes - piece->offset_bytes < piece->size_bytes) {
            return piece;
        }
    }
    return NULL;
}

/* Copies as much as one piece has; *part_bytes says how much. */
static mend_result read_part(mend_heap *heap, uint64_t address, uint64_t size_bytes, void *host,
                             uint64_t *part_bytes)
{
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, address);
    if (chunk == NULL || !mend_chunk_sleeps(chunk)) {
        return not_there(address, "does not sleep");
    }
    const mend_kept *kept = chunk->kept;
    const mend_kept_piece *piece = piece_at(kept, address - chunk->address);
    if (piece == NULL) {
        return not_there(address, "was not kept");
    }
    const uint64_t inside = address - chunk->address - piece->offset_bytes;
    const uint64_t at = piece->at + inside;
    *part_bytes = mend_min_u64(size_bytes, piece->size_bytes - inside);
    if (piece->keep == MEND_KEEP_FILE) {
        return mend_sleep_file_read(heap, kept->file, host, *part_bytes, at);
    }
    mend_heap_unlock(heap);
    memcpy(host, (const unsigned char *)kept->host + at, (size_t)*part_bytes);
    mend_heap_lock(heap);
    return MEND_OK;
}

mend_result mend_sleep_read(mend_heap *heap, uint64_t address, uint64_t size_bytes, void *host)
{
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    mend_result result = MEND_OK;
    uint64_t done = 0;
    uint64_t part_bytes = 0;
    for (; done < size_bytes && result == MEND_OK; done += part_bytes) {
        result = read_part(heap, address + done, size_bytes - done, (unsigned char *)host + done,
                           &part_bytes);
    }
    return result;
}
