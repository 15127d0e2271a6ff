/* The checker of accesses: whether work may access these addresses during its whole run. */
#include <assert.h>
#include <inttypes.h>

#include "base/align.h"
#include "sim/state.h"

static const char *kind_name(mend_sim_item_kind kind)
{
    switch (kind) {
    case MEND_SIM_ITEM_WRITE_TAG:
    case MEND_SIM_ITEM_WRITE_WORDS:
        return "a write";
    case MEND_SIM_ITEM_VERIFY_TAG:
    case MEND_SIM_ITEM_VERIFY_WORDS:
        return "a verification";
    case MEND_SIM_ITEM_COPY:
        return "a copy";
    case MEND_SIM_ITEM_FILL:
        return "a fill";
    default:
        return "work";
    }
}

/* Whether the item writes to its granules. */
static bool writes(mend_sim_item_kind kind)
{
    return kind == MEND_SIM_ITEM_WRITE_TAG || kind == MEND_SIM_ITEM_WRITE_WORDS ||
           kind == MEND_SIM_ITEM_COPY || kind == MEND_SIM_ITEM_FILL ||
           kind == MEND_SIM_ITEM_REWRITE;
}

/* The fault at the first address of the range that the item may not access, or NULL. */
static const char *find_fault(const mend_sim *sim, const mend_sim_item *item, bool is_written,
                              uint64_t address, uint64_t size, uint64_t *fault)
{
    uint64_t at = address;
    uint64_t left = size;
    const mend_sim_mapping *mapping = mend_sim_mapping_at(sim, address);
    while (left > 0) {
        *fault = at;
        if (mapping == NULL || mapping->address > at) {
            return "is not mapped";
        }
        if ((mapping->access_devices & UINT64_C(1) << item->device) == 0) {
            return "is mapped, but the device was given no access";
        }
        if (is_written && (mapping->write_devices & UINT64_C(1) << item->device) == 0) {
            return "the device may only read";
        }
        if (mapping->access_sequence > item->sequence && mapping->access_ns >= item->start_ns) {
            return "was mapped and made accessible only after the work had started";
        }
        uint64_t covered = mend_min_u64(left, mapping->address + mapping->size_bytes - at);
        at += covered;
        left -= covered;
        mapping = mend_sim_mapping_next(mapping);
    }
    return NULL;
}

static mend_status check_range(mend_sim *sim, const mend_sim_item *item, bool is_written,
                               uint64_t address, uint64_t size)
{
    uint64_t fault = 0;
    const char *reason = find_fault(sim, item, is_written, address, size, &fault);
    const bool is_mapped = reason == NULL || mend_sim_mapping_at(sim, fault) != NULL;
    const char *asleep = is_mapped ? "" : mend_sim_note_at(sim, fault);
    FORBID(reason != NULL, MEND_DRIVER_ILLEGAL_ADDRESS,
           "%s of " RANGE_FORMAT " on stream %" PRIu64 ", from %" PRIu64 " ns to %" PRIu64
           " ns, touches 0x%" PRIx64 ", which %s%s%s",
           kind_name(item->kind), RANGE_OF(address, size), item->stream_id, item->start_ns,
           item->complete_ns, fault, reason, *asleep != 0 ? ": " : "", asleep);
    return MEND_DRIVER_OK;
}

/* Checks the whole span first, gaps included, and single granules only if that fails: usually it
 * does not. */
static mend_status check_granules(mend_sim *sim, const mend_sim_item *item)
{
    const bool is_written = writes(item->kind);
    if (item->granule_count == 0) {
        return MEND_DRIVER_OK;
    }
    assert(item->granule_count == 1 || item->stride_bytes >= item->granule_bytes);
    uint64_t span = (item->granule_count - 1) * item->stride_bytes + item->granule_bytes;
    uint64_t fault = 0;
    if (find_fault(sim, item, is_written, item->address, span, &fault) == NULL) {
        return MEND_DRIVER_OK;
    }
    for (uint64_t i = 0; i < item->granule_count; i++) {
        TRY(check_range(sim, item, is_written, item->address + i * item->stride_bytes,
                        item->granule_bytes));
    }
    return MEND_DRIVER_OK;
}

mend_status mend_sim_check_item(mend_sim *sim, const mend_sim_item *item)
{
    assert(item->device >= 0);
    assert(item->device < sim->config.device_count);
    assert(item->start_ns <= item->complete_ns);
    if (item->kind == MEND_SIM_ITEM_SPIN || item->kind == MEND_SIM_ITEM_ASYNC_FREE) {
        return MEND_DRIVER_OK;
    }
    FORBID(item->hole != 0, MEND_DRIVER_ILLEGAL_ADDRESS,
           "%s on stream %" PRIu64 ", from %" PRIu64 " ns to %" PRIu64
           " ns, touches the mapping at 0x%" PRIx64
           ", to which access was given again while the work ran",
           kind_name(item->kind), item->stream_id, item->start_ns, item->complete_ns, item->hole);
    if (item->kind != MEND_SIM_ITEM_COPY || item->host == NULL) {
        TRY(check_granules(sim, item));
    }
    if (item->source != 0) {
        TRY(check_range(sim, item, false, item->source, item->granule_bytes));
    }
    if (item->kind == MEND_SIM_ITEM_VERIFY_WORDS) {
        TRY(check_range(sim, item, true, item->mismatches, sizeof(uint64_t)));
    }
    return MEND_DRIVER_OK;
}
