/* Guards of shared memory: the visitors that an exporter serves, and the exporters of an import. */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "share/share.h"
#include "tests/support/user.h"
#include "tests/unit/pool/share_rig.h"

atomic_uint mend_test_pretended_user;

uid_t geteuid(void)
{
    return (uid_t)syscall(SYS_geteuid) + mend_test_pretended_user;
}

/* Without the process's own check it would get the chunks. */
SHARED_TEST(survivors_share, an_exporter_lets_no_other_user_in, false)
{
    mend_token_content content;
    mend_share_reply reply;
    struct sockaddr_un address;
    EXPECT_TRUE(mend_token_read(&r->ticket.token, &content));
    const mend_share_request request = {MEND_SHARE_MARK, content.key, content.number};
    const socklen_t length = mend_share_address(content.name, &address);
    for (uid_t other = 0; other < 2; other++) {
        int visitor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        mend_test_pretended_user = other;
        ASSERT_TRUE(connect(visitor, (const struct sockaddr *)&address, length) == 0);
        (void)send(visitor, &request, sizeof(request), MSG_NOSIGNAL);
        const ssize_t received = recv(visitor, &reply, sizeof(reply), 0);
        mend_test_pretended_user = 0;
        EXPECT_INT_EQ(other == 0, received == (ssize_t)sizeof(reply));
        close(visitor);
    }
}

SHARED_TEST(survivors_share, nothing_is_imported_from_another_user, false)
{
    void *pointer = NULL;
    mend_test_pretended_user = 1;
    EXPECT_REFUSAL(
        EXPORTER_GONE, "runs as another user",
        mend_import(r->to.pool, &r->ticket.token, MEND_EXPORT_TOKEN_BYTES, &pointer, NULL));
    mend_test_pretended_user = 0;
    EXPECT_PTR_EQ(NULL, pointer);
}
