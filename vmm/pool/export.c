/* The calls that let other processes have memory: what a pointer names, and its export. */
#include "base/error.h"
#include "layout/layout.h"
#include "layout/ranges.h"
#include "mend/mend_share.h"
#include "pool/pool.h"
#include "users/users.h"

static mend_result find_block(mend_pool *pool, uint64_t address, mend_extent *what)
{
    if (mend_chunk_at(&pool->heap.chunks, address) == NULL) {
        return mend_failure(MEND_ERROR_FOREIGN_POINTER, "0x%llx is not memory of this pool",
                            (unsigned long long)address);
    }
    mend_span *span = mend_heap_block_at(&pool->heap, address);
    if (span == NULL) {
        return mend_failure(MEND_ERROR_DOUBLE_FREE, "0x%llx lies in free memory",
                            (unsigned long long)address);
    }
    *what = (mend_extent){.span = span, .address = span->address, .size_bytes = span->size_bytes};
    return MEND_OK;
}

/* Whether the pages are all committed. What is exported already must be one export that has all of
 * them. */
static mend_result check_pages(const mend_heap *heap, const mend_extent *pages)
{
    const mend_range *range = pages->range;
    bool any_exported = false;
    for (uint64_t at = pages->address; at < pages->address + pages->size_bytes;
         at += range->page_bytes) {
        const mend_span *page = range->pages[mend_range_page_of(range, at)];
        if (page == NULL) {
            return mend_failure(MEND_ERROR_DOUBLE_FREE,
                                "the page at 0x%llx is not committed, and is not exported",
                                (unsigned long long)at);
        }
        any_exported |= page->is_exported;
    }
    mend_extent found;
    const bool is_inside = any_exported && mend_exports_find(heap, pages->address, &found) &&
                           pages->address + pages->size_bytes <= found.address + found.size_bytes;
    return !any_exported || is_inside
               ? MEND_OK
               : mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                              "some of the pages at 0x%llx are exported already, with others or "
                              "without; a page is in one export",
                              (unsigned long long)pages->address);
}

static mend_result find_pages(const mend_heap *heap, mend_range *range, uint64_t address,
                              uint64_t size_bytes, mend_extent *what)
{
    if (size_bytes > mend_range_end(range) - address) {
        return mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                            "%llu bytes at 0x%llx are not in the range 0x%llx",
                            (unsigned long long)size_bytes, (unsigned long long)address,
                            (unsigned long long)range->address);
    }
    const uint64_t from = mend_range_page_start(range, mend_range_page_of(range, address));
    const size_t last = mend_range_page_of(range, address + size_bytes - 1);
    const uint64_t end = mend_range_page_start(range, last + 1);
    mend_extent pages = {.range = range, .address = from, .size_bytes = end - from};
    mend_result result = check_pages(heap, &pages);
    if (result == MEND_OK) {
        (void)mend_exports_find(heap, from, &pages);
        *what = pages;
    }
    return result;
}

/* What an export of `size_bytes` from the pointer on is of. Of a range one page at least:
 * `size_bytes` is 1 where the caller names a pointer alone. */
static mend_result find_extent(mend_pool *pool, const void *pointer, uint64_t size_bytes,
                               mend_extent *what)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    mend_range *range = mend_range_at(&pool->heap, address);
    return range != NULL ? find_pages(&pool->heap, range, address, size_bytes, what)
                         : find_block(pool, address, what);
}

static mend_result find_what(mend_pool *pool, const void *pointer, uint64_t size_bytes,
                             mend_extent *what)
{
    const bool is_page = mend_range_at(&pool->heap, (uint64_t)(uintptr_t)pointer) != NULL;
    return size_bytes > 0 && !is_page
               ? mend_failure(MEND_ERROR_FOREIGN_POINTER,
                              "%p lies in no range of this pool; a block is exported as a whole, "
                              "without size_bytes",
                              pointer)
               : find_extent(pool, pointer, size_bytes > 0 ? size_bytes : 1, what);
}

/* What lies there, and the size of its token; exports it if that fits. */
static mend_result export_it(mend_pool *pool, const mend_export_options *options,
                             const mend_extent *what, void *token, size_t capacity_bytes,
                             size_t *needed_bytes)
{
    const bool by_fabric = options->kind == MEND_EXPORT_FABRIC;
    *needed_bytes =
        by_fabric ? mend_exports_description_size(&pool->heap, what) : MEND_EXPORT_TOKEN_BYTES;
    if (*needed_bytes > capacity_bytes) {
        return MEND_OK;
    }
    return by_fabric ? mend_exports_describe(&pool->heap, what, token)
                     : mend_exports_add(&pool->heap, what, token);
}

mend_result mend_export(mend_pool *pool, const void *pointer, const mend_export_options *options,
                        void *token, size_t capacity_bytes, size_t *token_bytes,
                        uint64_t *offset_bytes)
{
    mend_export_options all = MEND_EXPORT_OPTIONS_INIT;
    if (pool == NULL || pointer == NULL ||
        (token == NULL && (capacity_bytes > 0 || token_bytes == NULL))) {
        return mend_pool_invalid("mend_export: pool, pointer or token is NULL");
    }
    mend_result result = mend_pool_read_struct(options, "mend_export_options", &all, sizeof(all));
    if (result == MEND_OK && all.kind != MEND_EXPORT_SOCKET && all.kind != MEND_EXPORT_FABRIC) {
        result = mend_pool_invalid("mend_export_options.kind is no mend_export_kind");
    }
    if (result == MEND_OK) {
        result = mend_pool_enter_all(pool);
    }
    if (result != MEND_OK) {
        return result;
    }
    mend_extent what = {.range = NULL};
    size_t needed_bytes = 0;
    result = find_what(pool, pointer, all.size_bytes, &what);
    if (result == MEND_OK) {
        result = export_it(pool, &all, &what, token, capacity_bytes, &needed_bytes);
    }
    if (result == MEND_OK && token_bytes == NULL && needed_bytes > capacity_bytes) {
        result = mend_failure(MEND_ERROR_INVALID_ARGUMENT,
                              "mend_export: the token has %llu bytes, and there is room for %llu",
                              (unsigned long long)needed_bytes, (unsigned long long)capacity_bytes);
    }
    if (result == MEND_OK && token_bytes != NULL) {
        *token_bytes = needed_bytes;
    }
    if (result == MEND_OK && offset_bytes != NULL) {
        *offset_bytes = (uint64_t)(uintptr_t)pointer - what.address;
    }
    return mend_pool_leave_all(pool, result);
}
