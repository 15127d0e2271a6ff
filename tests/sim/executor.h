/*
 * The executor: runs operations on the real pool and the simulated device, beside a naive model,
 * and checks after every step: the audit, the device's ledger against the pool's statistics, these
 * against the model, no rule of the driver broken, no byte wrong, no request refused that fits.
 *
 * At the end all obstacles go away (faults, captures, other processes), and whatever fits must
 * succeed. Then the pool is destroyed and nothing may be left.
 */
#ifndef MEND_TESTS_SIM_EXECUTOR_H
#define MEND_TESTS_SIM_EXECUTOR_H

#include <stdbool.h>

#include "driver/driver.h"
#include "mend/mend.h"
#include "tests/sim/operations.h"

/* X(field, default, meaning): where a trial takes place. */
#define TRIAL_CONFIG(X)                                                                            \
    X(page_kib, 4, "the device's page, a power of two")                                            \
    X(device_pages, 64, "its memory")                                                              \
    X(chunk_pages, 4, "usual size of a large chunk; 0: chosen by the pool")                        \
    X(small_chunk_pages, 1, "usual size of a small chunk; 0: chosen by the pool")                  \
    X(small_request_granules, 4, "largest small request, in 512 B")                                \
    X(reserve_devices, 4, "addresses reserved at a time, in sizes of the device")                  \
    X(limit_percent, 0, "the pool's limit, of the device; 0: all of it")                           \
    X(content, 1, "memory holds bytes")                                                            \
    X(no_stream_waits, 0, "the pool makes no stream wait")                                         \
    X(vanish, 0, "streams may vanish")                                                             \
    X(prices, 0, "1: calls take their time. 2: some take a hundred times as long")                 \
    X(event_delay_ns, 0, "events are reported late")                                               \
    X(streams, 1, "streams that are created")                                                      \
    X(blocking, 0, "a bit for each of them that is a blocking one")                                \
    X(green, 0,                                                                                    \
      "a bit for each of them that is of a green context, and none of the blocking ones")          \
    X(foreign, 0, "a bit for each of them that is of another device, and neither of these")        \
    X(third, 0,                                                                                    \
      "with those streams and no pool there: a third device, which has every second one")          \
    X(neighbour, 0, "the pools and that device meet by a pool there; 0: they name it; 2: later")   \
    X(joins, 0, "after so many operations another device may use the memory, too; 0: never")       \
    X(queue, 0, "operations that a stream can hold; 0: any number")                                \
    X(legacy, 0, "the legacy stream is used")                                                      \
    X(threads, 1, "threads that take turns")                                                       \
    X(thread_streams, 0, "and each uses the stream of its own")                                    \
    X(peer_pool, 0, "there is a second pool on the device")                                        \
    X(sin, 0, "the program lets streams use a block without an event between them")                \
    X(strategy, 0, "of the pool's config")                                                         \
    X(low_pressure_percent, 0, "until then pressure is low; 0: as the strategy says")              \
    X(address_devices, 0, "addresses in all, in sizes of the device; 0: more than are needed")     \
    X(hooks, 0, "the first pool is its device's default one, and blocks pass through hooks")       \
    X(fabric, 0, "fabric handles. 1: the device has them. 2: it says so, and the driver refuses")  \
    X(growth_percent, 0, "of the pool's peak, from which it waits rather than grow; 0: none")      \
    X(soft_limit_percent, 0, "the pool's soft limit, of the device; 0: none")                      \
    X(idle_ns, 0, "after this a collection gives back what nothing has used; 0: never")            \
    X(keep_free_percent, 0, "the pools leave so much of the device free")                          \
    X(sudden, 0, "in the end the pools go with their blocks, under work in flight")                \
    X(plain, 0, "blocks are passed through: see plain.c")                                          \
    X(file_percent, 0, "the pools share this limit, of the device, by a file; 0: there is none")   \
    X(unfenced_pages, 0, "so much may wait for the context before it is asked; 0: 32 MiB")         \
    X(no_context_fences, 0, "1: the driver has no events of a context. 2: the pools record none")  \
    X(record, 0, "what happens in the pools is recorded")                                          \
    X(check, 0, "what the pools check: MEND_CHECK_ bits")

