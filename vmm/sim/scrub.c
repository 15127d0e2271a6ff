/* Scrubbing: the device cleans freed memory in the background before it gives it out again. Dirty
 * memory is a number that falls with the clock. A creation that needs more clean memory pays for
 * the time until it is clean, by the cost `scrub`. */
#include "sim/state.h"

#include <assert.h>

#include "base/align.h"

uint64_t mend_sim_free_bytes(const mend_sim *sim, int device)
{
    const mend_sim_device *of = &sim->devices[device];
    assert(of->charged_bytes + of->foreign_bytes <= sim->config.memory_bytes);
    return sim->config.memory_bytes - of->charged_bytes - of->foreign_bytes;
}

/* Accounts for memory cleaned since the last time. */
static void settle(mend_sim *sim, mend_sim_device *of)
{
    typedef unsigned __int128 wide;
    uint64_t mib_ns = sim->price[MEND_CALL_scrub].mib_ns;
    uint64_t elapsed_ns = sim->now_ns > of->clean_ns ? sim->now_ns - of->clean_ns : 0;
    wide cleaned = mib_ns != 0 ? (wide)elapsed_ns * MEND_MIB / mib_ns : of->dirty_bytes;
    of->dirty_bytes -= cleaned < of->dirty_bytes ? (uint64_t)cleaned : of->dirty_bytes;
    of->clean_ns = mend_max_u64(of->clean_ns, sim->now_ns);
}

void mend_sim_scrub_given(mend_sim *sim, int device, uint64_t bytes)
{
    mend_sim_device *of = &sim->devices[device];
    settle(sim, of);
    of->dirty_bytes += bytes;
}

void mend_sim_scrub_for(mend_sim *sim, int device, uint64_t bytes)
{
    mend_sim_device *of = &sim->devices[device];
    settle(sim, of);
    uint64_t free_bytes = mend_sim_free_bytes(sim, device);
    uint64_t dirty_bytes = mend_min_u64(of->dirty_bytes, free_bytes);
    uint64_t clean_bytes = free_bytes - dirty_bytes;
    uint64_t awaited = bytes > clean_bytes ? mend_min_u64(bytes - clean_bytes, dirty_bytes) : 0;
    uint64_t wait_ns =
        (uint64_t)((unsigned __int128)awaited * sim->price[MEND_CALL_scrub].mib_ns / MEND_MIB);
    assert(of->dirty_bytes >= awaited);
    of->dirty_bytes -= awaited;
    sim->bill_scrub_ns += wait_ns;
    if (sim->config.prices_advance_clock) {
        of->clean_ns = sim->now_ns + wait_ns; /* this wait cleans nothing else */
    }
}
