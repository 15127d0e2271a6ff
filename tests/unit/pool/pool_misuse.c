/*
 * Misuse: every call of mend.h with every argument it does not take, and the exact answer. Each
 * leaves a message, the outputs and the pool as they were.
 */
#include <stddef.h>
#include <string.h>

#include "mend/mend_devices.h"
#include "mend/mend_frameworks.h"
#include "tests/support/kit.h"

#define INVALID  MEND_ERROR_INVALID_ARGUMENT
#define FOREIGN  MEND_ERROR_FOREIGN_POINTER
#define INTERIOR MEND_ERROR_INTERIOR_POINTER
#define DOUBLE   MEND_ERROR_DOUBLE_FREE
#define LARGEST  (UINT64_C(1) << 60)

/* The objects of the rows below. */
typedef struct scene {
    mend_world w;
    mend_pool *pool;
    mend_pool *other;
    char *live;    /* a block of 1000 bytes */
    char *freed;   /* inside freed memory, as is the address 512 bytes on */
    char *foreign; /* a block of the other pool */
    int host;      /* memory of the host */
    mend_graph_pool *idle;
    mend_graph_pool *begun;
    void *pointer; /* outputs: must stay NULL, 0 or as the INIT macros make them */
    mend_pool *made;
    mend_graph_pool *graph_pool;
    uint64_t released;
    size_t count;
    uint64_t cursor;
    mend_region region;
    mend_history_event event;
    mend_pool_config config;
    mend_stats stats;
    mend_block_info info;
    mend_available room;
    mend_error error;
} scene;

static bool open_scene_with(scene *s, const char *observe)
{
    *s = (scene){.stats = MEND_STATS_INIT,
                 .info = MEND_BLOCK_INFO_INIT,
                 .error = MEND_ERROR_INIT,
                 .room = MEND_AVAILABLE_INIT};
    s->room.now_bytes = 1;
    mend_world_init(&s->w);
    s->w.pool_config.observe = observe;
    s->w.sim_config.device_count = 2;
    if (!kit_open(&s->w)) {
        return false;
    }
    s->pool = s->w.pool;
    s->config = s->w.pool_config;
    void *pointers[3];
    EXPECT_OK(mend_pool_create(&s->config, &s->other));
    EXPECT_OK(mend_alloc(s->pool, 1000, NULL, &pointers[0]));
    EXPECT_OK(mend_alloc(s->pool, 1000, NULL, &pointers[1]));
    EXPECT_OK(mend_alloc(s->other, 1000, NULL, &pointers[2]));
    EXPECT_OK(mend_free(s->pool, pointers[1], NULL));
    s->live = pointers[0];
    s->freed = pointers[1];
    s->foreign = pointers[2];
    EXPECT_OK(mend_graph_pool_create(s->pool, &s->idle));
    EXPECT_OK(mend_graph_pool_create(s->pool, &s->begun));
    mend_stream other_stream;
    EXPECT_OK(mend_sim_stream_create(s->w.sim, NULL, &other_stream));
    EXPECT_OK(mend_graph_pool_begin(s->begun, other_stream));
    return !mend_test_has_failed();
}

static bool open_scene(scene *s)
{
    return open_scene_with(s, ""); /* none */
}

static void close_scene(scene *s)
{
    EXPECT_OK(mend_validate(s->pool));
    EXPECT_OK(mend_pool_destroy(s->other));
    kit_close(&s->w);
}

static bool outputs_are_untouched(const scene *s)
{
    static const mend_stats no_stats = MEND_STATS_INIT;
    const mend_block_info *info = &s->info;
    bool is_info_untouched = info->base == NULL && info->requested_bytes == 0 &&
                             info->usable_bytes == 0 && info->stream == NULL &&
                             info->pool == NULL && info->is_unmapped == 0;
    return is_info_untouched && s->pointer == NULL && s->made == NULL && s->graph_pool == NULL &&
           s->released == 0 && s->count == 0 && s->region.address == NULL && s->cursor == 0 &&
           s->event.sequence == 0 && s->room.now_bytes == 1 &&
           memcmp(&s->stats, &no_stats, sizeof(no_stats)) == 0;
}

