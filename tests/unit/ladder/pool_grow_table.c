/*
 * Every kind of making room, held inside each of its slow driver calls in turn, which then succeeds
 * or fails; and everything another thread may do meanwhile. What is done from the cache must be
 * over before the call is; what needs room itself waits its turn. At the end every byte, record and
 * figure is right.
 */
#include <string.h>

#include "tests/support/held.h"
#include "tests/support/kit.h"
#include "users/group.h"

/* A quarter of what the comments say: there are many worlds. */
#define MIB (MEND_MIB / 4)
#define KIB (MEND_KIB / 4)

enum { MOST_BLOCKS = 48, PIECES = 12, AROUND = 4 };

typedef struct block {
    void *pointer;
    uint64_t size_bytes;
    mend_stream stream;
    uint64_t tag;
} block;

/*
 * All the limit of 12 MiB: three chunks cut into twelve pieces of 256 KiB, of which the middle
 * chunk's are free, so that it can be moved; a chunk with free memory behind a block, that can
 * grow; a chunk with a free middle, that is the cache; four chunks side by side.
 */
typedef struct scenery {
    mend_world w;
    mend_stream stream; /* of the thread that makes room: the world's first */
    mend_stream other;
    block pieces[PIECES];
    block base;
    block cache[3];
    block small[2];
    block around[AROUND];
    block made[MOST_BLOCKS];
    int made_count;
    bool is_quiet;      /* the program launches nothing now */
    mend_result result; /* of the making */
    block room;
} scenery;

/* Not while the program has to be quiet; what could not be written then is not checked later. */
static void launch(scenery *s, const block *b, mend_stream stream, mend_sim_work_kind kind,
                   uint64_t duration_ns)
{
    if (s->is_quiet || b->tag == 0) {
        return;
    }
    kit_launch(&s->w, stream, kind, b->pointer, b->size_bytes, b->tag,
               mend_sim_now_ns(s->w.sim) + duration_ns);
}

static block take_aligned(scenery *s, uint64_t size_bytes, uint64_t alignment_bytes,
                          mend_stream stream)
{
    block b = {NULL, size_bytes, stream, 0};
    b.pointer = kit_alloc_aligned(&s->w, size_bytes, alignment_bytes, stream);
    b.tag = s->is_quiet ? 0 : ++s->w.last_tag;
    launch(s, &b, stream, MEND_SIM_WORK_WRITE, 0);
    return b;
}

static block take(scenery *s, uint64_t size_bytes, mend_stream stream)
{
    return take_aligned(s, size_bytes, 512, stream);
}

static void give(scenery *s, block *b, mend_stream stream)
{
    if (b->pointer != NULL) {
        launch(s, b, b->stream, MEND_SIM_WORK_VERIFY, 0);
        kit_free(&s->w, b->pointer, stream);
    }
    b->pointer = NULL;
}

/* For a block that the other thread takes meanwhile. */
static void keep(scenery *s, block b)
{
    s->made[s->made_count++] = b;
}

static bool open(scenery *s, int allow_stream_waits, int compact_when_full)
{
    *s = (scenery){0};
    mend_world_init(&s->w);
    s->w.sim_config.memory_bytes = 16 * MIB;
    s->w.sim_config.page_bytes = 64 * KIB;
    s->w.placement.chunk_bytes = MIB;
    s->w.placement.small_chunk_bytes = 256 * KIB;
    s->w.placement.small_request_bytes = 32 * KIB;
    s->w.pool_config.limit_bytes = 12 * MIB;
    s->w.pool_config.reserve_bytes = 32 * MIB;
    s->w.pool_config.allow_stream_waits = allow_stream_waits;
    s->w.pool_config.compact_when_full = compact_when_full;
    if (!kit_open(&s->w)) {
        return false;
    }
    s->stream = s->w.streams[0];
    s->other = s->w.streams[1];
    return true;
}

