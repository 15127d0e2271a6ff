/* What guards memory that processes share: whom an exporter serves, and what the dead leave. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share/share.h"
#include "tests/unit/pool/share_rig.h"

/* In the place of the C library's: a test may be somebody else for a moment. */
static atomic_uint pretended;

uid_t geteuid(void)
{
    return (uid_t)syscall(SYS_geteuid) + pretended;
}

MEND_TEST(survivors_share, another_user_is_not_served)
{
    int ends[2];
    ASSERT_TRUE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    EXPECT_TRUE(mend_share_is_of_this_user(ends[0]));
    pretended = 1;
    EXPECT_FALSE(mend_share_is_of_this_user(ends[0]));
    pretended = 0;
    close(ends[0]);
    close(ends[1]);
}

/* Without the process's own check it would get the chunks. */
SHARED_TEST(survivors_share, an_exporter_lets_no_other_user_in, false)
{
    mend_token_content content;
    mend_share_reply reply;
    struct sockaddr_un address;
    EXPECT_TRUE(mend_token_read(&r->ticket.token, &content));
    const mend_share_request request = {MEND_SHARE_MARK, content.key, content.number, 0};
    const socklen_t length = mend_share_address(content.name, &address);
    for (uid_t other = 0; other < 2; other++) {
        int visitor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        pretended = other;
        ASSERT_TRUE(connect(visitor, (const struct sockaddr *)&address, length) == 0);
        (void)send(visitor, &request, sizeof(request), MSG_NOSIGNAL);
        const ssize_t received = recv(visitor, &reply, sizeof(reply), 0);
        pretended = 0;
        EXPECT_INT_EQ(other == 0, received == (ssize_t)sizeof(reply));
        close(visitor);
    }
}

SHARED_TEST(survivors_share, nothing_is_imported_from_another_user, false)
{
    void *pointer = NULL;
    pretended = 1;
    EXPECT_REFUSAL(
        UNREACHABLE, "runs as another user",
        mend_import(r->to.pool, &r->ticket.token, MEND_EXPORT_TOKEN_BYTES, &pointer, NULL));
    pretended = 0;
    EXPECT_PTR_EQ(NULL, pointer);
}

/* The newcomer takes the slot of an owner that died, and nothing that was claimed there. */
MEND_TEST(survivors_share, a_newcomer_has_claimed_nothing)
{
    char path[64];
    int ready[2];
    char answer = 0;
    mend_limit_slot kept = {.file = -1};
    mend_limit_slot dead = {.file = -1};
    mend_limit_slot newcomer = {.file = -1};
    snprintf(path, sizeof(path), "/tmp/mend-limit-%ld-XXXXXX", (long)getpid());
    close(mkstemp(path));
    ASSERT_TRUE(pipe(ready) == 0);
    EXPECT_RESULT(MEND_OK, mend_limit_file_open(path, 1000, &kept));
    pid_t child = fork();
    if (child == 0) {
        close(kept.file); /* else its slot would live on in the child */
        bool claims =
            mend_limit_file_open(path, 1000, &dead) == MEND_OK && mend_limit_file_claim(&dead, 700);
        (void)!write(ready[1], claims ? "y" : "n", 1);
        pause();
        _exit(1);
    }
    EXPECT_TRUE(read(ready[0], &answer, 1) == 1);
    EXPECT_INT_EQ('y', answer);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    EXPECT_RESULT(MEND_OK, mend_limit_file_open(path, 1000, &newcomer));
    EXPECT_U64_EQ(1000, mend_limit_file_look(&kept, 0).room_bytes);
    mend_limit_file_close(&newcomer);
    mend_limit_file_close(&kept);
    close(ready[0]);
    close(ready[1]);
    unlink(path);
}
