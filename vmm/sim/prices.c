/* Prices: the cost of each call, added to the ledger and, if asked for, to the clock. */
#include <assert.h>
#include <string.h>

#include "base/align.h"
#include "sim/scrub.h"

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
        .host_alloc = {.call_ns = 50000, .mib_ns = 200000},
        .host_free = {.call_ns = 50000, .mib_ns = 50000},
        .host_copy = {.call_ns = 5000, .mib_ns = 40000},
    };
}

/* In the sources of the driver, set_access and unmap cost time for each mapping: they write page
 * tables and wait for the device once for each. */
static void fill_per_mapping(mend_sim_prices *prices)
{
    mend_sim_reference_prices(prices);
    prices->map = (mend_sim_price){.call_ns = 2000};
    prices->set_access = (mend_sim_price){.call_ns = 4000, .mapping_ns = 30000};
    prices->unmap = (mend_sim_price){.call_ns = 3000, .mapping_ns = 22000};
}

mend_result mend_sim_prices_named(const char *name, mend_sim_prices *prices)
{
    static const struct {
        const char *name;
        void (*fill)(mend_sim_prices *prices);
    } lists[] = {{"reference", mend_sim_reference_prices}, {"per-mapping", fill_per_mapping}};
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists) && name != NULL && prices != NULL; i++) {
        if (strcmp(lists[i].name, name) == 0) {
            lists[i].fill(prices);
            return MEND_OK;
        }
    }
    return MEND_ERROR_INVALID_ARGUMENT;
}

static void fill_by_call(mend_sim_price by_call[MEND_SIM_PRICE_ROWS], const mend_sim_prices *prices)
{
    /* `synchronize` is the price of three calls. */
    enum { MEND_CALL_synchronize = MEND_CALL_context_synchronize };
#define X(call) by_call[MEND_CALL_##call] = prices->call;
    MEND_SIM_PRICED_CALLS(X)
#undef X
    by_call[MEND_CALL_stream_synchronize] = prices->synchronize;
    by_call[MEND_CALL_event_synchronize] = prices->synchronize;
}

void mend_sim_prices_apply(mend_sim *sim, const mend_sim_prices *prices,
                           const mend_sim_prices *compared)
{
    mend_sim_prices reference;
    mend_sim_reference_prices(&reference);
    fill_by_call(sim->price, prices != NULL ? prices : &reference);
    if (compared != NULL) {
        fill_by_call(sim->compared_price, compared);
    }
}

typedef unsigned __int128 wide;

/* Adds without overflow: prices come from files and sizes from traces, so a sum may reach the
 * largest time. */
static uint64_t sum_to_the_end(uint64_t time_ns, wide more_ns)
{
    wide sum = time_ns + more_ns;
    return sum < UINT64_MAX ? (uint64_t)sum : UINT64_MAX;
}

/* The cost of the current call by a price list. */
static wide cost_of(const mend_sim *sim, const mend_sim_price *price)
{
    return (wide)sim->bill_bytes * price->mib_ns / MEND_MIB + price->call_ns +
           (wide)sim->bill_mappings * price->mapping_ns;
}

void mend_sim_charge(mend_sim *sim, bool did_its_work)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(sim->bill_row < MEND_SIM_PRICE_ROWS);
    mend_sim_ledger *ledger = &sim->ledger;
    wide cost = sim->bill_scrub_ns;
    wide compared = 0;
    if (did_its_work) {
        cost += cost_of(sim, &sim->price[sim->bill_row]);
        compared = cost_of(sim, &sim->compared_price[sim->bill_row]);
    }
    ledger->scrub_wait_ns += sim->bill_scrub_ns;
    ledger->driver_time_ns = sum_to_the_end(ledger->driver_time_ns, cost);
    ledger->compared_time_ns = sum_to_the_end(ledger->compared_time_ns, compared);
    if (sim->config.prices_advance_clock && cost != 0) {
        mend_sim_run_until(sim, sum_to_the_end(sim->now_ns, cost));
    }
}
