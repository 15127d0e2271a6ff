/*
 * Effects of work on memory: copies and fills of real bytes, and functions of the host. The
 * simulated device keeps the time of work and checks its addresses. The effect itself happens at
 * the call that queues the work, or at the launch of a graph, in the order of the calls. That is
 * one of the orders that streams allow.
 */
#ifndef MEND_SIMULATE_EFFECT_H
#define MEND_SIMULATE_EFFECT_H

#include <stddef.h>
#include <stdint.h>

#include "simulate/machine.h"

typedef enum simulate_effect_kind {
    SIMULATE_COPY, /* rows of `width` bytes from `source` to `target` */
    SIMULATE_FILL, /* rows of `width` bytes with the low byte of `value` */
    SIMULATE_HOST  /* calls host(argument) */
} simulate_effect_kind;

typedef struct simulate_effect {
    simulate_effect_kind kind;
    int value;
    char *target;
    const char *source;
    size_t target_pitch, source_pitch; /* distance between rows */
    size_t width, height;              /* bytes of a row. Rows */
    void (*host)(void *);
    void *argument;
} simulate_effect;

/* Carries it out. ILLEGAL_ADDRESS: it would touch addresses of a device that are not mapped or not
 * accessible to any device. Nothing is changed. */
int simulate_effect_run(const simulate_effect *effect);

#endif