static void set_the_scene(scenery *s)
{
    block whole = take(s, 3 * MIB, s->stream);
    give(s, &whole, s->stream);
    for (int i = 0; i < PIECES; i++) {
        s->pieces[i] = take(s, 256 * KIB, s->stream);
    }
    whole = take(s, MIB, s->stream);
    give(s, &whole, s->stream);
    for (int i = 0; i < 3; i++) {
        s->cache[i] = take(s, i == 1 ? 512 * KIB : 256 * KIB, s->stream);
    }
    s->small[0] = take(s, 16 * KIB, s->stream);
    s->small[1] = take(s, 16 * KIB, s->stream);
    block around = take(s, 4 * MIB, s->stream);
    give(s, &around, s->stream);
    for (int i = 0; i < AROUND; i++) {
        s->around[i] = take(s, MIB, s->stream);
    }
    whole = take(s, MIB, s->stream);
    give(s, &whole, s->stream);
    s->base = take(s, 512 * KIB, s->stream);
    for (int i = 4; i < 8; i++) {
        give(s, &s->pieces[i], s->stream);
    }
    give(s, &s->cache[1], s->stream);
    give(s, &s->small[1], s->stream);
    give(s, &s->around[1], s->stream);
}

/* ---- kinds of making ---------------------------------------------------------------------------
 */

static void ask_for(scenery *s, uint64_t size_bytes, uint64_t alignment_bytes)
{
    s->room = (block){NULL, size_bytes, s->stream, 0};
    s->result =
        mend_alloc_aligned(s->w.pool, size_bytes, alignment_bytes, s->stream, &s->room.pointer);
}

static void extend(void *argument)
{
    ask_for(argument, 2 * MIB, 512);
}

static void create(void *argument)
{
    ask_for(argument, 4 * MIB, 512);
}

static void move_many(void *argument)
{
    ask_for(argument, 5 * MIB, 512);
}

static void place_at_new_address(void *argument)
{
    ask_for(argument, 2 * MIB, 8 * MIB);
}

static void create_small(void *argument)
{
    ask_for(argument, 32 * KIB, 64 * KIB);
}

static void ask_for_too_much(void *argument)
{
    ask_for(argument, 9 * MIB, 512);
}

static void trim(void *argument)
{
    scenery *s = argument;
    s->result = mend_trim(s->w.pool, 0, NULL);
}

static void trim_and_wait(void *argument)
{
    scenery *s = argument;
    s->result = mend_trim_wait(s->w.pool, 0, NULL);
}

static void lower_limit(void *argument)
{
    scenery *s = argument;
    s->result = mend_set_limit(s->w.pool, 7 * MIB);
}

static void defrag(void *argument)
{
    scenery *s = argument;
    s->result = mend_defrag(s->w.pool, NULL, NULL);
}

static void free_all_around(scenery *s, mend_stream stream)
{
    for (int i = 0; i < AROUND; i++) {
        if (s->around[i].pointer != NULL) {
            launch(s, &s->around[i], s->other, MEND_SIM_WORK_TOUCH, 100000000);
        }
        give(s, &s->around[i], stream);
    }
    mend_set_limit(s->w.pool, 10 * MIB);
}

static void work_on_other(scenery *s)
{
    free_all_around(s, s->other);
}

static void free_without_stream(scenery *s)
{
    free_all_around(s, MEND_NO_STREAM);
}

/* A moved chunk's former mapping becomes idle. */
static void retire(scenery *s)
{
    block moved = take(s, 2 * MIB, s->stream);
    keep(s, moved);
    mend_sim_advance(s->w.sim, 1000);
}

/* Holes of whole pages between blocks, for compactions. */
static void pierce(scenery *s)
{
    give(s, &s->pieces[1], s->stream);
    give(s, &s->pieces[2], s->stream);
    give(s, &s->pieces[10], s->stream);
}

typedef struct making {
    const char *name;
    void (*prepare)(scenery *s);
    void (*act)(void *scenery);
    int allow_stream_waits;
    bool from_nothing; /* an empty pool */
} making;

