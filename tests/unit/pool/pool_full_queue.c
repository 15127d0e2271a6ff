/* Records of events and waits of streams, which block while a stream's queue is full: the pool's
 * lock is released, and other threads do right meanwhile. */
#include <string.h>

#include "pool/pool.h"
#include "tests/support/kit.h"
#include "tests/support/threads.h"

static const uint64_t block_bytes = 5 * MEND_MIB;

/* Another thread does something in the middle of a call, once. */
typedef struct interruption {
    mend_world *w;
    const char *call;
    void *(*act)(void *);
    int calls;    /* so far */
    int was_free; /* of these, with the pool's lock free */
    bool is_done;
} interruption;

static void see(void *context, const char *call, int is_after)
{
    interruption *i = context;
    if (strcmp(call, i->call) != 0 || is_after) {
        return;
    }
    mend_mutex *lock = &i->w->pool->heap.state;
    i->calls++;
    if (mend_mutex_try_lock(lock)) {
        i->was_free++;
        mend_mutex_unlock(lock);
    }
    if (i->act != NULL && !i->is_done) {
        i->is_done = true;
        mend_test_run_thread(i->act, i);
    }
}

static void *audit_in_the_middle(void *argument)
{
    mend_world_check(((const interruption *)argument)->w);
    return NULL;
}

/* The waits of a block's users are recorded when the block is gone: the pool is valid. */
KIT_SET_TEST(pool_full_queue, a_free_is_over_before_its_users_are_recorded,
             w->pool_config.detect_destroyed_streams = 1)
{
    interruption i = {.w = w, .call = "event_record", .act = audit_in_the_middle};
    void *block = kit_alloc(w, block_bytes, S(1));
    EXPECT_OK(mend_record_stream(w->pool, block, S(0)));
    EXPECT_OK(mend_record_stream(w->pool, block, S(2)));
    kit_use(w, S(0), block, block_bytes, 1000);
    kit_observed(w, see, &i, kit_free(w, block, S(1)));
    EXPECT_TRUE(i.is_done);
    EXPECT_FIELDS(i, calls, 3, was_free, 3);
}
