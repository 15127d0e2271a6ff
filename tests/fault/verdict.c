/* The verdict on one call in which something failed. */
#include <stdio.h>
#include <string.h>

#include "tests/fault/scene.h"
#include "tests/support/test.h"

uint64_t scene_failures(const scene *s, mend_driver_call call)
{
    return s->after.calls.call[call].failures - s->before.calls.call[call].failures;
}

/* The driver accepted all releases of the call. */
static bool undo_worked(const scene *s)
{
    return scene_failures(s, MEND_CALL_unmap) == 0 &&
           scene_failures(s, MEND_CALL_stream_synchronize) == 0 && /* copies may use mappings */
           scene_failures(s, MEND_CALL_release) == 0 &&
           scene_failures(s, MEND_CALL_address_free) == 0;
}

static void expect_difference(const char *what, uint64_t expected, uint64_t before, uint64_t after)
{
    if (after - before != expected) {
        mend_test_fail(__FILE__, __LINE__, "%s: by %lld, expected %lld", what,
                       (long long)(after - before), (long long)expected);
    }
}

/* But the question whether a stream is captured. */
static uint64_t all_calls(const mend_driver_counters *counters)
{
    uint64_t calls = 0;
    for (int i = 0; i < MEND_DRIVER_CALL_COUNT; i++) {
        calls += i != MEND_CALL_stream_get_capture ? counters->call[i].calls : 0;
    }
    return calls;
}

static uint64_t successes(const scene *s, mend_driver_call call)
{
    return s->after.calls.call[call].calls - s->before.calls.call[call].calls -
           scene_failures(s, call);
}

void scene_check_balance(const scene *s)
{
    EXPECT_U64_EQ(successes(s, MEND_CALL_context_push), successes(s, MEND_CALL_context_pop));
}

static void check_moved(const scene *s, const mend_stats *before, const mend_stats *after)
{
    switch (s->given->call.action) {
    case SLEEP: /* a split may fail */
        EXPECT_TRUE(before->asleep_live_bytes < after->asleep_live_bytes ||
                    s->given->call.slot == 1);
        break;
    case WAKE:
        EXPECT_U64_EQ(0, after->asleep_bytes);
        break;
    default:
        break;
    }
}

void scene_check_success(const scene *s)
{
    const mend_stats *before = &s->before.stats;
    const mend_stats *after = &s->after.stats;
    uint64_t released_bytes = before->reserved_bytes - after->reserved_bytes;
    switch (s->given->call.action) {
    case ALLOC:
    case ALLOC_ALIGNED:
    case ALLOC_FOR_ANY:
        EXPECT_U64_EQ(before->allocations + 1, after->allocations);
        EXPECT_U64_EQ(before->requested_bytes + s->given->call.bytes, after->requested_bytes);
        break;
    case RANGE:
        EXPECT_U64_EQ(before->ranges + 1, after->ranges);
        break;
    case RANGE_END:
        EXPECT_U64_EQ(before->ranges - 1, after->ranges);
        break;
    case COMMIT:
        EXPECT_U64_EQ(before->range_bytes + s->given->call.bytes, after->range_bytes);
        break;
    case DECOMMIT:
        EXPECT_TRUE(before->range_bytes > after->range_bytes);
        break;
    case FREE:
    case FREE_ANYWHERE:
        EXPECT_U64_EQ(before->frees + 1, after->frees);
        EXPECT_U64_EQ(before->live_blocks - 1, after->live_blocks);
        break;
    case TRIM:
    case TRIM_WAIT:
        EXPECT_U64_EQ(released_bytes, s->run.released_bytes);
        if (s->fault->kind == FAULT_HOST) { /* nothing else keeps it from releasing all */
            expect_difference("chunks_released", s->given->way.chunks_released,
                              before->chunks_released, after->chunks_released);
        }
        EXPECT_U64_EQ(0, scene_failures(s, MEND_CALL_release));
        break;
    case EXPORT:
    case EXPORT_BY_FABRIC:
        EXPECT_U64_EQ(before->reserved_bytes, after->reserved_bytes);
        EXPECT_TRUE(after->exported_blocks > 0 && after->pinned_bytes >= after->exported_bytes);
        break;
    case IMPORT:
    case IMPORT_BY_FABRIC:
        EXPECT_TRUE(after->imports > 0 && after->imported_bytes > 0);
        break;
    case CLOSE:
    case CLOSE_ANYWHERE:
        EXPECT_U64_EQ(before->imports - 1, after->imports);
        break;
    case LIMIT:
        EXPECT_U64_EQ(s->given->call.bytes, after->limit_bytes);
        EXPECT_U64_EQ(0, scene_failures(s, MEND_CALL_release));
        break;
    default:
        check_moved(s, before, after);
        break;
    }
}

