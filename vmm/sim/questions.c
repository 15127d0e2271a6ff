/* Queries beyond a driver's: the memory at an address, and the time when the work before an event
 * is complete. */
#include "base/align.h"
#include "sim/state.h"

mend_result mend_sim_event_time(mend_sim *sim, void *handle, uint64_t *time_ns)
{
    if (sim == NULL || time_ns == NULL) {
        return mend_sim_invalid("mend_sim_event_time: sim or time_ns is NULL");
    }
    mend_mutex_lock(&sim->mutex);
    const mend_sim_event *event = mend_sim_handles_find(&sim->event_handles, (uintptr_t)handle);
    bool is_known = event != NULL && event->capture_id == 0;
    if (is_known) {
        *time_ns = event->ready_ns;
    }
    mend_mutex_unlock(&sim->mutex);
    return is_known ? MEND_OK
                    : mend_sim_invalid("mend_sim_event_time: no event that was recorded outside "
                                       "of a capture");
}

/* Whether the device may access every address of the range. */
static bool is_accessible(const mend_sim *sim, int device, uint64_t address, uint64_t size_bytes)
{
    uint64_t end = address + size_bytes;
    while (address < end) {
        const mend_sim_mapping *mapping = mend_sim_mapping_at(sim, address);
        if (mapping == NULL || (mapping->access_devices & UINT64_C(1) << device) == 0) {
            return false;
        }
        address = mapping->address + mapping->size_bytes;
    }
    return true;
}

mend_result mend_sim_look_up(mend_sim *sim, int device, uint64_t address, uint64_t size_bytes,
                             mend_sim_place *place)
{
    if (sim == NULL || place == NULL || !MEND_STRUCT_IS_WHOLE(place) || device < 0 ||
        device >= sim->config.device_count || size_bytes == 0 ||
        size_bytes > UINT64_MAX - address) {
        return mend_sim_invalid("mend_sim_look_up: sim or place is NULL, its struct_size is wrong, "
                                "no such device, or an "
                                "empty range");
    }
    mend_mutex_lock(&sim->mutex);
    const mend_sim_mapping *mapping = mend_sim_mapping_at(sim, address);
    const mend_sim_place found = {
        .is_of_device = mend_sim_is_device_address(sim, address),
        .device = mapping != NULL ? mapping->chunk->device : -1,
        .is_plain = mapping != NULL && mapping->chunk->plain,
        .is_accessible = is_accessible(sim, device, address, size_bytes),
    };
    mend_mutex_unlock(&sim->mutex);
    mend_struct_write(place, &found, sizeof(found));
    return MEND_OK;
}
