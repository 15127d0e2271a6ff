/* Files that pools open: their numbers, and files of another user in their place. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system.h"
#include "mend/mend_sleep.h"
#include "tests/support/child.h"
#include "tests/support/user.h"
#include "tests/unit/pool/share_rig.h"

enum { STANDARD = 3 };

static char folder[32];
static char path[sizeof(folder) + 8];

static bool open_folder(void)
{
    snprintf(folder, sizeof(folder), "/tmp/mend-files-XXXXXX");
    const bool is_made = mkdtemp(folder) != NULL;
    snprintf(path, sizeof(path), "%s/file", folder);
    return is_made;
}

static void close_folder(void)
{
    unlink(path);
    EXPECT_INT_EQ(0, rmdir(folder));
}

#define FOLDER_TEST(suite, name)                                                                   \
    static void suite##_##name##_in(void);                                                         \
    MEND_TEST(suite, name)                                                                         \
    {                                                                                              \
        ASSERT_TRUE(open_folder());                                                                \
        suite##_##name##_in();                                                                     \
        close_folder();                                                                            \
    }                                                                                              \
    static void suite##_##name##_in(void)

/* ---- numbers --------------------------------------------------------------------------------- */

static bool are_free(void)
{
    for (int file = 0; file < STANDARD; file++) {
        if (fcntl(file, F_GETFD) != -1) {
            return false;
        }
    }
    return true;
}

/* All that a pool opens, as a daemon would have it that has closed its standard files. */
static bool opens_none_of_the_standard(void *unused)
{
    (void)unused;
    mend_world from;
    mend_world to;
    share_ticket ticket = {.by_fabric = false};
    void *block = NULL;
    void *pointer = NULL;
    char limit_path[sizeof(path) + 8];
    char observed[sizeof(path) + 8];
    snprintf(limit_path, sizeof(limit_path), "%s.limit", path);
    snprintf(observed, sizeof(observed), "top,%s", path);
    for (int file = 0; file < STANDARD; file++) {
        close(file);
    }
    bool holds = kit_open_set(&to, to.sim_config.content = MEND_SIM_CONTENT_NONE) &&
                 kit_open_set(&from, from.sim_config.content = MEND_SIM_CONTENT_NONE,
                              from.pool_config.record = path, from.pool_config.observe = observed,
                              from.pool_config.idle_ms = 1000,
                              from.pool_config.shared_limit_file = limit_path,
                              from.pool_config.shareable = MEND_SHAREABLE_ON);
    holds = holds && are_free();
    holds = holds && mend_alloc(from.pool, MEND_MIB, NULL, &block) == MEND_OK &&
            share_try_export(from.pool, block, &ticket) == MEND_OK && are_free() &&
            share_try_import(to.pool, &ticket, &pointer) == MEND_OK && are_free();
    unlink(limit_path);
    return holds;
}

FOLDER_TEST(pool_files, none_gets_the_number_of_a_standard_file)
{
    EXPECT_TRUE(mend_test_holds_in_a_child(opens_none_of_the_standard, NULL));
}

/* The system takes the lowest number that is free. */
static bool keeps_high_numbers(void *unused)
{
    (void)unused;
    const char *reason;
    close(STANDARD - 1);
    const bool is_last_free = mend_file_open(path, O_RDWR | O_CREAT, &reason) >= STANDARD;
    for (int file = 0; file < STANDARD; file++) {
        close(file);
    }
    const bool is_kept = is_last_free && mend_file_keep(open("/dev/null", O_RDONLY)) >= STANDARD &&
                         mend_file_open(path, O_RDWR | O_CREAT, &reason) >= STANDARD && are_free();
    struct rlimit few = {STANDARD, STANDARD};
    (void)setrlimit(RLIMIT_NOFILE, &few);
    return is_kept && mend_file_keep(open("/dev/null", O_RDONLY)) == -1 && errno == EINVAL &&
           mend_file_open(path, O_RDWR | O_CREAT, &reason) == -1 && are_free();
}

FOLDER_TEST(pool_files, a_number_that_is_not_there_is_a_refusal)
{
    EXPECT_TRUE(mend_test_holds_in_a_child(keeps_high_numbers, NULL));
}

/* ---- files that others have put there -------------------------------------------------------- */

/* A pool that would record there, and one that would share a limit by the file. */
static void expect_refusals(mend_result of_limit, const char *words)
{
    mend_world w;
    mend_pool *pool = NULL;
    ASSERT_TRUE(kit_open_default(&w));
    w.pool_config.record = path;
    EXPECT_REFUSAL(SYSTEM, words, mend_world_create_pool(&w, &pool));
    w.pool_config.record = NULL;
    w.pool_config.shared_limit_file = path;
    EXPECT_RESULT(of_limit, mend_world_create_pool(&w, &pool));
    kit_expect_words(words);
    EXPECT_PTR_EQ(NULL, pool);
    kit_close(&w);
}

static void make_file(void)
{
    close(open(path, O_CREAT | O_EXCL | O_RDWR, 0600));
}

FOLDER_TEST(pool_files, what_others_may_write_is_refused)
{
    const char *reason = NULL;
    make_file();
    EXPECT_INT_EQ(0, chmod(path, 0620));
    expect_refusals(MEND_ERROR_INVALID_ARGUMENT, "chmod go-w");
    EXPECT_INT_EQ(0, chmod(path, 0602));
    expect_refusals(MEND_ERROR_INVALID_ARGUMENT, "chmod go-w");
    EXPECT_INT_EQ(0, chmod(path, 0644)); /* its readers are the user's choice */
    const int file = mend_file_open(path, O_RDWR, &reason);
    EXPECT_TRUE(file >= 0);
    close(file);
}

/* It is given away. Where that is not allowed, this user is another one. */
FOLDER_TEST(pool_files, what_another_user_has_put_there_is_refused)
{
    make_file();
    if (chown(path, 1234, (gid_t)-1) != 0) {
        mend_test_pretended_user = 1;
    }
    expect_refusals(MEND_ERROR_INVALID_ARGUMENT, "belongs to another user");
    mend_test_pretended_user = 0;
}

FOLDER_TEST(pool_files, a_link_is_not_followed)
{
    char target[sizeof(path) + 8];
    snprintf(target, sizeof(target), "%s.target", path);
    EXPECT_INT_EQ(0, symlink(target, path));
    expect_refusals(MEND_ERROR_SYSTEM, "symbolic link");
    EXPECT_INT_EQ(-1, access(target, F_OK));
}

FOLDER_TEST(pool_files, what_is_no_file_is_refused)
{
    EXPECT_INT_EQ(0, mkfifo(path, 0600));
    expect_refusals(MEND_ERROR_INVALID_ARGUMENT, "no regular file");
}
