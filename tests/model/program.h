/*
 * A program that uses a pool as its users do: its queued work reads and writes the blocks it owns,
 * on many streams of different speed, and it orders its own work by events. The clock moves in
 * small steps, so that work is always in flight. Memory handed on or unmapped before its fence
 * therefore shows as wrong bytes or as a judged fault of the simulated device.
 *
 * All it does follows from a seed and a configuration.
 */
#ifndef MEND_TESTS_MODEL_PROGRAM_H
#define MEND_TESTS_MODEL_PROGRAM_H

#include "driver/traced.h"
#include "tests/model/lying_driver.h"
#include "tests/support/world.h"

/* What the program may do wrong on purpose, to show that it would be seen. */
typedef enum program_sin {
    SIN_NONE,
    SIN_NO_EVENT,  /* it uses a block on another stream without waiting for the first */
    SIN_NO_RECORD, /* it does not declare streams that use a block */
    SIN_NO_FORGET, /* it destroys streams without a word */
    SIN_NO_GROUP   /* it frees blocks in a capture that belong to no group, where the
                      configuration says that it does not */
} program_sin;

/* 0 in any field: none of it, or the default. */
typedef struct program_config {
    const char *name;
    int steps;
    uint64_t memory_bytes;     /* of the device; 0: 16 MiB */
    uint64_t limit_bytes;      /* of the pool; 0: the device's */
    int created_streams;       /* of the device 0 */
    bool legacy_stream;        /* NULL, and its other name */
    int threads;               /* with a per-thread stream each; 0: only one thread, and none */
    bool streams_die;          /* and are forgotten; threads end, and others begin */
    bool streams_vanish;       /* they end without being forgotten, and the pool expects that */
    bool knows_all_streams;    /* the pool hears of every stream before it may have to know */
    bool no_stream_waits;      /* mend_pool_config.allow_stream_waits is -1 */
    bool limit_changes;        /* set_limit, up and down */
    bool foreign_memory;       /* another process takes memory, and gives it back */
    bool captures;             /* streams are captured, their graphs launched */
    bool groups;               /* of which some have groups */
    bool ranges;               /* pages of ranges are committed and decommitted */
    bool prices_advance_clock; /* calls of the driver take their time */
    uint64_t event_delay_ns;
    int faults_per_mille; /* of the pool's calls, in which calls of the driver fail */
    mend_lie lie;         /* of the driver, to the pool */
    program_sin sin;
} program_config;

typedef struct program_outcome {
    bool holds;                 /* whatever must hold did */
    bool is_seen;               /* if not: bytes were wrong, or the device judged a fault */
    int step;                   /* at which it did not */
    char finding[640];          /* what did not */
    mend_stats stats;           /* the pool's, before it was destroyed */
    mend_driver_counters asked; /* the driver's calls the pool made */
    uint64_t failed_calls;      /* of the pool, for which a call of the driver failed */
    uint64_t graph_launches;
} program_outcome;

/* One run, start to end. Records no failure of the test but those of the world. */
void program_run(const program_config *config, uint64_t seed, program_outcome *outcome);

#endif
