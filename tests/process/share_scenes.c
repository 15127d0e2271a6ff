/* Processes that share memory: each has a simulated device of its own, on the same bytes. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mend/mend_frameworks.h"
#include "mend/mend_range.h"
#include "mend/mend_share.h"
#include "tests/process/linked_scenes.h"
#include "tests/support/options.h"

enum { HUNG_AFTER_S = 900, SIZE_BYTES = 3 << 20, FROM_EXPORTER = 1, FROM_IMPORTER = 2 };

/* ---- a process ------------------------------------------------------------------------------- */

typedef struct side {
    mend_sim *sim;
    mend_pool *pool;
} side;

/* How a block is shared: by a token and a file descriptor, or by a description and fabric handles.
 */
typedef enum way { BY_FILE, BY_FABRIC } way;

/* The other process, and two pipes to talk to it. */
typedef struct other {
    pid_t process;
    int hears;
    int says;
} other;

static side open_side(void)
{
    side s = {NULL, NULL};
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    config.memory_bytes = 64 << 20;
    config.page_bytes = 64 << 10;
    config.content = MEND_SIM_CONTENT_BYTES;
    config.fabric = MEND_SIM_FABRIC_WORKS;
    CHECK(mend_sim_create(&config, &s.sim) == MEND_OK);
    mend_pool_config pool_config = MEND_POOL_CONFIG_INIT;
    pool_config.driver = mend_sim_driver(s.sim);
    pool_config.shareable = MEND_SHAREABLE_FABRIC;
    CHECK(mend_pool_create(&pool_config, &s.pool) == MEND_OK);
    return s;
}

static mend_sim_ledger ledger_of(const side *s)
{
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    CHECK(mend_sim_get_ledger(s->sim, &ledger) == MEND_OK);
    return ledger;
}

static void close_side(side *s)
{
    CHECK(mend_validate(s->pool) == MEND_OK);
    CHECK(mend_pool_destroy(s->pool) == MEND_OK);
    mend_sim_ledger ledger = ledger_of(s);
    CHECK(ledger.chunks == 0 && ledger.foreign_chunks == 0 && ledger.mappings == 0);
    CHECK(ledger.violations == 0);
    mend_sim_destroy(s->sim);
}

static void say(const other *to, const void *bytes, size_t length)
{
    CHECK(write(to->says, bytes, length) == (ssize_t)length); /* a pipe that blocks takes all */
}

static void hear(const other *from, void *bytes, size_t length)
{
    for (size_t heard = 0; heard < length;) {
        ssize_t got = read(from->hears, (char *)bytes + heard, length - heard);
        CHECK(got > 0);
        heard += (size_t)got;
    }
}

static void say_done(const other *to)
{
    say(to, "", 1);
}

static void hear_done(const other *from)
{
    char done;
    hear(from, &done, 1);
}

/* Begins another process, which plays `body` and ends. */
static other begin(void (*body)(const other *, way), way by)
{
    int there[2];
    int back[2];
    CHECK(pipe(there) == 0 && pipe(back) == 0);
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        alarm(HUNG_AFTER_S);
        close(there[1]);
        close(back[0]);
        body(&(const other){getppid(), there[0], back[1]}, by);
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    return (other){process, back[0], there[1]};
}

