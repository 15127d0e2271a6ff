/* Where there is room, a little memory is created rather than chunks moved; and moves leave large
 * free runs in one piece. */
#include "policy/headroom.h"
#include "pool/pool.h"
#include "tests/support/kit.h"
#include "tests/support/rig.h"

/* Chunks of 1 MiB, each under a block of its own. */
enum { ROW = 50 };

/* Needs two chunks. What is live at most lets two be created. */
#define REQUEST_BYTES (MEND_MIB + MEND_MIB / 2)

typedef struct rig {
    mend_world w;
    char *row[ROW];
} rig;

static void fill_row(rig *r, int count)
{
    kit_free(&r->w, kit_alloc(&r->w, (uint64_t)count * MEND_MIB, NULL), NULL);
    for (int i = 0; i < count; i++) {
        r->row[i] = kit_alloc(&r->w, MEND_MIB, NULL);
    }
}

static bool open_rig(rig *r)
{
    if (!kit_open_with(&r->w, 1 * MEND_GIB, NULL)) {
        return false;
    }
    fill_row(r, ROW);
    return !mend_test_has_failed();
}

/* What one request does. */
typedef struct effort {
    uint64_t created_bytes;
    uint64_t moved;
    uint64_t avoided;
} effort;

static void expect_effort(rig *r, uint64_t size_bytes, effort expected)
{
    mend_stats before = mend_world_stats(&r->w);
    kit_alloc(&r->w, size_bytes, NULL);
    mend_stats after = mend_world_stats(&r->w);
    EXPECT_U64_EQ(expected.created_bytes, after.reserved_bytes - before.reserved_bytes);
    EXPECT_U64_EQ(expected.moved, after.chunks_moved - before.chunks_moved);
    EXPECT_U64_EQ(expected.avoided, after.moves_avoided - before.moves_avoided);
}

static const effort creates_all = {.created_bytes = REQUEST_BYTES, .avoided = 1};
static const effort moves_two = {.moved = 2};

static void free_apart(rig *r, int first, int count)
{
    for (int i = first; i < first + 3 * count; i += 3) {
        kit_free(&r->w, r->row[i], NULL);
    }
}

#define HEADROOM_TEST(suite, name) RIG_TEST(suite, name, rig, r, open_rig(r), kit_close(&r->w))

HEADROOM_TEST(pool_headroom, a_little_is_created_rather_than_moved)
{
    free_apart(r, 1, 4);
    expect_effort(r, REQUEST_BYTES, creates_all);
    expect_effort(r, REQUEST_BYTES, moves_two); /* 53 MiB would be more than 4 % too much */
}

/* Each chunk that is moved pays for a sixteenth of a usual one of 1 MiB. */
HEADROOM_TEST(pool_headroom, more_is_created_once_moves_have_paid_for_it)
{
    free_apart(r, 1, 4);
    for (int i = 0; i < 14; i++) {
        mend_headroom_note_move(&r->w.pool->heap);
    }
    expect_effort(r, 4 * MEND_MIB, (effort){.moved = 4});
    free_apart(r, 21, 4);
    expect_effort(r, 3 * MEND_MIB, (effort){.created_bytes = 3 * MEND_MIB, .avoided = 1});
    expect_effort(r, REQUEST_BYTES, moves_two);
}

/* A driver that has no memory is not asked at each request. */
HEADROOM_TEST(pool_headroom, without_memory_on_the_device_chunks_are_moved)
{
    free_apart(r, 1, 4);
    kit_fail(&r->w, "create", 0, 1, 0);
    expect_effort(r, REQUEST_BYTES, moves_two);
    expect_effort(r, REQUEST_BYTES, (effort){.moved = 1}); /* behind what the other left */
}

HEADROOM_TEST(pool_headroom, what_lived_before_a_trim_lets_nothing_be_created)
{
    for (int i = 0; i < ROW; i++) {
        kit_free(&r->w, r->row[i], NULL);
    }
    EXPECT_RESULT(MEND_OK, mend_trim(r->w.pool, 0, NULL));
    fill_row(r, 10);
    free_apart(r, 1, 3);
    expect_effort(r, REQUEST_BYTES, moves_two);
}

/* Of a run of three and three alone the latter go, and one from the end of the run. */
HEADROOM_TEST(pool_headroom, moves_leave_the_larger_runs_whole)
{
    for (int i = 5; i < 8; i++) {
        kit_free(&r->w, r->row[i], NULL);
    }
    free_apart(r, 21, 3);
    expect_effort(r, 4 * MEND_MIB, (effort){.moved = 4});
    EXPECT_PTR_EQ(r->row[5], kit_alloc(&r->w, 2 * MEND_MIB, NULL));
}
