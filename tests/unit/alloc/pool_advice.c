/* Each sentence of advice in an out-of-memory report is true: following it gets the memory, and no
 * useless step is advised. One row a sentence. */
#include <mend/mend_range.h>
#include <string.h>

#include "tests/support/kit.h"

/* A device of 8 MiB, a pool of 4 MiB, chunks of 1 MiB. */
typedef struct scene {
    mend_world w;
    void *blocks[4];
    mend_graph_pool *graph_pool;
    mend_graph_pool *captured; /* its capture is in progress */
    mend_sim_graph *graph;
    mend_range *range;
    mend_oom_report oom_report;
} scene;

static bool open_scene(scene *s)
{
    *s = (scene){.graph_pool = NULL};
    mend_world_init(&s->w);
    s->w.sim_config.memory_bytes = 8 * MEND_MIB;
    s->w.pool_config.limit_bytes = 4 * MEND_MIB;
    s->w.pool_config.allow_stream_waits = -1;
    return kit_open(&s->w);
}

static void take_row(scene *s)
{
    kit_alloc_row(&s->w, s->blocks, 4, MEND_MIB, s->w.streams[0]);
}

static void give(scene *s, int number)
{
    kit_free(&s->w, s->blocks[number], s->w.streams[0]);
}

static void raise_limit(scene *s)
{
    EXPECT_OK(mend_set_limit(s->w.pool, s->oom_report.sufficient_limit_bytes));
}

static void pin_between(scene *s)
{
    take_row(s);
    EXPECT_OK(mend_pin(s->w.pool, s->blocks[0], MEND_MIB));
    EXPECT_OK(mend_pin(s->w.pool, s->blocks[2], MEND_MIB));
    give(s, 0);
    give(s, 2);
}

static void unpin(scene *s)
{
    EXPECT_OK(mend_unpin(s->w.pool, s->blocks[0], MEND_MIB));
    EXPECT_OK(mend_unpin(s->w.pool, s->blocks[2], MEND_MIB));
}

static void keep(scene *s, uint64_t size_bytes)
{
    s->graph_pool = kit_begin_graph_pool(&s->w, s->w.streams[0]);
    kit_free(&s->w, kit_alloc(&s->w, size_bytes, s->w.streams[0]), s->w.streams[0]);
    EXPECT_OK(mend_graph_pool_end(s->graph_pool));
}

static void keep_for_graph_pool(scene *s)
{
    keep(s, 3 * MEND_MIB);
}

static void release(scene *s)
{
    EXPECT_OK(mend_graph_pool_destroy(s->graph_pool, s->w.streams[0]));
}

/* Only a wait for the context would free it. */
static void free_and_capture(scene *s, uint64_t size_bytes)
{
    kit_leave_in_flight(&s->w, size_bytes, s->w.streams[1], 1000, MEND_NO_STREAM);
    s->captured = kit_begin_captured_graph_pool(&s->w, s->w.streams[2]);
}

static void free_in_capture(scene *s)
{
    free_and_capture(s, 3 * MEND_MIB);
}

static void end_capture(scene *s)
{
    mend_sim_graph_destroy(s->w.sim, kit_end_capture(&s->w, s->w.streams[2]));
    EXPECT_OK(mend_graph_pool_end(s->captured));
    s->captured = NULL;
}

/* Memory used before the capture is freed in it, outside of graph pools: the same stream does not
 * get it either. */
static void free_what_was_used_before(scene *s)
{
    take_row(s);
    kit_begin_capture(&s->w, s->w.streams[0]);
    give(s, 0);
    give(s, 1);
    give(s, 2);
}

static void free_beside_a_graph_pool(scene *s)
{
    keep(s, MEND_MIB);
    kit_alloc_row(&s->w, &s->blocks[1], 3, MEND_MIB, s->w.streams[0]);
    kit_begin_capture(&s->w, s->w.streams[0]);
    give(s, 1);
    give(s, 2);
}

static void end_and_destroy(scene *s)
{
    mend_sim_graph_destroy(s->w.sim, kit_end_capture(&s->w, s->w.streams[0]));
}

static void undo_all(scene *s)
{
    end_and_destroy(s);
    release(s);
}

/* The graph is still there. */
static void capture_and_end(scene *s)
{
    free_what_was_used_before(s);
    s->graph = kit_end_capture(&s->w, s->w.streams[0]);
}

static void destroy_graph(scene *s)
{
    mend_sim_graph_destroy(s->w.sim, s->graph);
}

static void keep_and_capture(scene *s)
{
    keep(s, 2 * MEND_MIB);
    free_and_capture(s, 2 * MEND_MIB);
}

