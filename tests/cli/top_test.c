/* `libmend top`: pages of pools of this process, read as another process reads them, and pages that
 * nothing can be read from. */
#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/align.h"
#include "lab/live/read.h"
#include "mend/mend.h"
#include "mend/mend_sim.h"
#include "pool/pool.h"
#include "record/record.h"
#include "tests/cli/program.h"
#include "tests/support/moments.h"
#include "tests/support/test.h"

typedef struct rig {
    mend_sim *sim;
    mend_pool *pool;
    mend_live_pools pools; /* large: rigs are static */
} rig;

static bool open_rig(rig *r, const char *settings)
{
    mend_sim_config device = MEND_SIM_CONFIG_INIT;
    mend_pool_config config = MEND_POOL_CONFIG_INIT;
    memset(r, 0, sizeof(*r));
    device.memory_bytes = 256 * MEND_MIB;
    device.device_count = 2;
    config.device = 1;
    bool is_open = mend_sim_create(&device, &r->sim) == MEND_OK;
    config.driver = is_open ? mend_sim_driver(r->sim) : NULL;
    setenv("MEND_CONF", settings, 1);
    is_open = is_open && mend_pool_create(&config, &r->pool) == MEND_OK;
    unsetenv("MEND_CONF");
    return is_open;
}

static void close_rig(rig *r)
{
    EXPECT_INT_EQ(MEND_OK, mend_pool_destroy(r->pool));
    mend_sim_destroy(r->sim);
}

/* The page of the rig's pool, written after now. */
static const mend_live_page *next_page(rig *r)
{
    EXPECT_TRUE(mend_live_read(getpid(), &r->pools));
    const mend_live_page *page = &r->pools.pages[0];
    const uint64_t from_ns = page->time_ns;
    mend_publisher_ring(mend_observers_of(&r->pool->heap));
    while (mend_live_read(getpid(), &r->pools) && page->time_ns == from_ns) {
        usleep(1000);
    }
    return page;
}

static void *block_of(mend_pool *pool, const char *scope, uint64_t size_bytes)
{
    void *block = NULL;
    EXPECT_INT_EQ(MEND_OK, mend_scope_push(scope, 0));
    EXPECT_INT_EQ(MEND_OK, mend_alloc(pool, size_bytes, NULL, &block));
    EXPECT_INT_EQ(MEND_OK, mend_scope_pop());
    return block;
}

static uint64_t sum_of(const mend_live_free *free)
{
    return free->whole_bytes + free->beside_bytes + free->streams_bytes + free->no_stream_bytes +
           free->graphs_bytes;
}

MEND_TEST(top, a_page_is_what_the_pool_says_of_itself)
{
    static rig r;
    ASSERT_TRUE(open_rig(&r, "observe:top"));
    const mend_live_page *page = next_page(&r);
    EXPECT_U64_EQ(0, page->stats.live_bytes);
    void *first = block_of(r.pool, "step", 3 * MEND_MIB);
    void *second = block_of(r.pool, "cache", 5 * MEND_MIB);
    EXPECT_INT_EQ(MEND_OK, mend_free(r.pool, first, MEND_NO_STREAM));
    page = next_page(&r);
    mend_stats stats = MEND_STATS_INIT;
    EXPECT_INT_EQ(MEND_OK, mend_get_stats(r.pool, &stats));
    EXPECT_TRUE(memcmp(&stats, &page->stats, sizeof(stats)) == 0);
    EXPECT_U64_EQ(stats.free_bytes, sum_of(&page->free));
    EXPECT_U64_EQ(3 * MEND_MIB, page->free.no_stream_bytes);
    EXPECT_U64_EQ(1, page->owner_count);
    EXPECT_STR_EQ("cache", page->owners[0].name);
    EXPECT_U64_EQ(5 * MEND_MIB, page->owners[0].live_bytes);
    EXPECT_U64_EQ(0, page->before.allocations);
    const double seconds = (double)(page->time_ns - page->before_ns) / 1e9;
    const double calls = mend_live_rate(page, page->stats.allocations, 0) * seconds;
    EXPECT_TRUE(calls > 1.99 && calls < 2.01);
    EXPECT_U64_EQ(2, next_page(&r)->before.allocations);
    EXPECT_TRUE(signal(SIGUSR2, SIG_DFL) == SIG_DFL); /* it is for snapshots alone */
    EXPECT_INT_EQ(MEND_OK, mend_free(r.pool, second, NULL));
    for (int i = 0; i < 5000; i++) { /* which are summed up in several steps */
        block_of(r.pool, "cache", 512);
    }
    EXPECT_U64_EQ(5000, next_page(&r)->owners[0].live_blocks);
    close_rig(&r);
    EXPECT_TRUE(!mend_live_read(getpid(), &r.pools)); /* it ends with the pool */
}

