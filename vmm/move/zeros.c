/*
 * Pages of ranges that read as zeros (layout/ranges.h). The chunks of zeros are created in the
 * limit for pages of a size, mapped at pages, and released when nothing maps them any more. The
 * driver unmaps nothing that work may use, and the pool does not know which work reads zeros: so
 * the host waits for the context before it unmaps them, but for those of a destroyed range, which
 * go when that is so anyway.
 */
#include "move/ranges.h"

#include <stdlib.h>

#include "move/move.h"

#define OWED_RANGE_OF(at) MEND_CONTAINER_OF(at, mend_range, owed)

/* ---- the chunks of zeros --------------------------------------------------------------------- */

/* The chunk for pages of this size; NULL: there is none. */
static mend_chunk_of_zeros *find_chunk(const mend_heap *heap, uint64_t page_bytes)
{
    mend_chunk_of_zeros *chunk = heap->zeros.first;
    while (chunk != NULL && chunk->size_bytes != page_bytes) {
        chunk = chunk->next;
    }
    return chunk;
}

/* Whether a range before this one waits for the same chunk. */
static bool is_counted(const mend_heap *heap, const mend_owed *owed)
{
    const mend_owed *at = mend_owed_from(&heap->chunks.owing, MEND_OWED_ZEROS, 0);
    while (at != owed && OWED_RANGE_OF(at)->page_bytes != OWED_RANGE_OF(owed)->page_bytes) {
        at = mend_owed_next(at);
    }
    return at != owed;
}

/* A range without its chunk has no extra pages, but lost ones. */
uint64_t mend_zeros_owed_bytes(const mend_heap *heap)
{
    uint64_t bytes = 0;
    for (const mend_owed *at = mend_owed_from(&heap->chunks.owing, MEND_OWED_ZEROS, 0); at != NULL;
         at = mend_owed_next(at)) {
        const uint64_t page_bytes = OWED_RANGE_OF(at)->page_bytes;
        const bool lacks_chunk = find_chunk(heap, page_bytes) == NULL;
        bytes += lacks_chunk && !is_counted(heap, at) ? page_bytes : 0;
    }
    return bytes;
}

static void note_mappings(mend_heap *heap, mend_chunk_of_zeros *chunk, uint64_t count)
{
    chunk->mappings = count;
    mend_owe(&heap->chunks.owing, &chunk->owed,
             count == 0 ? MEND_OWED_ZEROS_CHUNK : MEND_OWED_NOTHING, chunk->size_bytes);
}

/* Why memory stayed mapped: what the steps noted that went on in spite of it. MEND_OK: nothing
 * failed. The caller has set mend_process_failure()->result to MEND_OK before these steps. */
static mend_result why_not_unmapped(mend_heap *heap)
{
    if (heap->retire.lacked_nodes) {
        return mend_no_host_memory("pages of zeros");
    }
    const mend_status refused = heap->retire.refused; /* counted already */
    if (refused == MEND_DRIVER_OK) {
        return mend_process_failure()->result;
    }
    return mend_refused(heap->driver, mend_status_result(refused), MEND_CALL_unmap, refused,
                        "%s failed", mend_driver_call_name(MEND_CALL_unmap));
}

/* Gives free memory back for a page, if that is enough. */
static mend_result make_room(mend_heap *heap, uint64_t size_bytes, int refusals)
{
    mend_lack lack;
    mend_process_failure()->result = MEND_OK;
    MEND_TRY(mend_trim_to_create(heap, size_bytes, refusals, &lack));
    if (!mend_lacks_any(lack)) {
        return MEND_OK;
    }
    MEND_TRY(why_not_unmapped(heap));
    const bool is_limit = lack.limit_bytes > 0;
    return mend_failure(MEND_ERROR_OUT_OF_MEMORY,
                        "mend_range_map_zeros: a page takes %llu bytes, and %s lacks %llu",
                        (unsigned long long)size_bytes, is_limit ? "the limit" : "the device",
                        (unsigned long long)(is_limit ? lack.limit_bytes : lack.device_bytes));
}

