/* The limit that processes share: its slots, its claims, and owners that die. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quota/quota.h"
#include "share/share.h"
#include "tests/support/files.h"
#include "tests/support/kit.h"
#include "tests/support/moments.h"

enum { LIMIT = 1000, MOST_SLOTS = 63 };

/* A file that does not exist yet, and the slots of two pools in it. */
typedef struct scene {
    char path[64];
    mend_limit_slot a;
    mend_limit_slot b;
} scene;

static mend_limit_slot join(const scene *s)
{
    mend_limit_slot slot = {.file = -1};
    EXPECT_OK(mend_shared_limit_file_open(s->path, LIMIT, &slot));
    return slot;
}

static void leave(mend_limit_slot *slot)
{
    if (slot->file >= 0) {
        mend_shared_limit_file_close(slot);
        slot->file = -1;
    }
}

static bool open_scene(scene *s)
{
    snprintf(s->path, sizeof(s->path), "%s", "/tmp/mend-limit-XXXXXX");
    EXPECT_TRUE(close(mkstemp(s->path)) == 0 && unlink(s->path) == 0);
    s->a = join(s);
    s->b = join(s);
    return !mend_test_has_failed();
}

static void close_scene(scene *s)
{
    leave(&s->a);
    leave(&s->b);
    unlink(s->path);
}

#define SCENE_TEST(suite, name) KIT_BARE_TEST(suite, name, scene, open_scene(r), close_scene(r))

static uint64_t wanted_by_others(mend_limit_slot *slot)
{
    uint64_t newest;
    return mend_shared_limit_file_wanted_by_others(slot, &newest);
}

/* Until it has answered a want, it may give all that it has. */
SCENE_TEST(share_limit_file, an_offer_is_as_old_as_the_newest_want_it_answers)
{
    uint64_t newest = 0;
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->a, 900));
    mend_shared_limit_file_offer(&r->a, 20, true, 0);
    const uint64_t want = mend_shared_limit_file_want(&r->b, 250);
    EXPECT_U64_EQ(900, mend_shared_limit_file_look(&r->b, want).offered_bytes);
    EXPECT_U64_EQ(150, mend_shared_limit_file_wanted_by_others(&r->a, &newest));
    EXPECT_U64_EQ(want, newest);
    mend_shared_limit_file_offer(&r->a, 20, true, newest);
    EXPECT_U64_EQ(20, mend_shared_limit_file_look(&r->b, want).offered_bytes);
    EXPECT_U64_EQ(0, mend_shared_limit_file_look(&r->a, want).offered_bytes); /* its own */
    EXPECT_U64_EQ(100, mend_shared_limit_file_look(&r->b, want).room_bytes);
    EXPECT_U64_EQ(want + 1, mend_shared_limit_file_want(&r->b, 251)); /* more: a new want */
    EXPECT_U64_EQ(want + 1, mend_shared_limit_file_want(&r->b, 5));   /* less: it is not */
    EXPECT_U64_EQ(want + 2, mend_shared_limit_file_want(&r->b, LIMIT));
    EXPECT_U64_EQ(want + 3, mend_shared_limit_file_want(&r->b, UINT64_MAX));
    EXPECT_U64_EQ(0, mend_shared_limit_file_want(&r->b, UINT64_MAX));   /* the same: it is known */
    EXPECT_FALSE(mend_shared_limit_file_claim(&r->a, LIMIT - 900 + 1)); /* more than all */
    EXPECT_FALSE(mend_shared_limit_file_claim(&r->b, UINT64_MAX));
    EXPECT_U64_EQ(LIMIT - 100, wanted_by_others(&r->a)); /* nobody can give more */
    EXPECT_U64_EQ(900, mend_shared_limit_file_look(&r->b, want + 3).offered_bytes);
}

SCENE_TEST(share_limit_file, what_a_slot_waits_for_itself_is_nothing_to_give_back)
{
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->a, 900));
    mend_shared_limit_file_want(&r->a, 300);
    EXPECT_U64_EQ(0, wanted_by_others(&r->a));
    EXPECT_U64_EQ(200, wanted_by_others(&r->b));
    mend_shared_limit_file_offer(&r->b, 0, true, 7); /* of one that has died since */
    EXPECT_U64_EQ(8, mend_shared_limit_file_want(&r->a, 301));
}

