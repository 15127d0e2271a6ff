/* The options and the result of a run. docs/formats/replay.md describes each figure. */
#ifndef MEND_LAB_REPLAY_RUN_H
#define MEND_LAB_REPLAY_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/peers/peer.h"
#include "lab/replay/felt.h"
#include "mend/mend_sim.h"

typedef enum mend_replay_device {
    MEND_REPLAY_SIM, /* a new simulated device for each run */
    MEND_REPLAY_CUDA /* device 0 of the CUDA driver. Capacities are accounting limits, unless
                      * ballast fills the device */
} mend_replay_device;

/* Called about a hundred times in a run, from the thread that replays. While `fit` searches,
 * `phase` is like "fit 1.024x" and `done_events` counts events of that probe. Otherwise it is
 * "". */
typedef void (*mend_replay_progress)(void *context, const char *phase, uint64_t done_events,
                                     uint64_t all_events);

/* The first events after which the most is reserved, and the most is reserved and not live. */
typedef struct mend_replay_peaks {
    struct {
        uint64_t event;
        uint64_t bytes; /* 0: none */
    } reserved, waste;
} mend_replay_peaks;

typedef struct mend_replay_options {
    mend_replay_device device;
    uint64_t lag_events;           /* rows from a block's free to the end of its last work */
    const mend_sim_prices *prices; /* NULL: the list "h200" */
    const char *costs_name;        /* its name in the result. NULL: "h200" */
    unsigned others_percent;       /* percent of the simulated device held by others, in addition to
                                    * the capacity. The policy's limit is the complete device */
    uint64_t others_bytes;         /* as many bytes instead. 0: the percentage counts */
    bool check_content;            /* write each block at its allocation, compare at its free */
    bool sample_content;           /* ... of each 64 KiB of a block only one granule. On a GPU */
    bool has_load;                 /* on a GPU: another kernel streams through memory */
    bool has_ballast; /* on a GPU: the device is filled down to the capacity, which is the driver's
                       * own limit then, for every policy */
    bool lacks_context_events; /* the simulated device has no event of a whole context */
    unsigned threads;          /* threads that replay. 0 and 1: only the caller */
    size_t task_events;        /* so many rows at a time in a thread of their own, see tasks.h. 0:
                                * all in the caller's */
    bool explain;              /* explain memory and time. One thread, simulated device */
    mend_replay_peaks peaks;   /* set by mend_replay_run: the moments to explain */
    size_t sample_limit;       /* most samples over time to keep. 0: none */
    mend_replay_progress progress; /* may be NULL */
    void *progress_context;
} mend_replay_options;
#define MEND_REPLAY_OPTIONS_INIT                                                                   \
    {                                                                                              \
        .device = MEND_REPLAY_SIM, .lag_events = 64, .threads = 1                                  \
    }

/* X(name in JSON): driver calls by kind, failed ones included. */
#define MEND_REPLAY_CALLS(X)                                                                       \
    X(reserve)                                                                                     \
    X(address_free)                                                                                \
    X(create)                                                                                      \
    X(release)                                                                                     \
    X(map)                                                                                         \
    X(unmap)                                                                                       \
    X(set_access)                                                                                  \
    X(malloc)                                                                                      \
    X(free)                                                                                        \
    X(event_record)                                                                                \
    X(event_query)                                                                                 \
    X(stream_wait)                                                                                 \
    X(synchronize)

typedef struct mend_replay_calls {
#define X(call) uint64_t call##_calls;
    MEND_REPLAY_CALLS(X)
#undef X
} mend_replay_calls;

/* The number of all. */
uint64_t mend_replay_sum_calls(const mend_replay_calls *calls);

/* Host time of one kind of call, without the prices of the simulated device. */
typedef struct mend_replay_latency {
    uint64_t calls; /* 0: the other members are not valid */
    uint64_t mean_ns;
    uint64_t p50_ns;
    uint64_t p99_ns;
    uint64_t p999_ns; /* of 1000 calls, 999 were at most this long */
    uint64_t max_ns;
} mend_replay_latency;

