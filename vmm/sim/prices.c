/* Prices: the cost of each call, added to the ledger and, if asked for, to the clock. */
#include <assert.h>
#include <string.h>

#include "base/align.h"
#include "sim/state.h"

static void fill_reference(mend_sim_prices *prices)
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

/* Measured on an H200 with CUDA 13.0 (bench/results/2026-11-26-H200). Each mapping that a call
 * covers costs the same. A chunk of 64 MiB costs little more than one of 2. */
static void fill_h200(mend_sim_prices *prices)
{
    *prices = (mend_sim_prices){
        .reserve = {.call_ns = 1900},
        .address_free = {.call_ns = 1900},
        .create = {.call_ns = 8828, .mib_ns = 6},
        .release = {.call_ns = 11799, .mib_ns = 246},
        .map = {.call_ns = 687},
        .unmap = {.call_ns = 1827, .mapping_ns = 14014, .mib_ns = 16},
        .set_access = {.call_ns = 822, .mapping_ns = 21049, .mib_ns = 50},
        .plain_alloc = {.call_ns = 61978, .mib_ns = 31},
        .plain_free = {.call_ns = 42850, .mib_ns = 290},
        .async_alloc = {.call_ns = 3610},
        .async_free = {.call_ns = 1065},
        .event_record = {.call_ns = 414},
        .event_query = {.call_ns = 1429},
        .stream_wait = {.call_ns = 400},
        .synchronize = {.call_ns = 1664},
        .memory_info = {.call_ns = 5371},
        .copy = {.call_ns = 13346, .mib_ns = 356},
        .host_alloc = {.mib_ns = 320035},
        .host_free = {.call_ns = 95192, .mib_ns = 79128},
        .host_copy = {.call_ns = 5000, .mib_ns = 40000},
    };
}

/* Measured by kvcached's bench_vmm for 2 MiB on an A100 (docs/formats/replay.md): creation is the
 * most expensive. A plain allocation is the sum of create, map and set_access. */
static void fill_kvcached_a100(mend_sim_prices *prices)
{
    fill_reference(prices);
    prices->reserve = (mend_sim_price){.call_ns = 19000};
    prices->create = (mend_sim_price){.call_ns = 193000};
    prices->release = (mend_sim_price){.call_ns = 23000};
    prices->map = (mend_sim_price){.call_ns = 1450};
    prices->unmap = (mend_sim_price){.mapping_ns = 25600};
    prices->set_access = (mend_sim_price){.mapping_ns = 36000};
    prices->plain_alloc = (mend_sim_price){.call_ns = 230000};
    prices->plain_free = (mend_sim_price){.call_ns = 150000};
}

mend_result mend_sim_prices_named(const char *name, mend_sim_prices *prices)
{
    static const struct {
        const char *name;
        void (*fill)(mend_sim_prices *prices);
    } lists[] = {
        {"h200", fill_h200}, {"reference", fill_reference}, {"kvcached-a100", fill_kvcached_a100}};
    const bool may_fill = name != NULL && prices != NULL && MEND_STRUCT_IS_WHOLE(prices);
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists) && may_fill; i++) {
        if (strcmp(lists[i].name, name) == 0) {
            mend_sim_prices all;
            lists[i].fill(&all);
            mend_struct_write(prices, &all, sizeof(all));
            return MEND_OK;
        }
    }
    return mend_sim_invalid(
        "mend_sim_prices_named: there are h200, reference and kvcached-a100, and "
        "prices begin with MEND_SIM_PRICES_INIT");
}

static void fill_by_call(mend_sim_price by_call[MEND_SIM_PRICE_ROWS], const mend_sim_prices *prices)
{
    /* `synchronize` is the price of three calls. */
    enum { MEND_CALL_synchronize = MEND_CALL_context_synchronize };
#define X(call) by_call[MEND_CALL_##call] = prices->call;
    MEND_SIM_PRICED_CALLS(X)
#undef X
    by_call[MEND_CALL_context_record] = prices->event_record;
    by_call[MEND_CALL_stream_synchronize] = prices->synchronize;
    by_call[MEND_CALL_event_synchronize] = prices->synchronize;
}

bool mend_sim_prices_apply(mend_sim *sim, const mend_sim_prices *prices)
{
    mend_sim_prices all = MEND_SIM_PRICES_INIT;
    bool is_whole = true;
    if (prices != NULL) {
        is_whole = mend_struct_read(&all, prices, sizeof(all));
    } else {
        fill_reference(&all);
    }
    fill_by_call(sim->price, &all);
    return is_whole;
}

typedef unsigned __int128 wide;

/* Adds without overflow: prices come from files and sizes from traces, so a sum may reach the
 * largest time. */
static uint64_t sum_to_the_end(uint64_t time_ns, wide more_ns)
{
    wide sum = time_ns + more_ns;
    return sum < UINT64_MAX ? (uint64_t)sum : UINT64_MAX;
}

/* By a cost table. */
static wide cost_of(const uint64_t work[3], const mend_sim_price *price)
{
    return (wide)work[0] * price->call_ns + (wide)work[1] * price->mapping_ns +
           (wide)work[2] * price->mib_ns / MEND_MIB;
}

void mend_sim_charge(mend_sim *sim, bool did_its_work)
{
    assert(mend_mutex_is_held(&sim->mutex));
    assert(sim->bill_row < MEND_SIM_PRICE_ROWS);
    mend_sim_ledger *ledger = &sim->ledger;
    wide cost = sim->bill_scrub_ns;
    if (did_its_work) {
        uint64_t work[3] = {1, sim->bill_mappings, sim->bill_bytes};
        cost += cost_of(work, &sim->price[sim->bill_row]);
        for (size_t i = 0; i < 3; i++) {
            uint64_t *sum = &sim->charged[sim->bill_row][i];
            *sum = sum_to_the_end(*sum, work[i]);
        }
    }
    ledger->scrub_wait_ns += sim->bill_scrub_ns;
    ledger->driver_time_ns = sum_to_the_end(ledger->driver_time_ns, cost);
    if (sim->config.prices_advance_clock && cost != 0) {
        mend_sim_run_until(sim, sum_to_the_end(sim->now_ns, cost));
    }
}

uint64_t mend_sim_time_by(mend_sim *sim, const mend_sim_prices *prices)
{
    mend_sim_price by_call[MEND_SIM_PRICE_ROWS] = {{0}};
    uint64_t time_ns = 0;
    mend_sim_prices all = MEND_SIM_PRICES_INIT;
    (void)mend_struct_read(&all, prices, sizeof(all));
    fill_by_call(by_call, &all);
    mend_mutex_lock(&sim->mutex);
    for (size_t row = 0; row < MEND_SIM_PRICE_ROWS; row++) {
        time_ns = sum_to_the_end(time_ns, cost_of(sim->charged[row], &by_call[row]));
    }
    mend_mutex_unlock(&sim->mutex);
    return time_ns;
}
