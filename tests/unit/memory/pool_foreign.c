/* Blocks used on streams of another device, which may use the pool's memory: all that ends with a
 * stream of the pool's own device ends well with one of these. The bytes are checked. */
#include "tests/support/kit.h"
#include "tests/support/place.h"

static const uint64_t block_bytes = 5 * MEND_MIB;

enum { LONG = 1000, BRIEF = 10 };

/* A device of 8 MiB, so that a block of 5 MiB blocks all requests, and streams of another. */
typedef struct scene {
    mend_world w;
    mend_device_info second;
    mend_stream foreign;
    mend_stream beside;
} scene;

static mend_stream create_foreign(scene *s)
{
    const mend_driver *driver = s->w.driver;
    mend_stream stream = NULL;
    EXPECT_INT_EQ(0, driver->context_push(driver, s->second.context));
    EXPECT_INT_EQ(0, driver->stream_create(driver, &stream));
    EXPECT_INT_EQ(0, driver->context_pop(driver));
    return stream;
}

static bool open_scene(scene *s, void (*configure)(mend_world *))
{
    *s = (scene){0};
    if (!kit_open_beside_another(&s->w, 8 * MEND_MIB, configure)) {
        return false;
    }
    EXPECT_INT_EQ(0, s->w.driver->device_open(s->w.driver, 1, &s->second));
    s->foreign = create_foreign(s);
    s->beside = create_foreign(s);
    return !mend_test_has_failed();
}

/* Forgets the program's streams on the other device, and closes that. */
static void end_foreign(scene *s)
{
    mend_stream streams[] = {s->foreign, s->beside};
    for (int i = 0; i < 2; i++) {
        if (streams[i] != NULL) {
            EXPECT_OK(mend_unregister_stream(s->w.pool, streams[i]));
            EXPECT_OK(mend_sim_stream_destroy(s->w.sim, streams[i]));
        }
    }
    EXPECT_INT_EQ(0, s->w.driver->device_close(s->w.driver, 1));
}

static void close_scene(scene *s)
{
    mend_world_check(&s->w);
    end_foreign(s);
    kit_close(&s->w);
}

static void declare(scene *s, void *block, mend_stream stream)
{
    EXPECT_OK(mend_record_stream(s->w.pool, block, stream));
}

/* A block of the pool's device, used for long on the other one. */
static void *use_there(scene *s)
{
    void *block = kit_alloc(&s->w, block_bytes, s->w.streams[0]);
    declare(s, block, s->foreign);
    kit_use(&s->w, s->foreign, block, block_bytes, LONG);
    return block;
}

/* Gets the memory, and writes it at once. */
static void take_over(scene *s)
{
    kit_alloc_used(&s->w, block_bytes, s->w.streams[0], BRIEF);
    mend_world_check(&s->w);
}

KIT_SETTING(may_vanish, w->pool_config.detect_destroyed_streams = 1);
KIT_SETTING(no_context_events, w->sim_config.has_no_context_events = 1);
KIT_SETTING(may_vanish_and_none, may_vanish(w), no_context_events(w));
#define SCENE_TEST(suite, name, opening) KIT_RIG_TEST(suite, name, scene, opening, close_scene(r))

/* The handle means another stream before the block is freed: no event can be recorded any more. */
KIT_RIG_EACH(pool_foreign, what_no_event_covers_waits_for_the_context_there, int, has_events, 2,
             scene, r, open_scene(r, has_events ? may_vanish : may_vanish_and_none), close_scene(r))
{
    mend_world *w = &r->w;
    void *block = use_there(r);
    void *small = kit_alloc(w, 512, S(0));
    mend_stream gone = r->foreign;
    EXPECT_OK(mend_sim_stream_destroy(w->sim, gone));
    r->foreign = create_foreign(r);
    EXPECT_PTR_EQ(gone, r->foreign);
    declare(r, small, r->foreign);
    kit_free(w, block, S(0));
    take_over(r);
    kit_expect_waits(w, 0, 2); /* both contexts, or events of them */
}

/* Behind an event of both contexts, on the device. */
SCENE_TEST(pool_foreign, what_was_freed_without_a_stream_waits_for_the_context_there,
           open_scene(r, NULL))
{
    mend_test_place(w->pool, &(mend_test_sizes){.unfenced_bytes = MEND_MIB});
    void *block = kit_alloc(w, block_bytes, S(0));
    kit_free(w, kit_alloc(w, 512, r->foreign), r->foreign);
    kit_use(w, r->foreign, block, block_bytes, LONG);
    kit_free(w, block, MEND_NO_STREAM);
    take_over(r);
    kit_expect_waits(w, 2, 0);
}