static const making makings[] = {
    {"first", NULL, create, 0, true},
    {"extension", NULL, extend, 0, false},
    {"creation", NULL, create, 0, false},
    {"at_new_address", NULL, place_at_new_address, 0, false},
    {"small", NULL, create_small, 0, true},
    {"behind a stream wait", work_on_other, move_many, 0, false},
    {"behind an event", work_on_other, move_many, -1, false},
    {"behind the context", free_without_stream, move_many, -1, false},
    {"retired", retire, create, 0, false},
    {"out of memory", NULL, ask_for_too_much, 0, false},
    {"trim", NULL, trim, 0, false},
    {"trim with retired", retire, trim, 0, false},
    {"trim behind an event", work_on_other, trim_and_wait, 0, false},
    {"trim behind the context", free_without_stream, trim_and_wait, 0, false},
    {"limit", NULL, lower_limit, 0, false},
    {"defrag", pierce, defrag, 0, false},
    {"quiet", pierce, ask_for_too_much, 0, false},
};

/* ---- what another does meanwhile ---------------------------------------------------------------
 */

static void do_nothing(scenery *s)
{
    (void)s;
}

static void take_cached(scenery *s)
{
    if (s->cache[0].pointer != NULL) {
        keep(s, take(s, 64 * KIB, s->stream));
        keep(s, take_aligned(s, 64 * KIB, 64 * KIB, s->stream));
        keep(s, take(s, 16 * KIB, s->stream));
    }
}

/* On both sides of what may be claimed. */
static void free_neighbours(scenery *s)
{
    give(s, &s->base, s->stream);
    give(s, &s->pieces[3], s->stream);
    give(s, &s->pieces[8], s->other);
    give(s, &s->around[0], s->stream);
    give(s, &s->around[2], s->other);
}

static void free_all(scenery *s)
{
    for (int i = 0; i < PIECES; i++) {
        give(s, &s->pieces[i], i % 2 == 0 ? s->stream : s->other);
    }
    free_neighbours(s);
    give(s, &s->around[3], s->stream);
    give(s, &s->cache[0], s->stream);
    give(s, &s->small[0], s->stream);
}

/* Enough new streams that the pool's table of them moves. */
static void use_new_streams(scenery *s)
{
    for (int i = 0; i < 12; i++) {
        mend_stream stream;
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(s->w.sim, &stream));
        if (s->cache[0].pointer != NULL) {
            EXPECT_RESULT(MEND_OK, mend_record_stream(s->w.pool, s->cache[0].pointer, stream));
        }
        give(s, i == 3 ? &s->base : &s->pieces[i], stream);
    }
    give(s, &s->cache[0], s->other);
}

static void free_without(scenery *s)
{
    give(s, &s->base, MEND_NO_STREAM);
    give(s, &s->pieces[3], MEND_NO_STREAM);
}

static void expect_info(scenery *s, mend_result expected, const void *pointer)
{
    mend_block_info info = MEND_BLOCK_INFO_INIT;
    mend_result result =
        pointer == NULL ? expected : mend_get_block_info(s->w.pool, pointer, &info);
    EXPECT_RESULT(expected, result);
}

static void look(scenery *s)
{
    mend_stats stats = mend_world_stats(&s->w);
    EXPECT_U64_EQ(stats.reserved_bytes, stats.live_bytes + stats.free_bytes);
    EXPECT_U64_EQ(stats.free_bytes,
                  stats.free_empty_bytes + stats.free_partial_bytes + stats.free_small_bytes);
    EXPECT_TRUE(stats.peak_reserved_bytes >= stats.reserved_bytes);
    EXPECT_TRUE(stats.peak_mappings >= stats.mappings);
    expect_info(s, MEND_OK, s->base.pointer);
    expect_info(s, MEND_OK, s->pieces[3].pointer);
    expect_info(s, MEND_OK, s->around[2].pointer);
    if (s->base.pointer != NULL) {
        EXPECT_RESULT(MEND_ERROR_INTERIOR_POINTER,
                      mend_free(s->w.pool, (char *)s->base.pointer + 512, s->stream));
    }
}

static void use_a_group(scenery *s)
{
    mend_group *group = kit_begin_group(&s->w, MEND_EVERY_STREAM);
    give(s, &s->base, s->stream); /* no block of the group: idle memory is all it would get */
    EXPECT_RESULT(MEND_OK, mend_group_end(group));
}

static void (*const deeds[])(scenery *s) = {
    do_nothing,   take_cached, free_neighbours, free_all, use_new_streams,
    free_without, look,        use_a_group,
};

