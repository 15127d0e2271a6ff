/*
 * A driver without virtual memory management: a decorator that makes reservations of plain
 * allocations, so that a heap works over them as over addresses that are scarce.
 */
#include "driver/forward.h"

#include <stdlib.h>

/* Bytes. Plain memory has no page; small ones waste little at the end of a reservation. */
#define PAGE_BYTES (64 * MEND_KIB)

/* What a reservation is made of. */
typedef struct plain_range {
    uint64_t allocation; /* the address that the driver gave, at or below the reservation's */
    uint64_t allocated_bytes;
} plain_range;

/* ---- reservations are allocations ------------------------------------------------------------ */

static bool is_allowed(const mend_plain *plain, uint64_t size_bytes)
{
    return plain->range_bytes <= plain->limit_bytes &&
           size_bytes <= plain->limit_bytes - plain->range_bytes;
}

/* Counts the bytes before they are allocated. False: the limit or malloc does not allow them. */
static bool begin_range(mend_plain *plain, uint64_t size_bytes)
{
    mend_mutex_lock(&plain->mutex);
    bool fits = is_allowed(plain, size_bytes) && mend_pointer_map_promise(&plain->ranges);
    plain->range_bytes += fits ? size_bytes : 0;
    mend_mutex_unlock(&plain->mutex);
    return fits;
}

static void end_range(mend_plain *plain, uint64_t address, plain_range *range, uint64_t size_bytes)
{
    mend_mutex_lock(&plain->mutex);
    mend_pointer_map_end_promise(&plain->ranges);
    if (address != 0) {
        mend_pointer_map_insert(&plain->ranges, address, range);
    } else {
        plain->range_bytes -= size_bytes;
    }
    mend_mutex_unlock(&plain->mutex);
}

