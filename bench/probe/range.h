/* Memory for probes: chunks mapped one behind the other into a range of their own, and kernels that
 * stream through it. */
#ifndef MEND_BENCH_PROBE_RANGE_H
#define MEND_BENCH_PROBE_RANGE_H

#include "probe/probe.h"

typedef struct probe_range {
    uint64_t address;
    uint64_t chunk_bytes;
    uint64_t count;           /* chunks there shall be */
    uint64_t created;         /* chunks there are */
    uint64_t mapped;          /* of them, from the first on */
    mend_chunk_handle *chunk; /* `count`. Those given up are 0 */
} probe_range;

/* Reserves and creates. Maps nothing. The first failure. probe_range_drop always frees the
 * range. */
mend_status probe_range_create(const probe *p, probe_range *range, uint64_t chunk_bytes,
                               uint64_t count);

/* Maps all that is not, and gives access. `stride` is odd for a shuffled order: place i takes chunk
 * i * stride modulo count. */
mend_status probe_range_map(const probe *p, probe_range *range, uint64_t stride);

/* Unmaps, releases, frees: whatever there is. */
void probe_range_drop(const probe *p, probe_range *range);

static inline uint64_t probe_range_bytes(const probe_range *range)
{
    return range->chunk_bytes * range->count;
}

/* A kernel that goes through [address, address + size_bytes) for a while, once at least. */
mend_status probe_stream(const probe *p, mend_stream stream, mend_kernel_kind kind,
                         uint64_t address, uint64_t size_bytes, uint64_t duration_ns);

/* A load on a stream of its own, over memory of its own. */
typedef struct probe_load {
    mend_stream stream;
    uint64_t address;
    uint64_t size_bytes;
} probe_load;

mend_status probe_load_open(const probe *p, probe_load *load);
void probe_load_close(const probe *p, probe_load *load);

/* Starts it for 50 ms unless it still runs. */
mend_status probe_load_keep(const probe *p, const probe_load *load);

#endif
