/* A path in mend_pool_config.observe: the memory of a pool, in a file, at SIGUSR2. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mend/mend_sleep.h"
#include "record/record.h"
#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"
#include "tests/support/recording.h"

enum { ROOM = 256 };

static char folder[32];
static char path[48];
static char file[64];
static atomic_int written; /* snapshots, and failed ones */
static atomic_int refused;

static void hear(KIT_UNUSED void *unused, KIT_UNUSED mend_log_level level, const char *text)
{
    atomic_fetch_add(&written, strstr(text, "snapshot of the pool on device 0: /") == text);
    atomic_fetch_add(&refused, strstr(text, "no snapshot of the pool on device 0") == text);
}

static const char *file_of(int number)
{
    snprintf(file, sizeof(file), "%s.%d", path, number);
    return file;
}

static bool exists(int number)
{
    return access(file_of(number), F_OK) == 0;
}

static bool open_one(mend_world *w)
{
    snprintf(folder, sizeof(folder), "/tmp/mend-snapshot-XXXXXX");
    snprintf(path, sizeof(path), "%s/held", mkdtemp(folder) != NULL ? folder : "");
    atomic_store(&written, 0);
    atomic_store(&refused, 0);
    mend_log_set_sink(hear, NULL);
    return kit_open_set(w, w->pool_config.observe = path);
}

static void close_one(mend_world *w)
{
    kit_close(w);
    mend_log_set_sink(NULL, NULL);
    for (int i = 1; i < 5; i++) {
        unlink(file_of(i));
    }
    EXPECT_INT_EQ(0, rmdir(folder)); /* there is nothing else */
}

#define SNAPSHOT_TEST(name) KIT_CASE(pool_snapshot, name, mend_world, w, open_one(w), close_one(w))

static void await(const atomic_int *what, int count)
{
    while (atomic_load(what) < count) {
        usleep(1000);
    }
}

static void ask(int count)
{
    EXPECT_INT_EQ(0, raise(SIGUSR2));
    await(&written, count);
}

static uint64_t bytes_of(const recorded_events *events, int kind)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < events->count; i++) {
        bytes += events->list[i].kind == kind ? events->list[i].size_bytes : 0;
    }
    return bytes;
}

static uint32_t seventh_stack(KIT_UNUSED void *context, KIT_UNUSED uint64_t size_bytes)
{
    return 7;
}

SNAPSHOT_TEST(has_all_that_lives_and_is_held)
{
    test_recording r;
    EXPECT_OK(mend_scope_push("in the snapshot", 0));
    void *first = kit_alloc(w, 3 * MEND_MIB, NULL);
    mend_graph_pool *graph_pool = kit_begin_graph_pool(w, S(1));
    KIT_THREAD(.sleep_tag = 9);
    EXPECT_OK(mend_stack_set_source(seventh_stack, NULL, 1));
    void *second = kit_alloc(w, 1000, S(1));
    EXPECT_OK(mend_stack_set_source(NULL, NULL, 0));
    mend_set_alloc_options(NULL, NULL);
    EXPECT_OK(mend_graph_pool_end(graph_pool));
    EXPECT_OK(mend_scope_pop());
    kit_alloc_with(w, 5 * MEND_MIB, NULL, .tag = 11, .sleep_tag = 9);
    kit_free(w, first, NULL);
    mend_sim_advance(w->sim, 77);
    ask(1);
    const mend_stats stats = mend_world_stats(w);
    ASSERT_TRUE(test_recording_read(file_of(1), &r));
    EXPECT_TRUE(!r.has_ended && r.run.process == (uint64_t)getpid());
    EXPECT_FIELDS(r.run, limit_bytes, stats.limit_bytes, memory_bytes, stats.device_bytes);
    EXPECT_STR_EQ("in the snapshot", r.scope);
    EXPECT_U64_EQ(stats.live_bytes, bytes_of(&r.live, MEND_EVENT_ALLOC));
    EXPECT_U64_EQ(stats.reserved_bytes, bytes_of(&r.events, MEND_EVENT_MAP));
    EXPECT_U64_EQ(1, r.events.list[0].sequence);
    EXPECT_U64_EQ(mend_sim_now_ns(w->sim), r.events.list[0].time_ns);
    EXPECT_U64_EQ(r.events.count, r.events.list[r.events.count - 1].sequence);
    ASSERT_U64_EQ(2, r.live.count);
    const mend_history_event *small = &r.live.list[r.live.list[0].address != second];
    EXPECT_TRUE(small->address == second && small->requested_bytes == 1000);
    EXPECT_TRUE(small->stack == 7 && small->scope != 0 && small->stream == S(1) && small->tag == 9);
    EXPECT_TRUE(small->graph_pool == graph_pool && small->is_for_graphs);
    EXPECT_U64_EQ(9 + 11, r.live.list[0].tag + r.live.list[1].tag);
    test_recording_clear(&r);
    ask(2); /* each has a file of its own */
    EXPECT_TRUE(exists(2) && !exists(3));
}

