/* One run of a scenario: the state is made, the call is made with its fault, and all is checked.
 * Then the pool must work on, or end if the device is lost. */
#include "base/error.h"
#include "base/words.h"
#include "mend/mend_sleep.h"
#include "pool/pool.h"
#include "tests/fault/scene.h"
#include "tests/support/test.h"

/* Small, because the cost of a run is proportional to its bytes. */
static void shape_world(mend_world *world, const scenario *given, bool has_bytes)
{
    mend_world_init(world);
    world->sim_config.memory_bytes = given->device_bytes != 0 ? given->device_bytes : 4 * MEND_MIB;
    world->sim_config.content = has_bytes ? MEND_SIM_CONTENT_BYTES : MEND_SIM_CONTENT_NONE;
    world->sim_config.page_bytes = 4 * MEND_KIB;
    world->placement.chunk_bytes = 64 * MEND_KIB;
    world->placement.small_chunk_bytes = 16 * MEND_KIB;
    world->placement.small_request_bytes = 2 * MEND_KIB;
    world->pool_config.address_reservation_bytes = 4 * MEND_MIB;
    world->pool_config.allow_stream_waits = given->allow_stream_waits;
    world->pool_config.shareable = given->has_fabric ? MEND_SHAREABLE_FABRIC : MEND_SHAREABLE_ON;
    world->pool_config.observe = given->has_options ? "guard,poison" : NULL;
    world->pool_config.min_free_bytes = given->has_options ? 64 * MEND_KIB : 0;
    world->sim_config.fabric = given->has_fabric ? MEND_SIM_FABRIC_WORKS : MEND_SIM_FABRIC_NONE;
}

static bool open_scene(scene *s)
{
    mend_world *world = &s->run.world;
    shape_world(world, s->given, !s->fault->without_bytes);
    if (!mend_world_open_device(world)) {
        return false;
    }
    mend_unwatched_driver_init(&s->unwatched, mend_sim_driver(world->sim));
    if (mend_traced_driver_create(&s->unwatched.table, &s->traced) != MEND_OK) {
        mend_sim_destroy(world->sim);
        return false;
    }
    world->pool_config.driver = s->traced;
    const bool makes_first_pool = s->given->kind == SCENARIO_CREATE && s->given->setup_count == 0;
    if (!makes_first_pool && !mend_world_open_pool(world, s->traced)) {
        mend_traced_driver_destroy(s->traced);
        return false;
    }
    story_begin(&s->run);
    return true;
}

static void step(scene *s, const operation *op)
{
    mend_result result = story_call(&s->run, op);
    EXPECT_RESULT(MEND_OK, result);
    if (result == MEND_OK) {
        story_use(&s->run, op);
    }
}

static scene_state observe(scene *s)
{
    scene_state state = {.stats = MEND_STATS_INIT};
    if (s->run.world.pool != NULL) {
        state.stats = mend_world_stats(&s->run.world);
    }
    state.ledger = mend_world_ledger(&s->run.world);
    mend_traced_driver_get(s->traced, &state.calls);
    return state;
}

static mend_result call_in_question(scene *s)
{
    switch (s->given->kind) {
    case SCENARIO_CREATE:
        return mend_world_create_pool(&s->run.world, &s->created);
    case SCENARIO_DESTROY: {
        mend_pool *pool = s->run.world.pool;
        s->run.world.pool = NULL;
        return mend_pool_destroy(pool);
    }
    case SCENARIO_CALL:
        break;
    }
    return story_call(&s->run, &s->given->call);
}

static void plant_fault(scene *s)
{
    const planned_fault *plan = s->fault;
    bool fails_host = plan->kind == FAULT_HOST;
    mend_test_fail_host_memory_after(plan->position, fails_host ? plan->count : 0);
    if (plan->kind != FAULT_DRIVER && plan->kind != FAULT_LOST) {
        return;
    }
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.after_calls = plan->position;
    fault.count = plan->count;
    fault.status = plan->status;
    fault.sticky = plan->kind == FAULT_LOST;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(s->run.world.sim, &fault));
}

static mend_slab *slab_to_dry(const scene *s)
{
    mend_heap *heap = &s->run.world.pool->heap;
    mend_slab *const slabs[SCENARIO_DRY_SLABS] = {&heap->nodes.spans,
                                                  &heap->nodes.runs,
                                                  &heap->nodes.waits,
                                                  &heap->retire.nodes,
                                                  &heap->chunks.slab,
                                                  &heap->space.gap_slab,
                                                  &heap->space.reservation_slab,
                                                  &heap->range_space.gap_slab};
    return slabs[s->fault->dry - 1];
}

