/*
 * The quality of placement: undisturbed programs, drawn from seeds, and a pool's needs for them
 * beside the possible minimum. That every byte is right says nothing of it.
 */
#ifndef MEND_TESTS_SIM_PLACEMENT_H
#define MEND_TESTS_SIM_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * X(name, streams, strategy, limit, sizes, phases, rounds, between) limit of the pool, in percent
 * of the most that lives. 0: far more sizes bytes of the largest block, as a power of two phases
 * each with sizes of its own, and small blocks that outlive it rounds of a phase: the same requests
 * once more between phases this happens
 */
#define PLACEMENT_KINDS(X)                                                                         \
    X(steady, 1, 0, 0, 27, 1, 14, NOTHING)                                                         \
    X(steady_on_streams, 3, 0, 0, 27, 1, 14, NOTHING)                                              \
    X(steady_and_tight, 1, 0, 104, 27, 2, 4, NOTHING)                                              \
    X(phases, 1, 0, 0, 27, 6, 2, NOTHING)                                                          \
    X(phases_and_room, 1, 0, 180, 27, 8, 2, NOTHING)                                               \
    X(phases_and_tight, 1, 0, 110, 27, 6, 2, NOTHING)                                              \
    X(phases_and_full, 1, 0, 101, 27, 8, 2, NOTHING)                                               \
    X(never_the_same, 1, 0, 300, 27, 16, 1, NOTHING)                                               \
    X(never_the_same_and_full, 1, 0, 102, 27, 16, 1, NOTHING)                                      \
    X(large_device, 1, 0, 110, 33, 6, 2, NOTHING)                                                  \
    X(small_blocks, 2, 0, 130, 19, 6, 2, NOTHING)                                                  \
    X(few_calls, 1, 1, 200, 27, 6, 2, NOTHING)                                                     \
    X(little_memory, 1, 5, 200, 27, 6, 2, NOTHING)                                                 \
    X(streams, 3, 0, 150, 27, 6, 2, NOTHING)                                                       \
    X(streams_and_full, 3, 0, 103, 27, 6, 2, NOTHING)                                              \
    X(trims, 2, 0, 150, 27, 6, 2, TRIM)                                                            \
    X(collections, 2, 0, 150, 27, 6, 2, COLLECT)                                                   \
    X(compactions, 1, 0, 106, 27, 6, 2, COMPACT)                                                   \
    X(limits, 2, 0, 160, 27, 6, 2, LIMIT)                                                          \
    X(neighbours, 1, 0, 140, 27, 8, 2, NEIGHBOUR)

typedef enum placement_kind {
#define X(name, ...) PLACEMENT_##name,
    PLACEMENT_KINDS(X)
#undef X
        PLACEMENT_KIND_COUNT
} placement_kind;

/* Sums over programs of one kind, each in 10,000ths of the least that is possible, or of requests.
 * X(name, what) */
#define PLACEMENT_FIGURES(X)                                                                       \
    X(reserved, "the most memory that the pool held, of the most that lived")                      \
    X(created, "memory created, of the most that lived")                                           \
    X(copied, "memory that compactions copied, of the same")                                       \
    X(refused, "requests refused, of all")                                                         \
    X(calls, "calls that create, map and give back, of all requests")                              \
    X(waits, "waits of streams, and a hundred for each of the host, of all requests")              \
    X(time, "nanoseconds of the driver by the price list, of all requests")

enum {
#define X(name, what) PLACEMENT_OF_##name,
    PLACEMENT_FIGURES(X)
#undef X
        PLACEMENT_FIGURE_COUNT
};

typedef struct placement_figures {
    uint64_t of[PLACEMENT_FIGURE_COUNT];
} placement_figures;

/* Runs so many programs of a kind. False: one broke a promise, which it prints. */
bool placement_run(placement_kind kind, uint64_t first_seed, uint64_t seeds,
                   placement_figures *figures);

/* The record of a run. */
typedef struct placement_recording {
    uint64_t events; /* in the ring of the history. 0: it is off */
} placement_recording;

/* Whether a program runs in the same way while that is written down: the same addresses, the same
 * driver calls at each request, the same figures. */
bool placement_is_the_same(placement_kind kind, uint64_t seed,
                           const placement_recording *recording);

#endif
