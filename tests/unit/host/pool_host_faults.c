/* A block on the host, and moves there and back, when the driver or malloc fails, at every place
 * where it can: no byte is lost, nothing leaks, and the same call works afterwards. */
#include "tests/support/host_memory.h"
#include "tests/unit/host/host_rig.h"

typedef mend_result (*operation)(host_rig *r);

static mend_result overflow(host_rig *r)
{
    mend_set_host_allowed(1);
    mend_result result =
        r->there == NULL ? mend_alloc(r->w.pool, MEND_MIB, r->w.streams[0], &r->there) : MEND_OK;
    mend_set_host_allowed(0);
    return result;
}

static mend_result to_host(host_rig *r)
{
    const uint64_t tag = 1;
    return mend_move(r->w.pool, MEND_MOVE_TO_HOST, &tag, 1, NULL);
}

static mend_result to_device(host_rig *r)
{
    return mend_move(r->w.pool, MEND_MOVE_TO_DEVICE, NULL, 0, NULL);
}

static mend_result free_there(host_rig *r)
{
    mend_result result =
        r->there != NULL ? mend_free(r->w.pool, r->there, r->w.streams[0]) : MEND_OK;
    r->there = result == MEND_OK ? NULL : r->there;
    return result == MEND_OK ? mend_trim(r->w.pool, UINT64_MAX, MEND_TRIM_IDLE, NULL) : result;
}

static bool prepare_with(host_rig *r, operation run, mend_unwatched_driver *unwatched)
{
    if (!host_rig_open_with(r, unwatched, 0)) {
        return false;
    }
    host_rig_fill(r);
    if (run == to_device) {
        EXPECT_OK(to_host(r));
    }
    if (run == free_there) {
        EXPECT_OK(overflow(r));
        mend_sim_advance(r->w.sim, 1000000);
    }
    return true;
}

static bool prepare(host_rig *r, operation run)
{
    return prepare_with(r, run, NULL);
}

/* It works without a fault; all bytes are there, and nothing is left. */
static bool conclude(host_rig *r, operation run)
{
    EXPECT_OK(mend_audit(r->w.pool));
    EXPECT_OK(run(r));
    EXPECT_TRUE(mend_world_check(&r->w));
    EXPECT_OK(free_there(r));
    EXPECT_OK(to_device(r));
    kit_release_row(&r->w, r->blocks, HOST_BLOCKS, HOST_BLOCK, r->w.streams[0]);
    mend_sim_advance(r->w.sim, 1000000);
    EXPECT_OK(mend_trim(r->w.pool, 0, MEND_TRIM_WAIT, NULL));
    EXPECT_LEDGER(&r->w, host_chunks, 0, content_errors, 0);
    EXPECT_OK(mend_pool_destroy(r->w.pool));
    EXPECT_LEDGER(&r->w, chunks, 0, mappings, 0);
    EXPECT_STR_EQ("", mend_sim_first_violation(r->w.sim));
    mend_sim_destroy(r->w.sim);
    return !mend_test_has_failed();
}

/* Once, and from there on; by an error, and for lack of memory. */
static const kit_fault ways[] = {{.count = 1, .status = MEND_DRIVER_UNKNOWN},
                                 {.count = 1, .status = MEND_DRIVER_OUT_OF_MEMORY},
                                 {.count = UINT64_MAX, .status = MEND_DRIVER_UNKNOWN}};

static bool fail_at(const kit_fault *f, const void *context)
{
    const operation *run = context;
    host_rig r;
    if (!prepare(&r, *run)) {
        return false;
    }
    const mend_stats before = mend_world_stats(&r.w);
    kit_fail(&r.w, f->call, f->after_calls, f->count, f->status);
    const mend_result result = (*run)(&r);
    const bool is_met =
        result != MEND_OK || mend_world_stats(&r.w).driver_failures > before.driver_failures;
    EXPECT_OK(mend_audit(r.w.pool));
    mend_sim_clear_faults(r.w.sim);
    EXPECT_OK(mend_trim(r.w.pool, UINT64_MAX, MEND_TRIM_IDLE, NULL)); /* maps what is missing */
    return conclude(&r, *run) && is_met;
}

#define CALLS_OF_MOVE                                                                              \
    "context_push exchange_capture_mode create map set_access copy context_synchronize unmap "     \
    "release"
#define HOST_FAULT_TEST(name, run, calls)                                                          \
    MEND_TEST(pool_host_faults, name)                                                              \
    {                                                                                              \
        EXPECT_TRUE(kit_sweep(calls, ways, 3, fail_at, &(const operation){run}) > 4);              \
    }
HOST_FAULT_TEST(a_block_there, overflow, "context_push exchange_capture_mode create map set_access")
HOST_FAULT_TEST(its_end, free_there, "context_push exchange_capture_mode unmap release")
HOST_FAULT_TEST(a_move_to_the_host, to_host, CALLS_OF_MOVE)
HOST_FAULT_TEST(a_move_to_the_device, to_device, CALLS_OF_MOVE)

enum { CROWD = 2048 };

/* Small blocks in the place of two others: a chunk with many needs more records than are kept
 * ready. */
static void crowd(host_rig *r, void *small[CROWD])
{
    for (int i = 0; i < 4; i += 2) {
        kit_release(&r->w, r->blocks[i], HOST_BLOCK, r->w.streams[0]);
        r->blocks[i] = NULL;
    }
    mend_set_sleep_tag(1);
    kit_alloc_row(&r->w, small, CROWD, MEND_GRANULE_BYTES, r->w.streams[0]);
    mend_set_sleep_tag(0);
}

static void disperse(host_rig *r, void *small[CROWD])
{
    kit_free_row(&r->w, small, CROWD, r->w.streams[0]);
}

/* The host memory of the library fails at every allocation in turn. Returns how often it did. */
static uint64_t fail_mallocs(operation run)
{
    static void *small[CROWD];
    uint64_t failed = 1;
    uint64_t after = 0;
    for (; failed > 0; after++) {
        host_rig r;
        mend_unwatched_driver unwatched;
        if (after == 1000 || !prepare_with(&r, run, &unwatched)) {
            mend_test_fail(__FILE__, __LINE__, "malloc fails without an end");
            return 0;
        }
        crowd(&r, small);
        const mend_result result = mend_test_starve(after, 1, run(&r));
        failed = mend_test_failed_host_allocations();
        mend_test_heal_host_memory();
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_OUT_OF_HOST_MEMORY);
        disperse(&r, small);
        EXPECT_TRUE(conclude(&r, run));
    }
    return after - 1;
}

MEND_TEST(pool_host_faults, malloc)
{
    EXPECT_TRUE(fail_mallocs(to_host) > 0);
}
