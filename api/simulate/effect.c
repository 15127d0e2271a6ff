#include "simulate/effect.h"

#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "simulate/contents.h"
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

static bool is_of_device(const void *pointer)
{
    mend_sim_place place = MEND_SIM_PLACE_INIT;
    return mend_sim_look_up(simulate_here.sim, 0, (uint64_t)(uintptr_t)pointer, 1, &place) ==
               MEND_OK &&
           place.is_of_device;
}

/* Updates the knowledge of the device's memory after a row is written. */
static void note_row(const simulate_effect *effect, char *target, const char *source)
{
    uint64_t to = (uint64_t)(uintptr_t)target;
    uint64_t from = (uint64_t)(uintptr_t)source;
    if (effect->kind == SIMULATE_FILL) {
        simulate_contents_set(to, effect->width, SIMULATE_FILLED);
    } else if (!is_of_device(source)) {
        if (is_of_device(target)) {
            simulate_contents_set(to, effect->width, SIMULATE_COPIED);
        }
    } else if (is_of_device(target)) {
        simulate_contents_copy(to, from, effect->width);
    } else {
        simulate_contents_read(target, from, effect->width);
    }
}

/* MEND_SIMULATE_CONTENTS=small: large blocks have no bytes in a device, so that a program needs
 * only its own memory of this machine. Data that decides anything is small. */
enum { LARGE_BYTES = 256 * MEND_KIB };

static bool keeps_bytes(const simulate_effect *effect)
{
    if (effect->width * effect->height <= LARGE_BYTES || !is_of_device(effect->target)) {
        return true;
    }
    const char *contents = getenv("MEND_SIMULATE_CONTENTS");
    return contents == NULL || strcmp(contents, "small") != 0;
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
    if (!keeps_bytes(effect)) {
        simulate_contents_set((uint64_t)(uintptr_t)effect->target,
                              span_of(effect, effect->target_pitch), SIMULATE_STALE);
        return CUDA_SUCCESS;
    }
    for (size_t row = 0; row < effect->height; row++) {
        char *target = effect->target + row * effect->target_pitch;
        const char *source = effect->source + row * effect->source_pitch;
        if (effect->kind == SIMULATE_COPY) {
            memmove(target, source, effect->width);
        } else {
            memset(target, effect->value, effect->width);
        }
        note_row(effect, target, source);
    }
    return CUDA_SUCCESS;
}
