/*
 * Shared by all probes of a GPU: an open device, the driver's own entry points beside the table,
 * their time limit, and records that are written at once.
 *
 * A probe asks a real driver about undocumented behavior, and checks only bytes. It runs on
 * whatever libcuda.so.1 is found, also on the one of the tests over the simulated device.
 */
#ifndef MEND_BENCH_PROBE_PROBE_H
#define MEND_BENCH_PROBE_PROBE_H

#include <stdio.h>

#include "base/align.h"
#include "driver/cuda_abi.h"
#include "driver/driver.h"
#include "lab/support/json.h"

/* X(member, symbol, parameters): functions that programs call and Mend does not. */
#define PROBE_ENTRY_POINTS(X)                                                                      \
    X(stream_create, "cuStreamCreate", (mend_stream * stream, unsigned int flags))                 \
    X(begin_capture, "cuStreamBeginCapture_v2", (mend_stream stream, int mode))                    \
    X(end_capture, "cuStreamEndCapture", (mend_stream stream, void **graph))                       \
    X(instantiate, "cuGraphInstantiateWithFlags",                                                  \
      (void **executable, void *graph, unsigned long long flags))                                  \
    X(graph_launch, "cuGraphLaunch", (void *executable, mend_stream stream))                       \
    X(executable_destroy, "cuGraphExecDestroy", (void *executable))                                \
    X(graph_destroy, "cuGraphDestroy", (void *graph))

typedef struct probe_program {
#define X(member, symbol, parameters) mend_status(*member) parameters;
    PROBE_ENTRY_POINTS(X)
#undef X
} probe_program;

typedef struct probe {
    const mend_driver *driver;
    const mend_cu_functions *raw; /* the entry points behind the table */
    probe_program program;
    mend_device_info info;
    uint64_t page_bytes;
    uint64_t end_ns;        /* of the driver's clock */
    bool quick;             /* sizes and repetitions of a rehearsal */
    FILE *records;          /* a JSON object a line. NULL: nowhere */
    const char *costs_path; /* for a cost table. NULL: none */
    unsigned problems;      /* wrong bytes, and calls that failed where none may */
} probe;

/* The device with its context current. False, with a line on standard error, where there is none.
 */
bool probe_open(probe *p);
void probe_close(probe *p);

bool probe_is_over(const probe *p);
uint64_t probe_now_ns(const probe *p);
const char *probe_name(const probe *p, mend_status status);

/* True where the status is OK. Else the failure is printed, recorded and counted as a problem. */
bool probe_expect(probe *p, const char *what, mend_status status);

/* A record of that kind. Fields may be added until its end, which writes it through. */
mend_json probe_record(probe *p, const char *kind);
void probe_record_end(probe *p, mend_json *record);

/* Free bytes of the device. 0 where they cannot be learned. */
uint64_t probe_free_bytes(const probe *p);

/* Durations of one thing, in order. More than fit are left out. */
enum { PROBE_MOST_SAMPLES = 4096 };
typedef struct probe_samples {
    unsigned count;
    uint64_t ns[PROBE_MOST_SAMPLES];
} probe_samples;

void probe_sample(probe_samples *samples, uint64_t duration_ns);

/* The smallest that `percent` of them do not exceed. sorts. 0 without samples. */
uint64_t probe_quantile_ns(probe_samples *samples, unsigned percent);

/* The fields count, median_ns, p99_ns and max_ns. */
void probe_record_samples(mend_json *record, probe_samples *samples);

#endif
