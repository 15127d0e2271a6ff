#include "simulate/effect.h"

#include <string.h>

#include "simulate/entry.h"

/* The bytes from the first row's first to the last row's last. */
static size_t span_of(const simulate_effect *effect, size_t pitch)
{
    return (effect->height - 1) * pitch + effect->width;
}

/* Host memory, or memory that the device which holds it may access. */
static bool may_touch(const void *pointer, size_t bytes)
{
    mend_sim_place place = MEND_SIM_PLACE_INIT;
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    if (mend_sim_look_up(simulate_here.sim, 0, address, bytes, &place) != MEND_OK) {
        return false;
    }
    if (!place.is_of_device || place.device < 0) {
        return !place.is_of_device;
    }
    if (!place.is_accessible && place.device != 0) {
        mend_sim_look_up(simulate_here.sim, place.device, address, bytes, &place);
    }
    return place.is_accessible;
}

int simulate_effect_run(const simulate_effect *effect)
{
    if (effect->kind == SIMULATE_HOST) {
        effect->host(effect->argument);
        return CUDA_SUCCESS;
    }
    if (effect->width == 0 || effect->height == 0) {
        return CUDA_SUCCESS;
    }
    if (!may_touch(effect->target, span_of(effect, effect->target_pitch)) ||
        (effect->kind == SIMULATE_COPY &&
         !may_touch(effect->source, span_of(effect, effect->source_pitch)))) {
        return CUDA_ILLEGAL_ADDRESS;
    }
    for (size_t row = 0; row < effect->height; row++) {
        char *target = effect->target + row * effect->target_pitch;
        if (effect->kind == SIMULATE_COPY) {
            memmove(target, effect->source + row * effect->source_pitch, effect->width);
        } else {
            memset(target, effect->value, effect->width);
        }
    }
    return CUDA_SUCCESS;
}
