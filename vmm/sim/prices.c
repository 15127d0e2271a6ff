/* Prices: what a call costs, added up in the ledger and, where asked for, taken by the clock. */
#include "base/align.h"
#include "sim/sim.h"

void mend_sim_reference_prices(mend_sim_prices *prices)
{
    *prices = (mend_sim_prices){
        .reserve = {.call_ns = 20000},
        .create = {.call_ns = 40000, .mib_ns = 1500},
        .release = {.call_ns = 20000, .mib_ns = 500},
        .map = {.call_ns = 2000},
        .unmap = {.call_ns = 8000, .mapping_ns = 12000},
        .set_access = {.call_ns = 12000, .mapping_ns = 3000},
        .plain_alloc = {.call_ns = 60000, .mib_ns = 300},
        .plain_free = {.call_ns = 100000},
        .async_alloc = {.call_ns = 2000},
        .async_free = {.call_ns = 2000},
        .event_record = {.call_ns = 1000},
        .event_query = {.call_ns = 1000},
        .stream_wait = {.call_ns = 1000},
        .synchronize = {.call_ns = 200000},
        .memory_info = {.call_ns = 10000},
        .copy = {.call_ns = 5000, .mib_ns = 1000},
    };
}

void mend_sim_prices_apply(mend_sim *sim, const mend_sim_prices *prices)
{
    /* `synchronize` is the price of three calls. */
    enum { MEND_CALL_synchronize = MEND_CALL_context_synchronize };
#define X(call) sim->price[MEND_CALL_##call] = prices->call;
    MEND_SIM_PRICED_CALLS(X)
#undef X
    sim->price[MEND_CALL_stream_synchronize] = prices->synchronize;
    sim->price[MEND_CALL_event_synchronize] = prices->synchronize;
}

typedef unsigned __int128 wide;

/* Prices come from files, sizes from traces: time may end, but it never runs backwards. */
static uint64_t sum_to_the_end(uint64_t time_ns, wide more_ns)
{
    wide sum = time_ns + more_ns;
    return sum < UINT64_MAX ? (uint64_t)sum : UINT64_MAX;
}

void mend_sim_charge(mend_sim *sim)
{
    const mend_sim_price *price = &sim->price[sim->call];
    wide cost = (wide)sim->bill_bytes * price->mib_ns / MEND_MIB + price->call_ns +
                (wide)sim->bill_mappings * price->mapping_ns;
    sim->ledger.driver_time_ns = sum_to_the_end(sim->ledger.driver_time_ns, cost);
    if (sim->config.prices_advance_clock && cost != 0) {
        mend_sim_run_until(sim, sum_to_the_end(sim->now_ns, cost));
    }
}
