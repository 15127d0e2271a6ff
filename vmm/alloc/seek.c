/*
 * Whom a call asks that finds no room, one after the other: nobody, others for idle memory,
 * callbacks, its own work and at last that of others. Each is asked once.
 */
#include "alloc/ladder.h"

static mend_outcome beside_others(mend_seek *seek)
{
    return seek->lacking_bytes > 0 && seek->heap->config.helpers->trim_others(seek)
               ? seek->attempt(seek)
               : MEND_NOTHING;
}

static mend_outcome beside_callbacks(mend_seek *seek)
{
    return seek->heap->config.helpers->call_back(seek);
}

static mend_outcome behind_waits(mend_seek *seek)
{
    seek->may_wait = true;
    return seek->attempt(seek);
}

mend_outcome mend_seek_room(mend_seek *seek, bool is_helped)
{
    mend_outcome (*const ways[])(mend_seek *) = {seek->attempt, beside_others, beside_callbacks,
                                                 behind_waits, beside_others};
    enum { WAYS = sizeof(ways) / sizeof(ways[0]), ALONE = 3 };
    mend_outcome outcome = MEND_NOTHING;
    for (int i = is_helped ? 0 : ALONE; i < WAYS && outcome == MEND_NOTHING; i++) {
        outcome = ways[i](seek);
    }
    return outcome;
}
