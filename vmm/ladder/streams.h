/* Memory that other streams freed: what a climb asks the driver before it can be used. */
#ifndef MEND_LADDER_STREAMS_H
#define MEND_LADDER_STREAMS_H

#include "layout/state.h"

/* Unmaps retired mappings, records and polls fences, as every climb that makes room does. The
 * caller holds both locks, and a driver scope is open. */
mend_result mend_ladder_refresh(mend_heap *heap, const mend_request *request);

/* Whether the request's stream may be made to wait for others, on the device. Calls the driver. */
mend_result mend_ladder_may_wait_behind(mend_heap *heap, const mend_request *request,
                                        bool *may_wait);

#endif