void scene_check_way(const scene *s)
{
    const scenario_way *way = &s->given->way;
    const mend_stats *before = &s->before.stats;
    const mend_stats *after = &s->after.stats;
    EXPECT_RESULT(way->result, s->result);
#define X(field) expect_difference(#field, way->field, before->field, after->field);
    SCENARIO_WAY(X)
#undef X
    expect_difference("events", way->events, s->before.ledger.events, s->after.ledger.events);
    EXPECT_INT_EQ(way->unmaps_retired, s->after.calls.call[MEND_CALL_unmap].calls >
                                               s->before.calls.call[MEND_CALL_unmap].calls &&
                                           before->retired_bytes > after->retired_bytes);
    EXPECT_INT_EQ(way->reserves_addresses, after->address_bytes > before->address_bytes);
    EXPECT_INT_EQ(way->returns_addresses, after->address_bytes < before->address_bytes);
    EXPECT_INT_EQ(way->calls_no_driver, all_calls(&s->before.calls) == all_calls(&s->after.calls));
}

/* The header's results of the call, besides errors of arguments. */
static bool is_documented(const scene *s)
{
    bool documented = s->result == MEND_ERROR_DRIVER;
    if (s->given->kind == SCENARIO_DESTROY) {
        return documented;
    }
    documented = documented || s->result == MEND_ERROR_OUT_OF_HOST_MEMORY;
    if (s->given->kind == SCENARIO_CREATE) {
        return documented || s->result == MEND_ERROR_NO_DRIVER ||
               s->result == MEND_ERROR_NO_DEVICE || s->result == MEND_ERROR_NOT_SUPPORTED;
    }
    documented = documented || s->result == MEND_ERROR_DEVICE_LOST;
    switch (s->given->call.action) {
    case ALLOC:
    case ALLOC_ALIGNED:
    case ALLOC_FOR_ANY:
    case ALLOC_IN_GRAPH_POOL:
    case COMMIT:
        return documented || s->result == MEND_ERROR_OUT_OF_MEMORY ||
               s->result == MEND_ERROR_OUT_OF_ADDRESS_SPACE ||
               s->result == MEND_ERROR_UNKNOWN_STREAM;
    case WAKE:
    case PREPARE_CHECKPOINT:
        return documented || s->result == MEND_ERROR_OUT_OF_MEMORY;
    case RANGE:
        return documented || s->result == MEND_ERROR_OUT_OF_ADDRESS_SPACE;
    case FREE:
    case FREE_ANYWHERE:
    case SHARE:
    case DECOMMIT:
    case SHARE_PAGES:
    case RANGE_END:
    case FORGET:
    case GRAPH_POOL_RELEASE:
    case FREE_IN_GRAPH_POOL:
    case RESTORE:
    case ROOM:
    case CLOSE:
        return documented || s->result == MEND_ERROR_UNKNOWN_STREAM;
    case IMPORT_BY_FABRIC:
        documented = documented || s->result == MEND_ERROR_EXPORTER_GONE;
        return documented || s->result == MEND_ERROR_OUT_OF_MEMORY ||
               s->result == MEND_ERROR_OUT_OF_ADDRESS_SPACE;
    case IMPORT:
        return documented || s->result == MEND_ERROR_OUT_OF_MEMORY ||
               s->result == MEND_ERROR_OUT_OF_ADDRESS_SPACE;
    default:
        return documented;
    }
}

/* The call named in the error is one that answered with the fault. */
static bool names_a_failed_call(const scene *s, const mend_error *error)
{
    for (int i = 0; i < MEND_DRIVER_CALL_COUNT; i++) {
        if (scene_failures(s, (mend_driver_call)i) > 0 &&
            strcmp(error->driver_call, mend_driver_call_name((mend_driver_call)i)) == 0) {
            return true;
        }
    }
    return false;
}

/* The stream is a good one, and the driver did not say otherwise. */
static bool is_slander(const scene *s)
{
    return s->result == MEND_ERROR_UNKNOWN_STREAM && s->fault->status != MEND_DRIVER_INVALID_VALUE;
}

