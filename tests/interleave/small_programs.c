/* The small programs of which every schedule is tried. */
#include "base/align.h"
#include "tests/interleave/exhaustive.h"

#define KIB(n) ((uint64_t)(n) << 10)
#define LIST(...)                                                                                  \
    {                                                                                              \
        (int)(sizeof((const program_op[]){__VA_ARGS__}) / sizeof(program_op)),                     \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

#define ALLOC(slot_number, stream_number, size)                                                    \
    {                                                                                              \
        .kind = PROGRAM_ALLOC, .slot = slot_number, .stream = stream_number, .bytes = size         \
    }
#define ALLOC_IN(pool_number, slot_number, stream_number, size)                                    \
    {                                                                                              \
        .kind = PROGRAM_ALLOC, .pool = pool_number, .slot = slot_number, .stream = stream_number,  \
        .bytes = size                                                                              \
    }
#define FREE(slot_number)                                                                          \
    {                                                                                              \
        .kind = PROGRAM_FREE, .slot = slot_number                                                  \
    }
#define DO(what, ...)                                                                              \
    {                                                                                              \
        .kind = PROGRAM_##what, __VA_ARGS__                                                        \
    }

/* Four chunks of memory, two threads. */
#define WORLD .threads = 2, .pools = 1, .memory_bytes = KIB(1024)

typedef struct small_program {
    const char *name;
    program program;
} small_program;

static const small_program programs[] = {
    {"both_short_of_room",
     {WORLD, .before = LIST(ALLOC(0, 0, KIB(512)), FREE(0)),
      .work = {LIST(ALLOC(1, 0, KIB(640))), LIST(ALLOC(2, 1, KIB(640)), FREE(1))}}},
    {"a_block_is_freed_while_room_is_made",
     {WORLD, .before = LIST(ALLOC(0, 0, KIB(512)), ALLOC(3, 1, KIB(256))),
      .work = {LIST(ALLOC(1, 1, KIB(768))), LIST(FREE(0))}}},
    {"a_request_takes_what_another_counts_on",
     {WORLD, .before = LIST(ALLOC(0, 0, KIB(256)), FREE(0)),
      .work = {LIST(ALLOC(1, 0, KIB(512))), LIST(ALLOC(2, 0, KIB(256)))}}},
    {"a_trim_against_a_request",
     {WORLD, .before = LIST(ALLOC(0, 0, KIB(512)), ALLOC(1, 0, KIB(256)), FREE(0), FREE(1)),
      .work = {LIST(ALLOC(0, 1, KIB(768))), LIST(DO(TRIM, .bytes = 0), ALLOC(1, 0, KIB(256)))}}},
    {"a_limit_against_a_request",
     {WORLD, .before = LIST(ALLOC(0, 0, KIB(256))),
      .work = {LIST(ALLOC(1, 1, KIB(512))),
               LIST(DO(SET_LIMIT, .bytes = KIB(512)), DO(SET_LIMIT, .bytes = 0))}}},
    {"a_stream_is_forgotten_while_a_request_waits",
     {WORLD, .before = LIST(ALLOC(0, 1, KIB(512)), FREE(0)),
      .work = {LIST(ALLOC(1, 1, KIB(640)), FREE(1)),
               LIST(DO(FORGET, .stream = 1), ALLOC(2, 2, KIB(300)))}}},
    {"a_stream_is_forgotten_while_its_event_is_recorded",
     {WORLD, .may_vanish = true,
      .before = LIST(ALLOC(0, 1, KIB(64)), ALLOC(1, 1, KIB(64)), DO(FAIL, .bytes = 6), FREE(1)),
      .work = {LIST(FREE(0)), LIST(DO(FORGET, .stream = 1), ALLOC(2, 1, KIB(128)))}}},
    {"a_graph_pool_takes_the_stream_of_a_request",
     {WORLD, .before = LIST(ALLOC(0, 1, KIB(256)), FREE(0)),
      .work = {LIST(ALLOC(1, 1, KIB(640)), FREE(1)),
               LIST(DO(GRAPH_POOL_BEGIN, .stream = 1, .bytes = 1), DO(GRAPH_POOL_END),
                    DO(GRAPH_POOL_RELEASE, .bytes = 0))}}},
    {"a_callback_goes_while_it_is_called",
     {WORLD, .before = LIST(DO(ADD_CALLBACK), ALLOC(0, 0, KIB(768))),
      .work = {LIST(ALLOC(1, 1, KIB(768))), LIST(DO(REMOVE_CALLBACK))},
      .in_callback = {LIST(FREE(0))}}},
    {"two_requests_call_one_callback",
     {WORLD, .before = LIST(DO(ADD_CALLBACK), ALLOC(0, 0, KIB(512)), ALLOC(3, 0, KIB(512))),
      .work = {LIST(ALLOC(1, 1, KIB(512))), LIST(ALLOC(2, 0, KIB(512)))},
      .in_callback = {LIST(FREE(0), FREE(3))}}},
    {"a_peer_pool_goes_while_it_is_asked",
     {.threads = 2,
      .pools = 2,
      .memory_bytes = KIB(1024),
      .before = LIST(ALLOC_IN(1, 0, 0, KIB(512)), FREE(0)),
      .work = {LIST(ALLOC(1, 0, KIB(1024))), LIST(DO(POOL_DESTROY, .pool = 1))}}},
    {"peer_pools_ask_each_other",
     {.threads = 2,
      .pools = 2,
      .memory_bytes = KIB(1024),
      .before = LIST(ALLOC_IN(1, 0, 0, KIB(512)), FREE(0), ALLOC(0, 0, KIB(512)), FREE(0)),
      .work = {LIST(ALLOC(1, 0, KIB(1024)), FREE(1)), LIST(ALLOC_IN(1, 2, 0, KIB(1024)))}}},
    {"a_block_is_freed_while_its_chunk_is_compacted",
     {WORLD,
      .before = LIST(ALLOC(0, 0, KIB(192)), ALLOC(1, 0, KIB(128)), ALLOC(2, 0, KIB(192)), FREE(1)),
      .work = {LIST(DO(COMPACT)), LIST(FREE(0), ALLOC(1, 1, KIB(64)))}}},
    {"a_block_is_pinned_while_its_chunk_is_compacted",
     {WORLD,
      .before = LIST(ALLOC(0, 0, KIB(192)), ALLOC(1, 0, KIB(128)), ALLOC(2, 0, KIB(192)), FREE(1)),
      .work = {LIST(DO(COMPACT)), LIST(DO(PIN, .slot = 0))}}},
    {"a_graph_pool_is_restored_while_memory_is_moved_and_trimmed",
     {WORLD,
      .before = LIST(ALLOC(0, 0, KIB(192)), ALLOC(1, 0, KIB(128)), ALLOC(2, 0, KIB(192)), FREE(1)),
      .work = {LIST(DO(COMPACT), ALLOC(1, 1, KIB(192))), LIST(DO(RESTORE, .bytes = KIB(64)))}}},
    {"an_event_of_the_context_against_frees",
     {WORLD, .unfenced_bytes = KIB(64),
      .before = LIST(ALLOC(0, 0, KIB(256)), ALLOC(1, 0, KIB(256)), DO(FREE_ANYWHEN, .slot = 0)),
      .work = {LIST(DO(ALLOC_ANYWHERE, .slot = 2, .bytes = KIB(320))),
               LIST(DO(ADVANCE, .bytes = 20), DO(FREE_ANYWHEN, .slot = 1),
                    ALLOC(3, 1, KIB(512)))}}},
    {"a_wait_for_the_context_against_a_thread_that_ends",
     {WORLD, .unfenced_bytes = KIB(64), .lacks_events = true,
      .before = LIST(ALLOC(0, 0, KIB(256)), ALLOC(1, 0, KIB(256)), DO(FREE_ANYWHEN, .slot = 0)),
      .work = {LIST(DO(ALLOC_ANYWHERE, .slot = 2, .bytes = KIB(320))),
               LIST(DO(FREE_BY_THREAD, .slot = 1))}}},
};

int exhaustive_count(void)
{
    return (int)(sizeof(programs) / sizeof(programs[0]));
}

const char *exhaustive_name(int number)
{
    return programs[number].name;
}

const program *exhaustive_program(int number)
{
    return &programs[number].program;
}