/* Creates the memory. What is kept for compactions is room, too. */
static mend_result create(mend_heap *heap, uint64_t size_bytes, mend_chunk_handle *handle)
{
    const mend_driver *driver = heap->driver;
    mend_chunk_properties properties = heap->chunks.properties;
    properties.share_types = MEND_SHARE_NONE;
    mend_result result = MEND_OK;
    if (heap->chunks.reserved_bytes + size_bytes > mend_budget_limit_of_chunks(heap)) {
        result = make_room(heap, size_bytes, 0);
    }
    for (int refusals = 1; result == MEND_OK; refusals++) {
        result = mend_driver_result(
            heap, MEND_ANSWER(create, driver->create(driver, size_bytes, &properties, handle)));
        if (result != MEND_ERROR_OUT_OF_MEMORY) {
            return result;
        }
        result = make_room(heap, size_bytes, refusals);
    }
    return result;
}

static void forget(mend_heap *heap, mend_chunk_of_zeros *chunk)
{
    mend_chunk_of_zeros **link = &heap->zeros.first;
    while (*link != chunk) {
        link = &(*link)->next;
    }
    *link = chunk->next;
    mend_owe(&heap->chunks.owing, &chunk->owed, MEND_OWED_NOTHING, 0);
    free(chunk);
}

/* One that the present call created and releases was never there. */
void mend_zeros_release(mend_heap *heap, mend_chunk_of_zeros *chunk)
{
    const uint64_t size_bytes = chunk->size_bytes;
    assert(chunk->mappings == 0);
    if (!mend_driver_did(heap, heap->driver->release(heap->driver, chunk->handle))) {
        chunk->is_new = false;
        return;
    }
    heap->zeros.bytes -= size_bytes;
    heap->zeros.count--;
    mend_chunks_note_released(&heap->chunks, size_bytes, 0, chunk->is_new);
    mend_attainable_forget(heap);
    forget(heap, chunk);
}

/* Whether a page of that size is to read as zeros, and does not. */
static bool is_lacked(const mend_heap *heap, const mend_chunk_of_zeros *chunk)
{
    const mend_owed *at = mend_owed_from(&heap->chunks.owing, MEND_OWED_ZEROS, 0);
    while (at != NULL && OWED_RANGE_OF(at)->page_bytes != chunk->size_bytes) {
        at = mend_owed_next(at);
    }
    return at != NULL;
}

/* The end of each call that may create chunks, or unmap. `keeps_lacked`: not what pages of another
 * range, or of a commit under way, are to have back: it would be created again. */
static void release_unused(mend_heap *heap, bool keeps_lacked)
{
    for (mend_chunk_of_zeros *chunk = heap->zeros.first, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        if (chunk->mappings == 0 && !(keeps_lacked && is_lacked(heap, chunk))) {
            mend_zeros_release(heap, chunk);
        } else {
            chunk->is_new = false;
        }
    }
}

static mend_result create_chunk(mend_heap *heap, uint64_t page_bytes, mend_chunk_of_zeros **chunk)
{
    mend_chunk_of_zeros *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return mend_no_host_memory("pages of zeros");
    }
    const mend_result result = create(heap, page_bytes, &made->handle);
    if (result != MEND_OK) {
        free(made);
        return result;
    }
    made->size_bytes = page_bytes;
    made->is_new = true;
    made->next = heap->zeros.first;
    heap->zeros.first = made;
    note_mappings(heap, made, 0);
    heap->zeros.bytes += page_bytes;
    heap->zeros.count++;
    mend_chunks_note_created(&heap->chunks, page_bytes, 0);
    *chunk = made;
    return MEND_OK;
}

void mend_zeros_clear(mend_heap *heap)
{
    while (heap->zeros.first != NULL) {
        forget(heap, heap->zeros.first);
    }
}

/* ---- single pages ---------------------------------------------------------------------------- */

/* What one call maps. */
typedef struct zeros_call {
    mend_heap *heap;
    mend_range *range;
    size_t first;
    size_t end; /* pages */
} zeros_call;

static zeros_call call_of(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end)
{
    return (zeros_call){.heap = heap,
                        .range = range,
                        .first = (size_t)((from - range->address) / range->page_bytes),
                        .end = (size_t)((end - range->address) / range->page_bytes)};
}

/* Whether the page is to read as zeros by this call, and does not. */
static bool is_missing(const mend_range *range, size_t page)
{
    return range->pages[page] == NULL && mend_zeros_of(range, page) != MEND_ZEROS_ALL;
}

/* Whether nothing is mapped at the page; zeros do not count. */
static bool has_addresses(const mend_heap *heap, const mend_range *range, size_t page)
{
    return mend_zeros_are_mapped(range, page) ||
           mend_space_free_from(&heap->range_space, mend_range_page_start(range, page)) >=
               range->page_bytes;
}

