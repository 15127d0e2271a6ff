/*
 * Every kind of growth, held inside each of its slow driver calls in turn, which then succeeds or
 * fails, beside every action of another thread. Calls that the cache serves must end before this
 * call. Calls that need growth wait for their turn. At the end every byte, record and figure is
 * right.
 */
#include <string.h>

#include "tests/support/held.h"
#include "tests/support/kit.h"

/* A quarter of the combinations: there are many worlds. */
#define MIB (MEND_MIB / 4)
#define KIB (MEND_KIB / 4)

/* Races are between a deed and the window of one call, which is much the same in every making and
 * whether the call fails: each deed then meets every fourth call, each call a quarter of the deeds.
 */
#if defined(__SANITIZE_THREAD__)
enum { CALLS_APART = 4 };
#else
enum { CALLS_APART = 1 };
#endif

enum { MOST_BLOCKS = 48, PIECES = 12, AROUND = 4 };

typedef struct block {
    void *pointer;
    uint64_t size_bytes;
    mend_stream stream;
    bool is_written;
} block;

/* The growth, its state, and its request. */
typedef enum act { REQUEST, TRIM, TRIM_WAIT, LIMIT, COMPACT } act;
typedef enum prepared { AS_IT_IS, NOTHING, BUSY, UNKNOWN, RETIRED, PIERCED } prepared;
typedef struct making {
    const char *name;
    act act;
    prepared prepared;
    int allow_stream_waits;
    uint64_t size_bytes;
    uint64_t alignment_bytes;
} making;

static const making makings[] = {
    {"first", REQUEST, NOTHING, 0, 4 * MIB, 512},
    {"extension", REQUEST, AS_IT_IS, 0, 2 * MIB, 512},
    {"creation", REQUEST, AS_IT_IS, 0, 4 * MIB, 512},
    {"at_new_address", REQUEST, AS_IT_IS, 0, 2 * MIB, 8 * MIB},
    {"small", REQUEST, NOTHING, 0, 32 * KIB, 64 * KIB},
    {"behind a stream wait", REQUEST, BUSY, 0, 5 * MIB, 512},
    {"behind an event", REQUEST, BUSY, -1, 5 * MIB, 512},
    {"behind the context", REQUEST, UNKNOWN, -1, 5 * MIB, 512},
    {"retired", REQUEST, RETIRED, 0, 4 * MIB, 512},
    {"out of memory", REQUEST, AS_IT_IS, 0, 9 * MIB, 512},
    {"trim", TRIM, AS_IT_IS, 0, 0, 0},
    {"trim with retired", TRIM, RETIRED, 0, 0, 0},
    {"trim behind an event", TRIM_WAIT, BUSY, 0, 0, 0},
    {"trim behind the context", TRIM_WAIT, UNKNOWN, 0, 0, 0},
    {"limit", LIMIT, AS_IT_IS, 0, 0, 0},
    {"compact", COMPACT, PIERCED, 0, 0, 0},
};

/*
 * All the limit of 12 MiB: three chunks cut into twelve pieces of 256 KiB, of which the middle
 * chunk's are free, so that it can be moved. A chunk with free memory behind a block, that can
 * grow. A chunk with a free middle, that is the cache. Four chunks side by side.
 */
