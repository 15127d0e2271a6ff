/* The calls about blocks and streams: each checks its arguments, takes the lock that it needs, and
 * calls the heap. */
#include "alloc/fast.h"
#include "base/align.h"
#include "base/words.h"
#include "pool/pool.h"

static bool is_no_stream(mend_stream stream)
{
    return stream == MEND_NO_STREAM || stream == MEND_EVERY_STREAM;
}

__attribute__((noinline)) static mend_result check_block(mend_pool *pool, bool is_new,
                                                         uint64_t address, mend_order order)
{
    /* A check waits for the stream, and the driver knows none like this. */
    MEND_INVALID_IF(order.stream == MEND_EVERY_STREAM,
                    "mend_free: MEND_EVERY_STREAM is for mend_graph_pool_begin");
    mend_result result = MEND_OK;
    MEND_FEATURES_TRY(result, check, pool, is_new, address, order);
    return result;
}

/* The allocations that the front cache does not serve. They may take long or fail, so they are
 * logged. */
__attribute__((noinline)) static mend_result alloc_by_all_means(mend_pool *pool,
                                                                uint64_t size_bytes,
                                                                const mend_request *terms,
                                                                mend_order order, void **pointer)
{
    uint64_t waits_before = pool->heap.streams.host_waits;
    bool had_fabric = pool->heap.chunks.fabric_refusal == MEND_DRIVER_OK;
    uint64_t address = 0;
    mend_result result = mend_heap_alloc(&pool->heap, size_bytes, terms, order, &address);
    assert((result == MEND_OK) == (address != 0));
    if (result == MEND_OK && pool->checks != NULL) {
        result = check_block(pool, true, address, order);
    }
    if (result == MEND_OK) {
        *pointer = (void *)(uintptr_t)address;
    }
    uint64_t waits = pool->heap.streams.host_waits - waits_before;
    mend_status refusal = pool->heap.chunks.fabric_refusal;
    result = mend_pool_leave(pool, result);
    mend_pool_tell_lost_limit(pool);
    if (had_fabric && refusal != MEND_DRIVER_OK) {
        mend_warn("device %d: the driver refuses memory with fabric handles (%s), so "
                  "the pool goes on without: an IMEX channel may be missing",
                  pool->device, pool->driver->status_name(pool->driver, refusal));
    }
    if (waits > 0) {
        mend_log(MEND_LOG_INFO,
                 "%s on device %d: the CPU waited for the GPU %llu times to find memory",
                 mend_words_amount(size_bytes).text, pool->device, (unsigned long long)waits);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY || result == MEND_ERROR_CORRUPTION) {
        mend_log(MEND_LOG_WARNING, "device %d: %s", pool->device, mend_process_error()->message);
    }
    return result;
}

/* Whether the calling thread asks more than a size. Asks for the block's stack: no lock is held. */
__attribute__((noinline)) static bool asks_more(uint64_t size_bytes)
{
    const mend_thread_marks *own = &mend_process_own_marks;
    const bool asks = own->in_one_chunk != 0 || own->plain != 0 ||
                      own->alignment_bytes > MEND_GRANULE_BYTES || own->sleep_tag != 0;
    mend_process_ask_stack(size_bytes);
    return asks;
}

mend_result mend_alloc(mend_pool *pool, uint64_t size_bytes, mend_stream stream, void **pointer)
{
    MEND_INVALID_IF(pool == NULL || pointer == NULL, "mend_alloc: pool or pointer is NULL");
    static const mend_request usual = {.alignment_bytes = MEND_GRANULE_BYTES};
    uint64_t capture;
    MEND_TRY(mend_pool_find_capture(pool, stream, &capture));
    if ((mend_process_has_marks() && asks_more(size_bytes)) || capture != 0) {
        MEND_TRY(mend_pool_take(pool));
        return alloc_by_all_means(pool, size_bytes, &usual, (mend_order){stream, capture}, pointer);
    }
    MEND_TRY(mend_pool_take(pool));
    const mend_span *span = mend_heap_alloc_cached(&pool->heap, size_bytes, stream);
    if (span == NULL) {
        return alloc_by_all_means(pool, size_bytes, &usual, (mend_order){.stream = stream},
                                  pointer);
    }
    *pointer = (void *)(uintptr_t)span->address;
    return mend_pool_leave(pool, MEND_OK);
}