static mend_status map_page(mend_heap *heap, mend_range *range, size_t page)
{
    const mend_driver *driver = heap->driver;
    const uint64_t address = mend_range_page_start(range, page);
    mend_chunk_of_zeros *chunk = find_chunk(heap, range->page_bytes);
    mend_status status = driver->map(driver, address, range->page_bytes, 0, chunk->handle);
    if (status == MEND_DRIVER_OK) {
        note_mappings(heap, chunk, chunk->mappings + 1);
        mend_space_take(&heap->range_space, address, range->page_bytes);
        mend_zeros_set(heap, range, page, mend_zeros_of(range, page) | MEND_ZEROS_MAPPED);
    }
    return status;
}

/* Unmaps the zeros of `count` neighbours with one call; the caller reserved nodes. */
static mend_status unmap_pages(mend_heap *heap, mend_range *range, size_t page, size_t count)
{
    const mend_driver *driver = heap->driver;
    const uint64_t address = mend_range_page_start(range, page);
    const uint64_t size_bytes = count * range->page_bytes;
    mend_status status = driver->unmap(driver, address, size_bytes);
    if (status == MEND_DRIVER_OK) {
        mend_chunk_of_zeros *chunk = find_chunk(heap, range->page_bytes);
        note_mappings(heap, chunk, chunk->mappings - count);
        mend_space_give(&heap->range_space, address, size_bytes);
        for (size_t i = page; i < page + count; i++) {
            mend_zeros_set(heap, range, i, mend_zeros_of(range, i) & MEND_ZEROS_WANTED);
        }
    }
    return status;
}

static mend_status allow_pages(mend_heap *heap, const mend_range *range, size_t page, size_t count,
                               mend_access access)
{
    return mend_step_allow_to(heap, mend_range_page_start(range, page), count * range->page_bytes,
                              heap->allowed.devices, heap->allowed.count, access);
}

/* ---- zeros at pages -------------------------------------------------------------------------- */

static bool all_have_addresses(const zeros_call *c)
{
    bool all = true;
    for (size_t i = c->first; i < c->end && all; i++) {
        all = !is_missing(c->range, i) || has_addresses(c->heap, c->range, i);
    }
    return all;
}

/* Takes free memory of the pool, and old mappings of it, away from the pages. */
static mend_result clear_addresses(const zeros_call *c)
{
    mend_heap *heap = c->heap;
    if (all_have_addresses(c)) {
        return MEND_OK;
    }
    MEND_TRY(mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN));
    mend_process_failure()->result = MEND_OK;
    mend_result result =
        mend_trim_between(heap, mend_range_page_start(c->range, c->first),
                          mend_range_page_start(c->range, c->end), MEND_STREAM_UNKNOWN);
    if (result != MEND_OK || all_have_addresses(c)) {
        return result;
    }
    MEND_TRY(why_not_unmapped(heap));
    return mend_failure(MEND_ERROR_PINNED, "mend_range_map_zeros: pinned free memory is mapped at "
                                           "a page; undo its pins (mend_unpin)");
}

/* Fills the chunk through a page, before the program may read there. */
static mend_result fill(const zeros_call *c, mend_chunk_of_zeros *chunk, size_t page)
{
    mend_heap *heap = c->heap;
    const mend_driver *driver = heap->driver;
    if (!mend_space_reserve_nodes(&heap->range_space, 1)) { /* trims have used some */
        return mend_no_host_memory("pages of zeros");
    }
    if (!mend_zeros_are_mapped(c->range, page)) {
        mend_status status = map_page(heap, c->range, page);
        MEND_TRY(mend_driver_result(heap, MEND_ANSWER(map, status)));
    }
    mend_status status = allow_pages(heap, c->range, page, 1, MEND_ACCESS_READ_WRITE);
    MEND_TRY(mend_driver_result(heap, MEND_ANSWER(set_access, status)));
    mend_answer answer =
        MEND_ANSWER(fill, driver->fill(driver, mend_range_page_start(c->range, page), 0,
                                       c->range->page_bytes, NULL));
    if (answer.status == MEND_DRIVER_OK) {
        answer = MEND_ANSWER(context_synchronize, driver->context_synchronize(driver));
        if (answer.status !=
            MEND_DRIVER_OK) { /* the page is unmapped next, which the fill still uses */
            (void)mend_step_end_copies(heap, NULL);
        }
    }
    chunk->is_filled = answer.status == MEND_DRIVER_OK;
    return mend_driver_result(heap, answer);
}

