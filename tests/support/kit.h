/*
 * The kit: usual steps of tests of a pool, in a line each. A small world with three streams.
 * Blocks, work of the GPU on them, failures of the driver, graph pools and captures. A broken
 * expectation of a kit call is a failure at the line of the test.
 */
#ifndef MEND_TESTS_SUPPORT_KIT_H
#define MEND_TESTS_SUPPORT_KIT_H

#include "base/align.h"
#include "tests/support/test.h"
#include "tests/support/world.h"

#define KIT_PER_THREAD ((mend_stream)(uintptr_t)2)

/* Which line calls. */
typedef struct kit_line {
    const char *file;
    int line;
} kit_line;
#define KIT_LINE ((kit_line){__FILE__, __LINE__})

/*
 * A case in a world of its own, `w`, as kit_open_default or an expression opens it, or as
 * kit_open_set does, and kit_close closes it (the last one: that ends the pool itself, or loses
 * it), or in a rig of a type, `r`, that has such a world `w`, or none. A file names its own rig in
 * a macro of its own.
 */
#define KIT_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_default(w))
#define KIT_TEST_IN(suite, name, opening)                                                          \
    KIT_CASE(suite, name, mend_world, w, opening, kit_close(w))
#define KIT_SET_TEST(suite, name, ...) KIT_TEST_IN(suite, name, kit_open_set(w, __VA_ARGS__))
#define KIT_LAST_TEST(suite, name, opening)                                                        \
    KIT_CASE(suite, name, mend_world, w, opening, mend_sim_destroy(w->sim))
#define KIT_BARE_TEST(suite, name, type, opening, closing)                                         \
    KIT_CASE(suite, name, type, r, opening, closing)
#define KIT_RIG_TEST(suite, name, type, opening, closing)                                          \
    static void suite##_##name##_in(type *r, mend_world *w);                                       \
    KIT_BARE_TEST(suite, name, type, opening, closing)                                             \
    {                                                                                              \
        suite##_##name##_in(r, &r->w);                                                             \
    }                                                                                              \
    static void suite##_##name##_in(KIT_UNUSED type *r, KIT_UNUSED mend_world *w)
#define KIT_CASE(suite, name, type, self, opening, closing)                                        \
    static void suite##_##name##_with(type *self);                                                 \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        type opened;                                                                               \
        type *self = &opened;                                                                      \
        ASSERT_TRUE(opening);                                                                      \
        suite##_##name##_with(self);                                                               \
        closing;                                                                                   \
    }                                                                                              \
    static void suite##_##name##_with(KIT_UNUSED type *self)
#define KIT_UNUSED __attribute__((unused))

/* A stream of the world `w` of a case. */
#define S(number) (w->streams[number])

/* A case in a world, or in a rig `self`, of its own for each value of a variable below `count`: the
 * opening and the case see it. */
#define KIT_EACH(suite, name, type, variable, count, opening)                                      \
    KIT_RIG_EACH(suite, name, type, variable, count, mend_world, w, opening, kit_close(w))
#define KIT_RIG_EACH(suite, name, type, variable, count, rig, self, opening, closing)              \
    static void suite##_##name##_for(rig *self, type variable);                                    \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        for (type variable = 0; variable < (count); variable++) {                                  \
            rig opened;                                                                            \
            rig *self = &opened;                                                                   \
            ASSERT_TRUE(opening);                                                                  \
            suite##_##name##_for(self, variable);                                                  \
            closing;                                                                               \
        }                                                                                          \
    }                                                                                              \
    static void suite##_##name##_for(rig *self, KIT_UNUSED type variable)