/* A closed file ends the lock, as the death of its process does. */
SCENE_TEST(share_limit_file, the_dead_neither_want_nor_offer)
{
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->a, 300));
    mend_shared_limit_file_want(&r->b, 800); /* without a claim */
    EXPECT_U64_EQ(100, wanted_by_others(&r->a));
    close(r->b.file);
    EXPECT_U64_EQ(0, wanted_by_others(&r->a));
    r->b = join(r);
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->b, 600));
    mend_shared_limit_file_offer(&r->b, 200, true, 0);
    close(r->b.file);
    r->b.file = -1;
    const mend_limit_view view = mend_shared_limit_file_look(&r->a, 0);
    EXPECT_U64_EQ(700, view.room_bytes);
    EXPECT_U64_EQ(0, view.offered_bytes);
}

SCENE_TEST(share_limit_file, the_claim_of_a_dead_owner_ends)
{
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->b, 700));
    mend_shared_limit_file_want(&r->b, 300);
    EXPECT_FALSE(mend_shared_limit_file_claim(&r->a, 301));
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->a, 300));
    close(r->b.file);
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->a, 700));
    EXPECT_U64_EQ(0, wanted_by_others(&r->a));
    EXPECT_U64_EQ(0, mend_shared_limit_file_look(&r->a, 0).room_bytes);
    r->b = join(r); /* the dead slot is free again */
    EXPECT_INT_EQ(1, r->b.number);
}

/* A child of fork has the file, and so the lock of the slot. */
SCENE_TEST(share_limit_file, the_claim_of_a_pool_ends_with_it_beside_a_child)
{
    int of_child = dup(r->a.file);
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->a, 900));
    leave(&r->a);
    EXPECT_U64_EQ(LIMIT, mend_shared_limit_file_look(&r->b, 0).room_bytes);
    close(of_child);
    of_child = dup(r->b.file);
    r->a = join(r);
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->b, 700));
    close(r->b.file); /* a parent that dies leaves its memory on the device to the child */
    r->b.file = -1;
    EXPECT_U64_EQ(300, mend_shared_limit_file_look(&r->a, 0).room_bytes);
    close(of_child);
    EXPECT_U64_EQ(LIMIT, mend_shared_limit_file_look(&r->a, 0).room_bytes);
}

/* ---- an owner that is stopped ---------------------------------------------------------------- */

/* Stops before its write of this number, from 1 on. */
static int stops_at;

static void stop_before_a_write(KIT_UNUSED const void *bytes, KIT_UNUSED size_t count)
{
    if (--stops_at == 0) {
        raise(SIGSTOP);
    }
}

enum {
    HELD = 200,
    CLAIMED = 500,
    FIRST_WRITE = 1, /* asks */
    LAST_WRITE = 5   /* releases */
};

/* Runs in a child, which holds HELD: all that writes. Says whether the claim stood. */
static void use_slot(mend_limit_slot *slot, int told)
{
    mend_test_before_writes(stop_before_a_write);
    const bool stood = mend_shared_limit_file_claim(slot, CLAIMED);
    mend_shared_limit_file_want(slot, 300);
    mend_shared_limit_file_offer(slot, HELD, true, 1);
    mend_shared_limit_file_give(slot, stood ? CLAIMED : 0);
    mend_shared_limit_file_want(slot, 0);
    mend_test_before_writes(NULL);
    (void)!write(told, stood ? "y" : "n", 1);
    pause();
}

/* At each stop the other one gets an answer, and both together never have more than the limit, also
 * when it goes on. */
static bool holds_beside_one_that_stops(scene *s, int at)
{
    int told[2];
    char answer = 0;
    int status = 0;
    uint64_t had = 0;
    EXPECT_INT_EQ(0, pipe(told));
    EXPECT_TRUE(mend_shared_limit_file_claim(&s->b, HELD));
    pid_t child = fork();
    if (child == 0) {
        close(s->a.file);
        stops_at = at;
        use_slot(&s->b, told[1]);
        _exit(1);
    }
    close(told[1]);
    struct pollfd end = {.fd = told[0], .events = POLLIN};
    bool is_stopped = false;
    while (!is_stopped && poll(&end, 1, 1) == 0) {
        is_stopped = waitpid(child, &status, WUNTRACED | WNOHANG) == child && WIFSTOPPED(status);
    }
    had += mend_shared_limit_file_claim(&s->a, LIMIT - HELD - CLAIMED) ? LIMIT - HELD - CLAIMED : 0;
    had += mend_shared_limit_file_claim(&s->a, CLAIMED) ? CLAIMED : 0;
    const bool is_claimed = at > FIRST_WRITE && at <= LAST_WRITE;
    EXPECT_U64_EQ(LIMIT - HELD - (is_claimed ? CLAIMED : 0), had);
    kill(child, SIGCONT);
    EXPECT_TRUE(read(told[0], &answer, 1) == 1);
    EXPECT_INT_EQ(at == FIRST_WRITE ? 'n' : 'y', answer);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(told[0]);
    return is_stopped;
}

