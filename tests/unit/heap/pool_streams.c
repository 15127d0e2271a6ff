/* Memory that crosses from stream to stream: when it may, and who waits for whom. */
#include "tests/support/kit.h"

/* A device of 8 MiB, so that two blocks of 5 MiB do not fit. */
enum { BLOCK_BYTES = 5 << 20 };

#define WAITING_TEST(suite, name) KIT_TEST_IN(suite, name, kit_open_allowing(w, 8 * MEND_MIB, 0))

/* Its fence has passed, but a block names it: a stream that comes then has nothing to do with it.
 */
WAITING_TEST(pool_streams, a_block_holds_the_slot_of_a_forgotten_stream)
{
    void *block = kit_alloc(w, BLOCK_BYTES, S(0));
    EXPECT_OK(mend_record_stream(w->pool, block, S(1)));
    EXPECT_OK(mend_forget_stream(w->pool, S(1)));
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    mend_stream third = kit_stream(w);
    kit_alloc(w, 512, third);
    kit_use(w, third, block, BLOCK_BYTES, 1000);
    kit_free(w, block, S(0));
    kit_alloc(w, BLOCK_BYTES, S(0));
    kit_expect_waits(w, 0, 0);
    mend_sim_advance(w->sim, 2000);
    mend_sim_stream_destroy(w->sim, third);
}
