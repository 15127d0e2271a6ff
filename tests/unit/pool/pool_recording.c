/* mend_pool_config.record: the events of a pool, in a file. */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mend/mend_frameworks.h"
#include "pool/pool.h"
#include "record/record.h"
#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"
#include "tests/support/moments.h"
#include "tests/support/recording.h"

enum { ROOM = 4096 };

static char path[64];
static char beside[sizeof(path) + 2]; /* where the path is taken */

#define KEPT (256 * MEND_MIB)

/* A world, and the recording of its pool, which is read at the end. */
typedef struct rig {
    mend_world w;
    test_recording file;
} rig;

static bool open_recorded(mend_world *w, uint64_t keep_bytes)
{
    return kit_open_set(w, w->sim_config.device_count = 2, w->pool_config.device = 1) &&
           mend_recorder_start(mend_observers_of(&w->pool->heap), path, keep_bytes) == MEND_OK;
}

static int warnings;

static void hear(KIT_UNUSED void *unused, mend_log_level level, const char *text)
{
    warnings += level == MEND_LOG_WARNING &&
                (strstr(text, "be written") != NULL || strstr(text, "recorded:") != NULL);
}

static bool name_file(rig *r)
{
    memset(r, 0, sizeof(*r));
    warnings = 0;
    mend_log_set_sink(hear, NULL);
    snprintf(path, sizeof(path), "/tmp/mend-record-XXXXXX");
    return close(mkstemp(path)) == 0 && snprintf(beside, sizeof(beside), "%s.1", path) > 0;
}

static void remove_file(rig *r)
{
    test_recording_clear(&r->file);
    mend_log_set_sink(NULL, NULL);
    unlink(path);
    unlink(beside);
}

#define RECORDING_TEST(name) KIT_RIG_TEST(pool_recording, name, rig, name_file(r), remove_file(r))