/* The chunk of zeros, filled. The wait for the context is for what is filled, and makes free memory
 * idle. */
static mend_result prepare_chunk(const zeros_call *c, size_t page)
{
    mend_heap *heap = c->heap;
    mend_chunk_of_zeros *chunk = find_chunk(heap, c->range->page_bytes);
    if (chunk != NULL && chunk->is_filled) {
        return MEND_OK;
    }
    MEND_TRY(mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN));
    (void)mend_zeros_end_closed(heap, MEND_STREAM_UNKNOWN);
    chunk = find_chunk(heap, c->range->page_bytes);
    if (chunk == NULL) {
        MEND_TRY(create_chunk(heap, c->range->page_bytes, &chunk));
    }
    return fill(c, chunk, page);
}

/* Maps the neighbours from `page` to `end`, which have addresses, and lets the devices read. */
static mend_result make_readable(const zeros_call *c, size_t page, size_t end)
{
    mend_heap *heap = c->heap;
    mend_status status = MEND_DRIVER_OK;
    MEND_TRY(prepare_chunk(c, page));
    if (!mend_space_reserve_nodes(&heap->range_space, end - page)) {
        return mend_no_host_memory("pages of zeros");
    }
    for (size_t i = page; i < end && status == MEND_DRIVER_OK; i++) {
        status = mend_zeros_are_mapped(c->range, i) ? MEND_DRIVER_OK : map_page(heap, c->range, i);
    }
    MEND_TRY(mend_driver_result(heap, MEND_ANSWER(map, status)));
    status = allow_pages(heap, c->range, page, end - page, MEND_ACCESS_READ);
    MEND_TRY(mend_driver_result(heap, MEND_ANSWER(set_access, status)));
    for (size_t i = page; i < end; i++) {
        mend_zeros_set(heap, c->range, i, mend_zeros_of(c->range, i) | MEND_ZEROS_READABLE);
    }
    return MEND_OK;
}

/* Unmaps zeros from `page` to `end` that the program is not to read. What the driver refuses stays
 * extra, and so does all while a fill may run whose end could not be waited for. */
static void drop_extra(mend_heap *heap, mend_range *range, size_t page, size_t end)
{
    if (!mend_step_copies_have_ended(heap)) {
        return;
    }
    size_t count;
    while ((page = mend_zeros_next(range, page, end, MEND_ZEROS_MAPPED | MEND_ZEROS_WANTED,
                                   &count)) < end) {
        if (mend_space_reserve_nodes(&heap->range_space, 1)) {
            (void)mend_driver_did(heap, unmap_pages(heap, range, page, count));
        }
        page += count;
    }
}

/* What else is mapped at the pages goes first. Then stretch after stretch is mapped and made
 * readable; the first of all has the chunk of zeros created and filled. Only when all pages are
 * readable the program is to read there: after a failure those that it was not to read before are
 * unmapped. */
mend_result mend_zeros_map(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end)
{
    assert(mend_mutex_is_held(&heap->grow) && mend_mutex_is_held(&heap->state));
    const zeros_call c = call_of(heap, range, from, end);
    if (range->zeros == NULL) {
        range->zeros = calloc((size_t)(range->size_bytes / range->page_bytes), 1);
    }
    if (range->zeros == NULL) {
        return mend_no_host_memory("pages of zeros");
    }
    mend_result result = clear_addresses(&c);
    for (size_t page = c.first; page < c.end && result == MEND_OK;) {
        size_t stop = page;
        while (stop < c.end && is_missing(range, stop) && has_addresses(heap, range, stop)) {
            stop++;
        }
        result = stop > page ? make_readable(&c, page, stop) : MEND_OK;
        page = stop + 1;
    }
    for (size_t page = c.first; page < c.end && result == MEND_OK; page++) {
        if ((mend_zeros_of(range, page) & MEND_ZEROS_READABLE) != 0) {
            mend_zeros_set(heap, range, page, MEND_ZEROS_ALL);
        }
    }
    if (result == MEND_OK) {
        mend_layout_note_peaks(heap, false);
    } else {
        drop_extra(heap, range, c.first, c.end);
    }
    release_unused(heap, false);
    return result;
}

/* ---- the end of zeros ------------------------------------------------------------------------ */