static void end_and_release(scene *s)
{
    end_capture(s);
    release(s);
}

static void take_device(scene *s)
{
    take_row(s);
    EXPECT_OK(mend_set_limit(s->w.pool, 0));
    for (int i = 0; i < 4; i++) {
        kit_alloc(&s->w, MEND_MIB, s->w.streams[0]);
    }
}

static void free_two(scene *s)
{
    give(s, 0);
    give(s, 1);
}

/* The limit is below the reserved memory: half of that is empty, and is not created again as
 * pages. */
static void lower_limit(scene *s)
{
    EXPECT_OK(mend_range_create(s->w.pool, 4 * MEND_MIB, NULL, &s->range));
    kit_alloc(&s->w, 2 * MEND_MIB, s->w.streams[1]);
    kit_leave_in_flight(&s->w, 2 * MEND_MIB, s->w.streams[0], 1000000000, s->w.streams[0]);
    EXPECT_OK(mend_set_limit(s->w.pool, MEND_MIB));
    mend_sim_advance(s->w.sim, 2000000000);
}

/* An empty chunk, which is not unmapped for pages while the capture is in progress. */
static void empty_in_capture(scene *s)
{
    EXPECT_OK(mend_range_create(s->w.pool, 4 * MEND_MIB, NULL, &s->range));
    take_row(s);
    give(s, 0);
    s->captured = kit_begin_captured_graph_pool(&s->w, s->w.streams[2]);
}

/* All of the device, in quarters of chunks: of each the middle is free, and of one all if
 * `has_room`. */
static void free_middles(scene *s, bool has_room)
{
    enum { CHUNKS = 8, QUARTERS = 4 * CHUNKS };
    void *chunks[CHUNKS];
    void *quarters[QUARTERS];
    EXPECT_OK(mend_set_limit(s->w.pool, 0));
    kit_alloc_row(&s->w, chunks, CHUNKS, MEND_MIB, s->w.streams[0]);
    for (int i = 0; i < QUARTERS; i++) {
        if (i % 4 == 0) {
            kit_free(&s->w, chunks[i / 4], s->w.streams[0]);
        }
        quarters[i] = kit_alloc(&s->w, MEND_MIB / 4, s->w.streams[0]);
    }
    s->blocks[0] = quarters[8];
    s->blocks[1] = quarters[11];
    for (int i = 0; i < QUARTERS; i++) {
        if (i % 4 == 1 || i % 4 == 2 || (has_room && i < 4)) {
            kit_free(&s->w, quarters[i], s->w.streams[0]);
        }
    }
}

static void free_all_middles(scene *s)
{
    free_middles(s, false);
}

static void free_middles_and_one(scene *s)
{
    free_middles(s, true);
}

/* A limit below that leaves no memory to copy to. */
static void free_middles_above_the_limit(scene *s)
{
    free_middles(s, false);
    EXPECT_OK(mend_set_limit(s->w.pool, 7 * MEND_MIB));
}

/* The chunks are smaller than the block, which is to be in one. */
static void free_middles_for_one_chunk(scene *s)
{
    free_middles_and_one(s);
    KIT_THREAD(.in_one_chunk = 1);
}

static void compact(scene *s)
{
    EXPECT_OK(mend_compact(s->w.pool, NULL, NULL));
}

/* Nothing is compacted while the capture is in progress. */
static void free_middles_in_capture(scene *s)
{
    free_middles(s, true);
    s->captured = kit_begin_captured_graph_pool(&s->w, s->w.streams[2]);
}

static void end_and_compact(scene *s)
{
    end_capture(s);
    compact(s);
}

/* Others hold all that the limit would allow. */
static void fill_beside_others(scene *s)
{
    take_row(s);
    mend_sim_set_foreign_bytes(s->w.sim, 0, 4 * MEND_MIB);
}

/* ... or so much that the pool needs its own free chunks, too. */
static void free_beside_others(scene *s)
{
    take_row(s);
    give(s, 0);
    give(s, 2);
    mend_sim_set_foreign_bytes(s->w.sim, 0, 3 * MEND_MIB);
}

typedef struct row {
    const char *name;
    void (*prepare)(scene *s);
    uint64_t size_bytes;
    const char *words;  /* the advice */
    const char *absent; /* useless advice */
    void (*follow)(scene *s);
} row;

