/* What the result of a step means for an attempt to place a request. */
#ifndef MEND_MOVE_OUTCOME_H
#define MEND_MOVE_OUTCOME_H

#include "base/error.h"
#include "layout/state.h"
#include "physical/fence.h"

/* PLACED: the step succeeded. NOTHING: the driver had no memory for it. */
static inline mend_outcome mend_outcome_of(mend_result result)
{
    if (result == MEND_OK) {
        return MEND_PLACED;
    }
    if (result == MEND_LOOK_AGAIN) {
        return MEND_AGAIN;
    }
    return result == MEND_ERROR_OUT_OF_MEMORY ? MEND_NOTHING : MEND_FAILED;
}

/* malloc failed. */
static inline mend_outcome mend_outcome_without_host_memory(void)
{
    mend_failure(MEND_ERROR_OUT_OF_HOST_MEMORY, "malloc failed for the pool's own records");
    return MEND_FAILED;
}

#endif
