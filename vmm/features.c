/* The table of features: the functions of each for the hooks of the core. */
#include "layout/feature.h"

#include "check/check.h"
#include "collect/collect.h"
#include "hooks/hooks.h"
#include "quota/quota.h"
#include "ranges/ranges.h"
#include "share/share.h"
#include "sleep/sleep.h"
#ifdef MEND_WITHOUT_OBSERVERS
#include "pool/pool.h"
#else
#include "record/record.h"
#endif

#define DEFERRED(kind) (1u << MEND_DEFERRED_##kind)

#ifdef MEND_WITHOUT_OBSERVERS
static mend_result refuse(mend_pool *pool, mend_moment moment, const mend_pool_config *config)
{
    const bool is_wanted =
        moment == MEND_POOL_BEGINS &&
        (config->record != NULL || pool->observed.top || pool->observed.snapshots[0] != '\0');
    return is_wanted ? mend_failure(MEND_ERROR_NOT_SUPPORTED,
                                    "record and observe (top, snapshots): this library was built "
                                    "without observers")
                     : MEND_OK;
}
#endif

const mend_feature mend_features[MEND_FEATURES] = {
    {.init = mend_ranges_init,
     .clear = mend_ranges_clear,
     .retry = mend_ranges_retry,
     .retries = DEFERRED(RANGE),
     .statistics = mend_ranges_statistics},
    {.pool = mend_peers_hear,
     .init = mend_share_init,
     .give_back = mend_share_give_back,
     .clear = mend_share_clear,
     .retry = mend_imports_retry,
     .retries = DEFERRED(HANDLES),
     .block_ends = mend_exports_end,
     .statistics = mend_share_statistics},
    {.init = mend_copies_init,
     .give_back = mend_keep_clear,
     .retry = mend_sleep_retry,
     .retries = DEFERRED(END) | DEFERRED(GRAPHS) | DEFERRED(MEMORY) | DEFERRED(HOST_MEMORY),
     .trim = mend_copies_trim,
     .statistics = mend_sleep_statistics},
    {.pool = mend_quota_hear, .statistics = mend_quota_statistics},
#ifdef MEND_WITHOUT_OBSERVERS
    {.pool = refuse},
#else
    {.pool = mend_observers_hear, .statistics = mend_observers_count, .describe = mend_explain},
#endif
    {.pool = mend_collector_hear},
    {.pool = mend_checks_hear, .check = mend_checks_of_block},
    {.pool = mend_devices_hear},
};
