/*
 * Every call runs between call_begin and call_end, and the observer of calls is called before and
 * after both: a test that stops a thread inside a driver call, or records the order of calls. It is
 * called without a lock of the device.
 */
#include "sim/table.h"

#include <assert.h>

#include "sim/shares.h"

void mend_sim_set_call_observer(mend_sim *sim, mend_sim_call_observer observer, void *context)
{
    mend_mutex_lock(&sim->mutex);
    sim->watch = (mend_sim_watch){observer, context};
    atomic_store(&sim->watched, observer != NULL);
    mend_mutex_unlock(&sim->mutex);
}

/* Returns the observer to call at the end. */
static mend_sim_watch watch_begin(mend_sim *sim, mend_driver_call call)
{
    mend_sim_watch watch = {NULL, NULL};
    if (!atomic_load(&sim->watched)) {
        return watch;
    }
    mend_mutex_lock(&sim->mutex);
    watch = sim->watch;
    mend_mutex_unlock(&sim->mutex);
    if (watch.observer != NULL) {
        watch.observer(watch.context, mend_sim_call_member(call), 0);
    }
    return watch;
}

/* Takes the lock and returns the answer of a fault or the sticky error, if there is one. */
static mend_status call_begin(mend_sim *sim, mend_driver_call call, uint64_t size_bytes)
{
    assert(call < MEND_DRIVER_CALL_COUNT);
    mend_mutex_lock(&sim->mutex);
    mend_sim_shares_sweep(sim);
    sim->call = call;
    sim->bill_row = (int)call;
    sim->bill_bytes = size_bytes;
    sim->bill_mappings = 0;
    sim->bill_scrub_ns = 0;
    bool can_fail = mend_sim_call_can_fail(call);
    sim->fallible_calls += can_fail;
    TRY(mend_sim_out_of_order(sim, call));
    FORBID(sim->checkpointed, MEND_DRIVER_NOT_PERMITTED,
           "%s: the process is checkpointed, so it cannot call", mend_driver_call_name(call));
    return can_fail ? mend_sim_fault_answer(sim, call, size_bytes) : MEND_DRIVER_OK;
}

/* Charges the price if the call did its work, and releases the lock. */
static mend_status call_end(mend_sim *sim, mend_status status)
{
    assert(mend_mutex_is_held(&sim->mutex));
    bool not_ready_yet = status == MEND_DRIVER_NOT_READY && sim->call == MEND_CALL_event_query;
    mend_sim_charge(sim, status == MEND_DRIVER_OK || not_ready_yet);
    mend_mutex_unlock(&sim->mutex);
    return status;
}

#define X(member, bytes_billed, parameters, arguments)                                             \
    static mend_status table_##member(const mend_driver *driver parameters)                        \
    {                                                                                              \
        mend_sim *sim = driver->state;                                                             \
        const mend_sim_watch watch = watch_begin(sim, MEND_CALL_##member);                         \
        mend_status status = call_begin(sim, MEND_CALL_##member, bytes_billed);                    \
        if (status == MEND_DRIVER_OK) {                                                            \
            status = mend_sim_do_##member(sim arguments);                                          \
        }                                                                                          \
        status = call_end(sim, status);                                                            \
        if (watch.observer != NULL) {                                                              \
            watch.observer(watch.context, #member, 1);                                             \
        }                                                                                          \
        return status;                                                                             \
    }
MEND_SIM_CALLS(X)
#undef X

static uint64_t table_clock_ns(const mend_driver *driver)
{
    return mend_sim_now_ns(driver->state);
}

static void table_pause(const mend_driver *driver, uint64_t duration_ns)
{
    mend_sim_advance(driver->state, duration_ns);
}

static void table_note_asleep(const mend_driver *driver, uint64_t address, uint64_t size_bytes,
                              const char *what)
{
    mend_sim *sim = driver->state;
    mend_mutex_lock(&sim->mutex);
    mend_sim_note_add(sim, address, size_bytes, what);
    mend_mutex_unlock(&sim->mutex);
}

static const char *table_status_name(const mend_driver *driver, mend_status status)
{
    (void)driver;
    return mend_status_name(status);
}

void mend_sim_table_fill(mend_sim *sim)
{
    sim->table = (mend_driver){
        .state = sim,
        .name = "sim",
#define X(member, name, bytes, parameters, arguments) .member = table_##member,
        MEND_DRIVER_CALLS(X)
#undef X
            .clock_ns = table_clock_ns,
        .pause = table_pause,
        .note_asleep = table_note_asleep,
        .status_name = table_status_name,
    };
}