mend_result mend_zeros_leave(mend_heap *heap, mend_range *range, uint64_t from, uint64_t end,
                             uint32_t asking)
{
    const zeros_call c = call_of(heap, range, from, end);
    size_t count;
    size_t page = mend_zeros_next(range, c.first, c.end, MEND_ZEROS_MAPPED, &count);
    if (page == c.end) {
        return MEND_OK;
    }
    MEND_TRY(mend_streams_wait_context(&heap->streams, asking));
    for (; page < c.end; page = mend_zeros_next(range, page, c.end, MEND_ZEROS_MAPPED, &count)) {
        if (!mend_space_reserve_nodes(&heap->range_space, 1)) {
            return mend_no_host_memory("pages of zeros");
        }
        mend_status status = unmap_pages(heap, range, page, count);
        MEND_TRY(mend_driver_result(heap, MEND_ANSWER(unmap, status)));
    }
    return MEND_OK;
}

static bool restore(mend_heap *heap, mend_range *range, size_t page, bool may_wait)
{
    const zeros_call c = {heap, range, page, page + 1};
    if (!may_wait && !all_have_addresses(&c)) {
        return false;
    }
    const bool is_restored =
        clear_addresses(&c) == MEND_OK && make_readable(&c, page, page + 1) == MEND_OK;
    mend_layout_note_peaks(heap, false);
    return is_restored;
}

void mend_zeros_settle(mend_heap *heap, mend_range *range, bool may_wait)
{
    const size_t pages = (size_t)(range->size_bytes / range->page_bytes);
    bool goes_on = true;
    assert(!range->is_closed);
    drop_extra(heap, range, 0, pages);
    for (size_t page = 0; page < pages && goes_on; page++) {
        const unsigned bits = mend_zeros_of(range, page);
        const bool is_lost = (bits & MEND_ZEROS_WANTED) != 0 && bits != MEND_ZEROS_ALL;
        goes_on = !is_lost || restore(heap, range, page, may_wait);
    }
    release_unused(heap, goes_on);
}

void mend_zeros_close(mend_heap *heap, mend_range *range)
{
    const size_t pages = (size_t)(range->size_bytes / range->page_bytes);
    assert(range->is_closed);
    range->zeros_unsettled = 0;
    for (size_t page = 0; page < pages && range->zeros != NULL; page++) {
        mend_zeros_set(heap, range, page, mend_zeros_of(range, page) & MEND_ZEROS_MAPPED);
    }
    if (range->zeros_mapped > 0) {
        range->zeros_stamp = mend_streams_stamp(&heap->streams, MEND_STREAM_UNKNOWN, 0);
    }
}

bool mend_zeros_end(mend_heap *heap, mend_range *range)
{
    bool is_captured = false;
    assert(range->is_closed);
    if (range->zeros_mapped == 0) {
        return true;
    }
    if (!mend_stamp_has_passed(&heap->streams, range->zeros_stamp) ||
        mend_streams_find_capture(&heap->streams, MEND_STREAM_UNKNOWN, &is_captured) != MEND_OK ||
        is_captured) {
        return false;
    }
    drop_extra(heap, range, 0, (size_t)(range->size_bytes / range->page_bytes));
    release_unused(heap, true);
    return range->zeros_mapped == 0;
}

bool mend_zeros_end_closed(mend_heap *heap, uint32_t stream)
{
    const mend_owing *owing = &heap->chunks.owing;
    mend_owed *at = mend_owed_from(owing, MEND_OWED_RANGE, 0);
    while (at != NULL && OWED_RANGE_OF(at)->zeros_mapped == 0) {
        at = mend_owed_next(at);
    }
    if (at == NULL || mend_streams_wait_context(&heap->streams, stream) != MEND_OK) {
        return false;
    }
    for (at = mend_owed_from(owing, MEND_OWED_RANGE, 0); at != NULL; at = mend_owed_next(at)) {
        (void)mend_zeros_end(heap, OWED_RANGE_OF(at));
    }
    return true;
}

mend_status mend_zeros_allow(mend_heap *heap, int device)
{
    MEND_TREE_EACH(const mend_range, range, by_address, &heap->ranges.by_address) {
        const size_t pages = (size_t)(range->size_bytes / range->page_bytes);
        size_t count = 0;
        size_t page = range->zeros_mapped == 0 ? pages : 0;
        while ((page = mend_zeros_next(range, page, pages, MEND_ZEROS_MAPPED, &count)) < pages) {
            MEND_TRY_CALL(mend_step_allow_to(heap, mend_range_page_start(range, page),
                                             count * range->page_bytes, &device, 1,
                                             MEND_ACCESS_READ));
            page += count;
        }
    }
    return MEND_DRIVER_OK;
}