static mend_result read_own(const mend_alloc_options *given, mend_alloc_options *options)
{
    *options = (mend_alloc_options)MEND_ALLOC_OPTIONS_INIT;
    MEND_TRY(mend_pool_read_struct(given, "MEND_ALLOC_OPTIONS_INIT", options, sizeof(*options)));
    MEND_INVALID_IF(options->in_one_chunk < -1 || options->in_one_chunk > 1,
                    "mend_alloc_options.in_one_chunk is not -1, 0 or 1");
    MEND_INVALID_IF(options->plain < -1 || options->plain > 1,
                    "mend_alloc_options.plain is not -1, 0 or 1");
    return MEND_OK;
}

/* Reads the options. *terms is only set if they are possible. */
static mend_result read_options(const mend_pool *pool, mend_stream stream,
                                const mend_alloc_options *given, mend_request *terms)
{
    mend_alloc_options options;
    MEND_TRY(read_own(given, &options));
    MEND_INVALID_IF(options.graph_pool != NULL && options.graph_pool->pool != pool,
                    "mend_alloc_options.graph_pool is of another pool");
    MEND_INVALID_IF(options.graph_pool != NULL && stream == MEND_NO_STREAM,
                    "mend_alloc_options.graph_pool: its block has a stream, not MEND_NO_STREAM");
    uint64_t alignment = options.alignment_bytes != 0 ? options.alignment_bytes : 1;
    uint64_t at = (uint64_t)(uintptr_t)options.address;
    MEND_INVALID_IF(at % mend_max_u64(alignment, MEND_GRANULE_BYTES) != 0,
                    "mend_alloc_options.address is not aligned to alignment_bytes and 512");
    MEND_INVALID_IF(options.in_one_chunk == 1 && at != 0,
                    "mend_alloc_options: in_one_chunk does not go with an address");
    *terms = (mend_request){.alignment_bytes = alignment,
                            .owner = options.graph_pool != NULL ? options.graph_pool->number : 0,
                            .at = at,
                            .tag = options.tag,
                            .sleep_tag = options.sleep_tag,
                            .in_one_chunk = options.in_one_chunk,
                            .plain = options.plain};
    return MEND_OK;
}

mend_result mend_alloc_with(mend_pool *pool, uint64_t size_bytes, mend_stream stream,
                            const mend_alloc_options *options, void **pointer)
{
    MEND_INVALID_IF(pool == NULL || options == NULL || pointer == NULL,
                    "mend_alloc_with: pool, options or pointer is NULL");
    mend_request terms;
    mend_order order = {.stream = stream};
    MEND_TRY(read_options(pool, stream, options, &terms));
    if (mend_is_power_of_two(terms.alignment_bytes) &&
        terms.alignment_bytes <= MEND_GRANULE_BYTES && terms.owner == 0 && terms.tag == 0 &&
        terms.sleep_tag == 0 && terms.at == 0 && terms.in_one_chunk == 0 && terms.plain == 0) {
        return mend_alloc(pool, size_bytes, stream, pointer); /* nothing but a size is asked for */
    }
    MEND_TRY(mend_pool_find_capture(pool, stream, &order.capture));
    if (mend_process_has_marks()) {
        mend_process_ask_stack(size_bytes);
    }
    MEND_TRY(mend_pool_take(pool));
    return alloc_by_all_means(pool, size_bytes, &terms, order, pointer);
}

mend_result mend_set_alloc_options(const mend_alloc_options *options, mend_alloc_options *before)
{
    mend_alloc_options all;
    mend_thread_marks *own = &mend_process_own_marks;
    MEND_TRY(read_own(options, &all));
    const uint64_t alignment = all.alignment_bytes;
    MEND_INVALID_IF(all.graph_pool != NULL || all.tag != 0 || all.address != NULL,
                    "mend_set_alloc_options: graph_pool, tag and address are of one call");
    MEND_INVALID_IF(alignment > MEND_LARGEST_ALIGNMENT_BYTES ||
                        (alignment != 0 && !mend_is_power_of_two(alignment)),
                    "mend_set_alloc_options: alignment_bytes is no power of two up to 2^40");
    MEND_TRY(mend_pool_check_struct(before, "MEND_ALLOC_OPTIONS_INIT"));
    if (before != NULL) {
        const mend_alloc_options had = {.struct_size = sizeof(had),
                                        .alignment_bytes = own->alignment_bytes,
                                        .in_one_chunk = own->in_one_chunk,
                                        .plain = own->plain,
                                        .sleep_tag = own->sleep_tag};
        mend_struct_write(before, &had, sizeof(had));
    }
    own->alignment_bytes = alignment;
    own->in_one_chunk = (int8_t)all.in_one_chunk;
    own->plain = (int8_t)all.plain;
    own->sleep_tag = all.sleep_tag;
    atomic_store_explicit(&mend_process_are_marks_set, true, memory_order_relaxed);
    return MEND_OK;
}

