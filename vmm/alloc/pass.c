/*
 * Blocks that are passed through to the driver: each is an allocation of its own, which a free
 * releases at once. All blocks of a pool are where the device has no virtual memory or the program
 * wants none (mend_pool_config.plain), and others by mend_alloc_options.plain. Such a block is a
 * live span in a zone of its own. Its bytes count in the limit beside chunks.
 *
 * A thread that allocates or frees here has both locks, so that no other thread of the pool gets an
 * address before its free is told. A captured stream is refused: its graph would outlive the block.
 */
#include "alloc/heap.h"

#include "base/words.h"

/* One allocation on its way. */
typedef struct passing {
    mend_seek seek;
    const mend_request *request;
    mend_span *span;
    uint64_t over_bytes; /* missing bytes of the last try, below the limit. 0: missing on the
                          * device */
    bool is_in_order;    /* the driver's own pool gives it, in the order of its stream */
} passing;

/* ---- allocate -------------------------------------------------------------------------------- */

static mend_result check(const mend_heap *heap, const mend_request *request)
{
    const char *what = request->capture != 0                           ? "a captured stream"
                       : request->owner != 0                           ? "a graph pool"
                       : request->at != 0                              ? "an address"
                       : request->alignment_bytes > MEND_GRANULE_BYTES ? "an alignment above 512"
                       : request->in_one_chunk && heap->config.passes == MEND_PASSES_IN_ORDER
                           ? "in_one_chunk of the driver's own pool"
                           : NULL;
    return what == NULL ? MEND_OK
                        : mend_failure(MEND_ERROR_NOT_SUPPORTED,
                                       "a block that is passed through to the driver (no virtual "
                                       "memory, or plain) cannot have %s",
                                       what);
}

/* A call in the order of the legacy stream would end the capture of a blocking one. */
static bool may_be_ordered(const mend_heap *heap, mend_stream stream)
{
    mend_stream_info info = {0};
    return mend_slots_handle(stream) != NULL ||
           (heap->driver->stream_get_info(heap->driver, stream, &info) == MEND_DRIVER_OK &&
            info.capture == MEND_CAPTURE_NONE);
}

/* The thread's own stream is another one in the thread that frees. */
static bool is_in_order(const mend_heap *heap, const mend_request *request)
{
    return heap->config.passes == MEND_PASSES_IN_ORDER && !request->plain &&
           request->handle != MEND_NO_STREAM && request->handle != MEND_STREAM_PER_THREAD &&
           may_be_ordered(heap, request->handle);
}

static mend_answer allocate(passing *p, uint64_t *address)
{
    mend_heap *heap = p->seek.heap;
    const mend_request *request = p->request;
    const mend_driver *driver = heap->driver;
    mend_driver_scope scope;
    if (mend_driver_scope_open(heap, &scope) != MEND_OK) {
        return scope.answer;
    }
    p->is_in_order = is_in_order(heap, request);
    const mend_answer answer =
        p->is_in_order
            ? MEND_ANSWER(async_alloc, driver->async_alloc(driver, request->size_bytes,
                                                           request->handle, address))
            : MEND_ANSWER(plain_alloc, driver->plain_alloc(driver, request->size_bytes, address));
    mend_driver_scope_close(heap, &scope);
    return answer;
}

/* Releases empty chunks, at once or behind waits, so that another try may find the memory. False:
 * there is nothing to make it of. */
static bool make_room(const passing *p, bool waits)
{
    mend_heap *heap = p->seek.heap;
    const bool by_limit = p->over_bytes > 0;
    const uint64_t wanted_bytes = by_limit ? p->over_bytes : p->request->size_bytes;
    const uint64_t reserved_bytes = heap->chunks.reserved_bytes;
    const uint64_t given_bytes =
        waits && !by_limit ? reserved_bytes : mend_min_u64(wanted_bytes, reserved_bytes);
    uint64_t released_bytes = 0;
    if (reserved_bytes > 0) {
        (void)mend_fallback_trim(heap, reserved_bytes - given_bytes, waits, &released_bytes);
        return true;
    }
    mend_driver_scope scope;
    if (!waits || heap->config.passes != MEND_PASSES_IN_ORDER ||
        mend_driver_scope_open(heap, &scope) != MEND_OK) {
        return false;
    }
    /* Frees in stream order then have reached the driver. */
    const bool waited = mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN) == MEND_OK;
    mend_driver_scope_close(heap, &scope);
    return waited;
}

