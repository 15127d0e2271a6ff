/* Reads the backup of sleeping memory, while it sleeps. */
#include "sleep/sleep.h"

#include <string.h>

static mend_result not_there(uint64_t address, const char *why)
{
    return mend_failure(MEND_ERROR_INVALID_ARGUMENT, "mend_read_backup: the memory at 0x%llx %s",
                        (unsigned long long)address, why);
}

/* The backup of the memory at an address, or the copy that a wake left. */
static mend_result get_backup(mend_heap *heap, uint64_t address, const mend_contents **kept)
{
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, address);
    if (chunk == NULL || mend_chunk_sleeps(chunk)) {
        *kept = chunk != NULL ? chunk->kept : NULL;
        return chunk != NULL ? MEND_OK : not_there(address, "is not of the pool");
    }
    const mend_span *span = mend_heap_span_at(heap, address);
    *kept = span != NULL && span->live && span->has_copy ? mend_copy_at(heap, address) : NULL;
    return *kept != NULL ? MEND_OK : not_there(address, "does not sleep, and has no copy");
}

/* How many of these awake bytes are of blocks with a copy: behind a block may be another one that
 * never slept. */
static uint64_t copied_bytes(const mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    const uint64_t end = address + size_bytes;
    uint64_t at = address;
    const mend_span *span = mend_heap_span_at(heap, address);
    while (span != NULL && at < end && span->address <= at && span->live && span->has_copy) {
        at = span->address + span->size_bytes;
        span = span->next;
    }
    return mend_min_u64(at, end) - address;
}

/* Finds as much as one piece has. *part_bytes says how much, and `at` where in the host's memory or
 * the file. */
static mend_result find_part(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                             const mend_contents **kept, const mend_kept_piece **piece,
                             uint64_t *at, uint64_t *part_bytes)
{
    MEND_TRY(get_backup(heap, address, kept));
    const uint64_t offset_bytes = address - (*kept)->address;
    *piece = mend_keep_piece_of(*kept, offset_bytes, 1);
    if (*piece == NULL || ((*piece)->backup == MEND_BACKUP_FILE && (*kept)->file == NULL)) {
        return not_there(address, "was not kept");
    }
    const uint64_t inside = offset_bytes - (*piece)->offset_bytes;
    *at = (*piece)->at + inside;
    *part_bytes = mend_min_u64(size_bytes, (*piece)->size_bytes - inside);
    const mend_chunk *chunk = mend_chunk_at(&heap->chunks, address);
    if (!mend_chunk_sleeps(chunk)) {
        *part_bytes = copied_bytes(heap, address, *part_bytes);
    }
    return MEND_OK;
}

static mend_result read_part(mend_heap *heap, uint64_t address, uint64_t size_bytes, void *host,
                             uint64_t *part_bytes)
{
    const mend_contents *kept;
    const mend_kept_piece *piece;
    uint64_t at = 0;
    MEND_TRY(find_part(heap, address, size_bytes, &kept, &piece, &at, part_bytes));
    if (piece->backup == MEND_BACKUP_FILE) {
        return mend_sleep_file_pass(heap, kept->file, NULL, host, *part_bytes, at);
    }
    mend_heap_unlock(heap);
    memcpy(host, (const unsigned char *)kept->host + at, (size_t)*part_bytes);
    mend_heap_lock(heap);
    return MEND_OK;
}

mend_result mend_sleep_find(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                            const void **host)
{
    const mend_contents *kept;
    const mend_kept_piece *piece;
    uint64_t at = 0;
    uint64_t part_bytes = 0;
    MEND_TRY(find_part(heap, address, size_bytes, &kept, &piece, &at, &part_bytes));
    if (piece->backup == MEND_BACKUP_FILE || part_bytes < size_bytes) {
        return mend_failure(MEND_ERROR_NOT_SUPPORTED,
                            "mend_read_backup: what is kept of the memory at 0x%llx is %s",
                            (unsigned long long)address,
                            piece->backup == MEND_BACKUP_FILE ? "in a file" : "in several places");
    }
    *host = (const unsigned char *)kept->host + at;
    return MEND_OK;
}

mend_result mend_sleep_read(mend_heap *heap, uint64_t address, uint64_t size_bytes, void *host)
{
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    uint64_t part_bytes = 0;
    for (uint64_t seen = 0; seen < size_bytes; seen += part_bytes) { /* before `host` is written */
        const mend_contents *kept;
        const mend_kept_piece *piece;
        uint64_t at;
        MEND_TRY(
            find_part(heap, address + seen, size_bytes - seen, &kept, &piece, &at, &part_bytes));
    }
    for (uint64_t done = 0; done < size_bytes; done += part_bytes) {
        MEND_TRY(read_part(heap, address + done, size_bytes - done, (unsigned char *)host + done,
                           &part_bytes));
    }
    return MEND_OK;
}
