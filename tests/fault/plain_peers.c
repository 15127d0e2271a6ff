/* A pool over plain allocations asks another one of its device for memory: whichever driver call
 * fails meanwhile, both are in order, hold what they count, and go on. */
#include <string.h>

#include "pool/pool.h"
#include "tests/support/kit.h"

/* What the peer pool has: several idle allocations, or one, of which nothing goes back before all
 * does; that is idle, or in part in use. */
typedef enum kind { SEVERAL, IN_PIECES, IN_FLIGHT, KINDS } kind;

enum { PIECES = 20, KEPT_BYTES = 1984 << 10 }; /* what an allocation of 2 MiB holds */

typedef struct rig {
    mend_world w;
    mend_pool *pools[2];
    void *kept[2];
    mend_stream stream;
    uint64_t request_bytes;
} rig;

static void leave(rig *r, uint64_t size_bytes, int count)
{
    void *blocks[PIECES];
    for (int i = 0; i < count; i++) {
        blocks[i] = kit_alloc_from(r->pools[1], size_bytes, NULL);
    }
    for (int i = 0; i < count; i++) {
        EXPECT_OK(mend_free(r->pools[1], blocks[i], NULL));
    }
}

/* One allocation of 12 MiB, free but for its end. */
static void *leave_all_but(rig *r, uint64_t end_bytes)
{
    void *most = kit_alloc_from(r->pools[1], 10 * MEND_MIB, NULL);
    void *end = kit_alloc_from(r->pools[1], end_bytes, r->stream);
    EXPECT_OK(mend_free(r->pools[1], most, NULL));
    EXPECT_OK(mend_trim(r->pools[1], 0, MEND_TRIM_IDLE, NULL));
    return end;
}

static void prepare(rig *r, kind what)
{
    enum { END_BYTES = 1500 << 10 };
    r->request_bytes = what == IN_FLIGHT ? 11 * MEND_MIB : 3 * MEND_MIB;
    if (what == SEVERAL) {
        leave(r, 3 * MEND_MIB, 3);
        return;
    }
    void *end = leave_all_but(r, END_BYTES);
    leave(r, 512 * MEND_KIB, what == IN_PIECES ? PIECES : 0);
    if (what == IN_FLIGHT) {
        kit_launch(&r->w, r->stream, MEND_SIM_WORK_TOUCH, end, END_BYTES, 0, 1000);
    }
    EXPECT_OK(mend_free(r->pools[1], end, r->stream));
}

static bool open_rig(rig *r, kind what)
{
    *r = (rig){.request_bytes = 0};
    mend_world_init(&r->w);
    r->w.sim_config.memory_bytes = 16 * MEND_MIB;
    r->w.sim_config.has_no_virtual_memory = 1;
    if (!mend_world_open(&r->w)) {
        return false;
    }
    r->stream = kit_stream(&r->w);
    r->pools[0] = r->w.pool;
    EXPECT_OK(mend_world_create_pool(&r->w, &r->pools[1]));
    for (int i = 0; i < 2; i++) {
        r->kept[i] = kit_alloc_from(r->pools[i], KEPT_BYTES, NULL);
        memset(r->kept[i], 1 + i, KEPT_BYTES);
    }
    prepare(r, what);
    return !mend_test_has_failed();
}

static void judge(rig *r)
{
    uint64_t held_bytes = 0;
    for (int i = 0; i < 2; i++) {
        const unsigned char *bytes = r->kept[i];
        held_bytes += r->pools[i]->plain.range_bytes;
        EXPECT_OK(mend_audit(r->pools[i]));
        EXPECT_INT_EQ(1 + i, bytes[0]);
        EXPECT_INT_EQ(1 + i, bytes[KEPT_BYTES - 1]);
    }
    EXPECT_LEDGER(&r->w, violations, 0, chunks, 0, mappings, 0, plain_bytes, held_bytes);
}

/* All of it goes back, but not where the device is lost. */
static void end_rig(rig *r, bool is_lost)
{
    for (int i = 0; i < 2 && !is_lost; i++) {
        EXPECT_OK(mend_free(r->pools[i], r->kept[i], NULL));
    }
    for (int i = 0; i < 2; i++) {
        const mend_result result = mend_pool_destroy(r->pools[i]);
        EXPECT_TRUE(result == MEND_OK || is_lost);
    }
    if (!is_lost) {
        EXPECT_LEDGER(&r->w, plain_allocations, 0, contexts_open, 0);
    }
    mend_sim_destroy(r->w.sim);
}

/* Returns whether the request came to the call that is to fail. */
static bool fail_at(kind what, const mend_sim_fault *fault)
{
    rig r;
    void *block = NULL;
    if (!open_rig(&r, what)) {
        return false;
    }
    const uint64_t before = mend_sim_call_count(r.w.sim);
    EXPECT_OK(mend_sim_fail(r.w.sim, fault));
    const mend_result result = mend_alloc(r.pools[0], r.request_bytes, NULL, &block);
    const bool is_met = mend_sim_call_count(r.w.sim) - before > fault->after_calls;
    const bool is_lost = is_met && fault->sticky;
    mend_sim_clear_faults(r.w.sim);
    EXPECT_INT_EQ(result != MEND_OK, block == NULL);
    /* What the peer pool alone has met is no failure of the call. */
    EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_MEMORY ||
                result == (is_lost ? MEND_ERROR_DEVICE_LOST : MEND_ERROR_DRIVER));
    if (!is_lost) {
        judge(&r);
        EXPECT_OK(block == NULL ? mend_alloc(r.pools[0], r.request_bytes, NULL, &block) : MEND_OK);
        judge(&r);
        EXPECT_OK(mend_free(r.pools[0], block, NULL));
    }
    end_rig(&r, is_lost);
    return is_met && !mend_test_has_failed();
}

MEND_TEST(plain_peers, any_driver_call_may_fail)
{
    static const mend_sim_fault faults[] = {
        {.struct_size = sizeof(*faults), .status = MEND_DRIVER_OUT_OF_MEMORY, .count = 1},
        {.struct_size = sizeof(*faults), .status = MEND_DRIVER_UNKNOWN, .count = 1},
        {.struct_size = sizeof(*faults), .status = MEND_DRIVER_UNKNOWN, .count = 3},
        {.struct_size = sizeof(*faults), .status = MEND_DRIVER_OUT_OF_MEMORY, .count = UINT64_MAX},
        {.struct_size = sizeof(*faults), .status = MEND_DRIVER_UNKNOWN, .count = UINT64_MAX},
        {.struct_size = sizeof(*faults), .status = 700, .count = UINT64_MAX, .sticky = 1}};
    for (int what = 0; what < KINDS; what++) {
        for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
            mend_sim_fault fault = faults[i];
            while (fail_at((kind)what, &fault)) {
                fault.after_calls++;
            }
            if (mend_test_has_failed()) {
                mend_test_fail(__FILE__, __LINE__, "kind %d, fault %zu, after %llu calls", what, i,
                               (unsigned long long)fault.after_calls);
                return;
            }
            EXPECT_TRUE(fault.after_calls > 4);
        }
    }
}