SNAPSHOT_TEST(has_the_history_behind_the_blocks_that_are_older)
{
    static mend_history_event events[ROOM];
    test_recording r;
    uint64_t cursor = 0;
    size_t count = 0;
    void *older = kit_alloc(w, MEND_MIB, NULL);
    void *freed = kit_alloc(w, MEND_MIB, NULL);
    EXPECT_OK(mend_history_start(w->pool, ROOM));
    kit_free(w, freed, NULL);
    kit_free(w, kit_alloc(w, 2 * MEND_MIB, NULL), NULL);
    void *newer = kit_alloc(w, 2 * MEND_MIB, NULL); /* at the same address */
    ask(1);
    EXPECT_OK(mend_history_read(w->pool, &cursor, events, sizeof(*events), ROOM, &count));
    ASSERT_TRUE(test_recording_read(file_of(1), &r));
    ASSERT_U64_EQ(count, r.events.count);
    EXPECT_TRUE(test_events_are_equal(events, r.events.list, count));
    EXPECT_U64_EQ(1, r.run.live_blocks);
    ASSERT_U64_EQ(2, r.live.count);
    EXPECT_PTR_EQ(older, r.live.list[0].address);
    EXPECT_U64_EQ(mend_world_stats(w).live_bytes, bytes_of(&r.live, MEND_EVENT_ALLOC));
    test_recording_clear(&r);
    unsigned number = 1;
    kit_free(w, older, NULL);
    kit_free(w, newer, NULL);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_WAIT, NULL)); /* it has events, and no memory */
    const int64_t before = mend_test_live_host_allocations();
    mend_pool_snapshot(w->pool, path, &number);
    EXPECT_INT_EQ(before, mend_test_live_host_allocations());
}

/* ---- the signal ------------------------------------------------------------------------------ */

static atomic_int heard;
static struct sigaction above; /* the state in a handler above Mend's */

static void count_up(int number, siginfo_t *info, void *context)
{
    atomic_fetch_add(&heard, number == SIGUSR2 && info->si_pid == getpid() && context != NULL);
}

static void pass_on(int number, siginfo_t *info, void *context)
{
    above.sa_sigaction(number, info, context);
}

static void count_plainly(int number)
{
    atomic_fetch_add(&heard, number == SIGUSR2);
}

static bool handles(void (*handler)(int))
{
    struct sigaction now;
    return sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler == handler;
}

/* Each is in a process of its own: the handler belongs to it. */
CHILD_TEST(pool_snapshot, the_handler_of_the_program_is_called_and_given_back)
{
    mend_world w;
    mend_pool *other = NULL;
    atomic_store(&heard, 0);
    struct sigaction own = {.sa_sigaction = count_up, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
    sigaction(SIGUSR2, &own, NULL);
    EXPECT_TRUE(open_one(&w));
    EXPECT_OK(mend_world_create_pool(&w, &other));
    struct sigaction now;
    sigaction(SIGUSR2, NULL, &now);
    EXPECT_TRUE((now.sa_flags & SA_RESTART) == 0); /* it interrupts calls as the program's own */
    errno = ENOTTY;
    raise(SIGUSR2);
    EXPECT_INT_EQ(ENOTTY, errno);
    await(&written, 2);
    EXPECT_INT_EQ(1, atomic_load(&heard));
    EXPECT_OK(mend_pool_destroy(other));
    ask(3); /* of the one that is left */
    close_one(&w);
    sigaction(SIGUSR2, NULL, &now);
    EXPECT_TRUE(now.sa_sigaction == count_up && (now.sa_flags & (SA_ONSTACK | SA_RESTART)) == 0);
    raise(SIGUSR2);
    EXPECT_INT_EQ(3, atomic_load(&heard));
    EXPECT_TRUE(handles(SIG_DFL));
    own = (struct sigaction){.sa_handler = count_plainly};
    sigaction(SIGUSR2, &own, NULL);
    EXPECT_TRUE(open_one(&w));
    sigaction(SIGUSR2, NULL, &now);
    EXPECT_TRUE((now.sa_flags & SA_RESTART) == 0);
    ask(1);
    EXPECT_INT_EQ(4, atomic_load(&heard));
    close_one(&w);
    EXPECT_TRUE(handles(count_plainly));
    return !mend_test_has_failed();
}

CHILD_TEST(pool_snapshot, a_handler_that_comes_above_stays)
{
    mend_world w;
    mend_pool *other = NULL;
    EXPECT_TRUE(open_one(&w));
    const struct sigaction own = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR2, &own, &above);
    ask(1);                                                   /* it calls Mend's */
    EXPECT_ERROR(SYSTEM, mend_world_create_pool(&w, &other)); /* it might not */
    EXPECT_INT_EQ(0, mend_process_own_signal.bells[1]);       /* nor is a closed file written */
    close_one(&w);
    struct sigaction now;
    sigaction(SIGUSR2, NULL, &now);
    EXPECT_TRUE(now.sa_sigaction == pass_on);
    return raise(SIGUSR2) == 0 && !mend_test_has_failed();
}