static void expect_explained(const scene *s)
{
    mend_error error = MEND_ERROR_INIT;
    EXPECT_RESULT(MEND_OK, mend_get_last_error(&error));
    EXPECT_RESULT(s->result, error.result);
    EXPECT_TRUE(error.message[0] != '\0');
    if (s->fault->kind == FAULT_NONE) {
        return;
    }
    /* A call that was bound to fail may name its own cause, or none. */
    bool bound_to_fail = s->result == s->given->way.result;
    if (s->fault->kind == FAULT_HOST) {
        EXPECT_TRUE(bound_to_fail || s->result == MEND_ERROR_OUT_OF_HOST_MEMORY);
        EXPECT_INT_EQ(0, error.driver_status);
        EXPECT_STR_EQ("", error.driver_call);
        return;
    }
    /* So may one for which the driver had no memory. */
    const bool lacks_memory =
        s->result == MEND_ERROR_OUT_OF_MEMORY && (s->fault->status == MEND_DRIVER_OUT_OF_MEMORY ||
                                                  s->fault->status == MEND_DRIVER_NOT_READY);
    if ((bound_to_fail || lacks_memory) && error.driver_status == 0) {
        return;
    }
    if (!bound_to_fail) {
        EXPECT_INT_EQ(s->fault->status, error.driver_status);
    }
    EXPECT_TRUE(error.driver_name[0] != '\0');
    if (!names_a_failed_call(s, &error)) {
        mend_test_fail(__FILE__, __LINE__, "the error names the call \"%s\", which did not fail",
                       error.driver_call);
    }
}

/* A compaction before the one that failed stays, or this one could not map all it had unmapped. */
static bool has_compacted(const scene *s)
{
    return s->after.stats.compactions > s->before.stats.compactions ||
           s->after.stats.unmapped_blocks > 0;
}

#define EXPECT_SAME(field) expect_difference(#field, 0, before->field, after->field)

/* Figures of memory and of what was done for the call, which has failed all the same. */
static bool may_change(const char *field)
{
    static const char fields[] =
        " address_bytes cached_blocks cached_bytes chunks "
        "chunks_created chunks_moved chunks_released chunks_remade "
        "compactions context_fences copied_bytes created_bytes "
        "driver_failures effective_limit_bytes free_bytes free_empty_bytes "
        "free_partial_bytes free_small_bytes history_events history_lost "
        "host_waits limit_bytes mapped_bytes mappings "
        "out_of_memory peak_chunks peak_large_reserved_bytes peak_mappings "
        "peak_reserved_bytes peak_small_reserved_bytes pending_bytes pressure_calls "
        "range_address_bytes range_free_bytes reserved_bytes retired_bytes "
        "small_chunks small_reserved_bytes stream_waits streams "
        "unmapped_blocks waited_requests ";
    char word[64];
    snprintf(word, sizeof(word), " %s ", field);
    return strstr(fields, word) != NULL;
}

