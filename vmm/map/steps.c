/*
 * The frame of a transaction, and the steps of all (grow.c, exchange, sleep and wake). The frame is
 * the driver scope, in which the context is current and the capture mode is set, the meaning of a
 * failed call, and the locks of the heap. While a thread holds both to change something, the front
 * cache is closed, and so empty. The steps claim or create memory, and make it usable at addresses.
 * An undo unmaps, releases and restores it. A chunk of live blocks is frozen meanwhile. And the
 * part of the limit that the device has: contexts, other pools and other programs hold a part of
 * the device, which changes. A pool that learnt it from the first refusal would have filled the
 * device with large chunks, partly used.
 */
#include "map/map.h"

#include "plan/constants.h"

bool mend_driver_did(mend_heap *heap, mend_status status)
{
    heap->counters.driver_failures += status != MEND_DRIVER_OK;
    return status == MEND_DRIVER_OK;
}

mend_result mend_driver_refused(mend_heap *heap, mend_answer answer)
{
    /* Calls that make memory usable may find that there is none. NOT_READY means the same. */
    const bool is_lack_of_memory =
        (answer.call == MEND_CALL_create || answer.call == MEND_CALL_map ||
         answer.call == MEND_CALL_set_access) &&
        (answer.status == MEND_DRIVER_OUT_OF_MEMORY || answer.status == MEND_DRIVER_NOT_READY);
    (void)mend_driver_did(heap, answer.status);
    return mend_refused(
        heap->driver,
        is_lack_of_memory ? MEND_ERROR_OUT_OF_MEMORY : mend_status_result(answer.status),
        answer.call, answer.status, "%s failed", mend_driver_call_name(answer.call));
}

mend_result mend_driver_result(mend_heap *heap, mend_answer answer)
{
    return answer.status == MEND_DRIVER_OK ? MEND_OK : mend_driver_refused(heap, answer);
}

void mend_driver_work_around(mend_heap *heap, mend_result result)
{
    bool is_of_driver = result == MEND_ERROR_DRIVER || result == MEND_ERROR_DEVICE_LOST;
    heap->counters.driver_failures += is_of_driver;
}

mend_result mend_driver_scope_open(mend_heap *heap, mend_driver_scope *scope)
{
    const mend_driver *driver = heap->driver;
    scope->answer = MEND_ANSWER(context_push, driver->context_push(driver, heap->device.context));
    if (scope->answer.status == MEND_DRIVER_OK) {
        scope->mode = MEND_CAPTURE_MODE_RELAXED;
        scope->answer =
            MEND_ANSWER(exchange_capture_mode, driver->exchange_capture_mode(driver, &scope->mode));
        if (scope->answer.status == MEND_DRIVER_OK) {
            return MEND_OK;
        }
        driver->context_pop(driver);
    }
    return mend_driver_refused(heap, scope->answer);
}

void mend_driver_scope_close(mend_heap *heap, mend_driver_scope *scope)
{
    const mend_driver *driver = heap->driver;
    (void)mend_driver_did(heap, driver->exchange_capture_mode(driver, &scope->mode));
    (void)mend_driver_did(heap, driver->context_pop(driver));
}

/* ---- locks ----------------------------------------------------------------------------------- */

void mend_heap_lock_all(mend_heap *heap)
{
    mend_mutex_lock(&heap->grow);
    mend_mutex_lock(&heap->state);
    mend_cache_close(heap);
}

void mend_heap_lock_to_read(mend_heap *heap)
{
    mend_mutex_lock(&heap->grow);
    mend_heap_lock(heap);
}

void mend_heap_unlock_after_read(mend_heap *heap)
{
    mend_mutex_unlock(&heap->state);
    mend_mutex_unlock(&heap->grow);
}

void mend_heap_unlock_grow(mend_heap *heap)
{
    mend_events_end_call(&heap->events);
    mend_cache_open(heap, mend_budget_is_pressed(heap));
    mend_mutex_unlock(&heap->grow);
}

