/* Copies and fills: real bytes, wherever the addresses lie, host or device. */
#include <string.h>

#include "simulate/entry.h"
#include "simulate/errors.h"
#include "simulate/work.h"

/* cudaMemcpyKind */
enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, ANY_DIRECTION, DIRECTIONS };

/* ---- copies ---------------------------------------------------------------------------------- */

/* Whether the addresses are where the direction says. */
static int check_direction(const simulate_effect *copy, int direction)
{
    mend_sim_place target = MEND_SIM_PLACE_INIT;
    mend_sim_place source = MEND_SIM_PLACE_INIT;
    if (direction < HOST_TO_HOST || direction >= DIRECTIONS) {
        return CUDA_INVALID_DIRECTION;
    }
    if (copy->width == 0 || copy->height == 0) {
        return CUDA_SUCCESS;
    }
    if (copy->target == NULL || copy->source == NULL) {
        return CUDA_INVALID_VALUE;
    }
    mend_sim_look_up(simulate_here.sim, 0, (uint64_t)(uintptr_t)copy->target, 1, &target);
    mend_sim_look_up(simulate_here.sim, 0, (uint64_t)(uintptr_t)copy->source, 1, &source);
    bool to_device = direction == HOST_TO_DEVICE || direction == DEVICE_TO_DEVICE;
    bool from_device = direction == DEVICE_TO_HOST || direction == DEVICE_TO_DEVICE;
    bool fits = direction == ANY_DIRECTION || (to_device == (target.is_of_device != 0) &&
                                               from_device == (source.is_of_device != 0));
    return fits ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

static int copy_rows(simulate_effect copy, int direction, mend_stream stream, bool waits)
{
    copy.kind = SIMULATE_COPY;
    int error = simulate_enter();
    if (error == CUDA_SUCCESS &&
        (copy.height > 1 && (copy.width > copy.target_pitch || copy.width > copy.source_pitch))) {
        error = CUDA_INVALID_VALUE;
    }
    if (error == CUDA_SUCCESS) {
        error = check_direction(&copy, direction);
    }
    if (error == CUDA_SUCCESS) {
        error = simulate_work_effect(stream, &copy);
    }
    if (error == CUDA_SUCCESS && waits) {
        error = SIMULATE_DRIVER(stream_synchronize, stream);
    }
    return simulate_answer(error);
}

static int copy_bytes(void *target, const void *source, size_t bytes, int direction,
                      mend_stream stream, bool waits)
{
    const simulate_effect copy = {.target = target, .source = source, .width = bytes, .height = 1};
    return copy_rows(copy, direction, stream, waits);
}

SIMULATE_EXPORT int cudaMemcpy(void *target, const void *source, size_t bytes, int direction)
{
    return copy_bytes(target, source, bytes, direction, NULL, true);
}

SIMULATE_EXPORT int cudaMemcpyAsync(void *target, const void *source, size_t bytes, int direction,
                                    mend_stream stream)
{
    return copy_bytes(target, source, bytes, direction, stream, false);
}

static simulate_effect rows_of(void *target, size_t target_pitch, const void *source,
                               size_t source_pitch, size_t width, size_t height)
{
    return (simulate_effect){.target = target,
                             .source = source,
                             .target_pitch = target_pitch,
                             .source_pitch = source_pitch,
                             .width = width,
                             .height = height};
}

SIMULATE_EXPORT int cudaMemcpy2D(void *target, size_t target_pitch, const void *source,
                                 size_t source_pitch, size_t width, size_t height, int direction)
{
    return copy_rows(rows_of(target, target_pitch, source, source_pitch, width, height), direction,
                     NULL, true);
}

SIMULATE_EXPORT int cudaMemcpy2DAsync(void *target, size_t target_pitch, const void *source,
                                      size_t source_pitch, size_t width, size_t height,
                                      int direction, mend_stream stream)
{
    return copy_rows(rows_of(target, target_pitch, source, source_pitch, width, height), direction,
                     stream, false);
}

/* ---- between devices ------------------------------------------------------------------------- */

/* Each end is touched as its own device sees it: no access from one to the other is needed. */
static int copy_peer(void *target, int target_device, const void *source, int source_device,
                     size_t bytes, mend_stream stream, bool waits)
{
    mend_sim_place place = MEND_SIM_PLACE_INIT;
    int error = simulate_enter();
    if (error == CUDA_SUCCESS &&
        (target_device < 0 || source_device < 0 || target_device >= simulate_here.device_count ||
         source_device >= simulate_here.device_count)) {
        error = CUDA_INVALID_DEVICE;
    }
    if (error == CUDA_SUCCESS && bytes > 0 &&
        (mend_sim_look_up(simulate_here.sim, target_device, (uint64_t)(uintptr_t)target, bytes,
                          &place) != MEND_OK ||
         !place.is_accessible ||
         mend_sim_look_up(simulate_here.sim, source_device, (uint64_t)(uintptr_t)source, bytes,
                          &place) != MEND_OK ||
         !place.is_accessible)) {
        error = CUDA_INVALID_VALUE;
    }
    if (error == CUDA_SUCCESS) {
        error = simulate_work_kernel(stream, simulate_kernel_ns());
    }
    if (error == CUDA_SUCCESS && bytes > 0) {
        const simulate_effect copy = {
            .kind = SIMULATE_COPY, .target = target, .source = source, .width = bytes, .height = 1};
        error = simulate_effect_run(&copy);
    }
    if (error == CUDA_SUCCESS && waits) {
        error = SIMULATE_DRIVER(stream_synchronize, stream);
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaMemcpyPeer(void *target, int target_device, const void *source,
                                   int source_device, size_t bytes)
{
    return copy_peer(target, target_device, source, source_device, bytes, NULL, true);
}

SIMULATE_EXPORT int cudaMemcpyPeerAsync(void *target, int target_device, const void *source,
                                        int source_device, size_t bytes, mend_stream stream)
{
    return copy_peer(target, target_device, source, source_device, bytes, stream, false);
}

/* ---- fills ----------------------------------------------------------------------------------- */

static int fill(void *target, int value, size_t bytes, mend_stream stream, bool waits)
{
    const simulate_effect effect = {
        .kind = SIMULATE_FILL, .value = value, .target = target, .width = bytes, .height = 1};
    int error = simulate_enter();
    if (error == CUDA_SUCCESS && bytes > 0) {
        mend_sim_place place = MEND_SIM_PLACE_INIT;
        mend_sim_look_up(simulate_here.sim, 0, (uint64_t)(uintptr_t)target, 1, &place);
        error = place.is_of_device ? simulate_work_effect(stream, &effect) : CUDA_INVALID_VALUE;
    }
    if (error == CUDA_SUCCESS && waits) {
        error = SIMULATE_DRIVER(stream_synchronize, stream);
    }
    return simulate_answer(error);
}

SIMULATE_EXPORT int cudaMemset(void *target, int value, size_t bytes)
{
    return fill(target, value, bytes, NULL, true);
}

SIMULATE_EXPORT int cudaMemsetAsync(void *target, int value, size_t bytes, mend_stream stream)
{
    return fill(target, value, bytes, stream, false);
}
