/* Memory that crosses from stream to stream by ways that are easily forgotten: blocks freed where
 * nobody used them, and the per-thread streams of several threads. */
#include <string.h>

#include "tests/support/kit.h"
#include "tests/support/place.h"
#include "tests/support/threads.h"

enum { BLOCK_BYTES = 5 << 20 };

#define WAITING_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_allowing(w, 8 * MEND_MIB, 0))

/* The second owner never touches the block, and frees it on a stream that knows nothing of the
 * first owner's work. */
WAITING_TEST(pool_waits, a_block_never_used_still_waits_for_its_former_owner)
{
    mend_stream first = S(0);
    mend_stream second = S(1);
    kit_leave_in_flight(w, BLOCK_BYTES, first, 1000, first);
    kit_free(w, kit_alloc(w, BLOCK_BYTES, first), second);
    kit_alloc_used(w, BLOCK_BYTES, second, 10);
}

WAITING_TEST(pool_waits, trim_holds_what_was_freed_without_a_stream)
{
    mend_stream stream = S(2);
    mend_test_place(w->pool, &(mend_test_sizes){.unfenced_bytes = MEND_MIB});
    kit_leave_in_flight(w, BLOCK_BYTES, stream, 1000, MEND_NO_STREAM);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(w, reserved_bytes, BLOCK_BYTES, retired_bytes, 0, context_fences, 1);
    kit_alloc_used(w, BLOCK_BYTES, NULL,
                   10); /* behind the context's event, which the trim recorded */
    EXPECT_STATS(w, host_waits, 0, stream_waits, 1);
}