MEND_TEST(share_limit_file, one_that_is_stopped_keeps_nobody_waiting)
{
    int at = 1;
    bool goes_on = true;
    while (goes_on) {
        scene s;
        ASSERT_TRUE(open_scene(&s));
        goes_on = holds_beside_one_that_stops(&s, at++);
        close_scene(&s);
    }
    EXPECT_INT_EQ(LAST_WRITE + 3, at); /* one want more, and then none stops */
}

/* ---- two at once ----------------------------------------------------------------------------- */

/* What one slot wrote, which it says again beside the writes of another. */
static struct {
    int count, file;
    off_t at;
    unsigned char slots[3][72];
    mend_limit_slot *other;
} told;

static void keep(const void *bytes, size_t count)
{
    memcpy(told.slots[told.count++], bytes, count);
}

static void say_again(KIT_UNUSED const void *bytes, size_t count)
{
    mend_test_before_writes(NULL);
    if (told.count < 2) { /* that it asks, and then no more */
        EXPECT_TRUE(pwrite(told.file, told.slots[2 * told.count], count, told.at) ==
                    (ssize_t)count);
    }
    told.count++;
    mend_test_before_writes(say_again);
}

KIT_RIG_EACH(share_limit_file, of_two_that_ask_at_once_the_second_withdraws, int, is_first, 2,
             scene, r, open_scene(r), close_scene(r))
{
    mend_limit_slot *one = is_first ? &r->b : &r->a;
    mend_limit_slot *two = is_first ? &r->a : &r->b;
    told.count = 0;
    told.file = two->file;
    told.at = 8 + 72 * one->number;
    mend_test_before_writes(keep);
    EXPECT_TRUE(mend_shared_limit_file_claim(one, 500));
    mend_shared_limit_file_give(one, 500);
    told.count = 0;
    mend_test_before_writes(say_again);
    EXPECT_TRUE(mend_shared_limit_file_claim(two, LIMIT) != is_first); /* it waits for nothing */
    mend_test_before_writes(NULL);
    EXPECT_INT_EQ(is_first ? 2 : 4, told.count); /* asks, no more, asks and claims */
    EXPECT_U64_EQ(is_first ? 0 : LIMIT, two->own.claimed_bytes);
}

static void want_meanwhile(KIT_UNUSED const void *bytes, KIT_UNUSED size_t count)
{
    mend_test_before_writes(NULL);
    EXPECT_U64_EQ(1, mend_shared_limit_file_want(told.other, 10));
}

SCENE_TEST(share_limit_file, of_two_that_want_at_once_each_has_its_own_number)
{
    told.other = &r->a;
    mend_test_before_writes(want_meanwhile);
    EXPECT_U64_EQ(2, mend_shared_limit_file_want(&r->b, 20));
}

SCENE_TEST(share_limit_file, all_name_the_same_limit)
{
    leave(&r->a);
    r->a.file = -7;
    EXPECT_INT_EQ(MEND_ERROR_INVALID_ARGUMENT,
                  mend_shared_limit_file_open(r->path, LIMIT + 1, &r->a));
    EXPECT_TRUE(strstr(mend_process_failure()->message, "of 1000 bytes, not of 1001:") != NULL);
    EXPECT_INT_EQ(-7, r->a.file);
    close(r->b.file); /* dies */
    r->b.file = -1;
    EXPECT_OK(mend_shared_limit_file_open(r->path, LIMIT + 1, &r->a)); /* the only one */
    EXPECT_U64_EQ(LIMIT + 1, mend_shared_limit_file_look(&r->a, 0).room_bytes);
}

SCENE_TEST(share_limit_file, other_files_are_refused_and_stay)
{
    mend_limit_slot slot;
    EXPECT_INT_EQ(0, truncate(r->path, 8)); /* as where its first process died */
    leave(&r->a);
    leave(&r->b);
    r->a = join(r);
    EXPECT_FALSE(mend_shared_limit_file_claim(&r->a, LIMIT + 1));
    close_scene(r);
    int file = open(r->path, O_CREAT | O_RDWR, 0600);
    for (int length = 7; length <= 8; length++) { /* a mark has 8 */
        EXPECT_TRUE(pwrite(file, "a diary!", (size_t)length, 0) == length);
        EXPECT_INT_EQ(MEND_ERROR_INVALID_ARGUMENT,
                      mend_shared_limit_file_open(r->path, LIMIT, &slot));
        char text[16] = "";
        EXPECT_TRUE(pread(file, text, sizeof(text), 0) == length);
        EXPECT_INT_EQ(0, memcmp("a diary!", text, (size_t)length));
    }
    close(file);
    EXPECT_INT_EQ(MEND_ERROR_SYSTEM, mend_shared_limit_file_open("/", LIMIT, &slot));
    EXPECT_INT_EQ(MEND_ERROR_SYSTEM,
                  mend_shared_limit_file_open("/no/such/folder/file", LIMIT, &slot));
    EXPECT_INT_EQ(MEND_ERROR_INVALID_ARGUMENT,
                  mend_shared_limit_file_open("/dev/null", LIMIT, &slot));
}

