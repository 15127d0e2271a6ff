/*
 * The observer of calls: a test that stops a thread inside a driver call, or records the order of
 * calls. It is called without a lock of the device.
 */
#include "sim/watch.h"
#include "sim/faults.h"
#include "sim/state.h"

void mend_sim_set_call_observer(mend_sim *sim, mend_sim_call_observer observer, void *context)
{
    mend_mutex_lock(&sim->mutex);
    sim->watch = (mend_sim_watch){observer, context};
    atomic_store(&sim->watched, observer != NULL);
    mend_mutex_unlock(&sim->mutex);
}

mend_sim_watch mend_sim_watch_begin(mend_sim *sim, mend_driver_call call)
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

void mend_sim_watch_end(const mend_sim_watch *watch, mend_driver_call call)
{
    if (watch->observer != NULL) {
        watch->observer(watch->context, mend_sim_call_member(call), 1);
    }
}
