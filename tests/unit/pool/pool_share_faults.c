/* Exports and imports that fail, and visitors without a request. scenario_positions has the
 * rest. */
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "share/share.h"
#include "tests/support/child.h"
#include "tests/support/host_memory.h"
#include "tests/support/threads.h"
#include "tests/support/user.h"
#include "tests/unit/pool/share_rig.h"

SHARE_TEST(pool_share_faults, what_cannot_be_unmapped_is_unmapped_later)
{
    mend_result result;
    ASSERT_TRUE(share_rig_fill(r));
    kit_fail(to, "map", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_TRUE(!share_imports(r, &result));
    EXPECT_STATS(to, address_bytes, 0);
    kit_fail(to, "set_access", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    kit_fail(to, "unmap", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_TRUE(!share_imports(r, &result));
    EXPECT_INT_EQ(MEND_ERROR_DRIVER, result);
    EXPECT_TRUE(mend_world_stats(to).retired_bytes > 0);
    EXPECT_TRUE(mend_world_check(to));
    EXPECT_OK(mend_trim(to->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_STATS(to, mapped_bytes, 0);
    EXPECT_LEDGER(to, foreign_chunks, 0);
}

SHARE_TEST(pool_share_faults, a_handle_that_is_not_taken_back_is_offered_again)
{
    void *pointer = NULL;
    ASSERT_TRUE(share_rig_fill(r));
    kit_fail(to, "release", 0, 2, MEND_DRIVER_NOT_PERMITTED);
    pointer = share_import(to, &r->ticket);
    EXPECT_LEDGER(to, handles, 2);
    EXPECT_TRUE(mend_world_check(to));
    EXPECT_OK(mend_trim(to->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_LEDGER(to, handles, 0);
    share_close(to, pointer);
    /* Also one of an import that did not come about, or that is closed. */
    kit_fail(to, "map", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    kit_fail(to, "release", 0, 1, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_ERROR(DRIVER, share_try_import(to->pool, &r->ticket, &pointer));
    EXPECT_LEDGER(to, handles, 1);
    kit_fail(to, "release", 0, 2 * 3, MEND_DRIVER_NOT_PERMITTED);
    pointer = share_import(to, &r->ticket);
    EXPECT_OK(mend_import_close(to->pool, pointer, to->streams[0]));
    EXPECT_TRUE(mend_world_check(to));
    EXPECT_OK(mend_trim(to->pool, 0, MEND_TRIM_IDLE, NULL));
    EXPECT_LEDGER(to, handles, 0, foreign_chunks, 0);
}

SHARED_TEST(pool_share_faults, handles_that_are_left_end_with_the_pool, false)
{
    void *pointer = NULL;
    mend_pool *pool = kit_pool(&r->to);
    kit_fail(&r->to, "release", 0, UINT64_MAX, MEND_DRIVER_NOT_PERMITTED);
    EXPECT_OK(share_try_import(pool, &r->ticket, &pointer));
    EXPECT_OK(mend_import_close(pool, pointer, MEND_NO_STREAM));
    EXPECT_OK(share_try_import(pool, &r->ticket, &pointer)); /* and stays open */
    EXPECT_TRUE(mend_world_ledger(&r->to).handles > 0);
    kit_launch(&r->to, r->to.streams[0], MEND_SIM_WORK_TOUCH, pointer, CHUNK, 0, 1000);
    mend_sim_clear_faults(r->to.sim);
    EXPECT_OK(mend_pool_destroy(pool));
    EXPECT_U64_EQ(1000, mend_sim_now_ns(r->to.sim));
    EXPECT_LEDGER(&r->to, handles, 0, foreign_chunks, 0);
}

/* The driver's word for a file says nothing of the exporter. */
SHARED_TEST(pool_share_faults, a_refused_import_counts_and_names_the_driver, false)
{
    void *pointer = NULL;
    const uint64_t failures = mend_world_stats(&r->to).driver_failures;
    const int words[] = {MEND_DRIVER_INVALID_VALUE, MEND_DRIVER_NOT_PERMITTED};
    for (uint64_t i = 0; i < 2; i++) {
        kit_fail(&r->to, "import_handle", 0, 1, words[i]);
        EXPECT_ERROR(DRIVER, share_try_import(r->to.pool, &r->ticket, &pointer));
        EXPECT_STATS(&r->to, driver_failures, failures + i + 1);
    }
}

/* Empty reservations go for a larger one. */
SHARED_TEST(pool_share_faults, an_import_frees_reservations_for_its_addresses, false)
{
    kit_fail(&r->to, "reserve", 0, 4, MEND_DRIVER_OUT_OF_MEMORY); /* all but the exact size */
    kit_free(&r->to, kit_alloc(&r->to, 4096, NULL), NULL);
    EXPECT_OK(mend_trim(r->to.pool, 0, MEND_TRIM_IDLE, NULL));
    kit_fail(&r->to, "reserve", 0, 1, MEND_DRIVER_OUT_OF_MEMORY);
    void *pointer = share_import(&r->to, &r->ticket);
    EXPECT_LEDGER(&r->to, reservations, 1);
    share_close(&r->to, pointer);
    EXPECT_OK(mend_trim(r->to.pool, 0, MEND_TRIM_IDLE, NULL));
    kit_fail(&r->to, "reserve", 0, UINT64_MAX, MEND_DRIVER_OUT_OF_MEMORY);
    EXPECT_ERROR(OUT_OF_ADDRESS_SPACE, share_try_import(r->to.pool, &r->ticket, &pointer));
    mend_sim_clear_faults(r->to.sim);
}

typedef struct second_import {
    share_rig *r;
    void *pointer;
} second_import;

static void *import_too(void *context)
{
    second_import *s = context;
    s->pointer = share_import(&s->r->to, &s->r->ticket);
    return NULL;
}

static void import_amid(void *context, const char *call, int is_after)
{
    second_import *s = context;
    if (!is_after && strcmp(call, "import_handle") == 0) {
        mend_sim_set_call_observer(s->r->to.sim, NULL, NULL);
        mend_test_run_thread(import_too, s);
    }
}

/* What another thread has imported since is used again. */
SHARED_TEST(pool_share_faults, two_threads_that_import_the_same_have_one_import, false)
{
    second_import second = {.r = r};
    mend_sim_set_call_observer(r->to.sim, import_amid, &second);
    void *first = share_import(&r->to, &r->ticket);
    EXPECT_PTR_EQ(first, second.pointer);
    EXPECT_STATS(&r->to, imports, 1);
    EXPECT_LEDGER(&r->to, handles, 0);
    share_close(&r->to, first);
    EXPECT_STATS(&r->to, imports, 1);
    share_close(&r->to, second.pointer);
    EXPECT_STATS(&r->to, imports, 0);
}

KIT_RIG_EACH(pool_share_faults, a_lost_context_refuses_imports_and_closes, int, by_fabric, 2,
             share_rig, r, share_rig_open(r, by_fabric) && share_rig_fill(r), kit_close(&r->from))
{
    void *pointer = NULL;
    mend_pool *pool = r->to.pool;
    kit_break(&r->to, "import_handle");
    EXPECT_ERROR(DEVICE_LOST, share_try_import(pool, &r->ticket, &pointer));
    EXPECT_ERROR(DEVICE_LOST, share_try_import(pool, &r->ticket, &pointer));
    EXPECT_ERROR(DEVICE_LOST, mend_import_close(pool, r->block, r->to.streams[0]));
    EXPECT_ERROR(DEVICE_LOST, share_try_export(pool, r->block, &r->ticket));
    EXPECT_PTR_EQ(NULL, pointer);
    mend_error error = MEND_ERROR_INIT;
    EXPECT_OK(mend_get_last_error(&error));
    EXPECT_STR_EQ(mend_driver_call_name(MEND_CALL_import_handle), error.driver_call);
    (void)mend_pool_destroy(pool);
    mend_sim_destroy(r->to.sim);
}

static void allow_files(rlim_t count)
{
    struct rlimit limit;
    EXPECT_INT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = count;
    EXPECT_INT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
}

/* In a child with its own limit: an import of the token, or an export where there is none, with
 * each number of files left. An export keeps some. */
static bool runs_out_of_files(void *context)
{
    mend_world w;
    mend_export_token own;
    const mend_export_token *token = context;
    mend_result result = MEND_ERROR_SYSTEM;
    if (!share_open(&w, 1, MEND_SIM_FABRIC_NONE)) {
        return false;
    }
    void *pointer = kit_alloc(&w, 2 * CHUNK, w.streams[0]);
    const int lowest = dup(STDERR_FILENO);
    close(lowest);
    unsigned failures = 0;
    for (rlim_t left = 0; left < 64 && result != MEND_OK; left++) {
        allow_files((rlim_t)lowest + left);
        result = token != NULL ? mend_import(w.pool, token, MEND_EXPORT_TOKEN_BYTES, &pointer, NULL)
                               : share_token(w.pool, pointer, &own, BY_FILE);
        allow_files(1024);
        if (result != MEND_OK) {
            failures++;
            EXPECT_INT_EQ(MEND_ERROR_SYSTEM, result);
            kit_expect_words("too many open files");
        } else if (token != NULL) {
            share_close(&w, pointer);
        }
        EXPECT_TRUE(mend_world_check(&w));
        const int free_now = dup(STDERR_FILENO);
        EXPECT_TRUE(free_now == lowest || token == NULL);
        close(free_now);
    }
    kit_close(&w);
    return result == MEND_OK && failures > 2 && !mend_test_has_failed();
}

SHARED_TEST(pool_share_faults, an_importer_without_file_descriptors_says_so, false)
{
    EXPECT_TRUE(mend_test_holds_in_a_child(runs_out_of_files, &r->ticket.token));
}

MEND_TEST(pool_share_faults, an_exporter_without_file_descriptors_says_so)
{
    EXPECT_TRUE(mend_test_holds_in_a_child(runs_out_of_files, NULL));
}

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

SHARED_TEST(pool_share_faults, who_does_not_know_the_key_is_dismissed, false)
{
    mend_token_content content;
    EXPECT_TRUE(mend_token_read(&r->ticket.token, &content));
    mend_share_request requests[] = {{MEND_SHARE_MARK, content.key + 1, content.number},
                                     {MEND_SHARE_MARK + 1, content.key, content.number},
                                     {MEND_SHARE_MARK, content.key, 0},
                                     {MEND_SHARE_MARK, content.key, content.number}};
    for (size_t i = 0; i < 4; i++) {
        const size_t bytes = i < 3 ? sizeof(requests[i]) : 3; /* the last one is cut */
        int connected = dial(&r->ticket.token);
        EXPECT_INT_EQ((int)bytes, (int)send(connected, &requests[i], bytes, 0));
        char answer[8]; /* the connection ends without one */
        EXPECT_INT_EQ(0, recv(connected, answer, sizeof(answer), 0));
        close(connected);
    }
    mend_result result;
    EXPECT_TRUE(share_imports(r, &result));
}

static int count_visitors(void)
{
    mend_process_shares *shares = &mend_process_own_shares;
    int count = 0;
    mend_mutex_lock(&shares->mutex);
    for (int i = 0; i < MEND_SHARE_VISITORS; i++) {
        count += shares->visitors[i].is_here;
    }
    mend_mutex_unlock(&shares->mutex);
    return count;
}

/* Waits for the thread that lets visitors in and out. At most as long as a hung test. */
static void await_visitors(int least, int most)
{
    for (int ms = 0; ms < 900000 && (count_visitors() < least || count_visitors() > most); ms++) {
        usleep(1000);
    }
}

/* They keep nobody waiting until they have all the places. One that hangs up wakes the thread,
 * which looks at all. */
SHARED_TEST(pool_share_faults, visitors_that_stay_silent_are_dismissed, false)
{
    int silent[MEND_SHARE_VISITORS];
    mend_result result;
    int64_t host = 0;
    await_visitors(0, 0); /* files of other tests */
    for (int i = 0; i < MEND_SHARE_VISITORS; i++) {
        close(dial(&r->ticket.token));
        EXPECT_TRUE(share_imports(r, &result));
        await_visitors(i, i); /* none but the silent ones is left */
        host = i == 1 ? mend_test_live_host_allocations() : host;
        EXPECT_TRUE(i < 2 || mend_test_live_host_allocations() == host);
        silent[i] = dial(&r->ticket.token);
    }
    await_visitors(MEND_SHARE_VISITORS, MEND_SHARE_VISITORS);
    mend_process_shares *shares = &mend_process_own_shares;
    mend_mutex_lock(&shares->mutex);
    for (int i = 0; i < MEND_SHARE_VISITORS; i++) { /* as if all had come so long ago */
        shares->visitors[i].since_ms -= MEND_SHARE_PATIENCE_MS + 1;
    }
    mend_mutex_unlock(&shares->mutex);
    close(silent[0]);
    await_visitors(0, MEND_SHARE_VISITORS - 1);
    EXPECT_INT_EQ(0, count_visitors());
    for (int i = 1; i < MEND_SHARE_VISITORS; i++) {
        close(silent[i]);
    }
    EXPECT_TRUE(share_imports(r, &result));
}

/* ---- other users ----------------------------------------------------------------------------- */

atomic_uint mend_test_pretended_user;

uid_t geteuid(void)
{
    return (uid_t)syscall(SYS_geteuid) + mend_test_pretended_user;
}

/* Without the process's own check it would get the chunks. */
SHARED_TEST(pool_share_faults, an_exporter_lets_no_other_user_in, false)
{
    mend_token_content content;
    mend_share_reply reply;
    EXPECT_TRUE(mend_token_read(&r->ticket.token, &content));
    const mend_share_request request = {MEND_SHARE_MARK, content.key, content.number};
    for (uid_t other = 0; other < 2; other++) {
        mend_test_pretended_user = other;
        int visitor = dial(&r->ticket.token);
        (void)send(visitor, &request, sizeof(request), MSG_NOSIGNAL);
        const ssize_t received = recv(visitor, &reply, sizeof(reply), 0);
        mend_test_pretended_user = 0;
        EXPECT_INT_EQ(other == 0, received == (ssize_t)sizeof(reply));
        close(visitor);
    }
}

SHARED_TEST(pool_share_faults, nothing_is_imported_from_another_user, false)
{
    void *pointer = NULL;
    mend_test_pretended_user = 1;
    EXPECT_REFUSAL(EXPORTER_GONE, "runs as another user",
                   share_try_import(r->to.pool, &r->ticket, &pointer));
    mend_test_pretended_user = 0;
    EXPECT_PTR_EQ(NULL, pointer);
}
