/*
 * The steps of all transactions (grow.c, exchange.c, sleep and wake): memory is claimed or created,
 * and made usable at addresses. An undo unmaps, releases and restores it. And the part of the limit
 * that the device has: a limit may be the complete device, but contexts, other pools and other
 * programs hold a part, which changes. A pool that learnt it from the first refusal would have
 * filled the device with large chunks, partly used.
 */
#include "map/map.h"

#include "plan/constants.h"

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
    assert(size_bytes > 0);
    assert(device_count > 0);
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
                                size_t *mapped, uint64_t *calls)
{
    mend_status status = MEND_DRIVER_OK;
    for (*mapped = 0; *mapped < count; ++*mapped) {
        const mend_cluster *part = &parts[*mapped];
        if (part->chunk->missing != MEND_MISSING_ACCESS) {
            status = mend_step_map(heap, part->address, part->chunk);
            ++*calls;
        }
        if (status != MEND_DRIVER_OK) {
            return MEND_ANSWER(map, status);
        }
    }
    for (size_t first = 0, end; first < count && status == MEND_DRIVER_OK; first = end) {
        uint64_t size_bytes;
        end = end_of_stretch(parts, first, count, &size_bytes);
        status = mend_step_allow(heap, parts[first].address, size_bytes);
        ++*calls;
    }
    return MEND_ANSWER(set_access, status);
}

mend_status mend_step_unmap_parts(mend_heap *heap, const mend_cluster parts[], size_t count,
                                  size_t *first, uint64_t *calls)
{
    while (*first < count) {
        uint64_t size_bytes;
        const size_t end = end_of_stretch(parts, *first, count, &size_bytes);
        ++*calls;
        MEND_TRY_CALL(heap->driver->unmap(heap->driver, parts[*first].address, size_bytes));
        *first = end;
    }
    return MEND_DRIVER_OK;
}

/* Asks once in a search, when the answer is forgotten, and when it does not explain the refusal. */
static void learn_from_refusal(mend_heap *heap, uint64_t size_bytes)
{
    mend_effective_limit *known = &heap->effective_limit;
    if (!heap->shortage.device_is_asked || !known->is_known ||
        size_bytes <= heap->shortage.device_free_bytes) {
        mend_effective_limit_learn(heap);
    }
    if (known->is_known && size_bytes <= heap->shortage.device_free_bytes) {
        known->is_refused = true; /* as by a quota of the process */
        known->bytes = mend_min_u64(known->bytes, heap->chunks.reserved_bytes + size_bytes - 1);
        known->free_bytes = 0;
    }
}

mend_result mend_step_create(mend_heap *heap, uint64_t size_bytes, bool is_private,
                             mend_chunk **chunk)
{
    mend_status status = mend_chunk_create(&heap->chunks, size_bytes, is_private, chunk);
    mend_result result = mend_driver_result(heap, MEND_ANSWER(create, status));
    if (result == MEND_OK && heap->effective_limit.is_refused &&
        heap->chunks.reserved_bytes > heap->effective_limit.bytes) {
        mend_effective_limit_forget_refusal(heap);
    }
    if (result == MEND_ERROR_OUT_OF_MEMORY) {
        learn_from_refusal(heap, size_bytes);
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

void mend_step_drop_parts(mend_heap *heap, mend_cluster parts[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mend_chunk *chunk = parts[i].chunk;
        const uint64_t address = chunk != NULL ? chunk->claim.address : 0;
        if (address != 0) {
            chunk->claim.address = 0;
            mend_layout_attach(heap, chunk, chunk->zone, address, &chunk->claim.waits);
        } else if (parts[i].is_created && chunk->address == 0 &&
                   mend_retire_holds(heap, chunk->memory.handle) == NULL) {
            mend_step_undo_create(heap, chunk);
        }
        parts[i].chunk = NULL;
        parts[i].is_created = false;
    }
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
        mend_chunks_note_others(&heap->chunks, heap->shortage.others_bytes);
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

/*
 * Peer devices: the other devices that may access a pool's memory. cudaDeviceEnablePeerAccess does
 * not affect mapped memory. Each mapping names its devices, and work of any other device loses its
 * context. So a pool names its own device and, once the process has a pool on another device that
 * can reach the memory, that device too.
 */

static bool includes(const mend_heap *heap, int device)
{
    bool is_there = false;
    for (int i = 0; i < heap->allowed.count; i++) {
        is_there = is_there || heap->allowed.devices[i] == device;
    }
    return is_there;
}

static void append(mend_heap *heap, int device)
{
    assert(device >= 0);
    assert(heap->allowed.count < MEND_DEVICE_LIMIT + 1);
    assert(!includes(heap, device));
    heap->allowed.devices[heap->allowed.count++] = device;
}

void mend_access_init(mend_heap *heap)
{
    heap->allowed.count = 0;
    append(heap, heap->config.device);
    for (int i = 0; i < MEND_DEVICE_LIMIT; i++) {
        if ((heap->config.peers >> i & 1) != 0 && i != heap->config.device) {
            append(heap, i);
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

/* The caller holds `grow`, so nothing is mapped or unmapped meanwhile. An unmapped, inaccessible or
 * sleeping chunk gets access for all devices when it is restored. */
static mend_result allow_all(mend_heap *heap, int device)
{
    for (const mend_chunk *at = mend_chunk_from(&heap->chunks, 0); at != NULL;) {
        const uint64_t address = at->address;
        const uint64_t bytes = mend_access_stretch(&at, true);
        MEND_TRY(bytes > 0 ? allow(heap, address, bytes, device) : MEND_OK);
    }
    MEND_TREE_EACH(const mend_mapped_import, import, by_address, &heap->imports.by_address) {
        MEND_TRY(allow(heap, import->at, import->bytes, device));
    }
    return MEND_OK;
}

mend_result mend_access_add(mend_heap *heap, int device)
{
    mend_driver_scope scope;
    if (includes(heap, device)) {
        return MEND_OK;
    }
    MEND_TRY(mend_driver_scope_open(heap, &scope));
    mend_result result = allow_all(heap, device);
    if (result == MEND_OK) {
        append(heap, device);
    }
    mend_driver_scope_close(heap, &scope);
    return result;
}