static void await_end(const other *o, bool is_killed)
{
    int status = 0;
    if (is_killed) {
        CHECK(kill(o->process, SIGKILL) == 0);
    }
    CHECK(waitpid(o->process, &status, 0) == o->process);
    CHECK(is_killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(o->hears);
    close(o->says);
}

static unsigned char *alloc_filled(const side *s, int value)
{
    void *block = NULL;
    CHECK(mend_alloc(s->pool, SIZE_BYTES, NULL, &block) == MEND_OK);
    memset(block, value, SIZE_BYTES);
    return block;
}

static void check_filled(const unsigned char *bytes, int value)
{
    CHECK(bytes[0] == value);
    CHECK(memcmp(bytes, bytes + 1, SIZE_BYTES - 1) == 0);
}

/* What names a block in another process. */
typedef struct name {
    mend_export_token token;
    size_t size;
    unsigned char description[4096];
} name;

static name export_of(const side *s, way by, const void *block)
{
    name n = {.size = 0};
    CHECK((by == BY_FILE
               ? mend_export(s->pool, block, NULL, &n.token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL)
               : mend_export(s->pool, block,
                             KIT_OPTIONS(mend_export_options, .kind = MEND_EXPORT_FABRIC),
                             n.description, sizeof(n.description), &n.size, NULL)) == MEND_OK);
    CHECK(n.size <= sizeof(n.description));
    return n;
}

static mend_result try_import(const side *s, way by, const name *n, void **block,
                              uint64_t *size_bytes)
{
    return by == BY_FILE
               ? mend_import(s->pool, &n->token, MEND_EXPORT_TOKEN_BYTES, block, size_bytes)
               : mend_import(s->pool, n->description, n->size, block, size_bytes);
}

static unsigned char *import_of(const side *s, way by, const name *n)
{
    void *block = NULL;
    uint64_t size_bytes = 0;
    CHECK(try_import(s, by, n, &block, &size_bytes) == MEND_OK);
    CHECK(size_bytes == SIZE_BYTES);
    return block;
}

static void expect_unreachable(const side *s, way by, const name *n)
{
    void *none = NULL;
    CHECK(try_import(s, by, n, &none, NULL) == MEND_ERROR_EXPORTER_GONE);
    CHECK(none == NULL);
}

static int entries_of(const char *folder)
{
    int count = 0;
    DIR *files = opendir(folder);
    CHECK(files != NULL);
    while (readdir(files) != NULL) {
        count++;
    }
    closedir(files);
    return count;
}

static int open_files(void)
{
    return entries_of("/proc/self/fd");
}

/* ---- both live ------------------------------------------------------------------------------- */

static void import_and_answer(const other *exporter, way by)
{
    side s = open_side();
    name n;
    hear(exporter, &n, sizeof(n));
    unsigned char *theirs = import_of(&s, by, &n);
    check_filled(theirs, FROM_EXPORTER);
    memset(theirs, FROM_IMPORTER, SIZE_BYTES);
    say_done(exporter);
    hear_done(exporter);
    CHECK(mend_import_close(s.pool, theirs, MEND_NO_STREAM) == MEND_OK);
    close_side(&s);
}

/* Pages of a range, which are one export. */
static unsigned char *commit_filled(const side *s, mend_range **range, int value)
{
    mend_export_token token;
    mend_range_info info = MEND_RANGE_INFO_INIT;
    CHECK(mend_range_create(s->pool, 4 * SIZE_BYTES, NULL, range) == MEND_OK);
    CHECK(mend_range_commit(*range, SIZE_BYTES, SIZE_BYTES, NULL) == MEND_OK);
    CHECK(mend_range_get_info(*range, &info) == MEND_OK);
    unsigned char *pages = (unsigned char *)info.base + SIZE_BYTES;
    memset(pages, value, SIZE_BYTES);
    CHECK(mend_export(s->pool, pages, KIT_OPTIONS(mend_export_options, .size_bytes = SIZE_BYTES),
                      &token, MEND_EXPORT_TOKEN_BYTES, NULL, NULL) == MEND_OK);
    return pages;
}

/* By fabric handles no thread serves importers. */
static void exchange_some(way by, bool of_pages)
{
    other importer = begin(import_and_answer, by);
    side s = open_side();
    mend_range *range = NULL;
    unsigned char *ours =
        of_pages ? commit_filled(&s, &range, FROM_EXPORTER) : alloc_filled(&s, FROM_EXPORTER);
    const int threads = entries_of("/proc/self/task");
    name n = export_of(&s, by, ours);
    CHECK(by == BY_FILE || entries_of("/proc/self/task") == threads);
    say(&importer, &n, sizeof(n));
    hear_done(&importer);
    check_filled(ours, FROM_IMPORTER);
    say_done(&importer);
    await_end(&importer, false);
    CHECK((of_pages ? mend_range_destroy(range, NULL) : mend_free(s.pool, ours, NULL)) == MEND_OK);
    close_side(&s);
}

static void exchange(way by)
{
    exchange_some(by, false);
    exchange_some(by, true);
}

/* ---- one is killed --------------------------------------------------------------------------- */

/* Exports two blocks, and waits for its end. */
static void export_and_wait(const other *importer, way by)
{
    side s = open_side();
    for (int value = 1; value <= 2; value++) {
        name n = export_of(&s, by, alloc_filled(&s, value));
        say(importer, &n, sizeof(n));
    }
    hear_done(importer);
}

static void kill_the_exporter(way by)
{
    other exporter = begin(export_and_wait, by);
    side s = open_side();
    name n[2];
    hear(&exporter, &n[0], sizeof(n[0]));
    hear(&exporter, &n[1], sizeof(n[1]));
    int files = open_files();
    unsigned char *theirs = import_of(&s, by, &n[0]);
    await_end(&exporter, true);
    check_filled(theirs, 1);
    memset(theirs, 7, SIZE_BYTES);
    check_filled(theirs, 7);
    expect_unreachable(&s, by, &n[1]);
    CHECK(mend_import_close(s.pool, theirs, MEND_NO_STREAM) == MEND_OK);
    CHECK(by == BY_FABRIC || open_files() == files - 2); /* without the pipes */
    close_side(&s);
}

/* By fabric handles first: then no thread serves importers. */
#define BOTH_WAYS(name, play)                                                                      \
    void scene_##name(void)                                                                        \
    {                                                                                              \
        play(BY_FABRIC);                                                                           \
        play(BY_FILE);                                                                             \
    }
BOTH_WAYS(processes_exchange_bytes, exchange)
BOTH_WAYS(the_exporter_is_killed, kill_the_exporter)

/* ---- fork ------------------------------------------------------------------------------------ */

static void wait_for_the_end(const other *parent, way by)
{
    (void)by;
    char done;
    CHECK(read(parent->hears, &done, 1) <= 1);
}

/* Has a child that outlives it, and that inherited everything. */
static void export_with_a_child(const other *importer, way by)
{
    side s = open_side();
    name n = export_of(&s, by, alloc_filled(&s, FROM_EXPORTER));
    other child = begin(wait_for_the_end, by);
    say(importer, &n, sizeof(n));
    say(importer, &child.process, sizeof(child.process));
    hear_done(importer);
}

/* The child holds no socket on which an importer would wait. */
void scene_a_child_of_the_exporter_serves_nobody(void)
{
    other exporter = begin(export_with_a_child, BY_FILE);
    side s = open_side();
    name n;
    pid_t child;
    hear(&exporter, &n, sizeof(n));
    hear(&exporter, &child, sizeof(child));
    unsigned char *theirs = import_of(&s, BY_FILE, &n);
    CHECK(kill(exporter.process, SIGKILL) == 0);
    int status = 0;
    CHECK(waitpid(exporter.process, &status, 0) == exporter.process);
    CHECK(mend_import_close(s.pool, theirs, MEND_NO_STREAM) == MEND_OK);
    expect_unreachable(&s, BY_FILE, &n);
    (void)kill(child, SIGKILL);
    close_side(&s);
}

static side inherited;
static unsigned char *inherited_block;

static void export_its_own(const other *parent, way by)
{
    mend_export_token token;
    CHECK(mend_export(inherited.pool, inherited_block, NULL, &token, MEND_EXPORT_TOKEN_BYTES, NULL,
                      NULL) == MEND_ERROR_FORKED);
    import_and_answer(parent, by);
    export_and_wait(parent, by);
}

/* A child of an exporter imports from it, and exports. */
void scene_a_child_shares_with_its_parent(void)
{
    inherited = open_side();
    inherited_block = alloc_filled(&inherited, FROM_EXPORTER);
    name n = export_of(&inherited, BY_FILE, inherited_block);
    other child = begin(export_its_own, BY_FILE);
    say(&child, &n, sizeof(n));
    hear_done(&child);
    check_filled(inherited_block, FROM_IMPORTER);
    say_done(&child);
    name theirs[2];
    hear(&child, &theirs[0], sizeof(theirs[0]));
    hear(&child, &theirs[1], sizeof(theirs[1]));
    unsigned char *imported = import_of(&inherited, BY_FILE, &theirs[1]);
    check_filled(imported, 2);
    say_done(&child);
    await_end(&child, false);
    CHECK(mend_import_close(inherited.pool, imported, MEND_NO_STREAM) == MEND_OK);
    CHECK(mend_free(inherited.pool, inherited_block, NULL) == MEND_OK);
    close_side(&inherited);
}

/* ---- the end --------------------------------------------------------------------------------- */

void scene_exits_with_exports(void)
{
    inherited = open_side();
    (void)export_of(&inherited, BY_FILE, alloc_filled(&inherited, FROM_EXPORTER));
}