static mend_result aligned(mend_pool *pool, uint64_t size_bytes, mend_stream stream,
                           uint64_t alignment_bytes, void **pointer)
{
    return mend_alloc_with(pool, size_bytes, stream,
                           KIT_OPTIONS(mend_alloc_options, .alignment_bytes = alignment_bytes),
                           pointer);
}

/* X(expected, call): in terms of a scene s. Order matters to nothing. */
#define ALLOCATIONS(X)                                                                             \
    X(INVALID, mend_alloc(NULL, 512, NULL, &s->pointer))                                           \
    X(INVALID, mend_alloc(s->pool, 512, NULL, NULL))                                               \
    X(INVALID, mend_alloc(s->pool, 0, NULL, &s->pointer))                                          \
    X(INVALID, mend_alloc(s->pool, LARGEST + 1, NULL, &s->pointer))                                \
    X(INVALID, mend_alloc(s->pool, UINT64_MAX, NULL, &s->pointer))                                 \
    X(MEND_ERROR_OUT_OF_MEMORY, mend_alloc(s->pool, LARGEST, NULL, &s->pointer))                   \
    X(INVALID, mend_alloc(s->pool, 512, MEND_EVERY_STREAM, &s->pointer))                           \
    X(INVALID, aligned(NULL, 512, NULL, 512, &s->pointer))                                         \
    X(INVALID, aligned(s->pool, 512, NULL, 512, NULL))                                             \
    X(INVALID, aligned(s->pool, 0, NULL, 512, &s->pointer))                                        \
    X(INVALID, aligned(s->pool, LARGEST + 1, NULL, 512, &s->pointer))                              \
    X(INVALID, aligned(s->pool, 512, NULL, 3, &s->pointer))                                        \
    X(INVALID, aligned(s->pool, 512, NULL, 513, &s->pointer))                                      \
    X(INVALID, aligned(s->pool, 512, NULL, UINT64_C(1) << 41, &s->pointer))                        \
    X(INVALID, aligned(s->pool, 512, NULL, UINT64_MAX, &s->pointer))                               \
    X(INVALID, aligned(s->pool, 512, MEND_EVERY_STREAM, 512, &s->pointer))                         \
    X(MEND_ERROR_OUT_OF_MEMORY, aligned(s->pool, LARGEST, NULL, UINT64_C(1) << 40, &s->pointer))

#define POINTERS(X)                                                                                \
    X(INVALID, mend_free(NULL, s->live, NULL))                                                     \
    X(INVALID, mend_free(NULL, NULL, NULL))                                                        \
    X(FOREIGN, mend_free(s->pool, s->foreign, NULL))                                               \
    X(FOREIGN, mend_free(s->pool, &s->host, NULL))                                                 \
    X(FOREIGN, mend_free(s->pool, (void *)(uintptr_t)1, NULL))                                     \
    X(FOREIGN, mend_free(s->pool, (void *)UINTPTR_MAX, NULL))                                      \
    X(FOREIGN, mend_free(s->pool, s->live + 4 * MEND_MIB, NULL))                                   \
    X(INTERIOR, mend_free(s->pool, s->live + 1, NULL))                                             \
    X(INTERIOR, mend_free(s->pool, s->live + 512, NULL))                                           \
    X(INTERIOR, mend_free(s->pool, s->live + 1023, NULL))                                          \
    X(DOUBLE, mend_free(s->pool, s->freed, NULL))                                                  \
    X(DOUBLE, mend_free(s->pool, s->freed + 1, NULL))                                              \
    X(DOUBLE, mend_free(s->pool, s->freed, MEND_NO_STREAM))                                        \
    X(INVALID, mend_free(s->pool, s->live, MEND_EVERY_STREAM))                                     \
    X(INVALID, mend_record_stream(NULL, s->live, NULL))                                            \
    X(INVALID, mend_record_stream(s->pool, NULL, NULL))                                            \
    X(INVALID, mend_record_stream(s->pool, s->live, MEND_NO_STREAM))                               \
    X(INVALID, mend_record_stream(s->pool, s->live, MEND_EVERY_STREAM))                            \
    X(FOREIGN, mend_record_stream(s->pool, s->foreign, NULL))                                      \
    X(INTERIOR, mend_record_stream(s->pool, s->live + 8, NULL))                                    \
    X(DOUBLE, mend_record_stream(s->pool, s->freed, NULL))                                         \
    X(INVALID, mend_unregister_stream(NULL, NULL))                                                 \
    X(INVALID, mend_unregister_stream(s->pool, MEND_NO_STREAM))                                    \
    X(INVALID, mend_unregister_stream(s->pool, MEND_EVERY_STREAM))                                 \
    X(INVALID, mend_get_block_info(NULL, s->live, &s->info))                                       \
    X(INVALID, mend_get_block_info(s->pool, NULL, &s->info))                                       \
    X(INVALID, mend_get_block_info(s->pool, s->live, NULL))                                        \
    X(FOREIGN, mend_get_block_info(s->pool, s->foreign, &s->info))                                 \
    X(FOREIGN, mend_get_block_info(s->pool, &s->host, &s->info))                                   \
    X(DOUBLE, mend_get_block_info(s->pool, s->freed, &s->info))