SCENE_TEST(pool_foreign, a_pool_of_that_device_knows_of_a_capture_there, open_scene(r, NULL))
{
    mend_pool *there;
    w->pool_config.device = 1;
    w->pool_config.peers = 0;
    EXPECT_OK(mend_world_create_pool(w, &there));
    EXPECT_OK(mend_free(there, kit_alloc_from(there, MEND_MIB, MEND_NO_STREAM), MEND_NO_STREAM));
    kit_alloc(w, 512, r->foreign);
    kit_begin_capture(w, r->foreign);
    kit_alloc(w, 512, r->foreign);
    EXPECT_ERROR(CAPTURING, mend_trim(there, 0, MEND_TRIM_WAIT, NULL));
    mend_sim_graph *graph = kit_end_capture(w, r->foreign);
    mend_sim_graph_destroy(w->sim, graph);
    EXPECT_OK(mend_trim(there, 0, MEND_TRIM_WAIT, NULL));
    kit_alloc_from(there, 512, r->beside); /* and this pool of one that the other knows */
    kit_begin_capture(w, r->beside);
    kit_alloc_from(there, 512, r->beside);
    kit_free(w, kit_alloc(w, MEND_MIB, MEND_NO_STREAM), MEND_NO_STREAM);
    EXPECT_ERROR(CAPTURING, mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL));
    mend_sim_graph_destroy(w->sim, kit_end_capture(w, r->beside));
    EXPECT_OK(mend_pool_destroy(there));
}

KIT_SETTING(has_no_capture_checks, w->pool_config.capture_checks = -1);
KIT_SETTING(neither, may_vanish(w), has_no_capture_checks(w));
static void (*const settings[])(mend_world *) = {NULL, may_vanish, has_no_capture_checks, neither};

/* It cannot be identified before its capture has ended. */
KIT_RIG_EACH(pool_foreign, a_stream_there_may_be_met_in_a_capture, int, i, 4, scene, r,
             open_scene(r, settings[i]), close_scene(r))
{
    mend_world *w = &r->w;
    void *block = kit_alloc(w, block_bytes, S(0));
    kit_begin_capture(w, r->foreign);
    declare(r, block, r->foreign);
    mend_sim_graph *graph = kit_end_capture(w, r->foreign);
    kit_use(w, r->foreign, block, block_bytes, LONG);
    declare(r, block, r->foreign);
    mend_sim_graph_destroy(w->sim, graph);
    kit_free(w, block, S(0));
    take_over(r);
}

/* Nothing is recorded of a stream that cannot be distinguished, and the pool is as it was. */
static const struct {
    const char *call;
    uint64_t after_calls; /* of the pool's own context */
} faults[] = {
    {"context_device", 0}, {"context_push", 1}, {"context_device", 1}, {"device_open", 0}};

KIT_RIG_EACH(pool_foreign, a_stream_that_cannot_be_distinguished_is_an_error, int, i, 4, scene, s,
             open_scene(s, NULL), close_scene(s))
{
    mend_world *w = &s->w;
    void *block = kit_alloc(w, block_bytes, S(0));
    uint64_t open = mend_world_ledger(w).contexts_open;
    kit_fail(w, faults[i].call, faults[i].after_calls, 0, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_record_stream(w->pool, block, s->foreign));
    EXPECT_LEDGER(w, contexts_open, open);
    mend_world_check(w);
    declare(s, block, s->foreign);
    EXPECT_LEDGER(w, contexts_open, open + 1);
}

/* A stream that the pool meets in its capture cannot be identified there. If its graph pool is
 * released without a stream, waits cover each device that may access the memory. The graph runs on
 * the other device meanwhile. If the driver refuses, the graph pool stays. */
KIT_RIG_EACH(pool_foreign, the_graph_of_a_stream_that_was_met_in_its_capture_is_waited_for, int, i,
             4, scene, r, open_scene(r, settings[i % 2]), close_scene(r))
{
    const bool on_stream = i / 2 == 1;
    const mend_stream recorder = on_stream ? r->foreign : MEND_NO_STREAM;
    mend_world *w = &r->w;
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, r->foreign);
    void *block = kit_alloc(w, block_bytes, r->foreign);
    kit_launch(w, r->foreign, MEND_SIM_WORK_WRITE, block, block_bytes, 1, 0);
    kit_launch(w, r->foreign, MEND_SIM_WORK_VERIFY, block, block_bytes, 1, 0);
    kit_free(w, block, r->foreign);
    mend_sim_graph *graph = kit_end_captured_graph_pool(w, r->foreign, graph_pool);
    EXPECT_OK(mend_sim_graph_launch(w->sim, graph, r->foreign, LONG));
    mend_sim_graph_destroy(w->sim, graph);
    kit_fail(w, on_stream ? "stream_get_info" : "device_open", 0, UINT64_MAX, MEND_DRIVER_UNKNOWN);
    EXPECT_ERROR(DRIVER, mend_graph_pool_destroy(graph_pool, recorder));
    mend_sim_clear_faults(w->sim);
    EXPECT_OK(mend_graph_pool_destroy(graph_pool, recorder));
    void *next = kit_alloc(w, block_bytes, S(0)); /* waits for events of both contexts */
    kit_launch(w, S(0), MEND_SIM_WORK_WRITE, next, block_bytes, 2, 0);
    kit_launch(w, S(0), MEND_SIM_WORK_VERIFY, next, block_bytes, 2, 0);
    if (on_stream) {
        kit_expect_waits(w, 1, 0);
    } else {
        EXPECT_STATS(w, context_fences, 2, host_waits, 2);
    }
}