/* A call that succeeds. One that ends in MEND_ERROR_..., and one that says words then. */
#define EXPECT_OK(call)           EXPECT_RESULT(MEND_OK, call)
#define EXPECT_INVALID(call)      EXPECT_ERROR(INVALID_ARGUMENT, call)
#define EXPECT_ERROR(error, call) EXPECT_RESULT(MEND_ERROR_##error, call)
#define EXPECT_REFUSAL(error, words, call)                                                         \
    do {                                                                                           \
        EXPECT_ERROR(error, call);                                                                 \
        kit_expect_words(words);                                                                   \
    } while (0)

/* Fields of a struct that are numbers, one to six of them, each before its expected value. And the
 * same for a world's statistics, and for its device's. */
#define EXPECT_STATS(w, ...)  EXPECT_FIELDS(mend_world_stats(w), __VA_ARGS__)
#define EXPECT_LEDGER(w, ...) EXPECT_FIELDS(mend_world_ledger(w), __VA_ARGS__)
#define EXPECT_FIELDS(object, ...)                                                                 \
    do {                                                                                           \
        const __typeof__(object) of = (object);                                                    \
        KIT_PICK(__VA_ARGS__, KIT_6, 0, KIT_5, 0, KIT_4, 0, KIT_3, 0, KIT_2, 0, KIT_1, 0, 0)       \
        (__VA_ARGS__);                                                                             \
    } while (0)
#define KIT_PICK(a, b, c, d, e, f, g, h, i, j, k, l, pick, ...) pick
#define KIT_1(field, value)                                     EXPECT_U64_EQ(value, of.field)
#define KIT_2(field, value, ...)                                                                   \
    KIT_1(field, value);                                                                           \
    KIT_1(__VA_ARGS__)
#define KIT_3(field, value, ...)                                                                   \
    KIT_1(field, value);                                                                           \
    KIT_2(__VA_ARGS__)
#define KIT_4(field, value, ...)                                                                   \
    KIT_1(field, value);                                                                           \
    KIT_3(__VA_ARGS__)
#define KIT_5(field, value, ...)                                                                   \
    KIT_1(field, value);                                                                           \
    KIT_4(__VA_ARGS__)
#define KIT_6(field, value, ...)                                                                   \
    KIT_1(field, value);                                                                           \
    KIT_5(__VA_ARGS__)

/* mend_world_open of a world that the test has prepared by mend_world_init, and its streams. */
bool kit_open(mend_world *w);

/* The same of a world as mend_world_init makes it. */
bool kit_open_default(mend_world *w);

/* The same, where some settings are others: kit_open_set(w, w->placement.chunk_bytes = 1, ...). */
#define kit_open_set(w, ...) (mend_world_init(w), __VA_ARGS__, kit_open(w))

/* A function that makes such settings: KIT_SETTING(name, w->pool_config... = ..., ...). */
#define KIT_SETTING(name, ...)                                                                     \
    static inline void name(mend_world *w)                                                         \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    _Static_assert(1, "")

/* kit_open behind a driver of the test, of a device that is open. */
bool kit_open_on(mend_world *w, const mend_driver *driver);

/* The same, on a driver of support/host_memory.h, in a world that is prepared. */
#define kit_open_unwatched(w, unwatched)                                                           \
    (mend_world_open_device(w) &&                                                                  \
     (mend_unwatched_driver_init(unwatched, mend_sim_driver((w)->sim)),                            \
      kit_open_on(w, &(unwatched)->table)))

/* The streams alone, of a world that is open. */
bool kit_open_streams(mend_world *w);

/* All of it: a world of so much memory. `configure` may be NULL. */
bool kit_open_with(mend_world *w, uint64_t memory_bytes, void (*configure)(mend_world *));

/* The same, where streams may be made to wait for others (1), may not (-1), or as by default (0).
 */
bool kit_open_allowing(mend_world *w, uint64_t memory_bytes, int stream_waits);

/* The same as kit_open_with, and a second device, which may use the pool's memory. */
bool kit_open_beside_another(mend_world *w, uint64_t memory_bytes, void (*configure)(mend_world *));