static void expect_blocks_unchanged(const scene *s)
{
    const mend_stats *before = &s->before.stats;
    const mend_stats *after = &s->after.stats;
#define X(field, unit, meaning)                                                                    \
    if (!may_change(#field)) {                                                                     \
        EXPECT_SAME(field);                                                                        \
    }
    MEND_STATS(X)
#undef X
    if (!has_compacted(s)) {
        EXPECT_SAME(chunks_moved);
    }
    if (s->given->kind == SCENARIO_CALL && s->given->call.action == LIMIT) {
        EXPECT_U64_EQ(s->given->call.bytes, after->limit_bytes); /* set all the same */
    } else {
        EXPECT_SAME(limit_bytes);
    }
    /* A stream the pool has looked at stays known. */
    EXPECT_TRUE(after->streams == before->streams || after->streams == before->streams + 1);
}

/* Physical memory and addresses, if the driver accepted all releases. Retired mappings may have
 * been unmapped. */
static void expect_memory_unchanged(const scene *s)
{
    const mend_stats *before = &s->before.stats;
    const mend_stats *after = &s->after.stats;
    EXPECT_SAME(reserved_bytes);
    EXPECT_SAME(free_bytes);
    EXPECT_SAME(free_empty_bytes);
    EXPECT_SAME(free_partial_bytes);
    EXPECT_SAME(free_small_bytes);
    EXPECT_SAME(peak_reserved_bytes);
    EXPECT_SAME(address_bytes);
    EXPECT_SAME(chunks);
    EXPECT_SAME(peak_mappings);
    EXPECT_TRUE(after->mappings <= before->mappings);
    if (s->given->way.chunks_released > 0 && after->retired_bytes > before->retired_bytes) {
        EXPECT_SAME(mapped_bytes); /* a free chunk that was to be unmapped: later */
        return;
    }
    EXPECT_TRUE(after->retired_bytes <= before->retired_bytes);
    EXPECT_U64_EQ(before->mapped_bytes - before->retired_bytes,
                  after->mapped_bytes - after->retired_bytes);
    /* Zeros that the driver refused to map again come back with a later call. */
}

/* A releasing call may have released a part. */
static void expect_memory_not_grown(const scene *s)
{
    const mend_stats *before = &s->before.stats;
    const mend_stats *after = &s->after.stats;
    EXPECT_TRUE(after->reserved_bytes <= before->reserved_bytes);
    EXPECT_U64_EQ(before->reserved_bytes - after->reserved_bytes,
                  before->free_empty_bytes - after->free_empty_bytes);
    EXPECT_SAME(free_partial_bytes);
    EXPECT_SAME(free_small_bytes);
    EXPECT_SAME(peak_reserved_bytes);
    EXPECT_TRUE(after->address_bytes <= before->address_bytes);
    EXPECT_TRUE(after->mapped_bytes <= before->mapped_bytes);
    EXPECT_TRUE(after->chunks <= before->chunks);
    EXPECT_SAME(peak_mappings);
}

static void expect_device_unchanged(const scene *s)
{
    EXPECT_U64_EQ(s->before.ledger.contexts_open, s->after.ledger.contexts_open);
    if (s->run.world.pool == NULL) {
        EXPECT_U64_EQ(0, s->after.ledger.reservations);
        EXPECT_U64_EQ(0, s->after.ledger.events);
    }
}

static void expect_outputs_untouched(const scene *s)
{
    action called = s->given->call.action;
    EXPECT_PTR_EQ(NULL, s->created);
    EXPECT_U64_EQ(SCENE_UNTOUCHED, s->run.released_bytes);
    if (s->given->kind == SCENARIO_CALL &&
        (called == ALLOC || called == ALLOC_ALIGNED || called == ALLOC_FOR_ANY)) {
        EXPECT_PTR_EQ(NULL, s->run.slots[s->given->call.slot].pointer);
    }
    if (s->given->kind == SCENARIO_CALL && (called == IMPORT || called == IMPORT_BY_FABRIC)) {
        EXPECT_PTR_EQ(NULL, s->run.slots[s->given->call.slot].imported);
    }
}

void scene_check_failure(const scene *s)
{
    const action called = s->given->call.action;
    const bool is_call = s->given->kind == SCENARIO_CALL;
    const bool sleeps =
        is_call && (called == SLEEP || called == WAKE || called == PREPARE_CHECKPOINT);
    const bool is_for_that = is_call && (called == TRIM || called == TRIM_WAIT || called == LIMIT);
    /* This may have been for a compaction, or for a chunk of the right size. */
    bool gave_back = s->after.stats.chunks_released > s->before.stats.chunks_released;
    if (!is_documented(s) || is_slander(s)) {
        mend_test_fail(__FILE__, __LINE__, "the header does not speak of %s here",
                       mend_result_name(s->result));
    }
    expect_explained(s);
    if (s->given->kind == SCENARIO_DESTROY || s->fault->kind == FAULT_LOST) {
        return;
    }
    expect_blocks_unchanged(s);
    expect_device_unchanged(s);
    if (sleeps && !undo_worked(s)) {
        return;
    }
    if (is_for_that || sleeps || (gave_back && undo_worked(s) && !has_compacted(s))) {
        expect_memory_not_grown(s);
    } else if (undo_worked(s) && !has_compacted(s)) {
        expect_memory_unchanged(s);
    }
    expect_outputs_untouched(s);
}

void scene_check_remains(const scene *s)
{
    const mend_sim_ledger *ledger = &s->after.ledger;
    /* Without a wait, and without the context, it may be right to leave all as it is. But what was
     * refused once is tried again. */
    const bool is_once = s->fault->kind == FAULT_DRIVER && s->fault->count == 1;
    uint64_t refused = is_once ? 0
                               : scene_failures(s, MEND_CALL_context_synchronize) +
                                     scene_failures(s, MEND_CALL_context_push) +
                                     scene_failures(s, MEND_CALL_exchange_capture_mode);
    uint64_t kept_mappings = refused + (is_once ? 0 : scene_failures(s, MEND_CALL_unmap));
    uint64_t kept_chunks = refused + (is_once ? 0 : scene_failures(s, MEND_CALL_release));
    EXPECT_U64_EQ(0, ledger->contexts_open);
    EXPECT_TRUE(kept_mappings > 0 || ledger->mappings == 0);
    EXPECT_TRUE(kept_mappings > 0 || ledger->chunks <= kept_chunks);
    EXPECT_TRUE(refused > 0 || ledger->handles <= kept_chunks);
    /* Mapped memory keeps its addresses. */
    EXPECT_TRUE(kept_mappings > 0 ||
                ledger->reservations <= scene_failures(s, MEND_CALL_address_free));
    if (s->fault->kind != FAULT_LOST) {
        EXPECT_U64_EQ(0, ledger->events);
    }
    if (ledger->violations > 0) {
        mend_test_fail(__FILE__, __LINE__, "a rule of the driver was broken: %s",
                       mend_sim_first_violation(s->run.world.sim));
    }
}
