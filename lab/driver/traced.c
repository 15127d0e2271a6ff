/* Counts and times every call on its way to the inner table. */
#include "lab/driver/traced.h"

#include <stdlib.h>

#include "base/error.h"
#include "driver/forward.h"

typedef struct traced_driver {
    mend_passing pass; /* first: `state` of the table is this structure */
    mend_mutex mutex;  /* guards `counters`. Never held while the inner table runs */
    mend_driver_counters counters;
} traced_driver;

static bool waits_on_host(mend_driver_call call)
{
    return call == MEND_CALL_context_synchronize || call == MEND_CALL_stream_synchronize ||
           call == MEND_CALL_event_synchronize || call == MEND_CALL_plain_free;
}

static bool is_failure(mend_driver_call call, mend_status status)
{
    bool is_query = call == MEND_CALL_event_query || call == MEND_CALL_stream_query;
    return status != MEND_DRIVER_OK && !(is_query && status == MEND_DRIVER_NOT_READY);
}

static void count_call(traced_driver *traced, mend_driver_call call, mend_status status,
                       uint64_t bytes, uint64_t duration_ns)
{
    assert(call < MEND_DRIVER_CALL_COUNT);
    mend_mutex_lock(&traced->mutex);
    mend_call_counter *counter = &traced->counters.call[call];
    counter->calls++;
    counter->failures += is_failure(call, status) ? 1 : 0;
    assert(counter->failures <= counter->calls);
    counter->bytes += status == MEND_DRIVER_OK ? bytes : 0;
    counter->total_ns += duration_ns;
    mend_raise_u64(&counter->max_ns, duration_ns);
    traced->counters.host_syncs += status == MEND_DRIVER_OK && waits_on_host(call);
    mend_mutex_unlock(&traced->mutex);
}

#define X(member, name, bytes, parameters, arguments)                                              \
    static mend_status traced_##member parameters                                                  \
    {                                                                                              \
        traced_driver *traced = driver->state;                                                     \
        const mend_driver *inner = traced->pass.inner;                                             \
        uint64_t start_ns = inner->clock_ns(inner);                                                \
        mend_status status = inner->member arguments;                                              \
        uint64_t duration_ns = inner->clock_ns(inner) - start_ns;                                  \
        count_call(traced, MEND_CALL_##member, status, bytes, duration_ns);                        \
        return status;                                                                             \
    }
MEND_DRIVER_CALLS(X)
#undef X

mend_result mend_traced_driver_create(const mend_driver *inner, mend_driver **traced)
{
    traced_driver *created = calloc(1, sizeof(*created));
    if (created == NULL) {
        return mend_fail(MEND_ERROR_OUT_OF_HOST_MEMORY, "no memory for a driver's counters");
    }
    mend_passing_init(&created->pass, inner);
#define X(member, name, bytes, parameters, arguments) created->pass.table.member = traced_##member;
    MEND_DRIVER_CALLS(X)
#undef X
    mend_mutex_init(&created->mutex, MEND_RANK_DRIVER);
    *traced = &created->pass.table;
    return MEND_OK;
}

void mend_traced_driver_get(const mend_driver *traced, mend_driver_counters *counters)
{
    traced_driver *self = traced->state;
    mend_mutex_lock(&self->mutex);
    *counters = self->counters;
    mend_mutex_unlock(&self->mutex);
}

void mend_traced_driver_destroy(mend_driver *traced)
{
    if (traced == NULL) {
        return;
    }
    traced_driver *self = traced->state;
    mend_mutex_destroy(&self->mutex);
    free(self);
}
