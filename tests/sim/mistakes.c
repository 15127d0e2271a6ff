/* Forbidden actions of a program, and the error of each: with blocks, and with ranges.
 */
#include "tests/sim/ranges.h"
#include "tests/support/options.h"

void trial_expect(trial *t, const char *what, mend_result expected, mend_result result)
{
    trial_claim(t, TRIAL_RESULT, result == expected, "%s: %s, expected %s", what,
                mend_result_name(result), mend_result_name(expected));
    for (int i = 0; i < t->pool_count; i++) {
        trial_check_locks(t, i);
    }
}

static void mistake_with_block(trial *t, const operation *op, const trial_block *block)
{
    mend_pool *pool = t->pools[block->pool].pool;
    char *inside =
        (char *)(uintptr_t)block->address + 1 + (block->size_bytes - 2) * op->alignment / 256;
    mend_stream stream = trial_handle(t, 0, false);
    switch (op->amount / 3 % 4) {
    case 0:
        trial_expect(t, "an interior free", MEND_ERROR_INTERIOR_POINTER,
                     mend_free(pool, inside, stream));
        break;
    case 1:
        trial_expect(t, "record_stream inside a block", MEND_ERROR_INTERIOR_POINTER,
                     mend_record_stream(pool, inside, stream));
        break;
    case 2:
        trial_expect(t, "record_stream of no stream", MEND_ERROR_INVALID_ARGUMENT,
                     mend_record_stream(pool, ((void *)(uintptr_t)block->address), MEND_NO_STREAM));
        break;
    default:
        if (t->pool_count == TRIAL_POOLS) {
            trial_expect(t, "a free in the other pool", MEND_ERROR_FOREIGN_POINTER,
                         mend_free(t->pools[1 - block->pool].pool,
                                   ((void *)(uintptr_t)block->address), stream));
        }
        break;
    }
}

static void mistake_without_block(trial *t, const operation *op)
{
    mend_pool *pool = t->pools[0].pool;
    mend_stream stream = trial_handle(t, 0, false);
    void *pointer = t;
    switch (op->amount / 3 % 6) {
    case 0:
        trial_expect(t, "a foreign free", MEND_ERROR_FOREIGN_POINTER, mend_free(pool, t, stream));
        break;
    case 1:
        trial_expect(t, "size 0", MEND_ERROR_INVALID_ARGUMENT,
                     mend_alloc(pool, 0, stream, &pointer));
        break;
    case 2:
        trial_expect(t, "an absurd size", MEND_ERROR_INVALID_ARGUMENT,
                     mend_alloc(pool, (UINT64_C(1) << 60) + 1, stream, &pointer));
        break;
    case 3:
        trial_expect(t, "an absurd alignment", MEND_ERROR_INVALID_ARGUMENT,
                     mend_alloc_with(pool, 512, stream,
                                     KIT_OPTIONS(mend_alloc_options, .alignment_bytes = 3),
                                     &pointer));
        break;
    case 4:
        trial_expect(t, "an allocation on every stream", MEND_ERROR_INVALID_ARGUMENT,
                     mend_alloc(pool, 512, MEND_EVERY_STREAM, &pointer));
        break;
    default:
        trial_expect(t, "a free of nothing", MEND_OK, mend_free(pool, NULL, stream));
        break;
    }
    trial_claim(t, TRIAL_RESULT, pointer == t, "a refused call touched its output");
}

static void mistake_with_page(trial *t, const operation *op, const trial_block *page)
{
    mend_pool *pool = t->pools[page->pool].pool;
    char *inside = (char *)(uintptr_t)page->address + page->size_bytes * op->alignment / 256;
    const mend_stream stream = trial_handle(t, 0, false);
    trial_call call = {.stream = stream};
    trial_name_page(t, page, &call);
    if (page->asleep && !t->streams[0].captured) {
        trial_expect(
            t, "mend_range_record_stream of a sleeping page", MEND_ERROR_ASLEEP,
            mend_range_record_stream(call.range, call.offset_bytes, call.size_bytes, stream));
    }
    switch (op->amount / 3 % 2) {
    case 0:
        trial_expect(t, "a free of a page", MEND_ERROR_FOREIGN_POINTER,
                     mend_free(pool, inside, stream));
        break;
    default:
        trial_expect(t, "mend_record_stream of a page", MEND_ERROR_FOREIGN_POINTER,
                     mend_record_stream(pool, inside, stream));
        break;
    }
}