#define ROOM(X)                                                                                    \
    X(INVALID, mend_trim(s->pool, 0, (mend_trim_mode)3, &s->released))                             \
    X(INVALID, mend_trim(NULL, 0, MEND_TRIM_IDLE, &s->released))                                   \
    X(INVALID, mend_trim(NULL, 0, MEND_TRIM_BY_POLICY, &s->released))                              \
    X(INVALID, mend_set_limit(NULL, 0))                                                            \
    X(INVALID, mend_get_available(s->pool, MEND_EVERY_STREAM, &s->room))                           \
    X(INVALID, mend_compact(NULL, NULL, NULL))                                                     \
    X(INVALID, mend_compact(s->pool, &(mend_compact_limits){0}, NULL))                             \
    X(INVALID, mend_compact(s->pool, &(mend_compact_limits){.struct_size = SIZE_MAX}, NULL))       \
    X(INVALID,                                                                                     \
      mend_compact(s->pool,                                                                        \
                   &(mend_compact_limits){.struct_size = sizeof(mend_compact_limits) + 8}, NULL))  \
    X(INVALID, mend_compact(s->pool, NULL, &(mend_compact_report){0}))                             \
    X(INVALID, mend_add_pressure_callback(NULL, kit_count_pressure, NULL))                         \
    X(INVALID, mend_add_pressure_callback(s->pool, NULL, NULL))                                    \
    X(INVALID, mend_remove_pressure_callback(NULL, kit_count_pressure, NULL))                      \
    X(INVALID, mend_remove_pressure_callback(s->pool, NULL, NULL))                                 \
    X(INVALID, mend_remove_pressure_callback(s->pool, kit_count_pressure, NULL))                   \
    X(INVALID, mend_get_stats(NULL, &s->stats))                                                    \
    X(INVALID, mend_get_stats(s->pool, NULL))                                                      \
    X(INVALID, mend_reset_peak_stats(NULL))                                                        \
    X(INVALID, mend_history_start(NULL, 8))                                                        \
    X(INVALID, mend_history_read(NULL, &s->cursor, &s->event, sizeof(s->event), 1, &s->count))     \
    X(INVALID, mend_history_read(s->pool, NULL, &s->event, sizeof(s->event), 1, &s->count))        \
    X(INVALID, mend_history_read(s->pool, &s->cursor, NULL, sizeof(s->event), 1, &s->count))       \
    X(INVALID, mend_history_read(s->pool, &s->cursor, &s->event, sizeof(s->event), 1, NULL))       \
    X(INVALID, mend_history_read(s->pool, &s->cursor, &s->event, 0, 1, &s->count))                 \
    X(INVALID, mend_history_read(s->pool, &s->cursor, &s->event, 12, 1, &s->count))                \
    X(INVALID, mend_get_regions(NULL, &s->region, sizeof(s->region), 1, &s->count))                \
    X(INVALID, mend_get_regions(s->pool, NULL, sizeof(s->region), 1, &s->count))                   \
    X(INVALID, mend_get_regions(s->pool, &s->region, sizeof(s->region), 1, NULL))                  \
    X(INVALID, mend_get_regions(s->pool, &s->region, 0, 1, &s->count))                             \
    X(INVALID, mend_get_regions(s->pool, &s->region, sizeof(s->region) - 1, 1, &s->count))         \
    X(INVALID, mend_pool_for_device(0, NULL))                                                      \
    X(INVALID, mend_current_device(NULL))                                                          \
    X(INVALID, mend_validate(NULL))

