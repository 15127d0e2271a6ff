/* A pool's share of a limit: what it waits for, as others hear of it. */
#include <stdio.h>
#include <unistd.h>

#include "share/ration.h"
#include "tests/support/kit.h"

enum { LIMIT = 1000 };

/* Whether a wait for so much has room, beside a ration that holds 900 of 1000 bytes. Whatever it
 * ends in, nobody gives memory back for it any more. */
static bool waits_and_wants_nothing(uint64_t more_bytes)
{
    char path[64];
    mend_world w;
    mend_ration first;
    mend_ration second;
    snprintf(path, sizeof(path), "/tmp/mend-ration-%ld", (long)getpid());
    unlink(path);
    if (!kit_open_default(&w)) {
        return false;
    }
    EXPECT_RESULT(MEND_OK, mend_ration_open(&first, w.driver, 0, path, LIMIT));
    EXPECT_RESULT(MEND_OK, mend_ration_open(&second, w.driver, 0, path, LIMIT));
    EXPECT_TRUE(mend_limit_file_claim(&first.slot, 900));
    bool has_room = mend_ration_wait(&second, more_bytes);
    EXPECT_U64_EQ(0, mend_limit_file_wanted_by_others(&first.slot));
    mend_ration_close(&second);
    mend_ration_close(&first);
    unlink(path);
    kit_close(&w);
    return has_room;
}

/* Nobody offers any, so it ends at once. */
MEND_TEST(share_ration, who_waits_no_more_wants_nothing)
{
    EXPECT_FALSE(waits_and_wants_nothing(200));
    EXPECT_TRUE(waits_and_wants_nothing(0));
}