/* Lets all work end, checks everything, frees the remaining blocks, checks again, forgets the
 * streams where there are any, and closes. */
void kit_close(mend_world *w);

/* Whatever calls have done, they leave the thread's context as it was: none is current. */
void kit_expect_no_context(const mend_world *w);

/* A block of the world's pool, or of any. NULL where it is refused, which is a failure. */
#define kit_alloc(w, size_bytes, stream)         kit_alloc_from((w)->pool, size_bytes, stream)
#define kit_alloc_from(pool, size_bytes, stream) kit_alloc_at(KIT_LINE, pool, size_bytes, stream)
void *kit_alloc_at(kit_line at, mend_pool *pool, uint64_t size_bytes, mend_stream stream);

/* One by options: fields of mend_alloc_options. */
#define kit_alloc_with(w, size_bytes, stream, ...)                                                 \
    kit_alloc_with_at(KIT_LINE, (w)->pool, size_bytes, stream,                                     \
                      KIT_OPTIONS(mend_alloc_options, __VA_ARGS__))
void *kit_alloc_with_at(kit_line at, mend_pool *pool, uint64_t size_bytes, mend_stream stream,
                        const mend_alloc_options *options);

#define kit_free(w, block, stream) kit_free_at(KIT_LINE, w, block, stream)
void kit_free_at(kit_line at, mend_world *w, void *block, mend_stream stream);

/* Blocks of one size in a row, written or not, and the end of a row. */
#define kit_alloc_row(w, blocks, count, size_bytes, stream)                                        \
    kit_alloc_row_at(KIT_LINE, w, blocks, (size_t)(count), size_bytes, stream, false)
#define kit_alloc_written_row(w, blocks, count, size_bytes, stream)                                \
    kit_alloc_row_at(KIT_LINE, w, blocks, (size_t)(count), size_bytes, stream, true)
void kit_alloc_row_at(kit_line at, mend_world *w, void *blocks[], size_t count, uint64_t size_bytes,
                      mend_stream stream, bool written);
#define kit_free_row(w, blocks, count, stream)                                                     \
    kit_free_row_at(KIT_LINE, w, blocks, (size_t)(count), stream)
void kit_free_row_at(kit_line at, mend_world *w, void *const blocks[], size_t count,
                     mend_stream stream);

/* The request ends in out of memory, and the advice contains the words. */
#define kit_expect_none(w, size_bytes, stream, advice)                                             \
    kit_expect_none_at(KIT_LINE, w, size_bytes, stream, advice)
void kit_expect_none_at(kit_line at, mend_world *w, uint64_t size_bytes, mend_stream stream,
                        const char *advice);

/* A trim that keeps so much gives so much back. */
#define kit_expect_trim(w, keep_bytes, released_bytes)                                             \
    kit_expect_trim_at(KIT_LINE, w, keep_bytes, released_bytes)
void kit_expect_trim_at(kit_line at, mend_world *w, uint64_t keep_bytes, uint64_t released_bytes);

/* A pool's description of a block. Another pool as the world's. A stream more, and the end of
 * one. */
#define kit_info(w, pointer) kit_info_at(KIT_LINE, (w)->pool, pointer)
mend_block_info kit_info_at(kit_line at, mend_pool *pool, const void *pointer);
#define kit_pool(w) kit_pool_at(KIT_LINE, w)
mend_pool *kit_pool_at(kit_line at, mend_world *w);
#define kit_stream(w) kit_stream_at(KIT_LINE, w)
mend_stream kit_stream_at(kit_line at, mend_world *w);
#define kit_end_stream(w, stream) kit_end_stream_at(KIT_LINE, w, stream)
void kit_end_stream_at(kit_line at, mend_world *w, mend_stream stream);

/* The figures of any pool. The world's are mend_world_stats. */
#define kit_stats(pool) kit_stats_at(KIT_LINE, pool)
mend_stats kit_stats_at(kit_line at, mend_pool *pool);