RECORDING_TEST(it_has_the_events_of_the_history)
{
    static mend_history_event events[ROOM];
    uint64_t cursor = 0;
    size_t count = 0;
    ASSERT_TRUE(open_recorded(w, KEPT));
    EXPECT_OK(mend_history_start(w->pool, ROOM));
    EXPECT_OK(mend_scope_push("recorded step", 0));
    EXPECT_OK(mend_set_name(MEND_NAME_STREAM, 99, "recorded stream"));
    void *block = kit_alloc(w, 3 * MEND_MIB, NULL);
    kit_alloc(w, 1000, NULL);
    EXPECT_OK(mend_scope_pop());
    kit_free(w, block, NULL);
    EXPECT_ERROR(OUT_OF_MEMORY, mend_alloc(w->pool, MEND_TIB, NULL, &block));
    mend_error error = MEND_ERROR_INIT;
    char said[MEND_MESSAGE_BYTES];
    EXPECT_OK(mend_get_last_error(&error));
    snprintf(said, sizeof(said), "%s", error.message);
    EXPECT_U64_EQ(MEND_TIB, error.oom_report->requested_bytes);
    EXPECT_OK(mend_trim(w->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_OK(mend_history_read(w->pool, &cursor, events, sizeof(*events), ROOM, &count));
    const mend_stats stats = mend_world_stats(w);
    EXPECT_OK(mend_pool_destroy(w->pool));
    EXPECT_TRUE(test_recording_read(path, &r->file));
    EXPECT_TRUE(r->file.has_ended && !r->file.is_exit && warnings == 0 && stats.record_lost == 0);
    EXPECT_FIELDS(r->file.run, process, (uint64_t)getpid(), device, 1, limit_bytes,
                  stats.limit_bytes, memory_bytes, stats.device_bytes);
    EXPECT_STR_EQ("recorded step", r->file.scope);
    EXPECT_STR_EQ("recorded stream", r->file.name.name);
    EXPECT_FIELDS(r->file.name, kind, MEND_NAME_STREAM, number, 99);
    EXPECT_U64_EQ(1, r->file.failures);
    EXPECT_U64_EQ(MEND_EVENT_OUT_OF_MEMORY, (uint64_t)events[r->file.failure.sequence - 1].kind);
    EXPECT_U64_EQ(MEND_TIB, r->file.failure.numbers[0]);
    EXPECT_STR_EQ(said, r->file.failure.message);
    EXPECT_TRUE(count > 6 &&
                r->file.events.count >= count); /* the end of the pool has events, too */
    EXPECT_TRUE(test_events_are_equal(events, r->file.events.list, count));
    ASSERT_U64_EQ(1, r->file.live.count);
    EXPECT_U64_EQ(1000, r->file.live.list[0].requested_bytes);
    mend_sim_destroy(w->sim);
}

/* A process that is killed before it writes this block of this lap. In the lap before, the recorder
 * waits for more blocks. */
static struct {
    unsigned kills_at, lap;
    atomic_uint laps;
    atomic_bool are_more;
} writes;

static bool recorder_waits(void)
{
    return writes.laps + 1 == writes.lap && !writes.are_more;
}

/* A block is allocated and freed. Its tag is like no other, so that its events fill a file. */
static void fill_file(mend_pool *pool, uint64_t i, uint64_t size_bytes)
{
    void *block = NULL;
    const mend_alloc_options *options =
        KIT_OPTIONS(mend_alloc_options, .tag = (i + 1) * UINT64_C(0x9E3779B97F4A7C15));
    EXPECT_OK(mend_alloc_with(pool, size_bytes, NULL, options, &block));
    EXPECT_OK(mend_free(pool, block, NULL));
    const mend_event_ring *ring = mend_observers_of(&pool->heap)->history.recording;
    while (!recorder_waits() && ring->written - ring->read > MEND_EVENT_RING_ROOM / 2) {
        sched_yield(); /* so that none is lost */
    }
}

/* The blocks from the beginning are known, long after the events that tell of them are gone. */
RECORDING_TEST(a_full_file_keeps_the_newest_and_all_that_lives)
{
    enum { LIVE = 50, PAIRS = 60000 };
    struct stat about = {0};
    ASSERT_TRUE(open_recorded(w, MEND_MIB));
    EXPECT_OK(mend_set_name(MEND_NAME_STREAM, 98, "a name of each lap"));
    EXPECT_OK(mend_scope_push("a scope of each lap", 0));
    EXPECT_OK(mend_scope_pop());
    for (int i = 0; i < LIVE; i++) {
        kit_alloc(w, 512, NULL);
    }
    kit_free(w, kit_alloc(w, 5 * MEND_MIB, NULL), NULL);
    const int64_t before = mend_test_live_host_allocations();
    for (int i = 0; i < PAIRS; i++) {
        fill_file(w->pool, (uint64_t)i, (uint64_t)(i % 9 + 1) * 512);
    }
    EXPECT_TRUE(mend_test_live_host_allocations() - before < 8); /* nor do blocks that are gone */
    EXPECT_STATS(w, record_lost, 0);
    const uint64_t last = mend_observers_of(&w->pool->heap)->history.next - 1;
    EXPECT_OK(mend_pool_destroy(w->pool));
    EXPECT_TRUE(test_recording_read(path, &r->file));
    EXPECT_TRUE(r->file.first > 1);
    EXPECT_TRUE(stat(path, &about) == 0 && (uint64_t)about.st_size <= MEND_MIB);
    EXPECT_TRUE(r->file.events.count > 20000 && r->file.events.list[0].sequence > 1);
    for (size_t i = 1; i < r->file.events.count; i++) {
        ASSERT_U64_EQ(r->file.events.list[0].sequence + i, r->file.events.list[i].sequence);
    }
    EXPECT_TRUE(r->file.events.list[r->file.events.count - 1].sequence >= last);
    EXPECT_U64_EQ(LIVE, r->file.live.count);
    EXPECT_TRUE(r->file.run.live_blocks >= LIVE);
    EXPECT_STR_EQ("a name of each lap", r->file.name.name);
    EXPECT_STR_EQ("a scope of each lap", r->file.scope);
    mend_sim_destroy(w->sim);
}

/* A program that ends without an end of its pool, as with PyTorch. */
static bool work_and_exit(KIT_UNUSED void *unused)
{
    mend_world w;
    if (open_recorded(&w, KEPT)) {
        kit_alloc(&w, 1024, NULL);
        exit(EXIT_SUCCESS);
    }
    return false;
}

RECORDING_TEST(a_process_that_exits_ends_it)
{
    EXPECT_TRUE(mend_test_holds_in_a_child(work_and_exit, NULL));
    EXPECT_TRUE(test_recording_read(path, &r->file));
    EXPECT_TRUE(r->file.has_ended && r->file.is_exit);
    ASSERT_U64_EQ(1, r->file.live.count);
    EXPECT_U64_EQ(1024, r->file.live.list[0].requested_bytes);
}

static void kill_at_a_write(const void *bytes, KIT_UNUSED size_t count)
{
    mend_record_head head;
    memcpy(&head, bytes, sizeof(head));
    writes.laps += head.mark == MEND_RECORD_MARK && head.kind == MEND_RECORD_RUN;
    while (recorder_waits()) {
        sched_yield();
    }
    if (writes.laps >= writes.lap && writes.kills_at-- == 0) {
        kill(getpid(), SIGKILL);
    }
}

/* Each list is two blocks. The last list has more blocks than the one before, in other places. */
enum { LIVED = 5000, LATER = 200 };
static bool work_until_killed(KIT_UNUSED void *unused)
{
    mend_world w;
    mend_test_before_writes(kill_at_a_write);
    if (!kit_open_set(&w, w.sim_config.content = MEND_SIM_CONTENT_NONE) ||
        mend_recorder_start(mend_observers_of(&w.pool->heap), path, MEND_MIB) != MEND_OK) {
        return true;
    }
    for (int i = 0; i < LIVED; i++) {
        kit_alloc(&w, 512, NULL);
    }
    for (uint64_t tag = 0;; tag++) {
        for (int i = 0; i < LATER && recorder_waits(); i++) {
            kit_alloc(&w, 512, NULL);
            writes.are_more = i + 1 == LATER;
        }
        fill_file(w.pool, tag, 1024);
    }
}

RECORDING_TEST(a_crash_while_it_begins_again_costs_no_block)
{
    for (unsigned lap = 3; lap <= 4; lap++) { /* in the first half, and behind it */
        for (unsigned i = 0; i <= 3; i++) {   /* its head, two parts of the list, events */
            writes.kills_at = i;
            writes.lap = lap;
            EXPECT_FALSE(mend_test_holds_in_a_child(work_until_killed, NULL));
            EXPECT_TRUE(test_recording_read(path, &r->file));
            EXPECT_TRUE(r->file.lost == 0 && !r->file.has_ended);
            EXPECT_TRUE(r->file.first > 1 || i == 0);
            EXPECT_TRUE(r->file.live.count >= LIVED + LATER &&
                        r->file.live.count <= LIVED + LATER + 1);
            test_recording_clear(&r->file);
        }
    }
}

RECORDING_TEST(pools_of_one_path_have_files_of_their_own)
{
    mend_world other;
    ASSERT_TRUE(open_recorded(w, KEPT));
    ASSERT_TRUE(open_recorded(&other, KEPT));
    kit_alloc(&other, 512, NULL);
    kit_alloc(w, 1024, NULL);
    kit_alloc(w, 1024, NULL);
    const char *const paths[] = {path, beside};
    kit_close(w);
    kit_close(&other);
    for (size_t i = 0; i < 2; i++) {
        EXPECT_TRUE(test_recording_read(paths[i], &r->file));
        EXPECT_TRUE(r->file.has_ended && r->file.run.process == (uint64_t)getpid());
        size_t allocated = 0;
        for (size_t k = 0; k < r->file.events.count; k++) {
            allocated += r->file.events.list[k].kind == MEND_EVENT_ALLOC;
        }
        EXPECT_U64_EQ(2 - i, allocated);
        test_recording_clear(&r->file);
    }
    setenv("MEND_RECORD", path, 1);
    EXPECT_TRUE(kit_open_default(w)); /* over the remains of the last one */
    unsetenv("MEND_RECORD");
    kit_close(w);
    EXPECT_TRUE(test_recording_read(path, &r->file) && r->file.first == 1);
}

/* It has the file open, and writes nothing. */
RECORDING_TEST(a_child_takes_no_file_from_the_next_pool)
{
    ASSERT_TRUE(open_recorded(w, KEPT));
    const pid_t child = fork();
    if (child == 0) {
        pause();
    }
    kit_close(w);
    ASSERT_TRUE(open_recorded(w, KEPT));
    EXPECT_TRUE(access(beside, F_OK) != 0);
    kit_close(w);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

RECORDING_TEST(a_pool_beside_256_others_is_created_and_not_recorded)
{
    enum { OTHERS = 256 };
    int held[OTHERS];
    char name[sizeof(path) + 8];
    for (int i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof(name), i > 0 ? "%s.%d" : "%s", path, i);
        held[i] = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        EXPECT_INT_EQ(0, flock(held[i], LOCK_EX | LOCK_NB));
    }
    ASSERT_TRUE(open_recorded(w, KEPT));
    EXPECT_TRUE(warnings == 1 && mend_observers_of(&w->pool->heap)->history.recording == NULL);
    kit_alloc(w, 512, NULL);
    kit_close(w);
    for (int i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof(name), i > 0 ? "%s.%d" : "%s", path, i);
        close(held[i]);
        EXPECT_INT_EQ(0, unlink(name));
    }
}

/* The pool goes on. Unwritten events are counted, nothing else is, and the log says it once. */
static bool fill_the_disk(KIT_UNUSED void *unused)
{
    mend_world w;
    mend_stats stats = MEND_STATS_INIT;
    mend_log_set_sink(hear, NULL);
    if (!kit_open_set(&w, w.sim_config.content = MEND_SIM_CONTENT_NONE,
                      w.pool_config.record = path)) {
        return false;
    }
    mend_test_shared_limit_file_size(sizeof(mend_record_head) + sizeof(mend_record_run));
    EXPECT_OK(mend_set_name(MEND_NAME_STREAM, 97, "too long for the disk"));
    for (int i = 0; i < 100; i++) {
        kit_alloc(&w, 512, NULL);
    }
    do {
        EXPECT_OK(mend_get_stats(w.pool, &stats));
        sched_yield();
    } while (stats.record_lost < stats.history_events);
    kit_close(&w);
    return stats.record_lost == stats.history_events && warnings == 1;
}

RECORDING_TEST(a_full_disk_costs_events_and_nothing_else)
{
    EXPECT_TRUE(mend_test_holds_in_a_child(fill_the_disk, NULL));
}

/* Nothing is left of a pool that was not made, and a file that is no recording stays as it was. */
MEND_TEST(pool_recording, a_file_that_cannot_be_is_refused)
{
    mend_world w;
    char source[] = "/tmp/mend-source-XXXXXX";
    const int made = mkstemp(source);
    ASSERT_TRUE(made >= 0);
    EXPECT_INT_EQ(6, (int)write(made, "import", 6));
    close(made);
    const int files = mend_test_open_files();
    static char longest[3 * PATH_MAX];
    memset(longest, '/', sizeof(longest) - 1);
    const char *const impossible[] = {"/", "/dev/null", "/tmp/mend-none/of/these", source, longest};
    for (int i = 0; i < 5; i++) {
        mend_world_init(&w);
        ASSERT_TRUE(mend_world_open_device(&w));
        w.pool_config.driver = mend_sim_driver(w.sim);
        w.pool_config.record = impossible[i];
        EXPECT_ERROR(SYSTEM, mend_pool_create(&w.pool_config, &w.pool));
        mend_world_close(&w);
        EXPECT_TRUE(mend_test_files_are(files));
    }
    struct stat left;
    EXPECT_INT_EQ(0, stat(source, &left));
    EXPECT_U64_EQ(6, (uint64_t)left.st_size);
    unlink(source);
}

/* Whatever host memory is left. */
RECORDING_TEST(a_pool_without_host_memory_leaves_no_file_open)
{
    const int files = mend_test_open_files();
    mend_result result = MEND_ERROR_OUT_OF_HOST_MEMORY;
    mend_world_init(w);
    ASSERT_TRUE(mend_world_open_device(w));
    w->pool_config.driver = mend_sim_driver(w->sim);
    w->pool_config.record = path;
    const int with_device = mend_test_open_files() - files;
    for (uint64_t i = 0; result != MEND_OK; i++) {
        result = mend_test_starve(i, UINT64_MAX, mend_pool_create(&w->pool_config, &w->pool));
        EXPECT_TRUE(result == MEND_OK || mend_test_files_are(files + with_device));
    }
    EXPECT_OK(mend_pool_destroy(w->pool));
    w->pool = NULL;
    mend_world_close(w);
    EXPECT_TRUE(mend_test_files_are(files));
}
