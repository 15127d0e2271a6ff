/* Exports and imports that fail: everything is as before, no file stays open, and the next one
 * works. */
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mend/mend_share.h"
#include "share/wire.h"
#include "tests/support/child.h"
#include "tests/support/files.h"
#include "tests/support/host_memory.h"
#include "tests/support/kit.h"

#define CHUNK MEND_MIB

typedef struct rig {
    mend_world from;
    mend_world to;
    unsigned char *block; /* two chunks and a bit */
    mend_export_token token;
} rig;

static void share(mend_world *w)
{
    w->placement.chunk_bytes = CHUNK;
    w->pool_config.shareable = 1;
}

static bool open_rig(rig *r)
{
    *r = (rig){.block = NULL};
    if (!kit_open_with(&r->from, 16 * CHUNK, share) || !kit_open_with(&r->to, 16 * CHUNK, share)) {
        return false;
    }
    r->block = kit_alloc(&r->from, 2 * CHUNK + 4096, r->from.streams[0]);
    memset(r->block, 7, 2 * CHUNK);
    EXPECT_RESULT(MEND_OK, mend_export(r->from.pool, r->block, &r->token, NULL));
    return !mend_test_has_failed();
}

static void close_rig(rig *r)
{
    kit_free(&r->from, r->block, r->from.streams[0]);
    kit_close(&r->to);
    kit_close(&r->from);
}

static uint64_t calls_of(const mend_world *w)
{
    return mend_sim_call_count(w->sim);
}

static void fail_at(mend_world *w, uint64_t position, int status)
{
    mend_sim_fault fault = MEND_SIM_FAULT_INIT;
    fault.after_calls = position;
    fault.count = 1;
    fault.status = status;
    EXPECT_RESULT(MEND_OK, mend_sim_fail(w->sim, &fault));
}

/* Imports, looks and closes. *result is that of the first call that failed. */
static bool imports(rig *r, mend_result *result)
{
    void *pointer = NULL;
    *result = mend_import(r->to.pool, &r->token, &pointer, NULL);
    if (*result != MEND_OK) {
        EXPECT_PTR_EQ(NULL, pointer);
        return false;
    }
    EXPECT_INT_EQ(7, ((unsigned char *)pointer)[2 * CHUNK - 1]);
    *result = mend_import_close(r->to.pool, pointer, r->to.streams[0]);
    return *result == MEND_OK;
}

/* Each driver call of an import, and of the close behind it. */
MEND_TEST(pool_share_faults, an_import_fails_at_any_call_and_changes_nothing)
{
    const int answers[] = {MEND_DRIVER_OUT_OF_MEMORY, MEND_DRIVER_NOT_PERMITTED,
                           MEND_DRIVER_NOT_READY};
    rig r;
    mend_result result;
    ASSERT_TRUE(open_rig(&r));
    const int files = mend_test_open_files();
    uint64_t before = calls_of(&r.to);
    EXPECT_TRUE(imports(&r, &result));
    const uint64_t calls = calls_of(&r.to) - before;
    EXPECT_TRUE(calls > 10);
    unsigned failures = 0;
    for (size_t a = 0; a < sizeof(answers) / sizeof(answers[0]); a++) {
        for (uint64_t i = 0; i < calls; i++) {
            fail_at(&r.to, i, answers[a]);
            if (!imports(&r, &result)) {
                failures++;
                EXPECT_TRUE(result == MEND_ERROR_DRIVER || result == MEND_ERROR_OUT_OF_MEMORY ||
                            result == MEND_ERROR_OUT_OF_ADDRESSES);
                kit_expect_error(result);
            }
            mend_sim_clear_faults(r.to.sim);
            mend_stats stats = mend_world_stats(&r.to);
            if (stats.imports > 0) { /* the close failed */
                EXPECT_U64_EQ(1, stats.imports);
                void *pointer = NULL;
                EXPECT_RESULT(MEND_OK, mend_import(r.to.pool, &r.token, &pointer, NULL));
                EXPECT_RESULT(MEND_OK, mend_import_close(r.to.pool, pointer, MEND_NO_STREAM));
                EXPECT_RESULT(MEND_OK, mend_import_close(r.to.pool, pointer, MEND_NO_STREAM));
            }
            EXPECT_RESULT(MEND_OK, mend_trim(r.to.pool, 0, NULL));
            EXPECT_U64_EQ(0, mend_world_stats(&r.to).mappings);
            EXPECT_TRUE(mend_world_check(&r.to));
            EXPECT_TRUE(imports(&r, &result));
            EXPECT_RESULT(MEND_OK, mend_trim(r.to.pool, 0, NULL));
            EXPECT_TRUE(mend_test_files_are(files));
        }
    }
    EXPECT_TRUE(failures > 10);
    close_rig(&r);
}