/* ---- one moment ------------------------------------------------------------------------------ */

static mend_pool *shown;

/* One more block of the same owner. */
static void change(void)
{
    void *block = NULL;
    EXPECT_INT_EQ(MEND_OK, mend_alloc(shown, MEND_MIB, NULL, &block));
}

/* Whatever the pool does as soon as its locks are free: figures and owners are of one moment. */
MEND_TEST(top, a_page_is_of_one_moment)
{
    static rig r;
    ASSERT_TRUE(open_rig(&r, "observe:top"));
    shown = r.pool;
    change();
    mend_test_behind_looks(change);
    for (int i = 0; i < 3; i++) {
        const mend_live_page *page = next_page(&r);
        EXPECT_U64_EQ(1, page->owner_count);
        EXPECT_U64_EQ(page->stats.live_bytes, page->owners[0].live_bytes);
        EXPECT_U64_EQ(page->stats.live_blocks, page->owners[0].live_blocks);
        EXPECT_U64_EQ(page->stats.free_bytes, sum_of(&page->free));
    }
    mend_test_behind_looks(NULL);
    close_rig(&r);
}

/* The next page stops before this write, from 1, until it may go on. */
static atomic_int writes_left, is_stopped;

static void stop_before_a_write(const void *bytes, size_t count)
{
    (void)bytes;
    (void)count;
    is_stopped = atomic_fetch_sub(&writes_left, 1) == 1;
    while (is_stopped) {
        usleep(1000);
    }
}

MEND_TEST(top, a_page_that_is_stopped_while_it_is_written_is_the_one_before_or_none)
{
    static rig r;
    ASSERT_TRUE(open_rig(&r, "observe:top"));
    for (int write = 1; write <= 3; write++) {
        EXPECT_U64_EQ(0, next_page(&r)->stats.live_blocks);
        writes_left = write;
        mend_test_before_writes(stop_before_a_write);
        void *block = block_of(r.pool, "step", MEND_MIB);
        mend_publisher_ring(mend_observers_of(&r.pool->heap));
        while (!is_stopped) {
            usleep(1000);
        }
        EXPECT_INT_EQ(write == 1, mend_live_read(getpid(), &r.pools));
        EXPECT_TRUE(write == 1
                        ? r.pools.pages[0].stats.live_blocks + r.pools.pages[0].owner_count == 0
                        : strstr(r.pools.problem, "stays half written") != NULL);
        mend_test_before_writes(NULL);
        is_stopped = false;
        EXPECT_U64_EQ(1, next_page(&r)->owner_count);
        EXPECT_INT_EQ(MEND_OK, mend_free(r.pool, block, NULL));
    }
    close_rig(&r);
}

/* libmend report reads the file that a pool writes at the signal, once the pool has ended. */
MEND_TEST(top, a_snapshot_is_read_by_the_report)
{
    static rig r;
    char folder[] = "/tmp/mend-snapshot-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder) != NULL);
    ASSERT_TRUE(open_rig(&r, command_line("observe:%s/held", folder)));
    void *block = block_of(r.pool, "the cache", 96 * MEND_MIB);
    void *other = block_of(r.pool, "the model", 12 * MEND_MIB);
    EXPECT_INT_EQ(0, raise(SIGUSR2));
    close_rig(&r);
    EXPECT_TRUE(block != NULL && other != NULL);
    expect_run(0, command_line("report %s/held.1", folder), "...the cache...96...the model...12...",
               "");
    EXPECT_INT_EQ(0, system(command_line("rm -r %s", folder)));
}