#define GRAPH_POOLS(X)                                                                             \
    X(INVALID, mend_graph_pool_create(NULL, &s->graph_pool))                                       \
    X(INVALID, mend_graph_pool_create(s->pool, NULL))                                              \
    X(INVALID, mend_graph_pool_begin(NULL, NULL))                                                  \
    X(INVALID, mend_graph_pool_begin(s->idle, MEND_NO_STREAM))                                     \
    X(INVALID, mend_graph_pool_begin(s->begun, NULL))                                              \
    X(INVALID, mend_graph_pool_end(NULL))                                                          \
    X(INVALID, mend_graph_pool_end(s->idle))                                                       \
    X(INVALID, mend_graph_pool_destroy(NULL, NULL))                                                \
    X(INVALID, mend_graph_pool_destroy(s->idle, MEND_EVERY_STREAM))                                \
    X(INVALID, mend_graph_pool_destroy(s->begun, NULL))                                            \
    X(INVALID, mend_graph_pool_destroy(s->begun, MEND_NO_STREAM))

/* X(expected, field, value): mend_pool_create with one field of the config like this. */
#define CONFIGS(X)                                                                                 \
    X(INVALID, struct_size, 0)                                                                     \
    X(INVALID, struct_size, sizeof(mend_pool_config) + 8)                                          \
    X(INVALID, struct_size, SIZE_MAX)                                                              \
    X(INVALID, device, -1)                                                                         \
    X(MEND_ERROR_NO_DEVICE, device, 2)                                                             \
    X(MEND_ERROR_NO_DEVICE, device, INT32_MAX)                                                     \
    X(INVALID, allow_stream_waits, 2)                                                              \
    X(INVALID, allow_stream_waits, -2)                                                             \
    X(INVALID, growth_percent, -1)                                                                 \
    X(INVALID, growth_percent, 99)                                                                 \
    X(INVALID, growth_percent, 10001)                                                              \
    X(INVALID, address_reservation_bytes, LARGEST + 1)                                             \
    X(INVALID, detect_destroyed_streams, -2)                                                       \
    X(INVALID, detect_destroyed_streams, 2)                                                        \
    X(INVALID, strategy, -1)                                                                       \
    X(INVALID, strategy, 6)                                                                        \
    X(INVALID, shareable, -2)                                                                      \
    X(INVALID, shareable, MEND_SHAREABLE_AUTO + 1)                                                 \
    X(INVALID, idle_ms, UINT64_C(1000000001))                                                      \
    X(INVALID, limit_bytes, 1)                                                                     \
    X(INVALID, plain, -2)                                                                          \
    X(INVALID, plain, 2)                                                                           \
    X(INVALID, allow_context_fences, -2)                                                           \
    X(INVALID, allow_context_fences, 2)                                                            \
    X(INVALID, observe, "page")                                                                    \
    X(INVALID, observe, "top,guards")                                                              \
    X(INVALID, limit_percent, -1)                                                                  \
    X(INVALID, limit_percent, 101)                                                                 \
    X(INVALID, capture_checks, -2)                                                                 \
    X(INVALID, capture_checks, 2)                                                                  \
    X(INVALID, rdma, -2)                                                                           \
    X(INVALID, rdma, 2)                                                                            \
    X(INVALID, log_level, -2)                                                                      \
    X(INVALID, log_level, 99)