static const row rows[] = {
    {"limit", take_row, 4 * MEND_MIB, "Raise the limit to 8.00 MiB or more, or free memory.",
     "would help", raise_limit},
    {"limit, others", free_beside_others, 3 * MEND_MIB, "Raise the limit to 5.00 MiB", "no setting",
     raise_limit},
    {"limit, pins", pin_between, 2 * MEND_MIB, "Raise the limit to 6.00 MiB", "graph_pools",
     raise_limit},
    {"pins", pin_between, 2 * MEND_MIB, "Undoing pins (mend_unpin) would help", "graph_pools",
     unpin},
    {"limit, graph pools", keep_for_graph_pool, 2 * MEND_MIB, "Raise the limit to ", "pins",
     raise_limit},
    {"graph_pools", keep_for_graph_pool, 2 * MEND_MIB,
     "Releasing graph pools whose graphs are no longer", "pins", release},
    {"limit, capture", free_in_capture, 2 * MEND_MIB, "Raise the limit to ", "graph_pools",
     raise_limit},
    {"capture", free_in_capture, 2 * MEND_MIB, "Ending the capture in progress would help",
     "graph_pools", end_capture},
    {"capture and graph pools", keep_and_capture, 3 * MEND_MIB,
     "Ending the capture in progress and releasing graph pools would help", "pins",
     end_and_release},
    {"capture, not graph pools", keep_and_capture, 2 * MEND_MIB,
     "Ending the capture in progress would help", "and releasing", end_capture},
    {"capture and graph", free_what_was_used_before, 2 * MEND_MIB,
     "Ending the capture in progress and destroying its graph would help", "wait for freed",
     end_and_destroy},
    {"capture, graph and graph pools", free_beside_a_graph_pool, 3 * MEND_MIB,
     "Ending the capture in progress, releasing graph pools and destroying graphs would help",
     "wait", undo_all},
    {"graph", capture_and_end, 2 * MEND_MIB, "Destroying graphs that are no longer launched would",
     "roups", destroy_graph},
    {"free", take_device, 2 * MEND_MIB, "Free blocks: no setting would help", "Raise", free_two},
    {"free beside", free_all_middles, MEND_MIB,
     "Free some of the live blocks that the free memory is beside", "mend_compact", free_two},
    {"free beside, above the limit", free_middles_above_the_limit, MEND_MIB,
     "Free some of the live blocks that the free memory is beside", "mend_compact", free_two},
    {"compact", free_middles_and_one, 2 * MEND_MIB,
     "Free 1.00 MiB more in whole chunks, or let mend_compact join the free "
     "memory beside live blocks",
     "Raise", compact},
    {"compact, in one chunk", free_middles_for_one_chunk, 2 * MEND_MIB, "or let mend_compact join",
     "Raise", compact},
    {"compact later", free_middles_in_capture, 2 * MEND_MIB, "Free 1.00 MiB more in whole chunks",
     "mend_compact", end_and_compact},
    {"free, others", fill_beside_others, 2 * MEND_MIB, "Free blocks: no setting would help",
     "Raise", free_two},
    {"commit", lower_limit, 3 * MEND_MIB / 2, " or more, or free memory", "graph_pools",
     raise_limit},
    {"commit, capture", empty_in_capture, 2 * MEND_MIB, "Raise the limit to 6.00 MiB",
     "graph_pools", raise_limit},
    {"commit after capture", empty_in_capture, MEND_MIB,
     "Ending the capture in progress would help", "graph_pools", end_capture},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static mend_result ask(scene *s, uint64_t size_bytes)
{
    void *block = NULL;
    return s->range != NULL ? mend_range_commit(s->range, 0, size_bytes, s->w.streams[0])
                            : mend_alloc(s->w.pool, size_bytes, s->w.streams[0], &block);
}

KIT_RIG_EACH(pool_advice, helps_who_follows_it, int, number, ROWS, scene, s, open_scene(s),
             kit_close(&s->w))
{
    const row *r = &rows[number];
    mend_error error = MEND_ERROR_INIT;
    r->prepare(s);
    EXPECT_ERROR(OUT_OF_MEMORY, ask(s, r->size_bytes));
    EXPECT_OK(mend_get_last_error(&error));
    ASSERT_TRUE(error.oom_report != NULL);
    s->oom_report = *error.oom_report;
    if (strcasestr(error.message, r->words) == NULL || strstr(error.message, r->absent) != NULL) {
        EXPECT_STR_EQ(r->name, error.message);
    }
    r->follow(s);
    mend_result result = ask(s, r->size_bytes);
    if (result != MEND_OK) {
        mend_get_last_error(&error);
        EXPECT_STR_EQ(r->name, error.message);
    }
    mend_set_alloc_options(NULL, NULL);
    if (s->captured != NULL) {
        end_capture(s);
    }
    if (s->range != NULL) {
        EXPECT_OK(mend_range_destroy(s->range, s->w.streams[0]));
    }
}