MEND_TEST(top, the_program_shows_each_pool)
{
    static rig r;
    static rig other;
    ASSERT_TRUE(open_rig(&r, "observe:top"));
    ASSERT_TRUE(open_rig(&other, "observe:top"));
    void *block = block_of(r.pool, "a \"step\"\n", 200 * MEND_MIB);
    void *small = block_of(other.pool, "other", MEND_MIB);
    next_page(&r);
    mend_publisher_ring(mend_observers_of(&other.pool->heap));
    while (mend_live_read(getpid(), &r.pools) && r.pools.pages[1].stats.live_bytes == 0) {
        usleep(1000);
    }
    expect_run(0, command_line("top --once %d", (int)getpid()),
               "process ... (cli_tests..., device 1\nlive  200 MiB in 1 blocks, peak 200 MiB\nheld "
               " 2... of 256 "
               "MiB, peak 2...; asleep 0 B\nfree  ...calls ...waits 0.0 of the CPU/s...\n"
               "Owners ...  a 'step'? ... 200 MiB  100 %       1          0  steady\n\n"
               "process ...live  1.00 MiB in 1 blocks...  other ... 1.00 MiB",
               "");
    /* Without a terminal that is all. Other processes may publish pools, too. */
    expect_run(0, "top",
               command_line(" process dev ...%d   1    200 MiB    2...MiB    256 MiB [####...] ... "
                            "cli_tests",
                            (int)getpid()),
               "");
    expect_run(0, command_line("top --once --json %d", (int)getpid()),
               "[{'process': ..., 'program': 'cli_tests...', 'device': 1, 'age_s': "
               "...'live_bytes': 209715200, ...'free': {"
               "'whole_bytes': ...'per_second': {'allocations': ...'owner_count': 1, 'owners': "
               "[{'name': 'a \\'step\\'\\u000a', 'live_bytes': 209715200, 'live_blocks': 1, "
               "'oldest': 0, 'growth_bytes': 0}]}, {'process': ...'name': 'other'...]\n",
               "");
    static rig more[MEND_LIVE_MOST_POOLS];
    for (int i = 0; i < MEND_LIVE_MOST_POOLS; i++) {
        ASSERT_TRUE(open_rig(&more[i], "observe:top"));
    }
    expect_run(0, command_line("top --once %d", (int)getpid()), "process ...",
               "libmend top: pools beyond these, not shown: 2\n");
    for (int i = 0; i < MEND_LIVE_MOST_POOLS; i++) {
        close_rig(&more[i]);
    }
    EXPECT_INT_EQ(MEND_OK, mend_free(r.pool, block, NULL));
    EXPECT_INT_EQ(MEND_OK, mend_free(other.pool, small, NULL));
    close_rig(&other);
    close_rig(&r);
}

/* ---- on a terminal --------------------------------------------------------------------------- */

/* Reads the program's output until it has the words. */
static void expect_shown(int terminal, const char *words)
{
    static char text[1 << 16];
    size_t length = 0;
    text[0] = '\0';
    while (strstr(text, words) == NULL && length < sizeof(text) - 1) {
        const ssize_t bytes = read(terminal, text + length, sizeof(text) - 1 - length);
        if (bytes <= 0) {
            break;
        }
        length += (size_t)bytes;
        text[length] = '\0';
    }
    MEND_TEST_CHECK(strstr(text, words) != NULL, (void)0, "no \"%s\" in \"%s\"", words, text);
}

/* Starts `libmend top` with an argument, or none, on a terminal of its own. */
static pid_t start_on(int terminal, const char *argument)
{
    const pid_t child = fork();
    if (child == 0) {
        const int own = open(ptsname(terminal), O_RDWR);
        for (int file = 0; file < 3; file++) {
            dup2(own, file);
        }
        execl(MEND_PROGRAM, MEND_PROGRAM, "top", argument, NULL);
        _exit(1);
    }
    return child;
}