typedef struct scenery {
    mend_world w;
    const making *making;
    mend_stream stream; /* of the growing thread: the world's first */
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

/* Not while the program has to be quiet. Blocks that could not be written then are not checked
 * later. */
static void write(scenery *s, block *b)
{
    b->is_written = !s->is_quiet;
    if (b->is_written) {
        kit_write(&s->w, b->stream, b->pointer, b->size_bytes);
    }
}

static block take(scenery *s, uint64_t size_bytes, uint64_t alignment_bytes)
{
    block b = {NULL, size_bytes, s->stream, false};
    b.pointer = kit_alloc_with(&s->w, size_bytes, s->stream, .alignment_bytes = alignment_bytes);
    write(s, &b);
    return b;
}

static void give(scenery *s, block *b, mend_stream stream)
{
    if (b->pointer != NULL && b->is_written && !s->is_quiet) {
        kit_verify(&s->w, b->stream, b->pointer, b->size_bytes);
    }
    kit_free(&s->w, b->pointer, stream);
    b->pointer = NULL;
}

static void fill(scenery *s, block *blocks, int count, uint64_t size_bytes)
{
    block whole = take(s, (uint64_t)count * size_bytes, 512);
    give(s, &whole, s->stream);
    for (int i = 0; i < count; i++) {
        blocks[i] = take(s, size_bytes, 512);
    }
}

static void set_the_scene(scenery *s)
{
    fill(s, s->pieces, PIECES, 256 * KIB);
    block whole = take(s, MIB, 512);
    give(s, &whole, s->stream);
    for (int i = 0; i < 3; i++) {
        s->cache[i] = take(s, i == 1 ? 512 * KIB : 256 * KIB, 512);
    }
    s->small[0] = take(s, 16 * KIB, 512);
    s->small[1] = take(s, 16 * KIB, 512);
    fill(s, s->around, AROUND, MIB);
    whole = take(s, MIB, 512);
    give(s, &whole, s->stream);
    s->base = take(s, 512 * KIB, 512);
    for (int i = 4; i < 8; i++) {
        give(s, &s->pieces[i], s->stream);
    }
    give(s, &s->cache[1], s->stream);
    give(s, &s->small[1], s->stream);
    give(s, &s->around[1], s->stream);
}

static bool open(scenery *s, const making *m)
{
    *s = (scenery){.making = m};
    mend_world_init(&s->w);
    s->w.sim_config.memory_bytes = 16 * MIB;
    s->w.sim_config.page_bytes = 64 * KIB;
    s->w.placement.chunk_bytes = MIB;
    s->w.placement.small_chunk_bytes = 256 * KIB;
    s->w.placement.small_request_bytes = 32 * KIB;
    s->w.pool_config.limit_bytes = 12 * MIB;
    s->w.pool_config.address_reservation_bytes = 32 * MIB;
    s->w.pool_config.allow_stream_waits = m->allow_stream_waits;
    if (!kit_open(&s->w)) {
        return false;
    }
    s->stream = s->w.streams[0];
    s->other = s->w.streams[1];
    if (m->prepared != NOTHING) {
        set_the_scene(s);
    }
    for (int i = 0; i < AROUND && (m->prepared == BUSY || m->prepared == UNKNOWN); i++) {
        if (s->around[i].pointer != NULL) {
            kit_launch(&s->w, s->other, MEND_SIM_WORK_TOUCH, s->around[i].pointer, MIB, 0,
                       mend_sim_now_ns(s->w.sim) + 100000000);
        }
        give(s, &s->around[i], m->prepared == BUSY ? s->other : MEND_NO_STREAM);
    }
    if (m->prepared == BUSY || m->prepared == UNKNOWN) {
        mend_set_limit(s->w.pool, 10 * MIB);
    }
    if (m->prepared == RETIRED) { /* a moved chunk's former mapping becomes idle */
        s->made[s->made_count++] = take(s, 2 * MIB, 512);
        mend_sim_advance(s->w.sim, 1000);
    } else if (m->prepared == PIERCED) { /* holes of whole pages between blocks, for compactions */
        give(s, &s->pieces[1], s->stream);
        give(s, &s->pieces[2], s->stream);
        give(s, &s->pieces[10], s->stream);
    }
    return true;
}

static void make(void *argument)
{
    scenery *s = argument;
    const making *m = s->making;
    s->room = (block){NULL, m->size_bytes, s->stream, false};
    s->result = m->act == TRIM        ? mend_trim(s->w.pool, 0, MEND_TRIM_IDLE, NULL)
                : m->act == TRIM_WAIT ? mend_trim(s->w.pool, 0, MEND_TRIM_WAIT, NULL)
                : m->act == LIMIT     ? mend_set_limit(s->w.pool, 7 * MIB)
                : m->act == COMPACT
                    ? mend_compact(s->w.pool, NULL, NULL)
                    : mend_alloc_with(
                          s->w.pool, m->size_bytes, s->stream,
                          KIT_OPTIONS(mend_alloc_options, .alignment_bytes = m->alignment_bytes),
                          &s->room.pointer);
}

/* ---- what another does meanwhile ------------------------------------------------------------ */

static void do_nothing(scenery *s)
{
    (void)s;
}

static void take_cached(scenery *s)
{
    if (s->cache[0].pointer != NULL) {
        s->made[s->made_count++] = take(s, 64 * KIB, 512);
        s->made[s->made_count++] = take(s, 64 * KIB, 64 * KIB);
        s->made[s->made_count++] = take(s, 16 * KIB, 512);
    }
}

/* On both sides of memory that may be claimed. */
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
        EXPECT_RESULT(MEND_OK, mend_sim_stream_create(s->w.sim, NULL, &stream));
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

static void look(scenery *s)
{
    const block *const blocks[] = {&s->base, &s->pieces[3], &s->around[2]};
    mend_stats stats = mend_world_stats(&s->w);
    EXPECT_U64_EQ(stats.reserved_bytes, stats.live_bytes + stats.free_bytes);
    EXPECT_U64_EQ(stats.free_bytes,
                  stats.free_empty_bytes + stats.free_partial_bytes + stats.free_small_bytes);
    EXPECT_TRUE(stats.peak_reserved_bytes >= stats.reserved_bytes);
    EXPECT_TRUE(stats.peak_mappings >= stats.mappings);
    for (int i = 0; i < 3 && blocks[i]->pointer != NULL; i++) {
        mend_block_info info = MEND_BLOCK_INFO_INIT;
        EXPECT_RESULT(MEND_OK, mend_get_block_info(s->w.pool, blocks[i]->pointer, &info));
        EXPECT_RESULT(MEND_ERROR_INTERIOR_POINTER,
                      mend_free(s->w.pool, (char *)blocks[i]->pointer + 512, s->stream));
    }
}

static void use_a_graph_pool(scenery *s)
{
    mend_graph_pool *graph_pool = kit_begin_graph_pool(&s->w, MEND_EVERY_STREAM);
    give(s, &s->base, s->stream); /* no block of the graph pool: idle memory is all it would get */
    EXPECT_RESULT(MEND_OK, mend_graph_pool_end(graph_pool));
}

static void (*const deeds[])(scenery *s) = {
    do_nothing,   take_cached, free_neighbours,  free_all, use_new_streams,
    free_without, look,        use_a_graph_pool,
};

/* ---- what needs its turn --------------------------------------------------------------------- */

/* A third thread, which needs memory while the first is held. */
typedef struct latecomer {
    scenery *s;
    mend_result result;
    void *pointer;
} latecomer;

static void *ask_late(void *argument)
{
    latecomer *l = argument;
    l->result = mend_alloc(l->s->w.pool, 128 * KIB, l->s->other, &l->pointer);
    EXPECT_RESULT(MEND_OK, mend_unregister_stream(l->s->w.pool, (mend_stream)1));
    return NULL;
}

static void end(scenery *s)
{
    mend_sim_clear_faults(s->w.sim);
    if (s->making->prepared == PIERCED) { /* blocks may miss their mappings */
        EXPECT_RESULT(MEND_OK, mend_compact(s->w.pool, NULL, NULL));
    }
    s->room.pointer = s->result == MEND_OK ? s->room.pointer : NULL;
    if (s->room.pointer != NULL) {
        write(s, &s->room);
    }
    mend_sim_advance(s->w.sim, 1000000000);
    mend_world_check(&s->w);
    free_all(s);
    give(s, &s->cache[2], s->stream);
    give(s, &s->around[1], s->stream);
    for (int i = 0; i < s->made_count; i++) {
        give(s, &s->made[i], s->stream);
    }
    give(s, &s->room, s->stream);
    mend_sim_advance(s->w.sim, 1000000000);
    EXPECT_RESULT(MEND_OK, mend_trim(s->w.pool, 0, MEND_TRIM_IDLE, NULL));
    kit_close(&s->w);
}

/* False when the making has no call at the position. */
static bool hold_once(const making *m, uint64_t position, void (*deed)(scenery *s), bool fails)
{
    scenery s;
    mend_held held;
    pthread_t thread;
    latecomer late = {.s = &s};
    if (!open(&s, m)) {
        return false;
    }
    bool is_inside = mend_held_begin(&held, s.w.sim, position, make, &s);
    s.is_quiet = is_inside && m->prepared == PIERCED;
    if (is_inside) {
        deed(&s);
        if (fails) {
            kit_fail(&s.w, held.call, 0, 0, strcmp(held.call, "create") == 0 ? 0 : 999);
        }
        is_inside = pthread_create(&thread, NULL, ask_late, &late) == 0;
    }
    mend_held_let_go(&held);
    if (is_inside) {
        pthread_join(thread, NULL);
    }
    if (is_inside && late.result == MEND_OK) {
        s.made[s.made_count] = (block){late.pointer, 128 * KIB, s.other, false};
        write(&s, &s.made[s.made_count++]);
    }
    mend_held_end(&held);
    s.is_quiet = false;
    end(&s);
    return is_inside && !mend_test_has_failed();
}

MEND_TEST(pool_grow, others_do_anything_while_one_sits_in_any_call)
{
    for (size_t i = 0; i < 2 * sizeof(makings) / sizeof(*makings); i++) {
        for (size_t d = 0; d < sizeof(deeds) / sizeof(deeds[0]); d++) {
            const uint64_t first = 1 + (i + d) % CALLS_APART;
            uint64_t position = first;
            while (hold_once(&makings[i / 2], position, deeds[d], i % 2 == 1)) {
                position += CALLS_APART;
            }
            if (mend_test_has_failed() || position == 1) {
                mend_test_fail(__FILE__, __LINE__, "%s: deed %zu, way %zu, call %llu",
                               makings[i / 2].name, d, i % 2, (unsigned long long)position);
                return;
            }
        }
    }
}
