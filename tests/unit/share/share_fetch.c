/* The importer's side, against misbehaving exporters. */
#include "share/share.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/kit.h"
#include "tests/support/patience.h"

enum { SOON_MS = 50, LATE_MS = 20000, MOST_MESSAGES = 2 };

/* The messages of an exporter of the test's own. */
typedef struct answer {
    mend_share_reply reply;
    size_t files;
    size_t length;
} answer;

typedef struct exporter {
    mend_token_content token;
    int listener;
    answer answers[MOST_MESSAGES];
    int count;
    int file;
    bool ends; /* with its first visitor */
    pthread_t thread;
} exporter;

typedef struct taken {
    mend_fetched all;
    uint64_t bytes;
    uint64_t count;
    mend_result answer;
} taken;

static bool open_exporter(exporter *e, int backlog)
{
    struct sockaddr_un address;
    *e = (exporter){.token = {.number = 1, .process = (uint64_t)getpid()}};
    memcpy(e->token.name, &(pid_t){getpid()}, sizeof(pid_t));
    socklen_t length = mend_share_address(e->token.name, &address);
    e->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    e->file = dup(STDERR_FILENO);
    return e->listener >= 0 && e->file >= 0 &&
           bind(e->listener, (const struct sockaddr *)&address, length) == 0 &&
           listen(e->listener, backlog) == 0;
}

static void close_exporter(const exporter *e)
{
    close(e->listener);
    close(e->file);
}

static mend_result note_all(void *context, const mend_fetched *all)
{
    taken *t = context;
    t->all = *all;
    return t->answer;
}

static mend_result note_one(void *context, int file, uint64_t size_bytes)
{
    taken *t = context;
    t->count++;
    t->bytes += size_bytes;
    EXPECT_TRUE(file >= 0);
    return MEND_OK;
}

static mend_result fetch(const exporter *e, uint64_t patience_ms, taken *t)
{
    return mend_share_fetch(&e->token, patience_ms,
                            &(const mend_share_taker){note_all, note_one, t});
}

static void expect_patience_to_end(const exporter *e)
{
    taken t = {.answer = MEND_OK};
    mend_test_let_patience_end(true);
    EXPECT_INT_EQ(MEND_ERROR_EXPORTER_GONE, fetch(e, SOON_MS, &t));
    mend_test_let_patience_end(false);
    EXPECT_TRUE(strstr(mend_process_failure()->message, "does not answer in time") != NULL);
}

static void send_answer(const exporter *e, int to, const answer *a)
{
    union {
        struct cmsghdr header;
        unsigned char bytes[CMSG_SPACE(sizeof(int) * MEND_SHARE_BATCH)];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int) * a->files),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS}};
    struct iovec content = {(void *)(uintptr_t)&a->reply, a->length};
    struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1};
    for (size_t i = 0; i < a->files; i++) {
        memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &e->file, sizeof(int));
    }
    if (a->files > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * a->files);
    }
    (void)sendmsg(to, &message, MSG_NOSIGNAL);
}

