#include "simulate/work.h"

#include "simulate/entry.h"
#include "simulate/errors.h"
#include "simulate/graph.h"

/* Bytes in a nanosecond: over the bus, and in the memory of a device. */
enum { USUAL_NS = 20000 }; /* of a kernel */
enum { BUS_BYTES = 20, MEMORY_BYTES = 1000, EFFECT_NS = 2000 };

uint64_t simulate_kernel_ns(void)
{
    static _Atomic uint64_t known;
    if (known == 0) {
        uint64_t asked = simulate_read_number("MEND_SIMULATE_KERNEL_NS", USUAL_NS, 1000000000);
        known = asked != 0 ? asked : USUAL_NS;
    }
    return known;
}

int simulate_work_kernel(mend_stream stream, uint64_t duration_ns)
{
    const mend_kernel kernel = {.kind = MEND_KERNEL_SPIN, .duration_ns = duration_ns};
    mend_status status = SIMULATE_DRIVER(launch, stream, &kernel);
    if (status == MEND_DRIVER_OK) {
        simulate_graph *graph = simulate_graph_of(stream);
        if (graph != NULL) {
            simulate_graph_count(graph);
        }
        mend_sim_advance(simulate_here.sim, SIMULATE_LAUNCH_NS);
    }
    return status;
}

/* Lets the device check the use of a range, if it is one of its own: the stream's device must have
 * access. Plain memory of another device can be copied without. The driver takes a way around. */
static int touch(mend_stream stream, const void *pointer, size_t bytes, bool *is_of_device)
{
    mend_sim_place place = MEND_SIM_PLACE_INIT;
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    if (mend_sim_look_up(simulate_here.sim, simulate_current(), address, bytes, &place) !=
        MEND_OK) {
        return CUDA_INVALID_VALUE;
    }
    *is_of_device |= place.is_of_device != 0;
    if (!place.is_of_device || (place.is_plain && place.device != simulate_current())) {
        return CUDA_SUCCESS;
    }
    const mend_sim_work work = {.struct_size = sizeof(mend_sim_work),
                                .kind = MEND_SIM_WORK_TOUCH,
                                .address = address,
                                .size_bytes = bytes};
    return simulate_error_of(mend_sim_launch(simulate_here.sim, stream, &work));
}

static uint64_t duration_of(const simulate_effect *effect)
{
    if (effect->kind == SIMULATE_HOST) {
        return EFFECT_NS;
    }
    mend_sim_place target = MEND_SIM_PLACE_INIT;
    mend_sim_place source = {.struct_size = sizeof(mend_sim_place), .is_of_device = 1};
    uint64_t bytes = effect->width * effect->height;
    mend_sim_look_up(simulate_here.sim, 0, (uint64_t)(uintptr_t)effect->target, 1, &target);
    if (effect->kind == SIMULATE_COPY) {
        mend_sim_look_up(simulate_here.sim, 0, (uint64_t)(uintptr_t)effect->source, 1, &source);
    }
    bool in_memory = target.is_of_device && source.is_of_device;
    return EFFECT_NS + bytes / (in_memory ? MEMORY_BYTES : BUS_BYTES);
}

int simulate_work_effect(mend_stream stream, const simulate_effect *effect)
{
    int error = simulate_work_kernel(stream, duration_of(effect));
    bool touches = effect->kind != SIMULATE_HOST && effect->width > 0 && effect->height > 0;
    bool is_of_device = false;
    if (error == CUDA_SUCCESS && touches) {
        size_t bytes = (effect->height - 1) * effect->target_pitch + effect->width;
        error = touch(stream, effect->target, bytes, &is_of_device);
    }
    if (error == CUDA_SUCCESS && touches && effect->kind == SIMULATE_COPY) {
        size_t bytes = (effect->height - 1) * effect->source_pitch + effect->width;
        error = touch(stream, effect->source, bytes, &is_of_device);
    }
    if (error != CUDA_SUCCESS) {
        return error;
    }
    simulate_graph *graph = simulate_graph_of(stream);
    if (graph != NULL) {
        return simulate_graph_record(graph, effect);
    }
    error = simulate_effect_run(effect);
    if (error == CUDA_ILLEGAL_ADDRESS) {
        /* The device finds and reports the fault when it runs the work. */
        SIMULATE_DRIVER(stream_synchronize, stream);
    }
    return error;
}

int simulate_work_asked(int status)
{
    if (status == MEND_DRIVER_NOT_READY) {
        mend_sim_advance(simulate_here.sim, SIMULATE_QUESTION_NS);
    }
    return status;
}