/* With both locks. NOTHING: the limit or the device has too little memory. */
static mend_outcome ask_driver(passing *p, uint64_t *address)
{
    mend_heap *heap = p->seek.heap;
    const uint64_t size_bytes = p->request->size_bytes;
    const bool is_hopeless = size_bytes > mend_budget_limit_of_chunks(heap);
    for (int gives = 0; gives <= 1 + p->seek.may_wait; gives++) {
        if (gives > 0 && (is_hopeless || !make_room(p, gives == 2))) {
            continue;
        }
        const uint64_t limit_bytes = mend_budget_limit_of_chunks(heap);
        const uint64_t wanted_bytes = heap->chunks.reserved_bytes + size_bytes;
        p->over_bytes = wanted_bytes - mend_min_u64(limit_bytes, wanted_bytes);
        if (p->over_bytes > 0) {
            continue;
        }
        const mend_answer answer = allocate(p, address);
        if (answer.status == MEND_DRIVER_OK) {
            return MEND_PLACED;
        }
        if (answer.status != MEND_DRIVER_OUT_OF_MEMORY) {
            (void)mend_driver_refused(heap, answer);
            return MEND_FAILED;
        }
        (void)mend_driver_did(heap, answer.status);
    }
    return MEND_NOTHING;
}

static mend_outcome try_to_pass(mend_seek *seek)
{
    passing *p = MEND_CONTAINER_OF(seek, passing, seek);
    mend_heap *heap = p->seek.heap;
    mend_heap_unlock(heap);
    mend_heap_lock_all(heap);
    uint64_t address = 0;
    const mend_layout_promise one = {.spans = 1};
    const bool has_place = mend_pointer_map_promise(&heap->blocks);
    const bool has_records = has_place && mend_layout_promise_these(heap, &one);
    const mend_outcome outcome =
        has_records ? ask_driver(p, &address) : mend_outcome_without_host_memory();
    if (has_records) {
        mend_layout_end_promise(heap, &one);
    }
    if (has_place) {
        mend_pointer_map_end_promise(&heap->blocks);
    }
    seek->lacking_bytes = p->over_bytes > 0 ? 0 : p->request->size_bytes;
    if (outcome == MEND_PLACED) {
        p->span = mend_layout_add_passed(heap, address, p->request->size_bytes);
        p->span->is_in_order = p->is_in_order;
    } else {
        mend_heap_unlock_grow(heap);
    }
    return outcome;
}

mend_result mend_pass_alloc(mend_heap *heap, const mend_request *request, mend_span **span)
{
    passing p = {.seek = {heap, try_to_pass, .needed_bytes = request->size_bytes},
                 .request = request};
    MEND_TRY(check(heap, request));
    if (request->handle != MEND_NO_STREAM) { /* a wait would end a capture of a stream that it does
                                              * not know */
        uint32_t ignored;
        MEND_TRY(mend_users_find_stream(heap, request->handle, 0, &ignored));
    }
    const mend_outcome outcome = mend_seek_room(&p.seek, true);
    if (outcome == MEND_NOTHING) {
        const char *why = p.over_bytes > 0 ? "the limit is reached" : "the driver has no memory";
        return mend_failure(MEND_ERROR_OUT_OF_MEMORY,
                            "%s were asked for as memory of the driver's own, and %s: blocks of "
                            "that kind hold %s, chunks %s, of a limit of %s",
                            mend_words_amount(request->size_bytes).text, why,
                            mend_words_amount(mend_heap_passed_bytes(heap)).text,
                            mend_words_amount(heap->chunks.reserved_bytes).text,
                            mend_words_amount(heap->config.limit_bytes).text);
    }
    *span = p.span;
    return outcome == MEND_PLACED ? MEND_OK : mend_process_failure()->result;
}

/* ---- free ------------------------------------------------------------------------------------ */

/* The driver's pool orders a free behind the work of one stream. For other streams the CPU
 * waits. */
static mend_result give_in_turn(mend_heap *heap, const mend_span *span, mend_order order)
{
    const mend_driver *driver = heap->driver;
    if (!span->is_in_order) { /* waits for all work of the device */
        return mend_driver_result(
            heap, MEND_ANSWER(plain_free, driver->plain_free(driver, span->address)));
    }
    if (order.stream == span->stream && span->waits.others == NULL &&
        may_be_ordered(heap, order.stream)) {
        return mend_driver_result(
            heap, MEND_ANSWER(async_free, driver->async_free(driver, span->address, order.stream)));
    }
    MEND_TRY(mend_streams_wait_context(&heap->streams, MEND_STREAM_UNKNOWN));
    return mend_driver_result(heap,
                              MEND_ANSWER(plain_free, driver->plain_free(driver, span->address)));
}

mend_result mend_pass_give_back(mend_heap *heap, const mend_span *span, mend_order order)
{
    mend_driver_scope scope;
    mend_result result = mend_driver_scope_open(heap, &scope);
    if (result == MEND_OK) {
        result = give_in_turn(heap, span, order);
        mend_driver_scope_close(heap, &scope);
    }
    return heap->unlocking.lost == MEND_DRIVER_DEINITIALIZED ? MEND_OK : result;
}

mend_result mend_pass_check_order(mend_order order, const char *call)
{
    return order.capture == 0
               ? MEND_OK
               : mend_failure(MEND_ERROR_NOT_SUPPORTED,
                              "%s: the stream is captured, and the block is passed through to the "
                              "driver: the graph would use it after its end",
                              call);
}