/* ---- what needs its turn ------------------------------------------------------------------------
 */

/* A third thread, which asks for room while the first is held. */
typedef struct latecomer {
    scenery *s;
    mend_result result;
    void *pointer;
} latecomer;

static void *ask_late(void *argument)
{
    latecomer *l = argument;
    l->result = mend_alloc(l->s->w.pool, 128 * KIB, l->s->other, &l->pointer);
    EXPECT_RESULT(MEND_OK, mend_forget_stream(l->s->w.pool, (mend_stream)1));
    return NULL;
}

static void fail_the_call(scenery *s, const mend_held *held)
{
    kit_fail(&s->w, held->call, 0, 0, strcmp(held->call, "create") == 0 ? 0 : 999);
}

static void end(scenery *s)
{
    mend_sim_clear_faults(s->w.sim);
    if (s->w.pool_config.compact_when_full) { /* blocks may miss their mappings */
        EXPECT_RESULT(MEND_OK, mend_defrag(s->w.pool, NULL, NULL));
    }
    if (s->result == MEND_OK && s->room.pointer != NULL) {
        s->room.tag = ++s->w.last_tag;
        launch(s, &s->room, s->stream, MEND_SIM_WORK_WRITE, 0);
    }
    mend_sim_advance(s->w.sim, 1000000000);
    mend_world_check(&s->w);
    free_all(s);
    give(s, &s->cache[2], s->stream);
    give(s, &s->around[1], s->stream);
    for (int i = 0; i < s->made_count; i++) {
        give(s, &s->made[i], s->stream);
    }
    if (s->result == MEND_OK) {
        give(s, &s->room, s->stream);
    }
    mend_sim_advance(s->w.sim, 1000000000);
    EXPECT_RESULT(MEND_OK, mend_trim(s->w.pool, 0, NULL));
    kit_close(&s->w);
}

/* False when the making has no call at the position. */
static bool hold_once(const making *m, uint64_t position, void (*deed)(scenery *s), bool fails)
{
    scenery s;
    mend_held held;
    pthread_t thread;
    latecomer late = {.s = &s};
    if (!open(&s, m->allow_stream_waits, m->prepare == pierce)) {
        return false;
    }
    if (!m->from_nothing) {
        set_the_scene(&s);
    }
    if (m->prepare != NULL) {
        m->prepare(&s);
    }
    bool is_inside = mend_held_begin(&held, s.w.sim, position, m->act, &s);
    s.is_quiet = is_inside && m->prepare == pierce;
    if (is_inside) {
        deed(&s);
        if (fails) {
            fail_the_call(&s, &held);
        }
        is_inside = pthread_create(&thread, NULL, ask_late, &late) == 0;
    }
    mend_held_let_go(&held);
    if (is_inside) {
        pthread_join(thread, NULL);
        if (late.result == MEND_OK && !s.is_quiet) {
            keep(&s, (block){late.pointer, 128 * KIB, s.other, ++s.w.last_tag});
            launch(&s, &s.made[s.made_count - 1], s.other, MEND_SIM_WORK_WRITE, 0);
        } else if (late.result == MEND_OK) {
            keep(&s, (block){late.pointer, 128 * KIB, s.other, 0});
        }
    }
    mend_held_end(&held);
    s.is_quiet = false;
    end(&s);
    return is_inside && !mend_test_has_failed();
}

MEND_TEST(pool_grow, others_do_anything_while_one_sits_in_any_call)
{
    for (size_t m = 0; m < sizeof(makings) / sizeof(makings[0]); m++) {
        for (size_t d = 0; d < sizeof(deeds) / sizeof(deeds[0]); d++) {
            for (int way = 0; way < 2; way++) {
                uint64_t position = 1;
                while (hold_once(&makings[m], position, deeds[d], way == 1)) {
                    position++;
                }
                if (mend_test_has_failed() || position == 1) {
                    mend_test_fail(__FILE__, __LINE__, "%s: deed %zu, way %d, call %llu",
                                   makings[m].name, d, way, (unsigned long long)position);
                    return;
                }
            }
        }
    }
}
