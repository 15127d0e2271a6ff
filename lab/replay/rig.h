/*
 * The parts of a run: a device, simulated or real, a counting table in front of its driver, streams
 * for the trace's, and work instead of the program's kernels.
 */
#ifndef MEND_LAB_REPLAY_RIG_H
#define MEND_LAB_REPLAY_RIG_H

#include <stdatomic.h>

#include "driver/driver.h"
#include "lab/replay/causes.h"
#include "lab/replay/gpu.h"
#include "lab/replay/run.h"
#include "lab/trace/trace.h"

enum { MEND_REPLAY_TICK_NS = 1000 }; /* one row of the trace, on the simulated clock */

typedef struct mend_replay_rig {
    const mend_replay_options *options;
    mend_sim *sim;            /* NULL on a real device */
    const mend_driver *inner; /* for the rig's own calls, which are not counted */
    mend_driver *causes;      /* sorts calls by cause, if asked for. Otherwise NULL */
    mend_driver *driver;      /* for the policy's calls */
    mend_device_info info;
    uint64_t page_bytes;
    uint64_t capacity_bytes; /* rounded up to a page. 0: unlimited */
    uint64_t others_bytes;   /* memory held by others, in addition to the capacity */
    uint64_t limit_bytes;    /* the sum of both. 0: unlimited */
    mend_stream *streams;    /* by index of the trace. With task_events all per-thread ones */
    size_t stream_count;
    mend_event baton;             /* behind the rows of the thread before. NULL: there was none */
    uint64_t counter_address;     /* count of differences found, on a real device */
    mend_replay_load load;        /* if asked for */
    mend_replay_ballast ballast;  /* if asked for */
    _Atomic uint64_t own_time_ns; /* prices of the rig's own calls */
    _Atomic uint64_t own_by_list_ns[MEND_REPLAY_LISTS];
} mend_replay_rig;

/* Driver calls of the policy up to now. */
typedef struct mend_replay_traffic {
    mend_replay_calls calls;
    uint64_t host_syncs;
    uint64_t creates_refused;
    double time_us;
    mend_replay_by_list by_list; /* by each built-in cost table. 0 on a real device */
} mend_replay_traffic;

/* `capacity_bytes` 0: unlimited. Fails as the device does. Then there is nothing to close. The
 * calling thread counts as entered. */
mend_result mend_replay_rig_open(mend_replay_rig *rig, const mend_trace *trace,
                                 const mend_replay_options *options, uint64_t capacity_bytes);

/* Each further thread calls enter first (it makes the context current) and leave last. */
mend_result mend_replay_rig_enter(mend_replay_rig *rig);
void mend_replay_rig_leave(mend_replay_rig *rig);

/* Called after each row. */
void mend_replay_rig_tick(mend_replay_rig *rig);

/* Makes the calling thread's per-thread stream wait for the stream of the thread that passed on
 * last, if any, and lets the next one wait for it. */
mend_result mend_replay_rig_follow(mend_replay_rig *rig);
mend_result mend_replay_rig_pass_on(mend_replay_rig *rig);

/* A block in use: its address, and a number that no other block has. */
typedef struct mend_replay_use {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t tag;
    uint16_t stream; /* index of the stream it was allocated for */
} mend_replay_use;

/* Queues the program's first use of a block, and its last use on `last_stream`, before the free. */
mend_result mend_replay_rig_first_use(mend_replay_rig *rig, const mend_replay_use *use);
mend_result mend_replay_rig_last_use(mend_replay_rig *rig, const mend_replay_use *use,
                                     uint16_t last_stream);

void mend_replay_rig_read(mend_replay_rig *rig, mend_replay_traffic *traffic);

/* Only the allocator's driver time by the table h200, and the CPU stalls. Simulated device. */
void mend_replay_rig_read_felt(mend_replay_rig *rig, uint64_t *driver_ns, uint64_t *host_syncs);

/* The same by cause. Zeros if that was not asked for. */
void mend_replay_rig_read_costs(mend_replay_rig *rig, mend_replay_costs *costs);

/* Waits for all work. */
mend_result mend_replay_rig_finish(mend_replay_rig *rig);

/* Closes everything, and fills in the last results: errors of content, the peak of mappings, and
 * the problem, if there is none yet. */
void mend_replay_rig_close(mend_replay_rig *rig, mend_replay_result *result);

#endif
