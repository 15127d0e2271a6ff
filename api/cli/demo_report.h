/* The results of the demo: workloads, allocators, and the outcome of each pair. */
#ifndef MEND_CLI_DEMO_REPORT_H
#define MEND_CLI_DEMO_REPORT_H

#include <stdio.h>

#include "cli/demo_scenes.h"
#include "lab/replay/replay.h"

/* An allocator of the demo. */
typedef struct mend_demo_allocator {
    const char *policy; /* its name for mend_replay_run */
    const char *title;  /* its title */
    const char *what;   /* an explanation of the title */
} mend_demo_allocator;

enum { MEND_DEMO_ALLOCATORS = 3, MEND_DEMO_BEST_OTHER = 1, MEND_DEMO_MEND = 2 };
extern const mend_demo_allocator mend_demo_allocators[MEND_DEMO_ALLOCATORS];

/* One allocator on one workload. */
typedef struct mend_demo_run {
    mend_replay_result result; /* has samples */
    uint64_t wanted_bytes;     /* size of the request that failed */
    uint64_t unused_bytes;     /* bytes of the device that were not live then */
    double fit_factor;         /* smallest sufficient size / peak live. 0: not searched for */
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
    mend_trace *own; /* the program of the user that all acts are about, or NULL */
    mend_demo_scene own_scenes[MEND_DEMO_OWN_SCENES];
    char gpu[128]; /* its name. "" if every act ran on the simulated device */
} mend_demo_report;

/* The number of acts that an allocator completed. */
size_t mend_demo_completed(const mend_demo_report *report, size_t allocator);

/* The waits of the host in all acts. */
uint64_t mend_demo_waits(const mend_demo_report *report, size_t allocator);

/* The device's memory / the peak of live bytes. */
double mend_demo_times_peak(const mend_demo_act *act);

/* The table for a terminal. */
void mend_demo_print(FILE *out, const mend_demo_report *report);

void mend_demo_report_clear(mend_demo_report *report);

#endif