/* ... also once it is as before: by then claims may stand that were not written. */
KIT_RIG_EACH(share_limit_file, a_byte_that_changed_is_noticed, int, i, 3, scene, r, open_scene(r),
             close_scene(r))
{
    char before[72];
    const off_t slot = 8 + 72 * r->b.number;
    const off_t at = (off_t[]){slot + 8, 0, slot}[i]; /* an unused slot is sound */
    const size_t bytes = i < 2 ? 1 : sizeof(before);
    int file = open(r->path, O_RDWR);
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->b, 700));
    mend_limit_slot *of = i < 2 ? &r->a : &r->b;
    EXPECT_INT_EQ((int)bytes, (int)pread(file, before, bytes, at));
    EXPECT_INT_EQ((int)bytes, (int)pwrite(file, (char[sizeof(before)]){0}, bytes, at));
    EXPECT_TRUE(mend_shared_limit_file_claim(of, LIMIT));
    mend_shared_limit_file_give(of, LIMIT);
    EXPECT_INT_EQ((int)bytes, (int)pwrite(file, before, bytes, at));
    EXPECT_TRUE(mend_shared_limit_file_claim(of, LIMIT) && of->is_broken);
    close(file);
}

/* The system would end the process by a signal. */
SCENE_TEST(share_limit_file, a_limit_of_file_sizes_is_an_error)
{
    mend_limit_slot slot = {.file = -7};
    close_scene(r);
    for (uint64_t bytes = 0; bytes < 64; bytes += 32) {
        mend_test_shared_limit_file_size(bytes);
        mend_result result = mend_shared_limit_file_open(r->path, LIMIT, &slot);
        mend_test_shared_limit_file_size(UINT64_MAX);
        EXPECT_INT_EQ(MEND_ERROR_SYSTEM, result);
        EXPECT_INT_EQ(-7, slot.file);
    }
    r->a = join(r);
    mend_test_shared_limit_file_size(0);
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->a, 600)); /* unshared from now on */
    mend_test_shared_limit_file_size(UINT64_MAX);
    EXPECT_TRUE(r->a.is_broken);
}

SCENE_TEST(share_limit_file, a_damaged_file_grants_all)
{
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->a, 100));
    EXPECT_TRUE(truncate(r->path, 10) == 0);
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->a, 5 * LIMIT));
    EXPECT_TRUE(r->a.is_broken);
    EXPECT_TRUE(mend_shared_limit_file_claim(&r->b, LIMIT)); /* does not wait for the first */
    EXPECT_U64_EQ(5 * LIMIT + 100, r->a.own.claimed_bytes);
    mend_shared_limit_file_give(&r->a, 5 * LIMIT);
    EXPECT_U64_EQ(UINT64_MAX, mend_shared_limit_file_look(&r->a, 0).room_bytes);
    EXPECT_U64_EQ(0, wanted_by_others(&r->a));
    leave(&r->a);
    struct stat about;
    EXPECT_TRUE(stat(r->path, &about) == 0 && about.st_size == 10); /* it is not written any more */
}

SCENE_TEST(share_limit_file, has_room_for_63_pools)
{
    mend_limit_slot slots[MOST_SLOTS];
    mend_limit_slot more;
    close_scene(r);
    for (int i = 0; i < MOST_SLOTS; i++) {
        slots[i] = join(r);
        EXPECT_TRUE(mend_shared_limit_file_claim(&slots[i], 1));
    }
    EXPECT_INT_EQ(MEND_ERROR_SYSTEM, mend_shared_limit_file_open(r->path, LIMIT, &more));
    EXPECT_U64_EQ(LIMIT - MOST_SLOTS, mend_shared_limit_file_look(&slots[0], 0).room_bytes);
    for (int i = 0; i < MOST_SLOTS; i++) {
        mend_shared_limit_file_close(&slots[i]);
    }
}
