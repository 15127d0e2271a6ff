/* What the functions of mend_sim.h share. */
#include "sim/captures.h"
#include "sim/faults.h"

mend_status mend_sim_stream_find_for_user(mend_sim *sim, mend_stream handle,
                                          mend_sim_stream **stream)
{
    mend_sim_thread *thread = mend_sim_thread_get(sim);
    if (thread == NULL) {
        return MEND_DRIVER_OUT_OF_MEMORY;
    }
    if (thread->depth == 0 && mend_sim_stream_is_default(handle)) {
        mend_status status = mend_sim_stream_find_default(sim, thread, 0, handle, stream);
        return status == MEND_DRIVER_OK ? mend_sim_capture_admits_legacy(sim, *stream) : status;
    }
    return mend_sim_stream_find_for_use(sim, handle, stream);
}

mend_result mend_sim_result_for_user(const mend_sim *sim, mend_status status)
{
    if (status == MEND_DRIVER_OK) {
        return MEND_OK;
    }
    if (mend_sim_out_of_order(sim, MEND_CALL_launch) != MEND_DRIVER_OK) {
        return MEND_ERROR_DEVICE_LOST;
    }
    return status == MEND_DRIVER_OUT_OF_MEMORY ? MEND_ERROR_OUT_OF_HOST_MEMORY
                                               : MEND_ERROR_INVALID_ARGUMENT;
}