MEND_TEST(top, keys_choose_the_order_and_end_it)
{
    static rig r;
    int status = -1;
    struct termios before;
    struct termios behind;
    ASSERT_TRUE(open_rig(&r, "observe:top"));
    next_page(&r);
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    ASSERT_TRUE(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    const int held_open = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    EXPECT_INT_EQ(0, tcgetattr(held_open, &before));
    pid_t child = start_on(terminal, NULL);
    expect_shown(terminal, "by held; keys: h held, l live, a allocations");
    EXPECT_TRUE(write(terminal, "xa", 2) == 2);
    expect_shown(terminal, "by allocations; keys:");
    EXPECT_TRUE(write(terminal, "q", 1) == 1);
    EXPECT_TRUE(waitpid(child, &status, 0) == child);
    EXPECT_INT_EQ(0, status);
    child = start_on(terminal, command_line("%d", (int)getpid()));
    expect_shown(terminal, "# live, = free, . left of the limit");
    expect_shown(terminal, "q quits");
    kill(child, SIGINT);
    EXPECT_TRUE(waitpid(child, &status, 0) == child);
    EXPECT_INT_EQ(0, status);
    EXPECT_INT_EQ(0, tcgetattr(held_open, &behind));
    EXPECT_TRUE(before.c_lflag == behind.c_lflag); /* it is left as it was found */
    close(held_open);
    close(terminal);
    close_rig(&r);
}

/* ---- what cannot be read --------------------------------------------------------------------- */

/* A process of its own has a file of this name and content. `problem` are words of the refusal, or
 * NULL: it is read. */
static void expect_refusal(const void *content, size_t size, const char *problem)
{
    static mend_live_pools pools;
    int ready[2];
    char byte = 0;
    ASSERT_TRUE(pipe(ready) == 0);
    const pid_t child = fork();
    if (child == 0) {
        mend_live_page page = {.process = 0};
        int file = (int)syscall(SYS_memfd_create, MEND_LIVE_NAME, 0);
        memcpy(&page, content, size);
        page.process = page.process == 1 ? (uint64_t)getpid() : page.process;
        bool is_written = size == 0 ? close(file) == 0 : write(file, &page, size) == (ssize_t)size;
        _exit(is_written && write(ready[1], &byte, 1) == 1 && pause() != 0 ? 0 : 1);
    }
    EXPECT_TRUE(read(ready[0], &byte, 1) == 1);
    EXPECT_TRUE(mend_live_read(child, &pools) == (problem == NULL));
    MEND_TEST_CHECK(problem == NULL || strstr(pools.problem, problem) != NULL, (void)0,
                    "\"%s\", not \"%s\"", pools.problem, problem == NULL ? "" : problem);
    if (problem == NULL) { /* nothing in it does harm */
        expect_run(0, command_line("top --once %d", (int)child), "Owners...", "");
        expect_run(0, command_line("top --once --json %d", (int)child),
                   "'owner_count': 18446744073709551615", "");
        EXPECT_U64_EQ(MEND_OWNER_NAME_BYTES - 1, strlen(pools.pages[0].owners[31].name));
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    EXPECT_TRUE(!mend_live_read(child, &pools));
    EXPECT_TRUE(strstr(pools.problem, "there is no process") != NULL);
    close(ready[0]);
    close(ready[1]);
}

MEND_TEST(top, pages_that_cannot_be_used_are_refused_with_a_reason)
{
    static mend_live_page page = {.magic = MEND_LIVE_MAGIC,
                                  .version = MEND_LIVE_VERSION,
                                  .page_bytes = sizeof(page),
                                  .process = 1, /* by any writer */
                                  .sequence = 3};
    mend_live_page wrong = page;
    expect_refusal(&page, 0, "has no pool of Mend that publishes");
    expect_refusal(&page, sizeof(page), "stays half written");
    expect_refusal(&page, sizeof(page) - 1, "is cut");
    expect_refusal(&page, 5, "none of Mend's");
    wrong.magic++;
    expect_refusal(&wrong, sizeof(wrong), "none of Mend's");
    wrong = page;
    wrong.version++;
    expect_refusal(&wrong, sizeof(wrong), "another version");
    wrong = page;
    wrong.page_bytes++;
    expect_refusal(&wrong, sizeof(wrong), "another version");
    memset(&wrong, 0xff, sizeof(wrong));
    memcpy(&wrong, &page, offsetof(mend_live_page, sequence));
    wrong.sequence = 2;
    expect_refusal(&wrong, sizeof(wrong), NULL);
    wrong = page;
    wrong.process = 2;
    expect_refusal(&wrong, sizeof(wrong), "was forked by 2");
}

MEND_TEST(top, wrong_usage_is_refused)
{
    expect_run(2, "top 1 2", "", "it takes one process");
    expect_run(2, "top x", "", "not the number of a process: x");
    expect_run(2, "top --once -- -1", "", "not the number of a process: -1");
    expect_run(2, "top 4194304999", "", "not the number of a process");
    expect_run(2, "top --once 1073741823", "", "libmend top: there is no process 1073741823");
}
