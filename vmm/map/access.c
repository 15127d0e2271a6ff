/*
 * Peer devices: the other devices that may access a pool's memory. cudaDeviceEnablePeerAccess does
 * not affect mapped memory: each mapping names the devices that may access it, and work of any
 * other device loses its context. So a pool names its own device and, once the process has a pool
 * on another device that can reach the memory, that device too.
 */
#include "map/map.h"

#include "share/share.h"

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
        heap, MEND_ANSWER(set_access, mend_step_allow_to(heap, address, size_bytes, &device, 1)));
}

/* The caller holds `grow`, so nothing is mapped or unmapped meanwhile. A chunk that lacks its
 * mapping or access, or sleeps, gets access for all devices when it is restored. */
static mend_result allow_all(mend_heap *heap, int device)
{
    for (const mend_chunk *at = mend_chunk_from(&heap->chunks, 0); at != NULL;) {
        const uint64_t address = at->address;
        const uint64_t bytes = mend_access_stretch(&at, true);
        MEND_TRY(bytes > 0 ? allow(heap, address, bytes, device) : MEND_OK);
    }
    MEND_TREE_EACH(const mend_imported, import, by_address, &heap->imports.by_address) {
        MEND_TRY(allow(heap, import->mapped_at, import->all_bytes, device));
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