static mend_result export_again(rig *r)
{
    void *block = kit_alloc(&r->from, 2 * CHUNK + 4096, r->from.streams[1]);
    mend_export_token token;
    mend_sim_clear_faults(r->from.sim);
    uint64_t exported_bytes = mend_world_stats(&r->from).exported_bytes;
    kit_fail(&r->from, "export_handle", 1, 1, MEND_DRIVER_NOT_PERMITTED);
    mend_result result = mend_export(r->from.pool, block, &token, NULL);
    EXPECT_U64_EQ(exported_bytes, mend_world_stats(&r->from).exported_bytes);
    EXPECT_TRUE(mend_world_check(&r->from));
    mend_sim_clear_faults(r->from.sim);
    EXPECT_RESULT(MEND_OK, mend_export(r->from.pool, block, &token, NULL));
    kit_free(&r->from, block, r->from.streams[1]);
    return result;
}

MEND_TEST(pool_share_faults, an_export_that_the_driver_refuses_changes_nothing)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    int files = mend_test_open_files();
    EXPECT_RESULT(MEND_ERROR_DRIVER, export_again(&r));
    (void)mend_world_ledger(&r.from); /* the device sees that the files were closed */
    EXPECT_TRUE(mend_test_files_are(files));
    close_rig(&r);
}

/* The driver does not take back what an import released, or mapped and could not use. */
MEND_TEST(pool_share_faults, what_cannot_be_unmapped_is_unmapped_later)
{
    rig r;
    mend_result result;
    ASSERT_TRUE(open_rig(&r));
    kit_fail(&r.to, "set_access", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    kit_fail(&r.to, "unmap", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_TRUE(!imports(&r, &result));
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, result);
    EXPECT_TRUE(mend_world_stats(&r.to).retired_bytes > 0);
    EXPECT_TRUE(mend_world_check(&r.to));
    EXPECT_RESULT(MEND_OK, mend_trim(r.to.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_stats(&r.to).mapped_bytes);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.to).foreign_chunks);
    close_rig(&r);
}

