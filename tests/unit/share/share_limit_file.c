/* The limit that processes share: its slots, its claims, and owners that die. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share/limit_file.h"
#include "tests/support/kit.h"

enum { LIMIT = 1000, MOST_SLOTS = 63 };

typedef struct scene {
    char path[64];
} scene;

/* The file does not exist yet. */
static scene open_scene(void)
{
    scene s;
    snprintf(s.path, sizeof(s.path), "/tmp/mend-limit-%ld-XXXXXX", (long)getpid());
    int file = mkstemp(s.path);
    EXPECT_TRUE(file >= 0);
    close(file);
    unlink(s.path);
    return s;
}

static void close_scene(scene *s)
{
    unlink(s->path);
}

static mend_limit_slot join(const scene *s)
{
    mend_limit_slot slot = {.file = -1};
    EXPECT_RESULT(MEND_OK, mend_limit_file_open(s->path, LIMIT, &slot));
    return slot;
}

MEND_TEST(share_limit_file, claims_of_all_slots_stay_within_the_limit)
{
    scene s = open_scene();
    mend_limit_slot a = join(&s);
    mend_limit_slot b = join(&s);
    EXPECT_TRUE(a.number != b.number);
    EXPECT_TRUE(mend_limit_file_claim(&a, 600));
    EXPECT_U64_EQ(400, mend_limit_file_room(&b));
    EXPECT_FALSE(mend_limit_file_claim(&b, 401));
    EXPECT_TRUE(mend_limit_file_claim(&b, 400));
    EXPECT_FALSE(mend_limit_file_claim(&a, 1));
    mend_limit_file_give(&b, 150);
    EXPECT_U64_EQ(150, mend_limit_file_room(&a));
    EXPECT_U64_EQ(600, a.claimed_bytes);
    EXPECT_U64_EQ(250, b.claimed_bytes);
    mend_limit_file_close(&b);
    EXPECT_U64_EQ(400, mend_limit_file_room(&a));
    EXPECT_FALSE(a.is_broken);
    mend_limit_file_close(&a);
    close_scene(&s);
}

MEND_TEST(share_limit_file, what_a_slot_wants_is_counted_beyond_the_room)
{
    scene s = open_scene();
    mend_limit_slot a = join(&s);
    mend_limit_slot b = join(&s);
    EXPECT_TRUE(mend_limit_file_claim(&a, 900));
    mend_limit_file_want(&b, 250);
    EXPECT_U64_EQ(150, mend_limit_file_wanted_by_others(&a));
    EXPECT_U64_EQ(0, mend_limit_file_wanted_by_others(&b)); /* its own */
    mend_limit_file_give(&a, 100);
    EXPECT_U64_EQ(50, mend_limit_file_wanted_by_others(&a));
    mend_limit_file_want(&b, 0);
    EXPECT_U64_EQ(0, mend_limit_file_wanted_by_others(&a));
    mend_limit_file_close(&a);
    mend_limit_file_close(&b);
    close_scene(&s);
}

MEND_TEST(share_limit_file, only_those_that_give_back_offer)
{
    scene s = open_scene();
    mend_limit_slot a = join(&s);
    mend_limit_slot b = join(&s);
    EXPECT_TRUE(mend_limit_file_claim(&a, 300));
    mend_limit_file_offer(&a, 200, false);
    EXPECT_U64_EQ(0, mend_limit_file_offered_by_others(&b));
    mend_limit_file_offer(&a, 200, true);
    EXPECT_U64_EQ(200, mend_limit_file_offered_by_others(&b));
    EXPECT_U64_EQ(0, mend_limit_file_offered_by_others(&a));
    mend_limit_file_give(&a, 250);
    EXPECT_U64_EQ(50, mend_limit_file_offered_by_others(&b)); /* what it still has */
    mend_limit_file_close(&a);
    EXPECT_U64_EQ(0, mend_limit_file_offered_by_others(&b));
    mend_limit_file_close(&b);
    close_scene(&s);
}

/* Runs in a child: claims, and dies. */
static void claim_and_die(const scene *s, int ready)
{
    mend_limit_slot slot;
    bool claimed =
        mend_limit_file_open(s->path, LIMIT, &slot) == MEND_OK && mend_limit_file_claim(&slot, 700);
    mend_limit_file_want(&slot, 300);
    (void)!write(ready, claimed ? "y" : "n", 1);
    pause();
}

MEND_TEST(share_limit_file, the_claim_of_a_dead_owner_ends)
{
    scene s = open_scene();
    mend_limit_slot a = join(&s);
    int ready[2];
    char answer = 0;
    ASSERT_TRUE(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(a.file); /* else its slot would live on in the child */
        claim_and_die(&s, ready[1]);
        _exit(1);
    }
    EXPECT_TRUE(read(ready[0], &answer, 1) == 1);
    EXPECT_INT_EQ('y', answer);
    EXPECT_FALSE(mend_limit_file_claim(&a, 301));
    EXPECT_TRUE(mend_limit_file_claim(&a, 300));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    EXPECT_U64_EQ(0, mend_limit_file_wanted_by_others(&a));
    EXPECT_TRUE(mend_limit_file_claim(&a, 700));
    EXPECT_U64_EQ(0, mend_limit_file_room(&a));
    mend_limit_slot b = join(&s); /* the dead slot is free again */
    EXPECT_INT_EQ(a.number == 0 ? 1 : 0, b.number);
    close(ready[0]);
    close(ready[1]);
    mend_limit_file_close(&a);
    mend_limit_file_close(&b);
    close_scene(&s);
}