void mend_heap_unlock_all(mend_heap *heap)
{
    mend_heap_unlock_grow(heap);
    mend_heap_unlock(heap);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* How many times a call is repeated after NOT_READY, because some drivers find memory later: after
 * longer and longer pauses, without the lock. */
enum { NOT_READY_TRIES = 4 };
#define FIRST_PAUSE_NS UINT64_C(1000000)

static bool try_again(mend_heap *heap, mend_status status, int *tries)
{
    if (status != MEND_DRIVER_NOT_READY || ++*tries == NOT_READY_TRIES) {
        return false;
    }
    heap->driver->pause(heap->driver, FIRST_PAUSE_NS << (*tries - 1));
    return true;
}

mend_status mend_step_map(mend_heap *heap, uint64_t address, const mend_chunk *chunk)
{
    const mend_driver *driver = heap->driver;
    mend_status status;
    int tries = 0;
    assert(address % heap->device.granularity_bytes == 0);
    do {
        status = driver->map(driver, address, chunk->size_bytes, 0, chunk->memory.handle);
    } while (try_again(heap, status, &tries));
    return status;
}

static mend_status allow_to(mend_heap *heap, uint64_t address, uint64_t size_bytes,
                            const int *devices, int device_count)
{
    const mend_driver *driver = heap->driver;
    mend_status status;
    int tries = 0;
    assert(size_bytes > 0 && device_count > 0);
    do {
        status = driver->set_access(driver, address, size_bytes, devices, device_count,
                                    MEND_ACCESS_READ_WRITE);
    } while (try_again(heap, status, &tries));
    return status;
}

mend_status mend_step_allow(mend_heap *heap, uint64_t address, uint64_t size_bytes)
{
    return allow_to(heap, address, size_bytes, heap->allowed.devices, heap->allowed.count);
}

/* The end of the parts that lie side by side from `first` on. *size_bytes: of all of them. */
static size_t end_of_stretch(const mend_cluster parts[], size_t first, size_t count,
                             uint64_t *size_bytes)
{
    size_t end = first;
    for (*size_bytes = 0; end < count && parts[end].address == parts[first].address + *size_bytes;
         end++) {
        *size_bytes += parts[end].size_bytes;
    }
    return end;
}

mend_answer mend_step_map_parts(mend_heap *heap, const mend_cluster parts[], size_t count,
                                size_t *mapped)
{
    mend_status status = MEND_DRIVER_OK;
    for (*mapped = 0; *mapped < count; ++*mapped) {
        const mend_cluster *part = &parts[*mapped];
        if (part->chunk->missing != MEND_MISSING_ACCESS) {
            status = mend_step_map(heap, part->address, part->chunk);
        }
        if (status != MEND_DRIVER_OK) {
            return MEND_ANSWER(map, status);
        }
    }
    for (size_t first = 0, end; first < count && status == MEND_DRIVER_OK; first = end) {
        uint64_t size_bytes;
        end = end_of_stretch(parts, first, count, &size_bytes);
        status = mend_step_allow(heap, parts[first].address, size_bytes);
    }
    return MEND_ANSWER(set_access, status);
}

mend_status mend_step_unmap_parts(mend_heap *heap, const mend_cluster parts[], size_t count,
                                  size_t *first)
{
    while (*first < count) {
        uint64_t size_bytes;
        const size_t end = end_of_stretch(parts, *first, count, &size_bytes);
        MEND_TRY_CALL(heap->driver->unmap(heap->driver, parts[*first].address, size_bytes));
        *first = end;
    }
    return MEND_DRIVER_OK;
}

mend_result mend_step_create(mend_heap *heap, uint64_t size_bytes, bool is_private,
                             mend_chunk **chunk)
{
    mend_effective_limit *known = &heap->effective_limit;
    mend_status status = mend_chunk_create(&heap->chunks, size_bytes, is_private, chunk);
    mend_result result = mend_driver_result(heap, MEND_ANSWER(create, status));
    if (result == MEND_OK) {
        mend_effective_limit_note_growth(heap);
    }
    if (result != MEND_ERROR_OUT_OF_MEMORY) {
        return result;
    }
    /* Asks once in a search, when the answer is forgotten, and when it does not explain it. */
    if (!heap->shortage.device_is_asked || !known->is_known ||
        size_bytes <= heap->shortage.device_free_bytes) {
        mend_effective_limit_learn(heap);
    }
    if (known->is_known && size_bytes <= heap->shortage.device_free_bytes) {
        known->is_refused = true; /* as by a quota of the process */
        known->bytes = mend_min_u64(known->bytes, heap->chunks.reserved_bytes + size_bytes - 1);
        known->free_bytes = 0;
    }
    return result;
}

void mend_step_claim(mend_heap *heap, mend_chunk *chunk)
{
    const uint64_t address = chunk->address;
    assert(mend_chunk_is_empty(chunk) && chunk->claim.address == 0);
    if (address != 0) {
        mend_layout_detach(heap, chunk, &chunk->claim.waits);
        chunk->claim.address = address;
    }
}

/* ---- frozen chunks --------------------------------------------------------------------------- */

size_t mend_freeze_spans(const mend_heap *heap, const mend_chunk *chunk)
{
    size_t count = 0;
    MEND_SPANS_EACH(const mend_span, span, heap, chunk) {
        count++;
    }
    return count;
}

/* A claimed span may be split at the edges of its chunk, and becomes a run when the chunk thaws. */
mend_layout_promise mend_freeze_nodes(const mend_heap *heap, size_t chunks, size_t spans)
{
    mend_layout_promise nodes = mend_layout_nodes_for(heap, chunks);
    nodes.spans += 2 * chunks;
    nodes.runs += spans + 2 * chunks;
    return nodes;
}

void mend_freeze_chunk(mend_heap *heap, mend_chunk *chunk)
{
    const uint64_t end = chunk->address + chunk->size_bytes;
    const mend_zone *zone = &heap->zones[chunk->zone];
    mend_chunk_freeze(&heap->chunks, chunk);
    mend_run *run = mend_layout_run_from(zone, chunk->address);
    while (run != NULL && run->address < end) {
        const uint64_t from = mend_max_u64(chunk->address, run->address);
        const uint64_t to = mend_min_u64(mend_span_end(mend_span_walk(run->first, from)), end);
        mend_layout_claim_part(heap, run, from, to - from);
        run = mend_layout_run_from(zone, to);
    }
}

void mend_thaw_chunk(mend_heap *heap, mend_chunk *chunk)
{
    const uint64_t end = chunk->address + chunk->size_bytes;
    mend_span *span = mend_heap_span_at(heap, chunk->address);
    mend_chunk_thaw(&heap->chunks, chunk);
    for (mend_span *next; span != NULL && span->address < end; span = next) {
        next = span->next;
        assert(!span->cached);
        if (!span->live && span->run == NULL) {
            assert(mend_layout_frozen_under(heap, span) == NULL); /* a claim ends when its chunk
                                                                   * thaws */
            mend_layout_end_claim(heap, span);
        }
    }
}

mend_answer mend_remap_chunk(mend_heap *heap, mend_chunk *chunk)
{
    mend_chunks *chunks = &heap->chunks;
    mend_status status = MEND_DRIVER_OK;
    assert(chunk->address != 0 && chunk->is_frozen && chunk->missing != MEND_MISSING_NOTHING);
    if (chunk->missing == MEND_MISSING_MAPPING) {
        status = mend_step_map(heap, chunk->address, chunk);
        if (status != MEND_DRIVER_OK) {
            return MEND_ANSWER(map, status);
        }
        mend_chunk_set_missing(chunks, chunk, MEND_MISSING_ACCESS);
    }
    status = mend_step_allow(heap, chunk->address, chunk->size_bytes);
    if (status == MEND_DRIVER_OK) {
        mend_chunk_set_missing(chunks, chunk, MEND_MISSING_NOTHING);
        mend_thaw_chunk(heap, chunk);
    }
    return MEND_ANSWER(set_access, status);
}

mend_result mend_remap_failed(mend_heap *heap, mend_answer answer)
{
    (void)mend_driver_did(heap, answer.status);
    return mend_refused(heap->driver, mend_status_result(answer.status), answer.call, answer.status,
                        "%u chunks of live blocks could not be mapped at their addresses: "
                        "nothing is lost, and later calls try again",
                        heap->chunks.missing_count);
}

/* ---- what the device can give ---------------------------------------------------------------- */

void mend_effective_limit_learn(mend_heap *heap)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    mend_status status = heap->driver->memory_info(heap->driver, &free_bytes, &total_bytes);
    bool is_told = status == MEND_DRIVER_OK;
    const mend_effective_limit before = heap->effective_limit;
    uint64_t known_bytes = free_bytes + heap->chunks.reserved_bytes;
    const bool is_refused = is_told && before.is_refused && before.bytes < known_bytes;
    heap->shortage.device_is_asked = true;
    heap->shortage.device_free_bytes = is_told ? free_bytes : 0;
    heap->shortage.others_bytes =
        is_told && total_bytes > known_bytes ? total_bytes - known_bytes : 0;
    if (is_told) {
        heap->chunks.importers_bytes =
            mend_min_u64(heap->chunks.importers_bytes, heap->shortage.others_bytes);
    }
    heap->effective_limit = (mend_effective_limit){
        .is_known = is_told,
        .is_refused = is_refused,
        .bytes = is_refused ? before.bytes : known_bytes,
        .free_bytes = is_refused ? 0 : free_bytes,
        .asked_at_bytes = MEND_HEAP_SUM(heap, allocated_bytes),
    };
}

