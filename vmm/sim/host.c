/* Pinned memory of the host: copies from and to it run in stream order, and the call returns before
 * they are done. One that a queued copy still uses cannot be freed. */

#include <assert.h>
#include <inttypes.h>
#include <sys/mman.h>

#include "base/align.h"
#include "sim/captures.h"

enum { HOST_PAGE_BYTES = 4096 };

/* Larger than any host's memory. Prevents overflow when sizes are rounded up. */
#define MOST_HOST_BYTES (UINT64_C(1) << 50)

typedef struct pinned_memory {
    mend_tree_node by_address;
    char *pointer;
    uint64_t size_bytes;
    bool is_callers; /* registered */
} pinned_memory;

#define PINNED_OF(node) MEND_CONTAINER_OR_NULL(node, pinned_memory, by_address)

MEND_TREE_ORDER(compare_addresses, pinned_memory, by_address, pointer);

void mend_sim_host_init(mend_sim *sim)
{
    mend_tree_init(&sim->pinned, compare_addresses);
    mend_slab_init(&sim->pinned_slab, sizeof(pinned_memory));
}

void mend_sim_host_clear(mend_sim *sim)
{
    MEND_TREE_EACH(pinned_memory, memory, by_address, &sim->pinned) {
        if (!memory->is_callers) {
            munmap(memory->pointer, (size_t)memory->size_bytes);
        }
    }
}

static pinned_memory *at_or_before(const mend_sim *sim, const void *pointer)
{
    pinned_memory key = {.pointer = (char *)(uintptr_t)pointer};
    return PINNED_OF(mend_tree_at_or_before(&sim->pinned, &key.by_address));
}

bool mend_sim_host_is_pinned(const mend_sim *sim, const void *pointer, uint64_t size_bytes)
{
    const pinned_memory *memory = at_or_before(sim, pointer);
    uint64_t offset =
        memory != NULL ? (uint64_t)((const char *)pointer - memory->pointer) : UINT64_MAX;
    return memory != NULL && offset <= memory->size_bytes &&
           size_bytes <= memory->size_bytes - offset;
}

static mend_status begin(mend_sim *sim)
{
    int device = 0;
    TRY(mend_sim_current_device(sim, &device));
    return mend_sim_capture_admits_unsafe(sim);
}

static void add(mend_sim *sim, void *pointer, uint64_t size_bytes, bool is_callers)
{
    pinned_memory *memory = mend_slab_take(&sim->pinned_slab);
    memory->pointer = pointer;
    memory->size_bytes = size_bytes;
    memory->is_callers = is_callers;
    mend_tree_insert(&sim->pinned, &memory->by_address);
    sim->ledger.host_allocations++;
    sim->ledger.host_bytes += size_bytes;
}

mend_status mend_sim_do_host_alloc(mend_sim *sim, uint64_t size_bytes, void **pointer)
{
    TRY(begin(sim));
    if (size_bytes == 0 || size_bytes > MOST_HOST_BYTES) {
        return size_bytes == 0 ? MEND_DRIVER_INVALID_VALUE : MEND_DRIVER_OUT_OF_MEMORY;
    }
    uint64_t all_bytes = mend_align_up(size_bytes, HOST_PAGE_BYTES);
    void *mapped = MAP_FAILED;
    if (mend_slab_reserve(&sim->pinned_slab, 1)) {
        mapped = mmap(NULL, (size_t)all_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (mapped == MAP_FAILED) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    add(sim, mapped, all_bytes, false);
    *pointer = mapped;
    return MEND_DRIVER_OK;
}

static bool lies_in(const pinned_memory *memory, const void *pointer)
{
    const char *at = pointer;
    return at >= memory->pointer && at < memory->pointer + memory->size_bytes;
}

/* Whether a queued copy still reads or writes the memory. */
static bool is_in_use(const mend_sim *sim, const pinned_memory *memory)
{
    MEND_TREE_EACH(const mend_sim_item, item, by_completion, &sim->items) {
        if (lies_in(memory, item->host) || lies_in(memory, item->host_source)) {
            return true;
        }
    }
    return false;
}

static mend_status end(mend_sim *sim, void *pointer, bool is_callers, const char *call)
{
    TRY(begin(sim));
    pinned_memory *memory = at_or_before(sim, pointer);
    FORBID(memory == NULL || memory->pointer != pointer || memory->is_callers != is_callers,
           MEND_DRIVER_INVALID_VALUE, "%s: %p is not the start of an allocation", call, pointer);
    FORBID(is_in_use(sim, memory), MEND_DRIVER_INVALID_VALUE,
           "%s: a queued copy uses the %" PRIu64 " bytes at %p", call, memory->size_bytes, pointer);
    if (!is_callers) {
        munmap(memory->pointer, (size_t)memory->size_bytes);
    }
    sim->bill_bytes = memory->size_bytes;
    sim->ledger.host_allocations--;
    sim->ledger.host_bytes -= memory->size_bytes;
    mend_tree_remove(&sim->pinned, &memory->by_address);
    mend_slab_give(&sim->pinned_slab, memory);
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_host_free(mend_sim *sim, void *pointer)
{
    return end(sim, pointer, false, "host_free");
}

/* Only where a test says so: no other one depends on the machine's memory. */
mend_status mend_sim_do_host_register(mend_sim *sim, void *pointer, uint64_t size_bytes)
{
    TRY(begin(sim));
    if (!sim->registers_host) {
        return MEND_DRIVER_NOT_SUPPORTED;
    }
    if ((uintptr_t)pointer % HOST_PAGE_BYTES != 0 || size_bytes == 0) {
        return MEND_DRIVER_INVALID_VALUE;
    }
    if (!mend_slab_reserve(&sim->pinned_slab, 1)) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    add(sim, pointer, size_bytes, true);
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_host_unregister(mend_sim *sim, void *pointer)
{
    return sim->registers_host ? end(sim, pointer, true, "host_unregister")
                               : MEND_DRIVER_NOT_SUPPORTED;
}
