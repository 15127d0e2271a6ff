/* A library that is built without observers (MEND_OBSERVERS=OFF) refuses their calls. */
#include "pool/pool.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
/* NOLINTBEGIN(misc-unused-parameters) */

#define REFUSE(call, ...)                                                                          \
    mend_result call(__VA_ARGS__)                                                                  \
    {                                                                                              \
        return mend_fail(MEND_ERROR_NOT_SUPPORTED,                                                 \
                         #call ": this library was built without observers");                      \
    }

REFUSE(mend_get_regions, mend_pool *pool, mend_region *regions, size_t region_bytes,
       size_t capacity, size_t *count)
REFUSE(mend_history_start, mend_pool *pool, uint64_t capacity_events)
REFUSE(mend_history_read, mend_pool *pool, uint64_t *cursor, mend_history_event *events,
       size_t event_bytes, size_t capacity, size_t *count)
REFUSE(mend_scope_push, const char *name, unsigned flags)
REFUSE(mend_scope_pop, void)
REFUSE(mend_get_scopes, mend_pool *pool, mend_scope_info *scopes, size_t scope_bytes,
       size_t capacity, size_t *count)
REFUSE(mend_get_owners, mend_pool *pool, unsigned by, mend_owner *owners, size_t owner_bytes,
       size_t capacity, size_t *count)
REFUSE(mend_set_name, mend_name_kind kind, uint64_t number, const char *name)
REFUSE(mend_stack_set_source, mend_stack_source source, void *context, uint64_t every_bytes)
/* NOLINTEND(misc-unused-parameters) */