void mend_effective_limit_forget_refusal(mend_heap *heap)
{
    if (heap->effective_limit.is_refused) {
        heap->effective_limit.is_refused = false;
        mend_effective_limit_learn(heap);
    }
}

void mend_effective_limit_note_growth(mend_heap *heap)
{
    if (heap->chunks.reserved_bytes > heap->effective_limit.bytes) {
        mend_effective_limit_forget_refusal(heap);
    }
}

void mend_effective_limit_begin_search(mend_heap *heap)
{
    const mend_effective_limit *known = &heap->effective_limit;
    const uint64_t reserved = heap->chunks.reserved_bytes;
    const uint64_t room = known->bytes > reserved ? known->bytes - reserved : 0;
    const uint64_t allocated = MEND_HEAP_SUM(heap, allocated_bytes) - known->asked_at_bytes;
    const bool is_old = mend_budget_hard_limit(heap) < mend_budget_limit_of_chunks(heap) &&
                        allocated / LIMITS_OF_WINDOW >= heap->config.limit_bytes;
    if (!known->is_known || is_old || room < known->free_bytes / 2) {
        mend_effective_limit_learn(heap);
    }
}

/* ---- access ---------------------------------------------------------------------------------- */

/* cudaDeviceEnablePeerAccess does not affect mapped memory. Each mapping names its devices, and
 * work of any other device loses its context. So a pool names its own device and, once the process
 * has a pool on another device that can reach the memory, that device too. */