/* One row: the answer, the detail behind it, and nothing else. */
static void judge(scene *s, const char *call, mend_result expected, mend_result actual)
{
    MEND_TEST_CHECK(actual == expected, (void)0, "%s\n  is       %s\n  expected %s", call,
                    mend_result_name(actual), mend_result_name(expected));
    EXPECT_OK(mend_get_last_error(&s->error));
    MEND_TEST_CHECK(s->error.result == expected && s->error.message[0] != '\0', (void)0,
                    "%s leaves %s, \"%s\"", call, mend_result_name(s->error.result),
                    s->error.message);
    MEND_TEST_CHECK(outputs_are_untouched(s), (void)0, "%s wrote an output", call);
}

static mend_stats stats_but_failures(mend_pool *pool)
{
    mend_stats stats = MEND_STATS_INIT;
    EXPECT_OK(mend_get_stats(pool, &stats));
    stats.out_of_memory = 0;
    stats.driver_failures = 0;
    stats.cached_blocks = 0; /* a search for memory flushes the cache */
    stats.cached_bytes = 0;
    stats.effective_limit_bytes = 0; /* it asks the device */
    return stats;
}

static void judge_all(scene *s)
{
    mend_stats before = stats_but_failures(s->pool);
#define X(expected, call) judge(s, #call, expected, call);
    ALLOCATIONS(X)
    POINTERS(X)
    ROOM(X)
    GRAPH_POOLS(X)
#undef X
    mend_stats after = stats_but_failures(s->pool);
    EXPECT_INT_EQ(0, memcmp(&before, &after, sizeof(before)));
}

#define SCENE_TEST(suite, name) KIT_RIG_TEST(suite, name, scene, open_scene(r), close_scene(r))

SCENE_TEST(pool_misuse, every_argument_has_its_error)
{
    judge_all(r);
    judge_all(r);
    EXPECT_OK(mend_free(r->pool, NULL, NULL));
    EXPECT_OK(mend_free(r->pool, NULL, MEND_NO_STREAM));
    EXPECT_OK(mend_pool_destroy(NULL));
    EXPECT_OK(mend_free(r->pool, r->live, NULL)); /* still a block */
}

KIT_RIG_TEST(pool_misuse, checks_change_no_error, scene, open_scene_with(r, "guard,poison"),
             close_scene(r))
{
    judge_all(r);
}

MEND_TEST(pool_misuse, every_field_of_a_config_has_its_error)
{
    scene scene_of_row;
    scene *s = &scene_of_row;
    ASSERT_TRUE(open_scene(s));
    uint64_t chunks_before = mend_world_ledger(&s->w).chunks;
#define X(expected, field, value)                                                                  \
    s->config = s->w.pool_config;                                                                  \
    s->config.field = value;                                                                       \
    judge(s, #field " = " #value, expected, mend_pool_create(&s->config, &s->made));               \
    MEND_TEST_CHECK(strstr(s->error.message, #field) != NULL, (void)0, #field " is not named: %s", \
                    s->error.message);
    CONFIGS(X)
#undef X
    judge(s, "pool NULL", INVALID, mend_world_create_pool(&s->w, NULL));
    mend_sim_ledger ledger = mend_world_ledger(&s->w);
    EXPECT_U64_EQ(chunks_before, ledger.chunks);
    EXPECT_U64_EQ(3, ledger.contexts_open); /* of two pools, and of the kit */
    close_scene(s);
}

SCENE_TEST(pool_misuse, a_config_of_an_older_version_means_the_defaults)
{
    r->config.struct_size = offsetof(mend_pool_config, address_reservation_bytes);
    r->config.detect_destroyed_streams = 77; /* not there, as far as the caller knows */
    EXPECT_OK(mend_pool_create(&r->config, &r->made));
    EXPECT_OK(mend_pool_destroy(r->made));
}
