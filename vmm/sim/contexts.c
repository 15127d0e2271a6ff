/* Devices opened, and each thread's stack of current contexts. */
#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/align.h"
#include "sim/state.h"

/* The primary context of device 0. Device 1 has the next number. */
#define CONTEXT_BASE  ((uintptr_t)0xC000)
#define MOST_CONTEXTS ((uintptr_t)MEND_SIM_MOST_DEVICES * (1 + MEND_SIM_MOST_GREEN))

/* Identifies a thread to every simulated device of the process. A pthread_t can be reused by
 * another thread, which would then inherit a stack of contexts. */
static uint64_t this_thread(void)
{
    static atomic_uint_fast64_t last;
    static _Thread_local uint64_t number;
    if (number == 0) {
        number = atomic_fetch_add(&last, 1) + 1;
    }
    return number;
}

mend_sim_thread *mend_sim_thread_get(mend_sim *sim)
{
    assert(mend_mutex_is_held(&sim->mutex));
    uint64_t number = this_thread();
    MEND_LIST_EACH(mend_sim_thread, thread, link, &sim->threads) {
        if (thread->number == number) {
            return thread;
        }
    }
    if (!mend_slab_reserve(&sim->thread_slab, 1)) {
        return NULL;
    }
    mend_sim_thread *thread = mend_slab_take(&sim->thread_slab);
    thread->number = number;
    mend_list_insert_after(&sim->threads, &thread->link);
    return thread;
}

mend_status mend_sim_current_context(mend_sim *sim, int *context)
{
    mend_sim_thread *thread = mend_sim_thread_get(sim);
    NEED(thread != NULL);
    FORBID(thread->depth == 0, MEND_DRIVER_INVALID_CONTEXT,
           "%s: no context is current in this thread", mend_driver_call_name(sim->call));
    *context = thread->contexts[thread->depth - 1];
    return MEND_DRIVER_OK;
}

mend_status mend_sim_current_device(mend_sim *sim, int *device)
{
    int context = 0;
    TRY(mend_sim_current_context(sim, &context));
    *device = mend_sim_device_of(context);
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_context_device(mend_sim *sim, int *device)
{
    mend_sim_thread *thread = mend_sim_thread_get(sim);
    if (thread == NULL || thread->depth == 0) {
        return thread == NULL ? MEND_DRIVER_OUT_OF_MEMORY : MEND_DRIVER_INVALID_CONTEXT;
    }
    *device = mend_sim_device_of(thread->contexts[thread->depth - 1]);
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_device_count(mend_sim *sim, int *count)
{
    *count = sim->config.device_count;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_memory_info(mend_sim *sim, uint64_t *free_bytes, uint64_t *total_bytes)
{
    int device = 0;
    TRY(mend_sim_current_device(sim, &device));
    *free_bytes = mend_sim_free_bytes(sim, device);
    *total_bytes = sim->config.memory_bytes;
    return MEND_DRIVER_OK;
}

mend_context mend_sim_context_of(int context)
{
    assert(context >= 0);
    assert((uintptr_t)context < MOST_CONTEXTS);
    return (mend_context)(CONTEXT_BASE + (uintptr_t)context);
}

bool mend_sim_can_reach(const mend_sim *sim, int other, int device)
{
    int group = sim->config.peer_group;
    return other != device && (group == 0 || other / group == device / group);
}

static uint64_t peers_of(const mend_sim *sim, int device)
{
    uint64_t peers = 0;
    for (int i = 0; i < sim->config.device_count; i++) {
        peers |= mend_sim_can_reach(sim, i, device) ? UINT64_C(1) << i : 0;
    }
    return peers;
}

mend_status mend_sim_fabric_status(const mend_sim *sim)
{
    switch (sim->config.fabric) {
    case MEND_SIM_FABRIC_WORKS:
        return MEND_DRIVER_OK;
    case MEND_SIM_FABRIC_REFUSED:
        return MEND_DRIVER_NOT_PERMITTED;
    case MEND_SIM_FABRIC_NONE:
        break;
    }
    return MEND_DRIVER_NOT_SUPPORTED;
}

mend_status mend_sim_do_device_open(mend_sim *sim, int device, mend_device_info *info)
{
    if (device < 0 || device >= sim->config.device_count) {
        return MEND_DRIVER_INVALID_DEVICE;
    }
    *info = (mend_device_info){
        .context = mend_sim_context_of(device),
        .total_bytes = sim->config.memory_bytes,
        .granularity_bytes = sim->config.page_bytes,
        .recommended_bytes = sim->config.page_bytes,
        .virtual_memory = sim->config.has_no_virtual_memory == 0,
        .memory_pools = sim->config.has_no_memory_pools == 0,
        .host_register = sim->registers_host,
        .share_file_descriptor = true,
        .share_fabric = sim->config.fabric != MEND_SIM_FABRIC_NONE,
        .rdma = sim->config.has_rdma != 0,
        .integrated = sim->config.is_integrated != 0,
        .peers = peers_of(sim, device),
    };
    snprintf(info->name, sizeof(info->name), "simulated device %d", device);
    sim->devices[device].open_count++;
    sim->ledger.contexts_open++;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_device_close(mend_sim *sim, int device)
{
    if (device < 0 || device >= sim->config.device_count) {
        return MEND_DRIVER_INVALID_DEVICE;
    }
    FORBID(sim->devices[device].open_count == 0, MEND_DRIVER_INVALID_CONTEXT,
           "device_close: device %d is not open", device);
    assert(sim->ledger.contexts_open >= sim->devices[device].open_count);
    sim->devices[device].open_count--;
    sim->ledger.contexts_open--;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_context_push(mend_sim *sim, mend_context context)
{
    uintptr_t number = (uintptr_t)context - CONTEXT_BASE;
    uintptr_t device = number % MEND_SIM_MOST_DEVICES;
    FORBID((uintptr_t)context < CONTEXT_BASE || number >= MOST_CONTEXTS ||
               device >= (uintptr_t)sim->config.device_count ||
               sim->devices[device].open_count == 0,
           MEND_DRIVER_INVALID_CONTEXT, "context_push: %p is not the context of an open device",
           (void *)context);
    mend_sim_thread *thread = mend_sim_thread_get(sim);
    if (thread == NULL || thread->depth == MEND_SIM_CONTEXT_DEPTH) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    thread->contexts[thread->depth++] = (int)number;
    return MEND_DRIVER_OK;
}

mend_status mend_sim_do_context_pop(mend_sim *sim)
{
    mend_sim_thread *thread = mend_sim_thread_get(sim);
    FORBID(thread == NULL || thread->depth == 0, MEND_DRIVER_INVALID_CONTEXT,
           "context_pop: no context is current in this thread");
    thread->depth--;
    return MEND_DRIVER_OK;
}