/* The heap does not use the last page: it gives room to align. */
static mend_status plain_reserve(const mend_driver *driver, uint64_t size_bytes,
                                 uint64_t alignment_bytes, uint64_t hint, uint64_t *address)
{
    mend_plain *plain = driver->state;
    uint64_t alignment = mend_max_u64(alignment_bytes, PAGE_BYTES);
    uint64_t bytes = mend_align_up(size_bytes - PAGE_BYTES + alignment, MEND_PLAIN_STEP_BYTES);
    uint64_t allocation = 0;
    (void)hint;
    assert(size_bytes % PAGE_BYTES == 0);
    assert(size_bytes > PAGE_BYTES);
    plain_range *range = malloc(sizeof(*range));
    if (range == NULL || !begin_range(plain, bytes)) {
        free(range);
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    mend_status status = plain->pass.inner->plain_alloc(plain->pass.inner, bytes, &allocation);
    uint64_t start = mend_align_up(allocation, alignment);
    *range = (plain_range){allocation, bytes};
    end_range(plain, status == MEND_DRIVER_OK ? start : 0, range, bytes);
    if (status != MEND_DRIVER_OK) {
        free(range);
        return status;
    }
    *address = start;
    return MEND_DRIVER_OK;
}

static mend_status plain_address_free(const mend_driver *driver, uint64_t address,
                                      uint64_t size_bytes)
{
    mend_plain *plain = driver->state;
    mend_mutex_lock(&plain->mutex);
    plain_range *range = mend_pointer_map_find(&plain->ranges, address);
    mend_mutex_unlock(&plain->mutex);
    (void)size_bytes;
    MEND_TRY_CALL(plain->pass.inner->plain_free(plain->pass.inner, range->allocation));
    mend_mutex_lock(&plain->mutex);
    mend_pointer_map_remove(&plain->ranges, address);
    plain->range_bytes -= range->allocated_bytes;
    mend_mutex_unlock(&plain->mutex);
    free(range);
    return MEND_DRIVER_OK;
}

/* ---- chunks are numbers ---------------------------------------------------------------------- */

static mend_status plain_create(const mend_driver *driver, uint64_t size_bytes,
                                const mend_chunk_properties *properties, mend_chunk_handle *handle)
{
    mend_plain *plain = driver->state;
    (void)properties;
    mend_mutex_lock(&plain->mutex);
    bool has_room = mend_pointer_map_reserve(&plain->sizes);
    if (has_room) {
        *handle = ++plain->last_handle;
        plain->chunk_bytes += size_bytes;
        mend_pointer_map_insert(&plain->sizes, mend_handle_key(*handle),
                                (void *)(uintptr_t)size_bytes);
    }
    mend_mutex_unlock(&plain->mutex);
    return has_room ? MEND_DRIVER_OK : MEND_DRIVER_OUT_OF_MEMORY;
}

static mend_status plain_release(const mend_driver *driver, mend_chunk_handle handle)
{
    mend_plain *plain = driver->state;
    mend_mutex_lock(&plain->mutex);
    uint64_t bytes = (uintptr_t)mend_pointer_map_remove(&plain->sizes, mend_handle_key(handle));
    assert(bytes > 0);
    assert(plain->chunk_bytes >= bytes);
    plain->chunk_bytes -= bytes;
    mend_mutex_unlock(&plain->mutex);
    return MEND_DRIVER_OK;
}

static mend_status plain_map(const mend_driver *driver, uint64_t address, uint64_t size_bytes,
                             uint64_t offset_bytes, mend_chunk_handle handle)
{
    (void)driver;
    (void)address;
    (void)size_bytes;
    (void)offset_bytes;
    (void)handle;
    return MEND_DRIVER_OK;
}

static mend_status plain_unmap(const mend_driver *driver, uint64_t address, uint64_t size_bytes)
{
    (void)driver;
    (void)address;
    (void)size_bytes;
    return MEND_DRIVER_OK;
}

static mend_status plain_set_access(const mend_driver *driver, uint64_t address,
                                    uint64_t size_bytes, const int *devices, int device_count,
                                    mend_access access)
{
    (void)driver;
    (void)address;
    (void)size_bytes;
    (void)devices;
    (void)access;
    return device_count == 1 ? MEND_DRIVER_OK : MEND_DRIVER_NOT_SUPPORTED;
}

/* What reservations hold beyond chunks is free for them. */
static mend_status plain_memory_info(const mend_driver *driver, uint64_t *free_bytes,
                                     uint64_t *total_bytes)
{
    mend_plain *plain = driver->state;
    uint64_t bytes = 0;
    MEND_TRY_CALL(plain->pass.inner->memory_info(plain->pass.inner, &bytes, total_bytes));
    *free_bytes = bytes + mend_plain_spare_bytes(plain);
    return MEND_DRIVER_OK;
}

/* ---- for the pool ---------------------------------------------------------------------------- */

void mend_plain_init(mend_plain *plain, const mend_driver *inner, uint64_t limit_bytes)
{
    *plain = (mend_plain){.limit_bytes = limit_bytes};
    mend_passing_init(&plain->pass, inner);
    plain->pass.table.reserve = plain_reserve;
    plain->pass.table.address_free = plain_address_free;
    plain->pass.table.create = plain_create;
    plain->pass.table.release = plain_release;
    plain->pass.table.map = plain_map;
    plain->pass.table.unmap = plain_unmap;
    plain->pass.table.set_access = plain_set_access;
    plain->pass.table.memory_info = plain_memory_info;
    mend_mutex_init(&plain->mutex, MEND_RANK_DRIVER);
    mend_pointer_map_init(&plain->ranges);
    mend_pointer_map_init(&plain->sizes);
}

void mend_plain_set_limit(mend_plain *plain, uint64_t limit_bytes)
{
    mend_mutex_lock(&plain->mutex);
    plain->limit_bytes = limit_bytes;
    mend_mutex_unlock(&plain->mutex);
}

bool mend_plain_may_hold(mend_plain *plain, uint64_t size_bytes)
{
    mend_mutex_lock(&plain->mutex);
    const bool may =
        is_allowed(plain, mend_align_up(size_bytes + PAGE_BYTES, MEND_PLAIN_STEP_BYTES));
    mend_mutex_unlock(&plain->mutex);
    return may;
}

static uint64_t beyond(mend_plain *plain, const uint64_t *bytes, const uint64_t *others)
{
    mend_mutex_lock(&plain->mutex);
    const uint64_t beyond_bytes = *bytes - mend_min_u64(*bytes, *others);
    mend_mutex_unlock(&plain->mutex);
    return beyond_bytes;
}

uint64_t mend_plain_spare_bytes(mend_plain *plain)
{
    return beyond(plain, &plain->range_bytes, &plain->chunk_bytes);
}

uint64_t mend_plain_unbacked_bytes(mend_plain *plain)
{
    return beyond(plain, &plain->chunk_bytes, &plain->range_bytes);
}

void mend_plain_end(mend_plain *plain)
{
    for (size_t i = 0; i < plain->ranges.capacity; i++) {
        free(plain->ranges.entries[i].value);
    }
    mend_pointer_map_clear(&plain->ranges);
    mend_pointer_map_clear(&plain->sizes);
    mend_mutex_destroy(&plain->mutex);
}

void mend_plain_describe(mend_device_info *info)
{
    info->granularity_bytes = PAGE_BYTES;
    info->recommended_bytes = PAGE_BYTES;
    info->share_file_descriptor = info->share_fabric = info->rdma = info->multicast = false;
    info->aliasing = info->aliases_at_once = false;
    info->peers = 0;
}