static bool includes(const mend_heap *heap, int device)
{
    bool is_there = false;
    for (int i = 0; i < heap->allowed.count; i++) {
        is_there = is_there || heap->allowed.devices[i] == device;
    }
    return is_there;
}

void mend_map_init(mend_heap *heap)
{
    mend_slab_init(&heap->retire.nodes, sizeof(mend_retired));
    heap->allowed = (mend_allowed){.devices = {heap->config.device}, .count = 1};
    for (int i = 0; i < MEND_DEVICE_LIMIT; i++) {
        if ((heap->config.peers >> i & 1) != 0 && i != heap->config.device) {
            heap->allowed.devices[heap->allowed.count++] = i;
        }
    }
}

uint64_t mend_access_stretch(const mend_chunk **chunk, bool with_access)
{
    const mend_chunk *at = *chunk;
    const uint64_t address = at->address;
    uint64_t end = address;
    while (at != NULL && at->address == end &&
           (with_access ? at->missing == MEND_MISSING_NOTHING : mend_chunk_has_mapping(at))) {
        end += at->size_bytes;
        at = mend_chunk_next(at);
    }
    *chunk = end > address ? at : mend_chunk_next(*chunk);
    return end - address;
}

static mend_result allow(mend_heap *heap, uint64_t address, uint64_t size_bytes, int device)
{
    return mend_driver_result(
        heap, MEND_ANSWER(set_access, allow_to(heap, address, size_bytes, &device, 1)));
}

mend_result mend_access_add(mend_heap *heap, int device)
{
    mend_driver_scope scope;
    if (includes(heap, device)) {
        return MEND_OK;
    }
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_result result = MEND_OK;
    /* The caller holds `grow`, so nothing is mapped or unmapped meanwhile. An unmapped,
     * inaccessible or sleeping chunk gets access for all devices when it is restored. */
    for (const mend_chunk *at = mend_chunk_from(&heap->chunks, 0);
         at != NULL && result == MEND_OK;) {
        const uint64_t address = at->address;
        const uint64_t bytes = mend_access_stretch(&at, true);
        result = bytes > 0 ? allow(heap, address, bytes, device) : MEND_OK;
    }
    MEND_TREE_EACH(const mend_mapped_import, import, by_address, &heap->imports.by_address) {
        result = result == MEND_OK ? allow(heap, import->at, import->bytes, device) : result;
    }
    if (result == MEND_OK) {
        heap->allowed.devices[heap->allowed.count++] = device;
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}