/* In the program's first thread. While nothing else goes wrong, so that the answer is sure. */
bool trial_mistake(trial *t, const operation *op)
{
    const trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    if (trial_is_faulty(t)) {
        return false;
    }
    if (op->amount % 3 == 0) {
        trial_refuse_arguments(t, op->amount / 3);
    } else if (block->live && block->range != 0) {
        mistake_with_page(t, op, block);
    } else if (block->live && block->size_bytes > 2) {
        mistake_with_block(t, op, block);
    } else {
        mistake_without_block(t, op);
    }
    return true;
}

void trial_decommit_again(trial *t, const trial_block *page, mend_stream stream)
{
    trial_call call = {.stream = stream};
    if (stream != MEND_STREAM_PER_THREAD && !trial_is_faulty(t) && !t->pools[page->pool].lost) {
        trial_name_page(t, page, &call);
        trial_expect(t, "a second decommit", MEND_OK,
                     mend_range_decommit(call.range, call.offset_bytes, call.size_bytes, stream));
    }
}

static int captured_stream(const trial *t)
{
    for (int i = 0; i < t->stream_count; i++) {
        if (trial_is_recorded(t, i) && t->streams[i].thread == ANY_THREAD) {
            return i;
        }
    }
    return NOBODY;
}

static void mistake_in_capture(trial *t, mend_range *range, uint64_t page, mend_stream stream)
{
    trial_expect(t, "a commit in a capture", MEND_ERROR_CAPTURING,
                 mend_range_commit(range, 0, page, stream));
    trial_expect(t, "a decommit in a capture", MEND_ERROR_CAPTURING,
                 mend_range_decommit(range, 0, page, stream));
    trial_expect(t, "mend_range_record_stream in a capture", MEND_ERROR_CAPTURING,
                 mend_range_record_stream(range, 0, page, stream));
    trial_expect(t, "the end of a range in a capture", MEND_ERROR_CAPTURING,
                 mend_range_destroy(range, stream));
}

/* In the program's first thread. While nothing else goes wrong, so that the answer is sure. */
bool trial_range_mistake(trial *t, const operation *op)
{
    const trial_range *at = &t->ranges[op->slot % TRIAL_RANGES];
    const int captured = captured_stream(t);
    if (at->range == NULL || trial_is_faulty(t)) {
        return false;
    }
    mend_range *range = at->range;
    mend_range *none = NULL;
    const mend_stream stream = trial_handle(t, 0, false);
    const uint64_t page = at->page_bytes;
    const mend_result invalid = MEND_ERROR_INVALID_ARGUMENT;
    mend_range_options odd = MEND_RANGE_OPTIONS_INIT;
    odd.page_bytes = t->page_bytes + 512;
    if (captured != NOBODY && op->amount % 2 == 0) {
        mistake_in_capture(t, range, page, trial_handle(t, captured, false));
        return true;
    }
    trial_expect(t, "a commit beyond the range", invalid,
                 mend_range_commit(range, at->size_bytes - page, 2 * page, stream));
    trial_expect(t, "a commit of nothing", invalid, mend_range_commit(range, 0, 0, stream));
    if (!t->streams[0].captured) {
        trial_expect(t, "a decommit that holds no page", MEND_OK,
                     mend_range_decommit(range, page / 2, page - page / 2, stream));
    }
    trial_expect(t, "a commit for every stream", invalid,
                 mend_range_commit(range, 0, page, MEND_EVERY_STREAM));
    trial_expect(t, "a record of no stream", invalid,
                 mend_range_record_stream(range, 0, page, MEND_NO_STREAM));
    trial_expect(t, "an odd page", invalid,
                 mend_range_create(t->pools[at->pool].pool, page, &odd, &none));
    trial_claim(t, TRIAL_RESULT, none == NULL, "a refused call touched its output");
    return true;
}