static void *answer_one(void *context)
{
    const exporter *e = context;
    mend_share_request request;
    int to = accept(e->listener, NULL, NULL);
    if (recv(to, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
        for (int i = 0; i < e->count; i++) {
            send_answer(e, to, &e->answers[i]);
        }
    }
    if (e->ends) {
        shutdown(e->listener, SHUT_RDWR);
    }
    close(to);
    return NULL;
}

static mend_result fetch_answered(exporter *e, taken *t)
{
    if (pthread_create(&e->thread, NULL, answer_one, e) != 0) {
        return MEND_ERROR_INTERNAL;
    }
    mend_result result = fetch(e, LATE_MS, t);
    pthread_join(e->thread, NULL);
    return result;
}

/* Two chunks of 4 KiB, of which the block has all but 512 bytes. */
static answer good_answer(void)
{
    return (answer){.reply = {.mark = MEND_SHARE_MARK,
                              .all = {2, 8192, 512, 8192 - 512},
                              .count = 2,
                              .chunk_bytes = {4096, 4096}},
                    .files = 2,
                    .length = sizeof(mend_share_reply)};
}

#define EXPORTER_TEST(suite, name, opening)                                                        \
    KIT_BARE_TEST(suite, name, exporter, opening, close_exporter(r))

EXPORTER_TEST(share_fetch, nobody_waits_for_an_exporter_that_does_not_answer, open_exporter(r, 4))
{
    expect_patience_to_end(r);
}

EXPORTER_TEST(share_fetch, nobody_waits_for_an_exporter_that_lets_nobody_in, open_exporter(r, 0))
{
    struct sockaddr_un address;
    enum { VISITORS = 4 };
    int visitors[VISITORS];
    socklen_t length = mend_share_address(r->token.name, &address);
    for (int i = 0; i < VISITORS; i++) {
        visitors[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(visitors[i], (const struct sockaddr *)&address, length);
    }
    expect_patience_to_end(r);
    for (int i = 0; i < VISITORS; i++) {
        close(visitors[i]);
    }
}

/* And leaves no file here. One that spoils the good answer by a statement about the exporter `e` or
 * its `reply`. */
#define EXPECT_REFUSED(...)                                                                        \
    do {                                                                                           \
        exporter e;                                                                                \
        const int files = mend_test_open_files();                                                  \
        mend_share_reply *reply = &e.answers[0].reply;                                             \
        ASSERT_TRUE(open_exporter(&e, 4));                                                         \
        e.answers[0] = good_answer();                                                              \
        e.count = 1;                                                                               \
        __VA_ARGS__;                                                                               \
        (void)reply;                                                                               \
        EXPECT_INT_EQ(MEND_ERROR_EXPORTER_GONE, fetch_answered(&e, &(taken){.answer = MEND_OK}));  \
        close_exporter(&e);                                                                        \
        EXPECT_TRUE(mend_test_files_are(files));                                                   \
    } while (0)

MEND_TEST(share_fetch, wrong_answers_are_refused)
{
    mend_export_token token;
    mend_token_write(&(mend_token_content){.process = 1}, &token); /* no export has the number 0 */
    EXPECT_FALSE(mend_token_read(&token, &(mend_token_content){0}));
    EXPECT_REFUSED(e.answers[0].length -= 8);
    EXPECT_REFUSED(e.answers[0].length = 0, e.answers[0].files = MEND_SHARE_BATCH);
    EXPECT_REFUSED(reply->mark++);
    EXPECT_REFUSED(e.answers[0].files = 1);
    EXPECT_REFUSED(e.answers[0].files = 0, reply->count = 0, e.answers[1] = good_answer(),
                   e.count = 2);
    EXPECT_REFUSED(reply->all.count = 1);
    EXPECT_REFUSED(reply->chunk_bytes[1] = UINT64_MAX); /* chunks above their sum, and below */
    EXPECT_REFUSED(reply->chunk_bytes[1] = 2048);
    EXPECT_REFUSED(reply->chunk_bytes[0] = 0);
    EXPECT_REFUSED(reply->chunk_bytes[0] = 0, reply->chunk_bytes[1] = 8192);
    EXPECT_REFUSED(reply->all.offset_bytes = 4096); /* the block ends behind its chunks */
    EXPECT_REFUSED(reply->all.size_bytes = 0);
    EXPECT_REFUSED(reply->all.count = UINT64_MAX / 16);
    EXPECT_REFUSED(reply->all.offset_bytes = UINT64_MAX);
    EXPECT_REFUSED(e.count = 0);
    EXPECT_REFUSED(reply->all.count = 3); /* ends half way */
    EXPECT_REFUSED(*reply = (mend_share_reply){.mark = MEND_SHARE_MARK}, e.answers[0].files = 0);
    EXPECT_REFUSED(reply->all.count = 4, reply->all.all_bytes = 16384, e.answers[1] = e.answers[0],
                   e.answers[1].reply.all.count = 5, e.count = 2); /* another story */
}

/* No host memory is taken for so many. */
EXPORTER_TEST(share_fetch, an_answer_of_too_many_chunks_begins_nothing, open_exporter(r, 4))
{
    taken t = {.answer = MEND_OK};
    r->answers[0] = good_answer();
    r->answers[0].reply.all.count = (UINT64_C(1) << 20) + 1;
    r->count = 1;
    EXPECT_INT_EQ(MEND_ERROR_EXPORTER_GONE, fetch_answered(r, &t));
    EXPECT_U64_EQ(0, t.all.count);
}
