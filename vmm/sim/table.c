/* Every function of the table runs between mend_sim_call_begin and mend_sim_call_end. */
#include "sim/table.h"

#include "sim/state.h"
#include "sim/watch.h"

#define X(member, bytes_billed, parameters, arguments)                                             \
    static mend_status table_##member(const mend_driver *driver parameters)                        \
    {                                                                                              \
        mend_sim *sim = driver->state;                                                             \
        const mend_sim_watch watch = mend_sim_watch_begin(sim, MEND_CALL_##member);                \
        mend_status status = mend_sim_call_begin(sim, MEND_CALL_##member, bytes_billed);           \
        if (status == MEND_DRIVER_OK) {                                                            \
            status = mend_sim_do_##member(sim arguments);                                          \
        }                                                                                          \
        status = mend_sim_call_end(sim, status);                                                   \
        mend_sim_watch_end(&watch, MEND_CALL_##member);                                            \
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
        .status_name = table_status_name,
    };
}