static void call_with_fault(scene *s, scenario_positions *positions)
{
    s->run.released_bytes = SCENE_UNTOUCHED;
    s->before = observe(s);
    uint64_t first_call = mend_sim_call_count(s->run.world.sim);
    plant_fault(s);
    mend_slab *dry = s->fault->dry != 0 ? slab_to_dry(s) : NULL;
    if (dry != NULL) { /* all in reserve is others': the call must ask the host for each record */
        EXPECT_TRUE(mend_slab_reserve(dry, (size_t)s->fault->left));
        s->withheld = dry->free_count - dry->promised_count - (size_t)s->fault->left;
        dry->promised_count += s->withheld;
    }
    const size_t used_before = dry != NULL ? dry->used_count : 0;
    mend_test_call call;
    (void)mend_fail(MEND_ERROR_INTERNAL, "an error from before the call in question");
    mend_test_begin_call(&call);
    mend_test_trace_host_memory(positions != NULL);
    mend_test_watch_host_memory(true);
    s->result = call_in_question(s);
    mend_test_watch_host_memory(false);
    mend_test_trace_host_memory(false);
    mend_test_heal_host_memory();
    mend_test_end_call(&call, s->result, "mend_(call in question)", __FILE__, __LINE__);
    if (dry != NULL) {
        EXPECT_TRUE(dry->free_count >= dry->promised_count);
        mend_slab_end_promise(dry, s->withheld);
        EXPECT_TRUE(s->result == MEND_OK || dry != &s->run.world.pool->heap.nodes.waits ||
                    dry->used_count <= used_before); /* no user of a block */
    }
    mend_sim_clear_faults(s->run.world.sim);
    if (positions != NULL) {
        positions->ends_as_told = s->result == s->given->way.result;
        positions->driver_calls = mend_sim_call_count(s->run.world.sim) - first_call;
        positions->host_allocations = mend_test_watched_host_allocations();
        positions->records = dry != NULL ? (int64_t)(dry->used_count - used_before) : 0;
        positions->host_ways = mend_test_ways_to_host_memory();
    }
    s->after = observe(s);
    scene_check_balance(s);
}

static void check_world(scene *s)
{
    story_read_all(&s->run);
    if (s->run.world.pool != NULL) {
        mend_world_check(&s->run.world);
    }
}

/* The same call without the fault, if it failed. Then its block is used. */
static void call_again(scene *s)
{
    bool as_told = s->fault->kind != FAULT_NONE;
    mend_result expected = as_told ? s->given->way.result : s->result;
    if (s->result != MEND_OK) {
        s->result = call_in_question(s);
        EXPECT_RESULT(expected, s->result);
    }
    if (s->result == MEND_OK && s->given->kind == SCENARIO_CALL) {
        story_use(&s->run, &s->given->call);
    }
    mend_sim_advance(s->run.world.sim, 1000);
    check_world(s);
}

/* Everything can be freed and released. */
static void free_all(scene *s)
{
    mend_pool *pool = s->run.world.pool;
    if (s->run.has_slept) {
        EXPECT_RESULT(MEND_OK, mend_wake(pool, NULL, 0, NULL));
        EXPECT_U64_EQ(0, mend_world_stats(&s->run.world).asleep_bytes);
        check_world(s);
    }
    if (s->run.range != NULL) {
        const operation end = {RANGE_END, 0, 0, 0};
        mend_sim_advance(s->run.world.sim, 2000); /* other streams use its pages, too */
        EXPECT_RESULT(MEND_OK, story_call(&s->run, &end));
    }
    for (int i = 0; i < STORY_SLOTS; i++) {
        slot *block = &s->run.slots[i];
        if (block->imported != NULL) {
            EXPECT_RESULT(MEND_OK, mend_import_close(pool, block->imported, s->run.streams[0]));
        }
        if (block->pinned_bytes != 0) {
            EXPECT_RESULT(MEND_OK, mend_unpin(pool, block->pointer, block->pinned_bytes));
        }
        if (block->pointer != NULL) {
            EXPECT_RESULT(MEND_OK, mend_free(pool, block->pointer, s->run.streams[block->stream]));
            block->pointer = NULL;
        }
    }
    if (s->run.graph_pool != NULL) {
        (void)mend_graph_pool_end(s->run.graph_pool); /* it may have ended */
        EXPECT_RESULT(MEND_OK, mend_graph_pool_destroy(s->run.graph_pool, s->run.streams[0]));
    }
    mend_sim_advance(s->run.world.sim, 1000);
    EXPECT_RESULT(MEND_OK, mend_trim(pool, 0, MEND_TRIM_IDLE, NULL));
    if (s->run.has_slept) { /* copies may have run on */
        EXPECT_RESULT(MEND_OK, mend_trim(pool, 0, MEND_TRIM_WAIT, NULL));
    }
    /* Memory freed without a stream waits for the context, which a trim does not wait for. */
    void *pointer;
    bool held = mend_world_stats(&s->run.world).reserved_bytes > 0;
    EXPECT_TRUE(!held || s->given->call.action == FREE_ANYWHERE);
    EXPECT_U64_EQ(0, mend_world_stats(&s->run.world).range_address_bytes);
    EXPECT_RESULT(MEND_OK, mend_alloc(pool, 5000, s->run.streams[0], &pointer));
    mend_world_check(&s->run.world);
}

static void end_destroyed(scene *s)
{
    s->run.world.pool = NULL;
    mend_sim_advance(s->run.world.sim, 1000);
    s->after = observe(s);
    scene_check_remains(s);
    mend_sim_destroy(s->run.world.sim);
}