/* A child of fork has the file open, as it has its parent's memory on the device. */
MEND_TEST(share_limit_file, a_child_keeps_the_claim_of_its_parent)
{
    scene s = open_scene();
    mend_limit_slot a = join(&s);
    mend_limit_slot b = join(&s);
    EXPECT_TRUE(mend_limit_file_claim(&a, 700));
    int done[2];
    ASSERT_TRUE(pipe(done) == 0);
    pid_t child = fork();
    if (child == 0) {
        char end;
        close(b.file);
        close(done[1]);
        (void)!read(done[0], &end, 1);
        _exit(0);
    }
    close(a.file); /* as if the parent had died */
    EXPECT_U64_EQ(300, mend_limit_file_room(&b));
    close(done[1]);
    waitpid(child, NULL, 0);
    EXPECT_U64_EQ(1000, mend_limit_file_room(&b));
    close(done[0]);
    mend_limit_file_close(&b);
    close_scene(&s);
}

MEND_TEST(share_limit_file, all_name_the_same_limit)
{
    scene s = open_scene();
    mend_limit_slot a = join(&s);
    mend_limit_slot b = {.file = -7};
    EXPECT_INT_EQ(MEND_ERROR_INVALID_ARGUMENT, mend_limit_file_open(s.path, LIMIT + 1, &b));
    EXPECT_INT_EQ(-7, b.file);
    mend_limit_file_close(&a);
    EXPECT_RESULT(MEND_OK, mend_limit_file_open(s.path, LIMIT + 1, &b)); /* nobody shares it now */
    EXPECT_U64_EQ(LIMIT + 1, mend_limit_file_room(&b));
    mend_limit_file_close(&b);
    close_scene(&s);
}

MEND_TEST(share_limit_file, other_files_are_refused_and_stay)
{
    scene s = open_scene();
    mend_limit_slot slot;
    int file = open(s.path, O_CREAT | O_RDWR, 0600);
    EXPECT_TRUE(write(file, "a diary", 7) == 7);
    EXPECT_INT_EQ(MEND_ERROR_INVALID_ARGUMENT, mend_limit_file_open(s.path, LIMIT, &slot));
    char text[16] = "";
    EXPECT_TRUE(pread(file, text, sizeof(text), 0) == 7);
    EXPECT_STR_EQ("a diary", text);
    close(file);
    EXPECT_INT_EQ(MEND_ERROR_SYSTEM, mend_limit_file_open("/", LIMIT, &slot));
    EXPECT_INT_EQ(MEND_ERROR_SYSTEM, mend_limit_file_open("/no/such/folder/file", LIMIT, &slot));
    EXPECT_INT_EQ(MEND_ERROR_INVALID_ARGUMENT, mend_limit_file_open("/dev/null", LIMIT, &slot));
    close_scene(&s);
}

MEND_TEST(share_limit_file, a_damaged_file_grants_all)
{
    scene s = open_scene();
    mend_limit_slot a = join(&s);
    EXPECT_TRUE(mend_limit_file_claim(&a, 100));
    EXPECT_TRUE(truncate(s.path, 10) == 0);
    EXPECT_TRUE(mend_limit_file_claim(&a, 5 * LIMIT));
    EXPECT_TRUE(a.is_broken);
    EXPECT_U64_EQ(5 * LIMIT + 100, a.claimed_bytes);
    mend_limit_file_give(&a, 5 * LIMIT);
    EXPECT_U64_EQ(UINT64_MAX, mend_limit_file_room(&a));
    EXPECT_U64_EQ(0, mend_limit_file_wanted_by_others(&a));
    mend_limit_file_close(&a);
    struct stat about;
    EXPECT_TRUE(stat(s.path, &about) == 0 && about.st_size == 10); /* it is not written any more */
    close_scene(&s);
}

MEND_TEST(share_limit_file, has_room_for_63_pools)
{
    scene s = open_scene();
    mend_limit_slot slots[MOST_SLOTS];
    mend_limit_slot more;
    for (int i = 0; i < MOST_SLOTS; i++) {
        slots[i] = join(&s);
        EXPECT_TRUE(mend_limit_file_claim(&slots[i], 1));
    }
    EXPECT_INT_EQ(MEND_ERROR_SYSTEM, mend_limit_file_open(s.path, LIMIT, &more));
    EXPECT_U64_EQ(LIMIT - MOST_SLOTS, mend_limit_file_room(&slots[0]));
    for (int i = 0; i < MOST_SLOTS; i++) {
        mend_limit_file_close(&slots[i]);
    }
    close_scene(&s);
}
