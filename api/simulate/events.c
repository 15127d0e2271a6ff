/* Events: marks in the order of a stream, asked, waited for, and the time between two of them. */
#include <string.h>

#include "simulate/entry.h"
#include "simulate/errors.h"
#include "simulate/work.h"

/* cudaEventBlockingSync, cudaEventDisableTiming, cudaEventInterprocess */
enum { ALL_EVENT_FLAGS = 7, INTERPROCESS = 4 };

SIMULATE_EXPORT int cudaEventCreateWithFlags(mend_event *event, unsigned flags)
{
    int error = simulate_enter_if(event != NULL && flags <= ALL_EVENT_FLAGS);
    return simulate_answer(error != CUDA_SUCCESS ? error : SIMULATE_DRIVER(event_create, event));
}

SIMULATE_EXPORT int cudaEventCreate(mend_event *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

SIMULATE_EXPORT int cudaEventDestroy(mend_event event)
{
    int error = simulate_enter();
    return simulate_answer(error != CUDA_SUCCESS ? error : SIMULATE_DRIVER(event_destroy, event));
}

SIMULATE_EXPORT int cudaEventRecordWithFlags(mend_event event, mend_stream stream, unsigned flags)
{
    (void)flags; /* whether a captured record is one of the program or of the graph */
    int error = simulate_enter();
    return simulate_answer(error != CUDA_SUCCESS ? error
                                                 : SIMULATE_DRIVER(event_record, event, stream));
}

SIMULATE_EXPORT int cudaEventRecord(mend_event event, mend_stream stream)
{
    return cudaEventRecordWithFlags(event, stream, 0);
}

SIMULATE_EXPORT int cudaEventQuery(mend_event event)
{
    int error = simulate_enter();
    return simulate_answer(
        error != CUDA_SUCCESS ? error : simulate_work_asked(SIMULATE_DRIVER(event_query, event)));
}

SIMULATE_EXPORT int cudaEventSynchronize(mend_event event)
{
    int error = simulate_enter();
    return simulate_answer(error != CUDA_SUCCESS ? error
                                                 : SIMULATE_DRIVER(event_synchronize, event));
}

/* On the virtual clock. */
static int elapsed(float *milliseconds, mend_event start, mend_event end)
{
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
    int error = simulate_enter();
    if (error != CUDA_SUCCESS || milliseconds == NULL) {
        return error != CUDA_SUCCESS ? error : CUDA_INVALID_VALUE;
    }
    if (mend_sim_event_time(simulate_here.sim, start, &start_ns) != MEND_OK ||
        mend_sim_event_time(simulate_here.sim, end, &end_ns) != MEND_OK || start_ns == 0 ||
        end_ns == 0) {
        return CUDA_INVALID_HANDLE;
    }
    uint64_t now_ns = mend_sim_now_ns(simulate_here.sim);
    if (start_ns > now_ns || end_ns > now_ns) {
        return CUDA_NOT_READY;
    }
    *milliseconds = (float)(((double)end_ns - (double)start_ns) / 1e6);
    return CUDA_SUCCESS;
}

SIMULATE_EXPORT int cudaEventElapsedTime(float *milliseconds, mend_event start, mend_event end)
{
    return simulate_answer(elapsed(milliseconds, start, end));
}

SIMULATE_EXPORT int cudaEventElapsedTime_v2(float *milliseconds, mend_event start, mend_event end)
{
    return simulate_answer(elapsed(milliseconds, start, end));
}

/* ---- events of other processes -------------------------------------------------------------- */

/* Each process has its own clock here, and copies are done when the call returns. So an event of
 * another process has passed. */
enum { IPC_HANDLE_BYTES = 64 };

typedef struct simulate_ipc_handle {
    char bytes[IPC_HANDLE_BYTES];
} simulate_ipc_handle;

SIMULATE_EXPORT int cudaIpcGetEventHandle(simulate_ipc_handle *handle, mend_event event)
{
    int error = simulate_enter_if(handle != NULL && event != NULL);
    if (error == CUDA_SUCCESS) {
        memset(handle, 'e', sizeof(*handle));
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaIpcOpenEventHandle(mend_event *event, simulate_ipc_handle handle)
{
    for (int i = 0; i < IPC_HANDLE_BYTES; i++) {
        if (handle.bytes[i] != 'e') {
            return simulate_answer(CUDA_INVALID_VALUE);
        }
    }
    return cudaEventCreateWithFlags(event, 0);
}

/* As CUDA: memory of cudaMalloc has handles, virtual memory and memory of the host have none. No
 * other process can open them, because it has devices of its own. */
SIMULATE_EXPORT int cudaIpcGetMemHandle(simulate_ipc_handle *handle, void *pointer)
{
    mend_sim_place place = MEND_SIM_PLACE_INIT;
    int error = handle == NULL ? CUDA_INVALID_VALUE : simulate_enter();
    if (error == CUDA_SUCCESS) {
        mend_sim_look_up(simulate_here.sim, 0, (uint64_t)(uintptr_t)pointer, 1, &place);
        error = place.is_plain ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
    }
    if (error == CUDA_SUCCESS) {
        memset(handle, 'm', sizeof(*handle));
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaIpcOpenMemHandle(void **pointer, simulate_ipc_handle handle, unsigned flags)
{
    (void)handle, (void)flags;
    return simulate_answer(pointer == NULL ? CUDA_INVALID_VALUE : CUDA_NOT_SUPPORTED);
}

SIMULATE_EXPORT int cudaIpcCloseMemHandle(void *pointer)
{
    return simulate_answer(pointer == NULL ? CUDA_INVALID_VALUE : CUDA_NOT_SUPPORTED);
}