/* The driver keeps a handle that it does not take back, and with it the exporter's memory. */
MEND_TEST(pool_share_faults, a_handle_that_is_not_taken_back_is_offered_again)
{
    rig r;
    void *pointer = NULL;
    ASSERT_TRUE(open_rig(&r));
    kit_fail(&r.to, "release", 0, 2, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_RESULT(MEND_OK, mend_import(r.to.pool, &r.token, &pointer, NULL));
    EXPECT_U64_EQ(2, mend_world_ledger(&r.to).handles);
    EXPECT_TRUE(mend_world_check(&r.to));
    EXPECT_RESULT(MEND_OK, mend_trim(r.to.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_ledger(&r.to).handles);
    EXPECT_RESULT(MEND_OK, mend_import_close(r.to.pool, pointer, MEND_NO_STREAM));
    /* Also one of an import that did not come about, or that is closed. */
    kit_fail(&r.to, "map", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    kit_fail(&r.to, "release", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_RESULT(MEND_ERROR_DRIVER, mend_import(r.to.pool, &r.token, &pointer, NULL));
    EXPECT_U64_EQ(1, mend_world_ledger(&r.to).handles);
    kit_fail(&r.to, "release", 0, 2 * 3, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_RESULT(MEND_OK, mend_import(r.to.pool, &r.token, &pointer, NULL));
    EXPECT_RESULT(MEND_OK, mend_import_close(r.to.pool, pointer, r.to.streams[0]));
    EXPECT_TRUE(mend_world_check(&r.to));
    EXPECT_RESULT(MEND_OK, mend_trim(r.to.pool, 0, NULL));
    EXPECT_U64_EQ(0, mend_world_ledger(&r.to).handles);
    EXPECT_U64_EQ(0, mend_world_ledger(&r.to).foreign_chunks);
    close_rig(&r);
}

MEND_TEST(pool_share_faults, host_memory_that_fails_changes_nothing)
{
    rig r;
    mend_result result = MEND_ERROR_OUT_OF_HOST_MEMORY;
    ASSERT_TRUE(open_rig(&r));
    uint64_t failed = 0;
    for (uint64_t i = 0; result != MEND_OK && i < 100; i++) {
        void *pointer = NULL;
        mend_test_fail_host_memory_after(i, 1);
        mend_test_watch_host_memory(true);
        result = mend_import(r.to.pool, &r.token, &pointer, NULL);
        mend_test_watch_host_memory(false);
        mend_test_heal_host_memory();
        failed += result != MEND_OK;
        EXPECT_TRUE(mend_world_check(&r.to));
        if (result == MEND_OK) {
            EXPECT_RESULT(MEND_OK, mend_import_close(r.to.pool, pointer, MEND_NO_STREAM));
        }
    }
    EXPECT_TRUE(failed > 0);
    EXPECT_INT_EQ(MEND_OK, result);
    close_rig(&r);
}

MEND_TEST(pool_share_faults, a_lost_context_refuses_imports_and_closes)
{
    rig r;
    void *pointer = NULL;
    ASSERT_TRUE(open_rig(&r));
    kit_break(&r.to, "import_handle");
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_import(r.to.pool, &r.token, &pointer, NULL));
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_import(r.to.pool, &r.token, &pointer, NULL));
    EXPECT_RESULT(MEND_ERROR_DEVICE_LOST, mend_import_close(r.to.pool, r.block, r.to.streams[0]));
    EXPECT_PTR_EQ(NULL, pointer);
    (void)mend_pool_destroy(r.to.pool);
    mend_sim_destroy(r.to.sim);
    kit_free(&r.from, r.block, r.from.streams[0]);
    kit_close(&r.from);
}

/* ---- file descriptors ------------------------------------------------------------------------ */

static void allow_files(rlim_t count)
{
    struct rlimit limit;
    EXPECT_INT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = count;
    EXPECT_INT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
}

/* In a child, whose limit nobody else has: with each number of files left. */
static bool runs_out_of_files(void *context)
{
    mend_world to;
    const mend_export_token *token = context;
    mend_result result = MEND_ERROR_SYSTEM;
    if (!kit_open_with(&to, 16 * CHUNK, share)) {
        return false;
    }
    const int lowest = dup(STDERR_FILENO);
    close(lowest);
    unsigned failures = 0;
    for (rlim_t left = 0; left < 64 && result != MEND_OK; left++) {
        void *pointer = NULL;
        allow_files((rlim_t)lowest + left);
        result = mend_import(to.pool, token, &pointer, NULL);
        allow_files(1024);
        failures += result != MEND_OK;
        EXPECT_TRUE(result == MEND_OK || result == MEND_ERROR_SYSTEM ||
                    result == MEND_ERROR_DRIVER);
        if (result == MEND_OK) {
            EXPECT_RESULT(MEND_OK, mend_import_close(to.pool, pointer, MEND_NO_STREAM));
        }
        EXPECT_TRUE(mend_world_check(&to));
        const int free_now = dup(STDERR_FILENO);
        EXPECT_INT_EQ(lowest, free_now);
        close(free_now);
    }
    kit_close(&to);
    return result == MEND_OK && failures > 2 && !mend_test_has_failed();
}

MEND_TEST(pool_share_faults, an_importer_without_file_descriptors_says_so)
{
    rig r;
    ASSERT_TRUE(open_rig(&r));
    EXPECT_TRUE(mend_test_holds_in_a_child(runs_out_of_files, &r.token));
    close_rig(&r);
}

static bool exports_without_files(void *context)
{
    mend_world w;
    (void)context;
    mend_export_token token;
    mend_result result = MEND_ERROR_SYSTEM;
    if (!kit_open_with(&w, 16 * CHUNK, share)) {
        return false;
    }
    void *block = kit_alloc(&w, 2 * CHUNK, w.streams[0]);
    const int lowest = dup(STDERR_FILENO);
    close(lowest);
    unsigned of_system = 0;
    unsigned of_driver = 0;
    bool is_right = true;
    for (rlim_t left = 0; left < 16 && result != MEND_OK; left++) {
        allow_files((rlim_t)lowest + left);
        result = mend_export(w.pool, block, &token, NULL);
        allow_files(1024);
        of_system += result == MEND_ERROR_SYSTEM;
        of_driver += result == MEND_ERROR_DRIVER;
        is_right = is_right && mend_world_check(&w);
    }
    kit_free(&w, block, w.streams[0]);
    kit_close(&w);
    return is_right && result == MEND_OK && of_system == 1 && of_driver > 0 &&
           !mend_test_has_failed();
}

MEND_TEST(pool_share_faults, an_exporter_without_file_descriptors_says_so)
{
    EXPECT_TRUE(mend_test_holds_in_a_child(exports_without_files, NULL));
}

/* ---- the exporter's thread ------------------------------------------------------------------- */

static int dial(const mend_export_token *token)
{
    mend_token_content content;
    struct sockaddr_un address;
    EXPECT_TRUE(mend_token_read(token, &content));
    socklen_t length = mend_share_address(content.name, &address);
    int connected = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT_INT_EQ(0, connect(connected, (const struct sockaddr *)&address, length));
    return connected;
}

/* The connection ends without an answer. */
static void expect_dismissed(int connected)
{
    char answer[8];
    EXPECT_INT_EQ(0, recv(connected, answer, sizeof(answer), 0));
    close(connected);
}

MEND_TEST(pool_share_faults, who_does_not_know_the_key_is_dismissed)
{
    rig r;
    mend_token_content content;
    ASSERT_TRUE(open_rig(&r));
    EXPECT_TRUE(mend_token_read(&r.token, &content));
    mend_share_request requests[] = {{MEND_SHARE_MARK, content.key + 1, content.number},
                                     {MEND_SHARE_MARK + 1, content.key, content.number},
                                     {MEND_SHARE_MARK, content.key, 0}};
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        int connected = dial(&r.token);
        EXPECT_INT_EQ((int)sizeof(requests[i]),
                      (int)send(connected, &requests[i], sizeof(requests[i]), 0));
        expect_dismissed(connected);
    }
    int connected = dial(&r.token);
    EXPECT_INT_EQ(3, (int)send(connected, "abc", 3, 0));
    expect_dismissed(connected);
    mend_result result;
    EXPECT_TRUE(imports(&r, &result));
    close_rig(&r);
}

/* Some say nothing, some hang up: others are served beside them. */
MEND_TEST(pool_share_faults, silent_visitors_keep_nobody_waiting)
{
    rig r;
    enum { SILENT = 10 };
    int silent[SILENT];
    mend_result result;
    ASSERT_TRUE(open_rig(&r));
    for (int i = 0; i < SILENT; i++) {
        silent[i] = dial(&r.token);
        close(dial(&r.token));
    }
    EXPECT_TRUE(imports(&r, &result));
    for (int i = 0; i < SILENT; i++) {
        close(silent[i]);
    }
    EXPECT_TRUE(imports(&r, &result));
    close_rig(&r);
}