/* The GPU writes the block, is busy for so long, and compares it, in the order of the stream. */
#define kit_use(w, stream, block, size_bytes, duration_ns)                                         \
    kit_use_at(KIT_LINE, w, stream, block, size_bytes, duration_ns)
void kit_use_at(kit_line at, mend_world *w, mend_stream stream, const void *block,
                uint64_t size_bytes, uint64_t duration_ns);

/* A block that the GPU uses so, and one that is freed meanwhile: the memory in flight is returned.
 */
#define kit_alloc_used(w, size_bytes, stream, duration_ns)                                         \
    kit_alloc_used_at(KIT_LINE, w, size_bytes, stream, duration_ns)
void *kit_alloc_used_at(kit_line at, mend_world *w, uint64_t size_bytes, mend_stream stream,
                        uint64_t duration_ns);
#define kit_leave_in_flight(w, size_bytes, stream, duration_ns, freed_on)                          \
    kit_leave_in_flight_at(KIT_LINE, w, size_bytes, stream, duration_ns, freed_on)
void *kit_leave_in_flight_at(kit_line at, mend_world *w, uint64_t size_bytes, mend_stream stream,
                             uint64_t duration_ns, mend_stream freed_on);

/* So many waits there were so far: of streams for others, and of the host. */
#define kit_expect_waits(w, stream_waits, host_waits)                                              \
    kit_expect_waits_at(KIT_LINE, w, stream_waits, host_waits)
void kit_expect_waits_at(kit_line at, mend_world *w, uint64_t stream_waits, uint64_t host_waits);

/* One piece of work on a block, which ends at `finish_ns` at the earliest. */
#define kit_launch(w, stream, kind, block, size_bytes, tag, finish_ns)                             \
    kit_launch_at(KIT_LINE, w, stream, kind, block, size_bytes, tag, finish_ns)
void kit_launch_at(kit_line at, mend_world *w, mend_stream stream, mend_sim_work_kind kind,
                   const void *block, uint64_t size_bytes, uint64_t tag, uint64_t finish_ns);

/* Writes unique contents, by the block's address, and compares them, now or later. */
#define kit_write(w, stream, block, size_bytes)                                                    \
    kit_launch(w, stream, MEND_SIM_WORK_WRITE, block, size_bytes, (uintptr_t)(block), 0)
#define kit_verify(w, stream, block, size_bytes) kit_verify_until(w, stream, block, size_bytes, 0)
#define kit_verify_until(w, stream, block, size_bytes, finish_ns)                                  \
    kit_launch(w, stream, MEND_SIM_WORK_VERIFY, block, size_bytes, (uintptr_t)(block), finish_ns)

/* A block that is written so. One that is compared before it is freed, and all of a row that are
 * not NULL, which they are then. */
#define kit_alloc_written(w, size_bytes, stream)                                                   \
    kit_alloc_written_at(KIT_LINE, w, size_bytes, stream)
void *kit_alloc_written_at(kit_line at, mend_world *w, uint64_t size_bytes, mend_stream stream);
#define kit_release(w, block, size_bytes, stream)                                                  \
    kit_release_row(w, &(void *){block}, 1, size_bytes, stream)
#define kit_release_row(w, blocks, count, size_bytes, stream)                                      \
    kit_release_row_at(KIT_LINE, w, blocks, (size_t)(count), size_bytes, stream)
void kit_release_row_at(kit_line at, mend_world *w, void *blocks[], size_t count,
                        uint64_t size_bytes, mend_stream stream);

/* `count` driver calls fail with a status, after `after_calls` that do not. */
#define kit_fail(w, call, after_calls, count, status)                                              \
    kit_fail_at(KIT_LINE, w, call, after_calls, count, status)
void kit_fail_at(kit_line at, mend_world *w, const char *call, uint64_t after_calls, uint64_t count,
                 int status);