typedef struct trial_config {
#define X(field, usual, meaning) uint32_t field;
    TRIAL_CONFIG(X)
#undef X
} trial_config;

extern const trial_config trial_config_default;

/* The kind of the broken promise. */
typedef enum trial_verdict {
    TRIAL_HOLDS,
    TRIAL_RESULT,   /* a call returned a wrong result */
    TRIAL_REFUSED,  /* out of memory, though the request fits */
    TRIAL_VALIDATE, /* the pool contradicts itself */
    TRIAL_LEDGER,   /* the device and the pool's statistics disagree */
    TRIAL_MODEL,    /* the model and the pool's statistics or answers disagree */
    TRIAL_RULE,     /* a rule of the driver was broken */
    TRIAL_CONTENT,  /* bytes are wrong */
    TRIAL_LIVENESS, /* with all out of the way the pool does not work */
    TRIAL_REMAINS,  /* something is left on the device */
    TRIAL_CRASH,    /* the process ended: an assertion, a sanitizer, a fault */
    TRIAL_HANG,     /* or it did not end */
    TRIAL_VERDICTS
} trial_verdict;

/* Of OP_FAULT: places of calls in its `size`, and `amount` of a fault that lasts until it is
 * cleared.
 */
enum {
    FAULT_OF_MEMORY_INFO = 0,
    FAULT_OF_WAIT = 2,
    FAULT_OF_CREATE = 6,
    FAULT_OF_MAP = 8,
    FAULT_OF_SET_ACCESS = 10,
    FAULT_OF_SYNCHRONIZE = 18,
    FAULT_FOR_EVER = 6
};

enum { AMBUSH_FREES = 3, AMBUSH_FORGETS, AMBUSH_ACTIONS, TRIAL_RESULTS = 22 };

/* The finding, for the report. */
typedef struct trial_tally {
    uint64_t steps;
    uint64_t done[OP_COUNT];
    uint64_t skipped[OP_COUNT];
    uint64_t answered[OP_COUNT][TRIAL_RESULTS];    /* calls of the pool, by the operation */
    uint64_t planted[MEND_DRIVER_CALL_COUNT + 1];  /* faults. The last: of any call */
    uint64_t failed_calls[MEND_DRIVER_CALL_COUNT]; /* driver calls that failed */
    uint64_t ambushes[AMBUSH_ACTIONS];             /* that were sprung */
    uint64_t failed_mallocs;
    uint64_t fell_asleep;     /* blocks */
    uint64_t unmapped;        /* blocks that a compaction could not map again */
    uint64_t captures_spoilt; /* by a pool that could not know of them */
    mend_stats stats;         /* of the pool, at the end: only sums of events matter */
} trial_tally;

typedef struct trial_outcome {
    trial_verdict verdict;
    size_t step;       /* at which it did not hold. The number of operations: at the end */
    char finding[600]; /* in words */
    trial_tally tally;
} trial_outcome;

const char *trial_verdict_name(trial_verdict verdict);
const char *trial_ambush_name(int action);

/* Names of driver calls. The last: any of them. */
extern const char *const trial_driver_calls[MEND_DRIVER_CALL_COUNT + 1];

/* Runs operations in a world of their own, start to end. */
void trial_run(const trial_config *config, const operation *ops, size_t count,
               trial_outcome *outcome);

/* The same in steps. NULL: the world could not be made, which *outcome tells. The outcome of all
 * steps up to now. A trial that does not hold ignores further steps. */
typedef struct trial trial;
trial *trial_begin(const trial_config *config, trial_outcome *outcome);
void trial_step(trial *t, const operation *op);
void trial_end(trial *t);

/* Which figure the checker would call wrong if the one at this offset of mend_stats were so much
 * larger than after the last step. "" for none. */
const char *trial_wrong_figure(trial *t, size_t offset, uint64_t by);

#endif
