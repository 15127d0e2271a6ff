/*
 * The ladder of making room: which rung serves a request, in which order of driver calls, and that
 * a dearer one is not touched while a cheaper one holds. Statistics and the order of calls tell.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/kit.h"

/* A device of 8 MiB, two streams, and the driver's calls that make room, in order: "create map". */
typedef struct scene {
    mend_world w;
    char calls[512];
    char last[32]; /* of them: the same again is not noted */
} scene;

static void write_down(void *context, const char *call, int is_after)
{
    static const char calls[] = " create map unmap set_access stream_wait event_synchronize "
                                "context_synchronize ";
    scene *s = context;
    char word[32];
    snprintf(word, sizeof(word), " %s ", call);
    if (!is_after && strstr(calls, word) != NULL && strcmp(call, s->last) != 0) {
        strcat(s->calls, word + 1);
        snprintf(s->last, sizeof(s->last), "%s", call);
    }
}

static void forget_calls(scene *s)
{
    s->calls[0] = s->last[0] = '\0';
}

static bool open_scene(scene *s, uint64_t limit_bytes, int allow_stream_waits)
{
    mend_world_init(&s->w);
    s->w.sim_config.memory_bytes = 8 * MEND_MIB;
    s->w.pool_config.limit_bytes = limit_bytes;
    s->w.pool_config.allow_stream_waits = allow_stream_waits;
    if (!kit_open(&s->w)) {
        return false;
    }
    forget_calls(s);
    mend_sim_set_call_observer(s->w.sim, write_down, s);
    return !mend_test_has_failed();
}

static void close_scene(scene *s)
{
    mend_sim_set_call_observer(s->w.sim, NULL, NULL);
    kit_close(&s->w);
}

/* Allocates; the calls since the last such request, runs of the same as one, are `calls`. */
static void *allocate(scene *s, uint64_t size_bytes, int stream, const char *calls)
{
    forget_calls(s);
    void *pointer = kit_alloc(&s->w, size_bytes, s->w.streams[stream]);
    EXPECT_STR_EQ(calls, s->calls);
    return pointer;
}

static void release(scene *s, void *pointer, uint64_t size_bytes, int stream, uint64_t finish_ns)
{
    kit_launch(&s->w, s->w.streams[stream], MEND_SIM_WORK_TOUCH, pointer, size_bytes, 0, finish_ns);
    kit_free(&s->w, pointer, s->w.streams[stream]);
}

#define LADDER_TEST(suite, name, ...)                                                              \
    KIT_CASE(suite, name, scene, s, open_scene(s, __VA_ARGS__), close_scene(s))

static int come_by(void *context, mend_pool *pool, uint64_t needed_bytes, uint64_t missing_bytes)
{
    (void)missing_bytes;
    (void)pool;
    (void)needed_bytes;
    scene *s = context;
    strcat(s->calls, "callback ");
    s->last[0] = '\0';
    return 0;
}

LADDER_TEST(pool_ladder, peer_pools_then_callbacks_then_the_host_waits, 0, -1)
{
    mend_pool *peer_pool;
    void *pointer;
    ASSERT_RESULT(MEND_OK, mend_world_create_pool(&s->w, &peer_pool));
    ASSERT_RESULT(MEND_OK, mend_alloc(peer_pool, MEND_MIB, NULL, &pointer));
    EXPECT_RESULT(MEND_OK, mend_free(peer_pool, pointer, NULL));
    mend_sim_set_foreign_bytes(s->w.sim, 0, 2 * MEND_MIB);
    EXPECT_RESULT(MEND_OK, mend_add_pressure_callback(s->w.pool, come_by, s));
    void *first = allocate(s, 4 * MEND_MIB, 0, "create map set_access ");
    release(s, first, 4 * MEND_MIB, 0, 1000);
    /* Refused, and undone; the peer pool gives, which is not enough, so that nothing is created
     * again; the program has nothing. */
    allocate(s, 4 * MEND_MIB, 1, "create unmap callback event_synchronize ");
    EXPECT_RESULT(MEND_OK, mend_pool_destroy(peer_pool));
}

/* A thread that goes on allocating and freeing, as seen by one that makes room: at each wait of the
 * host it has freed a block more. */
typedef struct busy {
    scene *s;
    uint64_t waits;
    uint64_t time_ns;
} busy;

static void free_one_more(void *context, const char *call, int is_after)
{
    busy *b = context;
    if (!is_after || strcmp(call, "event_synchronize") != 0 || ++b->waits > 200) {
        return;
    }
    void *pointer = kit_alloc(&b->s->w, 512, b->s->w.streams[1]);
    b->time_ns += 1000;
    release(b->s, pointer, 512, 1, b->time_ns);
}

LADDER_TEST(pool_ladder, others_who_go_on_do_not_keep_a_request_from_its_answer, 4 * MEND_MIB, -1)
{
    void *blocks[8];
    blocks[0] = kit_alloc(&s->w, 4 * MEND_MIB, s->w.streams[0]);
    kit_free(&s->w, blocks[0], s->w.streams[0]);
    for (int i = 0; i < 8; i++) {
        blocks[i] = kit_alloc(&s->w, 512 * MEND_KIB, s->w.streams[1]);
    }
    for (int i = 0; i < 8; i += 2) {
        release(s, blocks[i], 512 * MEND_KIB, 1, 1000);
    }
    busy b = {.s = s, .time_ns = 1000};
    mend_sim_set_call_observer(s->w.sim, free_one_more, &b);
    void *pointer;
    EXPECT_RESULT(MEND_ERROR_OUT_OF_MEMORY,
                  mend_alloc(s->w.pool, MEND_MIB, s->w.streams[0], &pointer));
    EXPECT_TRUE(b.waits > 0);
    EXPECT_TRUE(b.waits < 50);
}