/* The next call of this name, or of any (NULL), breaks the context for good. */
#define kit_break(w, call) kit_break_at(KIT_LINE, w, call)
void kit_break_at(kit_line at, mend_world *w, const char *call);

/* The thread's last error says these words. */
#define kit_expect_words(words) kit_expect_words_at(KIT_LINE, words)
void kit_expect_words_at(kit_line at, const char *words);

/* The thread's last error is of this kind. */
#define kit_expect_error(result) kit_expect_error_at(KIT_LINE, result)
void kit_expect_error_at(kit_line at, mend_result result);

/* The newest event of a pool whose history holds one. */
#define kit_expect_event(pool, kind, cause, size_bytes)                                            \
    kit_expect_event_at(KIT_LINE, pool, kind, cause, size_bytes)
void kit_expect_event_at(kit_line at, mend_pool *pool, mend_event_kind kind, mend_event_cause cause,
                         uint64_t size_bytes);

/* What the last failure for want of memory tells. */
#define kit_oom_report() kit_oom_report_at(KIT_LINE)
mend_oom_report kit_oom_report_at(kit_line at);

/* A call, while a function hears of each call of the driver. */
#define kit_observed(w, hear, context, call)                                                       \
    do {                                                                                           \
        mend_sim_set_call_observer((w)->sim, hear, context);                                       \
        call;                                                                                      \
        mend_sim_set_call_observer((w)->sim, NULL, NULL);                                          \
    } while (0)

/* The head of a pressure callback, which need not use its arguments. */
#define KIT_PRESSURE(name)                                                                         \
    static int name(KIT_UNUSED void *context, KIT_UNUSED mend_pool *pool,                          \
                    KIT_UNUSED uint64_t needed_bytes)

/* A pressure callback that frees nothing, and counts its calls in an int. */
int kit_count_pressure(void *count, mend_pool *pool, uint64_t needed_bytes);

/* A graph pool. One that takes a stream, and its end and release. */
#define kit_graph_pool(w) kit_graph_pool_at(KIT_LINE, w)
mend_graph_pool *kit_graph_pool_at(kit_line at, mend_world *w);
#define kit_end_graph_pool(graph_pool, stream) kit_end_graph_pool_at(KIT_LINE, graph_pool, stream)
void kit_end_graph_pool_at(kit_line at, mend_graph_pool *graph_pool, mend_stream stream);
#define kit_begin_graph_pool(w, stream) kit_begin_graph_pool_at(KIT_LINE, w, stream)
mend_graph_pool *kit_begin_graph_pool_at(kit_line at, mend_world *w, mend_stream stream);

#define kit_begin_capture(w, stream) kit_begin_capture_at(KIT_LINE, w, stream)
void kit_begin_capture_at(kit_line at, mend_world *w, mend_stream stream);

#define kit_end_capture(w, stream) kit_end_capture_at(KIT_LINE, w, stream)
mend_sim_graph *kit_end_capture_at(kit_line at, mend_world *w, mend_stream stream);

/* A graph pool and a capture on one stream, and the end of both. */
#define kit_begin_captured_graph_pool(w, stream)                                                   \
    kit_begin_captured_graph_pool_at(KIT_LINE, w, stream)
mend_graph_pool *kit_begin_captured_graph_pool_at(kit_line at, mend_world *w, mend_stream stream);

#define kit_end_captured_graph_pool(w, stream, graph_pool)                                         \
    kit_end_captured_graph_pool_at(KIT_LINE, w, stream, graph_pool)
mend_sim_graph *kit_end_captured_graph_pool_at(kit_line at, mend_world *w, mend_stream stream,
                                               mend_graph_pool *graph_pool);

#define kit_launch_graph(w, graph, stream) kit_launch_graph_at(KIT_LINE, w, graph, stream)
void kit_launch_graph_at(kit_line at, mend_world *w, mend_sim_graph *graph, mend_stream stream);

#endif
