/* Shared by the functions of mend_sim.h. */
#include "sim/captures.h"

mend_status mend_sim_stream_find_for_user(mend_sim *sim, mend_stream handle,
                                          mend_sim_stream **stream)
{
    mend_sim_thread *thread = mend_sim_thread_get(sim);
    NEED(thread != NULL);
    if (thread->depth == 0 && mend_sim_stream_is_default(handle)) {
        TRY(mend_sim_stream_find_default(sim, thread, 0, handle, stream));
        return mend_sim_capture_admits_legacy(sim, *stream);
    }
    return mend_sim_stream_find_for_use(sim, handle, stream);
}

mend_status mend_sim_user_begin(mend_sim *sim, mend_driver_call call, mend_stream handle,
                                mend_sim_stream **stream)
{
    mend_mutex_lock(&sim->mutex);
    sim->call = call;
    TRY(mend_sim_out_of_order(sim, call));
    return mend_sim_stream_find_for_user(sim, handle, stream);
}

mend_result mend_sim_user_end(mend_sim *sim, mend_status status)
{
    const bool is_lost = mend_sim_out_of_order(sim, MEND_CALL_launch) != MEND_DRIVER_OK;
    mend_mutex_unlock(&sim->mutex);
    return status == MEND_DRIVER_OK              ? MEND_OK
           : is_lost                             ? MEND_ERROR_DEVICE_LOST
           : status == MEND_DRIVER_OUT_OF_MEMORY ? MEND_ERROR_OUT_OF_HOST_MEMORY
                                                 : MEND_ERROR_INVALID_ARGUMENT;
}
