/* What the demo has to tell: workloads, allocators, and what became of each pair. */
#ifndef MEND_CLI_DEMO_REPORT_H
#define MEND_CLI_DEMO_REPORT_H

#include <stdio.h>

#include "cli/demo_scenes.h"
#include "lab/replay/replay.h"

/* An allocator of the demo. */
typedef struct mend_demo_allocator {
    const char *policy; /* its name for mend_replay_run */
    const char *title;  /* its name for people */
    const char *what;   /* what stands behind the name */
} mend_demo_allocator;

enum { MEND_DEMO_ALLOCATORS = 3, MEND_DEMO_BEST_OTHER = 1, MEND_DEMO_MEND = 2 };
extern const mend_demo_allocator mend_demo_allocators[MEND_DEMO_ALLOCATORS];

/* One allocator on one workload. */
typedef struct mend_demo_run {
    mend_replay_result result; /* with samples */
    uint64_t wanted_bytes;     /* of the request that failed */
    uint64_t unused_bytes;     /* of the device then: its size less what was live */
    double fit_factor;         /* the least size, searched for; 0: not searched for */
} mend_demo_run;

/* One workload. */
typedef struct mend_demo_act {
    const mend_demo_scene *scene;
    bool on_gpu;
    uint64_t event_count;
    uint64_t peak_live_bytes;
    uint64_t capacity_bytes;
    mend_demo_run runs[MEND_DEMO_ALLOCATORS];
} mend_demo_act;

typedef struct mend_demo_report {
    mend_demo_act acts[MEND_DEMO_SCENES];
    size_t act_count;
    char gpu[128]; /* its name; "" when every act ran on the simulated device */
} mend_demo_report;

/* Of how many workloads an allocator made an end. */
size_t mend_demo_completed(const mend_demo_report *report, size_t allocator);

/* How far a run came, in per cent of its events. */
double mend_demo_reached_percent(const mend_demo_run *run);

/* Sum of a run's driver calls. */
uint64_t mend_demo_calls(const mend_demo_run *run);

/* The table, for people at a terminal. */
void mend_demo_print(FILE *out, const mend_demo_report *report);

void mend_demo_report_clear(mend_demo_report *report);

#endif