CHILD_TEST(pool_snapshot, a_program_may_ignore_the_signal)
{
    mend_world w;
    struct sigaction now = {.sa_handler = SIG_IGN};
    sigaction(SIGUSR2, &now, NULL);
    EXPECT_TRUE(open_one(&w));
    sigaction(SIGUSR2, NULL, &now);
    EXPECT_TRUE((now.sa_flags & SA_RESTART) != 0); /* calls still hear nothing of it */
    ask(1);
    close_one(&w);
    EXPECT_TRUE(handles(SIG_IGN));
    EXPECT_TRUE(open_one(&w));
    signal(SIGUSR2, SIG_IGN); /* ignoring it now means none */
    raise(SIGUSR2);
    kit_close(&w);
    EXPECT_TRUE(!exists(1) && rmdir(folder) == 0);
    return handles(SIG_IGN) && !mend_test_has_failed();
}

/* The parent's pools hear nothing of the child's signals, and the child may have its own. */
static bool be_a_child(void *inherited)
{
    const int bell = eventfd(0, EFD_NONBLOCK);
    EXPECT_TRUE(handles(SIG_DFL));
    for (int i = 0; i < MEND_BELLS; i++) {
        EXPECT_TRUE(mend_signals_hear(bell));
    }
    EXPECT_FALSE(mend_signals_hear(bell)); /* so many pools hear it at most */
    EXPECT_FALSE(handles(SIG_DFL));
    mend_signals_miss(bell);
    EXPECT_ERROR(FORKED, mend_pool_destroy(inherited));
    return handles(SIG_DFL) && !mend_test_has_failed();
}

SNAPSHOT_TEST(a_child_of_fork_has_the_signal_to_itself)
{
    ask(1);
    EXPECT_TRUE(mend_test_holds_in_a_child(be_a_child, w->pool));
    ask(2);
    EXPECT_TRUE(exists(2) && !exists(3));
}

/* ---- what cannot be written ------------------------------------------------------------------ */

CHILD_TEST(pool_snapshot, one_that_is_cut_is_not_left)
{
    mend_world w;
    EXPECT_TRUE(open_one(&w));
    void *block = kit_alloc(&w, 512, NULL);
    mend_test_shared_limit_file_size(sizeof(mend_record_head) + sizeof(mend_record_run));
    raise(SIGUSR2);
    await(&refused, 1);
    EXPECT_TRUE(!exists(1));
    kit_free(&w, block, NULL);
    close_one(&w);
    return !mend_test_has_failed();
}

SNAPSHOT_TEST(a_path_that_cannot_be_is_a_line_of_the_log)
{
    EXPECT_INT_EQ(0, rmdir(folder));
    raise(SIGUSR2);
    await(&refused, 1);
    EXPECT_INT_EQ(0, mkdir(folder, 0700));
    ask(1);
    EXPECT_TRUE(exists(1));
    mend_graph_pool *graph_pool = kit_begin_captured_graph_pool(w, S(1));
    kit_alloc(w, 512, S(1));
    EXPECT_ERROR(CAPTURING, mend_pool_destroy(w->pool)); /* so it goes on */
    ask(2);
    mend_sim_graph_destroy(w->sim, kit_end_captured_graph_pool(w, S(1), graph_pool));
}

SNAPSHOT_TEST(what_sleeps_is_not_mapped)
{
    test_recording r;
    kit_free(w, kit_alloc(w, 6 * MEND_MIB, NULL), NULL);
    kit_alloc(w, 2 * MEND_MIB, NULL);
    KIT_THREAD(.sleep_tag = 9);
    kit_alloc(w, 2 * MEND_MIB, NULL);
    mend_set_alloc_options(NULL, NULL);
    kit_alloc(w, 2 * MEND_MIB, NULL);
    const mend_sleep_rule rule = {9, MEND_DISCARD};
    EXPECT_OK(mend_sleep(w->pool, KIT_OPTIONS(mend_sleep_options, .rules = &rule, .rule_count = 1),
                         NULL));
    EXPECT_STATS(w, asleep_bytes, 2 * MEND_MIB);
    ask(1);
    ASSERT_TRUE(test_recording_read(file_of(1), &r));
    EXPECT_U64_EQ(mend_world_stats(w).reserved_bytes, bytes_of(&r.events, MEND_EVENT_MAP));
    test_recording_clear(&r);
    EXPECT_OK(mend_wake(w->pool, NULL, 0, NULL));
}