static void expect_graph_pools_lost(scene *s)
{
    mend_graph_pool *none = NULL;
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_graph_pool_create(s->run.world.pool, &none));
    EXPECT_TRUE(none == NULL);
    mend_graph_pool *graph_pool = s->run.graph_pool;
    if (graph_pool != NULL) {
        EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_graph_pool_begin(graph_pool, NULL));
        EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_graph_pool_end(graph_pool));
        EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_graph_pool_destroy(graph_pool, MEND_NO_STREAM));
    }
}

/* Every call returns that the device is lost, and the end frees the rest. */
static void end_lost(scene *s)
{
    mend_pool *pool = s->run.world.pool;
    mend_stream stream = s->run.streams[0];
    void *block = NULL;
    for (int i = 0; i < STORY_SLOTS && block == NULL; i++) {
        block = s->run.slots[i].pointer;
    }
    if (s->given->kind == SCENARIO_CALL) {
        void *pointer;
        EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_alloc(pool, 600, stream, &pointer));
        EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_alloc(pool, 64 * MEND_KIB, stream, &pointer));
        EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_trim(pool, 0, MEND_TRIM_IDLE, NULL));
        EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_set_limit(pool, 64 * MEND_KIB));
        EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_unregister_stream(pool, stream));
        if (block != NULL) {
            EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_record_stream(pool, block, stream));
            EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_free(pool, block, stream));
        }
        expect_graph_pools_lost(s);
    }
    mend_result ends[] = {mend_pool_destroy(s->created), mend_pool_destroy(pool)};
    for (int i = 0; i < 2; i++) {
        EXPECT_TRUE(ends[i] == MEND_OK || ends[i] == MEND_ERROR_DRIVER);
    }
    end_destroyed(s);
}

scenario_end scenario_run(const scenario *given, const planned_fault *fault,
                          scenario_positions *positions)
{
    static scene s;
    s = (scene){.given = given, .fault = fault};
    if (!open_scene(&s)) {
        return (scenario_end){0};
    }
    /* Small blocks: one more each time. Then pairs of them, of which one is to be a hole. The holes
     * come last, for it is frees alone that use up the records of free memory. */
    const bool pairs = fault->ballast > SCENARIO_BALLAST_BLOCKS;
    const int count = pairs ? fault->ballast - SCENARIO_BALLAST_BLOCKS : fault->ballast;
    for (int i = 0; i < count; i++) {
        if (pairs) {
            step(&s, &(operation){ALLOC, STORY_SLOTS - 1 - i, 0, 512});
        }
        step(&s, &(operation){ALLOC, STORY_SLOTS / 2 - 1 - i, 0, 512});
    }
    for (size_t i = 0; i < given->setup_count; i++) {
        step(&s, &given->setup[i]);
    }
    for (int i = 0; i < count && pairs; i++) {
        step(&s, &(operation){FREE, STORY_SLOTS - 1 - i, 0, 0});
    }
    check_world(&s);
    call_with_fault(&s, positions);
    scenario_end end = {mend_test_failed_host_allocations(),
                        mend_hash(MEND_HASH_OF_NOTHING, &s.result, sizeof(s.result))};
    for (int i = 0; i < MEND_DRIVER_CALL_COUNT; i++) {
        end.failures += scene_failures(&s, (mend_driver_call)i);
        end.outcome = mend_hash(end.outcome, &s.after.calls.call[i].calls, sizeof(uint64_t));
        end.outcome = mend_hash(end.outcome, &s.after.calls.call[i].failures, sizeof(uint64_t));
    }
    if (fault->kind == FAULT_NONE && fault->ballast == 0 && fault->dry == 0 &&
        given->kind == SCENARIO_CALL) {
        scene_check_way(&s);
    }
    if (s.result != MEND_OK) {
        scene_check_failure(&s);
    } else if (given->kind == SCENARIO_CALL) {
        scene_check_success(&s);
    }
    if (given->kind == SCENARIO_DESTROY) {
        end_destroyed(&s);
    } else if (fault->kind == FAULT_LOST) {
        end_lost(&s);
    } else {
        mend_pool *pool = s.run.world.pool;
        if (pool != NULL && s.after.stats.unmapped_blocks > 0) { /* they come back with the next */
            EXPECT_RESULT(MEND_OK, mend_compact(pool, NULL, NULL));
            EXPECT_U64_EQ(0, mend_world_stats(&s.run.world).unmapped_blocks);
        }
        check_world(&s);
        call_again(&s);
        if (s.created != NULL) { /* it serves, and ends */
            void *pointer;
            EXPECT_RESULT(MEND_OK, mend_alloc(s.created, 5000, s.run.streams[0], &pointer));
            EXPECT_RESULT(MEND_OK, mend_free(s.created, pointer, s.run.streams[0]));
            EXPECT_RESULT(MEND_OK, mend_pool_destroy(s.created));
        }
        if (s.run.world.pool != NULL) {
            free_all(&s);
        }
        story_end(&s.run);
    }
    mend_traced_driver_destroy(s.traced);
    return end;
}
