/* Memory that other streams freed: what a climb asks the driver before it can be used. */
#ifndef MEND_LADDER_STREAMS_H
#define MEND_LADDER_STREAMS_H

#include "layout/state.h"

/* Unmaps retired mappings, records and polls fences, as every climb that makes room does. The
 * caller holds both locks, and a driver scope is open. */
mend_result mend_ladder_refresh(mend_heap *heap, const mend_request *request);

/* Before memory is given back: records fences of all streams, and for what was freed without one.
 * The next poll finds what has passed. */
mend_result mend_ladder_close_all(mend_heap *heap);

/* Before a group is begun, while which no event of the context may be recorded: records it for what
 * was freed without a stream, if that is much. No request needs it, so nothing fails. The caller
 * holds `state` alone, which a driver call releases. */
void mend_ladder_close_before_group(mend_heap *heap);

/* Whether growth would only put off a wait that must come: so much is not idle that nothing but the
 * context's event, or a wait of the host, can cover it. */
bool mend_ladder_owes_much(const mend_heap *heap, const mend_request *request);

/* Whether the host makes that wait: the request has no stream that can wait on the device. */
bool mend_ladder_waits_on_host(const mend_heap *heap, const mend_request *request);

/* Whether the request's stream may be made to wait for others, on the device. Calls the driver. */
mend_result mend_ladder_may_wait_behind(mend_heap *heap, const mend_request *request,
                                        bool *may_wait);

/* Makes the request's stream wait for others, on the device, and tries memory that they freed;
 * NOTHING if it must not wait. Calls the driver. */
typedef mend_outcome mend_place_try(mend_heap *heap, const mend_request *request, mend_span **span);
mend_outcome mend_ladder_behind_device_waits(mend_heap *heap, const mend_request *request,
                                             mend_place_try *try_place, mend_span **span);

/* For a request that owes much: places it in what there is, behind waits on the device. If the host
 * must wait instead, it waits, unless a capture forbids it or the request cannot be served, and
 * nothing is placed yet. */
mend_outcome mend_ladder_place_without_growth(mend_heap *heap, const mend_request *request,
                                              mend_span **span);

#endif