/* Memory just after an event. */
typedef struct mend_replay_sample {
    uint64_t event;
    uint64_t live_bytes; /* sizes rounded up to 512 B */
    uint64_t reserved_bytes;
} mend_replay_sample;

enum { MEND_REPLAY_PROBLEM_BYTES = 512, MEND_REPLAY_LISTS = 3 };

/* The built-in cost tables. No policy knows a price: one run has the times of all. */
extern const char *const mend_replay_lists[MEND_REPLAY_LISTS];

typedef struct mend_replay_by_list {
    double us[MEND_REPLAY_LISTS];
} mend_replay_by_list;

typedef struct mend_replay_result {
    bool completed;           /* all was served that the program cannot go on without */
    uint64_t failed_again;    /* requests that failed in the recording, which went on, and here */
    bool limited;             /* capacity_bytes is valid */
    uint64_t ballast_bytes;   /* taken so that the capacity is left. 0: none */
    uint64_t capacity_bytes;  /* rounded up to a page */
    uint64_t page_bytes;      /* of the device */
    uint64_t failed_at_event; /* valid if not completed */
    uint64_t events;          /* of the trace */
    uint64_t peak_live_bytes; /* of the trace */
    uint64_t peak_reserved_bytes;
    bool fitted; /* fit_... are valid: the capacity was searched for and found */
    uint64_t fit_capacity_bytes;
    double fit_factor; /* a point of the grid: 1.000, 1.002, ... */
    uint64_t host_syncs;
    uint64_t bytes_copied;
    mend_peer_placements placed;
    uint64_t creates_refused;
    double driver_time_us;
    double driver_time_second_half_us;
    mend_replay_by_list time_us; /* the same by each built-in list. Simulated device only */
    mend_replay_by_list time_second_half_us;
    double compared_time_us; /* of these, the one of mend_replay_compared_costs */
    double compared_time_second_half_us;
    mend_replay_calls calls;
    mend_replay_calls calls_second_half;
    mend_replay_latency alloc_ns;
    mend_replay_latency free_ns;
    bool is_felt; /* felt is valid: one thread replayed all rows on the simulated device */
    mend_replay_felt felt;
    bool counts_mappings; /* mappings_peak is valid: on the simulated device */
    uint64_t mappings_peak;
    bool content_checked; /* content_errors is valid */
    uint64_t content_errors;
    mend_replay_sample *samples; /* owned by the result */
    size_t sample_count;
    mend_replay_peaks peaks; /* if asked for, of a policy that can explain itself */
    struct mend_replay_explanation *explanation; /* see explain.h. Owned. NULL: not asked for */
    /* "" if there is none. Otherwise the broken rule, the leak, or the call that failed for another
     * reason than missing memory. Then the figures are not valid. */
    char problem[MEND_REPLAY_PROBLEM_BYTES];
} mend_replay_result;

/* Every request was served, those too without which the program went on. */
static inline bool mend_replay_served_all(const mend_replay_result *result)
{
    return result->completed && result->failed_again == 0;
}

/* How much of the trace was replayed: 100 only if all of it was. */
static inline double mend_replay_reached_percent(const mend_replay_result *result)
{
    const uint64_t events = result->events != 0 ? result->events : 1;
    const uint64_t percent = 100 * result->failed_at_event / events; /* rounded down */
    return result->completed ? 100 : (double)percent;
}

/* The name of the chosen cost table. */
const char *mend_replay_chosen_costs(const mend_replay_options *options);

/* The built-in cost table, of mend_replay_lists, that tables show beside the chosen one:
 * "reference", or "h200" if the options name "reference". */
size_t mend_replay_compared_list(const mend_replay_options *options);
const char *mend_replay_compared_costs(const mend_replay_options *options);

/* Frees the memory of a result. */
void mend_replay_result_clear(mend_replay_result *result);

/* Notes a problem. Only the first one stays. */
__attribute__((format(printf, 2, 3))) void mend_replay_note_problem(mend_replay_result *result,
                                                                    const char *format, ...);

#endif
