/* The importer's side, against exporters that do not do what they should. */
#include "share/fetch.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { SOON_MS = 50, LATE_MS = 20000, MOST_MESSAGES = 2 };

/* What an exporter of the test's own answers, message by message. */
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
    close(to);
    return NULL;
}

/* Fetches from an exporter that gives these answers. */
static mend_result fetch_answered(exporter *e, taken *t)
{
    if (pthread_create(&e->thread, NULL, answer_one, e) != 0) {
        return MEND_ERROR_INVARIANT;
    }
    mend_result result = fetch(e, LATE_MS, t);
    pthread_join(e->thread, NULL);
    return result;
}

/* Two chunks of 4 KiB, of which the block has all but 512 bytes. */
static answer good_answer(void)
{
    return (answer){.reply = {.mark = MEND_SHARE_MARK,
                              .all_count = 2,
                              .all_bytes = 8192,
                              .offset_bytes = 512,
                              .size_bytes = 8192 - 512,
                              .count = 2,
                              .chunk_bytes = {4096, 4096}},
                    .files = 2,
                    .length = sizeof(mend_share_reply)};
}

MEND_TEST(share_fetch, takes_what_an_exporter_gives)
{
    exporter e;
    taken t = {.answer = MEND_OK};
    ASSERT_TRUE(open_exporter(&e, 4));
    e.answers[0] = good_answer();
    e.count = 1;
    EXPECT_INT_EQ(MEND_OK, fetch_answered(&e, &t));
    EXPECT_U64_EQ(2, t.count);
    EXPECT_U64_EQ(8192, t.bytes);
    EXPECT_U64_EQ(512, t.all.offset_bytes);
    close_exporter(&e);
}

MEND_TEST(share_fetch, a_taker_may_refuse)
{
    exporter e;
    taken t = {.answer = MEND_ERROR_OUT_OF_HOST_MEMORY};
    ASSERT_TRUE(open_exporter(&e, 4));
    e.answers[0] = good_answer();
    e.count = 1;
    EXPECT_INT_EQ(MEND_ERROR_OUT_OF_HOST_MEMORY, fetch_answered(&e, &t));
    EXPECT_U64_EQ(0, t.count);
    close_exporter(&e);
}

MEND_TEST(share_fetch, nobody_waits_for_an_exporter_that_does_not_answer)
{
    exporter e;
    taken t = {.answer = MEND_OK};
    ASSERT_TRUE(open_exporter(&e, 4));
    EXPECT_INT_EQ(MEND_ERROR_UNREACHABLE, fetch(&e, SOON_MS, &t));
    EXPECT_TRUE(strstr(mend_process_failure()->message, "does not answer in time") != NULL);
    close_exporter(&e);
}

/* Its queue of visitors is full. */
MEND_TEST(share_fetch, nobody_waits_for_an_exporter_that_lets_nobody_in)
{
    exporter e;
    struct sockaddr_un address;
    enum { VISITORS = 4 };
    int visitors[VISITORS];
    taken t = {.answer = MEND_OK};
    ASSERT_TRUE(open_exporter(&e, 0));
    socklen_t length = mend_share_address(e.token.name, &address);
    for (int i = 0; i < VISITORS; i++) {
        visitors[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(visitors[i], (const struct sockaddr *)&address, length);
    }
    EXPECT_INT_EQ(MEND_ERROR_UNREACHABLE, fetch(&e, SOON_MS, &t));
    for (int i = 0; i < VISITORS; i++) {
        close(visitors[i]);
    }
    close_exporter(&e);
}

static void cut(exporter *e)
{
    e->answers[0].length -= 8;
}

static void other_version(exporter *e)
{
    e->answers[0].reply.mark++;
}

static void fewer_files(exporter *e)
{
    e->answers[0].files = 1;
}

static void no_files(exporter *e)
{
    e->answers[0].files = 0;
    e->answers[0].reply.count = 0;
}

static void more_than_all(exporter *e)
{
    e->answers[0].reply.all_count = 1;
}

static void chunks_above_their_sum(exporter *e)
{
    e->answers[0].reply.chunk_bytes[1] = UINT64_MAX;
}

static void chunks_below_their_sum(exporter *e)
{
    e->answers[0].reply.chunk_bytes[1] = 2048;
}

static void an_empty_chunk(exporter *e)
{
    e->answers[0].reply.chunk_bytes[0] = 0;
}

static void a_block_behind_its_chunks(exporter *e)
{
    e->answers[0].reply.offset_bytes = 4096;
}

static void an_offset_that_overflows(exporter *e)
{
    e->answers[0].reply.offset_bytes = UINT64_MAX;
}

static void no_block(exporter *e)
{
    e->answers[0].reply.size_bytes = 0;
}

static void too_many_chunks(exporter *e)
{
    e->answers[0].reply.all_count = UINT64_MAX / 16;
}

static void an_end_half_way(exporter *e)
{
    e->answers[0].reply.all_count = 3;
}

static void a_second_story(exporter *e)
{
    e->answers[0].reply.all_count = 4;
    e->answers[0].reply.all_bytes = 16384;
    e->answers[1] = e->answers[0];
    e->answers[1].reply.all_count = 5;
    e->count = 2;
}

static void nothing(exporter *e)
{
    e->count = 0;
}

static void an_end_of_the_export(exporter *e)
{
    e->answers[0] =
        (answer){.reply = {.mark = MEND_SHARE_MARK}, .length = sizeof(e->answers[0].reply)};
}

MEND_TEST(share_fetch, wrong_answers_are_refused)
{
    void (*const spoilers[])(exporter *) = {cut,
                                            other_version,
                                            fewer_files,
                                            no_files,
                                            more_than_all,
                                            chunks_above_their_sum,
                                            an_empty_chunk,
                                            chunks_below_their_sum,
                                            a_block_behind_its_chunks,
                                            no_block,
                                            too_many_chunks,
                                            an_offset_that_overflows,
                                            nothing,
                                            an_end_half_way,
                                            an_end_of_the_export,
                                            a_second_story};
    for (size_t i = 0; i < sizeof(spoilers) / sizeof(spoilers[0]); i++) {
        exporter e;
        taken t = {.answer = MEND_OK};
        ASSERT_TRUE(open_exporter(&e, 4));
        e.answers[0] = good_answer();
        e.count = 1;
        spoilers[i](&e);
        EXPECT_INT_EQ(MEND_ERROR_UNREACHABLE, fetch_answered(&e, &t));
        close_exporter(&e);
    }
}
