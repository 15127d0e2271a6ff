/* Stamps of freed memory: gathered, compared and passed. */
#include "memory/waits.h"

void mend_waits_add_other(mend_wait_env env, mend_waits *waits, mend_stamp stamp)
{
    assert(waits->first.epoch != 0 && stamp.epoch != 0);
    for (mend_wait *at = &waits->all; at != NULL; at = at->next) {
        if (at->stamp.stream == stamp.stream) {
            mend_raise_u64(&at->stamp.epoch, stamp.epoch);
            return;
        }
    }
    mend_waits_push(env, waits, stamp);
}

void mend_waits_end_uses(mend_wait_env env, mend_waits *waits, uint32_t freed_on,
                         uint64_t size_bytes, uint64_t number)
{
    for (mend_wait **link = &waits->others; *link != NULL;) {
        mend_wait *user = *link;
        mend_stream_state *state = &env.streams->items[user->stamp.stream];
        assert(user->stamp.epoch != 0 || state->users > 0);
        state->users -= user->stamp.epoch == 0;
        if (user->stamp.epoch == 0 && user->stamp.stream != freed_on) {
            state->open_bytes += state->has_ended && state->open ? size_bytes : 0;
            user->stamp = state->has_ended
                              ? mend_streams_last_stamp(env.streams, user->stamp.stream)
                              : mend_streams_stamp(env.streams, user->stamp.stream, size_bytes);
            state->freed_by = number;
        }
        if (mend_stamp_is_ready(env.streams, user->stamp, freed_on)) {
            *link = user->next;
            mend_slab_give(env.nodes, user);
        } else {
            link = &user->next;
        }
    }
}

bool mend_waits_drop_passed_of_several(mend_wait_env env, mend_waits *waits)
{
    assert(waits->others != NULL && waits->first.epoch != 0);
    for (mend_wait **link = &waits->others; *link != NULL;) {
        mend_wait *node = *link;
        if (mend_stamp_has_passed(env.streams, node->stamp)) {
            *link = node->next;
            mend_slab_give(env.nodes, node);
        } else {
            link = &node->next;
        }
    }
    if (!mend_stamp_has_passed(env.streams, waits->first)) {
        return false;
    }
    mend_wait *next = waits->others;
    if (next == NULL) {
        waits->first = (mend_stamp){0};
        return true;
    }
    assert(next->stamp.epoch != 0);
    waits->all = *next;
    mend_slab_give(env.nodes, next);
    return false;
}

mend_stamp mend_waits_first_blocking(const mend_streams *streams, const mend_waits *waits,
                                     uint32_t stream, uint64_t behind_wait)
{
    const mend_wait *at = &waits->all;
    while (mend_waits_stamp_is_ready(streams, at->stamp, stream, behind_wait)) {
        at = at->next;
        assert(at != NULL);
    }
    return at->stamp;
}

unsigned mend_waits_blocked_by(const mend_streams *streams, const mend_waits *waits,
                               uint32_t stream)
{
    unsigned holds = 0;
    for (const mend_wait *at = &waits->all; at != NULL; at = at->next) {
        const mend_stamp stamp = at->stamp;
        const mend_stream_state *state = &streams->items[stamp.stream];
        assert(stamp.stream < streams->count);
        /* Nothing can be recorded on a stream that the pool no longer knows. */
        const bool is_unfenced = !state->known && state->open && stamp.epoch == state->open_epoch;
        if (mend_stamp_is_ready(streams, stamp, stream)) {
            continue;
        }
        holds |= state->graph_pool != 0                               ? MEND_BLOCKED_BY_GRAPH_POOLS
                 : stamp.stream == MEND_STREAM_UNKNOWN || is_unfenced ? MEND_BLOCKED_UNTIL_WAIT
                                                                      : MEND_BLOCKED_BY_STREAMS;
    }
    return holds;
}
