/*
 * Scenarios for fault sweeps: steps that bring a small world into a state, then one call of Mend,
 * in which any one driver call or allocation of host memory is made to fail.
 */
#ifndef MEND_TESTS_FAULT_SCENARIO_H
#define MEND_TESTS_FAULT_SCENARIO_H

#include "tests/fault/story.h"

/* The effects of the call without a failure, by the pool's statistics: all are differences, except
 * `result`. So a scenario is sure to go the way it is named for. */
#define SCENARIO_WAY(X)                                                                            \
    X(placed_in_run)                                                                               \
    X(placed_by_extension)                                                                         \
    X(placed_at_new_address)                                                                       \
    X(chunks_moved)                                                                                \
    X(chunks_created)                                                                              \
    X(chunks_released)                                                                             \
    X(stream_waits)                                                                                \
    X(host_waits)                                                                                  \
    X(pressure_calls)                                                                              \
    X(compactions)                                                                                 \
    X(chunks_remade)                                                                               \
    X(moves_avoided)                                                                               \
    X(streams)

typedef struct scenario_way {
    mend_result result;
#define X(field) uint64_t field;
    SCENARIO_WAY(X)
#undef X
    uint64_t events;     /* more than before, on the device */
    bool unmaps_retired; /* some retired mapping is gone */
    bool reserves_addresses;
    bool returns_addresses;
    bool calls_no_driver;
} scenario_way;

/* The tested call: `call`, or mend_pool_create (of a second pool, if there is a setup), or
 * mend_pool_destroy. */
typedef enum scenario_kind { SCENARIO_CALL, SCENARIO_CREATE, SCENARIO_DESTROY } scenario_kind;

typedef struct scenario {
    const char *name;
    operation call;
    const operation *setup;
    size_t setup_count;
    uint64_t device_bytes; /* 0: 4 MiB */
    scenario_way way;
    scenario_kind kind;
    int allow_stream_waits; /* of the config */
    bool has_fabric;        /* the device has fabric handles, and the pool asks for them */
    bool has_options;       /* the pool has checks, and keeps memory free for others */
} scenario;

extern const scenario scenarios[];
extern const size_t scenario_count;

/* Scenarios of growable ranges, of sleep and of the host. */
extern const scenario range_scenarios[];
extern const size_t range_scenario_count;

/* One thing that goes wrong during the call. */
typedef struct planned_fault {
    enum { FAULT_NONE, FAULT_DRIVER, FAULT_LOST, FAULT_HOST } kind;
    uint64_t position; /* driver calls, or allocations of host memory, that go well first */
    uint64_t count;    /* how many then fail. FAULT_LOST: the context is broken for good */
    int status;        /* the driver's answer */
    int ballast; /* small blocks, or holes between such, made first: by them the pool's records
                    are as full as they may be, and need memory where they seldom do */
    int dry;  /* 1 to SCENARIO_DRY_SLABS: of these records there is none in reserve. 0: no such */
    int left; /* or so many: too few for the call, which may not take more than it has reserved */
    bool without_bytes; /* of device memory: the run takes less time */
} planned_fault;

enum { SCENARIO_BALLAST_BLOCKS = 64, SCENARIO_MOST_BALLAST = 2 * SCENARIO_BALLAST_BLOCKS };
enum { SCENARIO_DRY_SLABS = 8 };

/* How many positions a scenario offers. */
typedef struct scenario_positions {
    bool ends_as_told; /* by the result of the way. With ballast it may not */
    int64_t records;   /* of the slab that is dry that the call has taken */
    uint64_t driver_calls;
    uint64_t host_allocations;
    uint64_t host_ways; /* by which the call came to these allocations: a number for each set */
} scenario_positions;

/* The result of the fault. */
typedef struct scenario_end {
    uint64_t failures; /* of calls or allocations */
    uint64_t outcome;  /* a number for the result and the status of each kind of driver call */
} scenario_end;

/* Runs the scenario with a fault and checks all of it. With FAULT_NONE fills `positions`, else NULL
 * does. Failures are failures of the test. */
scenario_end scenario_run(const scenario *given, const planned_fault *fault,
                          scenario_positions *positions);

#endif