mend_result mend_free(mend_pool *pool, void *pointer, mend_stream stream)
{
    MEND_INVALID_IF(pool == NULL, "mend_free: pool is NULL");
    if (pointer == NULL) {
        return MEND_OK;
    }
    uint64_t capture;
    MEND_TRY(mend_pool_find_capture(pool, stream, &capture));
    const mend_order order = {stream, capture};
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    if (pool->checks != NULL) {
        return check_block(pool, false, address, order);
    }
    MEND_TRY(mend_pool_take_to_free(pool));
    mend_span *span = mend_pointer_map_find(&pool->heap.blocks, address);
    const mend_result result = mend_heap_free(&pool->heap, span, address, order);
    return result == MEND_OK ? mend_pool_leave(pool, MEND_OK)
                             : mend_pool_leave_of(pool, pointer, result);
}

mend_block_info mend_pool_describe(mend_pool *pool, const mend_span *span)
{
    const uint32_t number = mend_graph_pool_number_of(&pool->heap, span);
    return (mend_block_info){.struct_size = sizeof(mend_block_info),
                             .base = (void *)(uintptr_t)span->address,
                             .requested_bytes = span->requested_bytes,
                             .usable_bytes = pool->heap.config.guard_bytes != 0
                                                 ? span->requested_bytes
                                                 : span->size_bytes,
                             .stream = span->stream,
                             .pool = pool,
                             .is_unmapped = mend_layout_misses_mapping(&pool->heap, span),
                             .tag = span->tag,
                             .graph_pool = mend_graph_pool_numbered(&pool->heap, number),
                             .sleep_tag = span->sleep_tag,
                             .is_asleep = mend_layout_sleeps(&pool->heap, span),
                             .contents_dropped = span->contents_dropped,
                             .scope = span->scope};
}

mend_result mend_record_stream(mend_pool *pool, void *pointer, mend_stream stream)
{
    MEND_INVALID_IF(pool == NULL || pointer == NULL, "mend_record_stream: pool or pointer is NULL");
    MEND_INVALID_IF(is_no_stream(stream),
                    "mend_record_stream: MEND_NO_STREAM or MEND_EVERY_STREAM");
    mend_order order = {.stream = stream};
    MEND_TRY(mend_pool_find_capture(pool, stream, &order.capture));
    MEND_TRY(mend_pool_take(pool));
    const mend_result result =
        mend_heap_record_stream(&pool->heap, (uint64_t)(uintptr_t)pointer, order, 0);
    return result == MEND_OK ? mend_pool_leave(pool, MEND_OK)
                             : mend_pool_leave_of(pool, pointer, result);
}

mend_result mend_unregister_stream(mend_pool *pool, mend_stream stream)
{
    MEND_INVALID_IF(
        pool == NULL || is_no_stream(stream),
        "mend_unregister_stream: pool is NULL, or MEND_NO_STREAM, or MEND_EVERY_STREAM");
    MEND_TRY(mend_pool_enter_all(pool));
    return mend_pool_leave_all(pool, mend_users_unregister_stream(&pool->heap, stream));
}

mend_result mend_get_block_info(mend_pool *pool, const void *pointer, mend_block_info *info)
{
    MEND_INVALID_IF(pool == NULL || pointer == NULL || info == NULL,
                    "mend_get_block_info: pool, pointer or info is NULL");
    MEND_TRY(mend_pool_check_struct(info, "MEND_BLOCK_INFO_INIT"));
    MEND_TRY(mend_pool_look(pool));
    mend_span *span;
    mend_result result = mend_block_around(&pool->heap, (uint64_t)(uintptr_t)pointer, &span);
    if (result == MEND_OK) {
        mend_block_info all = mend_pool_describe(pool, span);
        mend_struct_write(info, &all, sizeof(all));
    }
    return mend_pool_leave(pool, result);
}
