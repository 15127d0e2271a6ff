/* The importer's side: asks the exporter that a token names for its chunks. */
#include "share/share.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/system.h"
#include "base/thread.h"

/* How soon it tries again where the exporter's queue of visitors is full. */
enum { TRY_AGAIN_MS = 5 };

typedef struct conversation {
    const mend_token_content *token;
    int socket;
    uint64_t end_ms;  /* when the patience ends */
    mend_fetched all; /* number and sizes of the chunks, from the first message */
    uint64_t taken;   /* chunks, */
    uint64_t taken_bytes;
} conversation;

static mend_result unreachable(const conversation *talk, const char *what)
{
    return mend_failure(MEND_ERROR_EXPORTER_GONE, "process %llu, which exported the memory, %s",
                        (unsigned long long)talk->token->process, what);
}

static mend_result refused_by_system(const char *what, int reason)
{
    return mend_failure(MEND_ERROR_SYSTEM, "an import got no %s from the system: %s", what,
                        reason == EMFILE ? "the process has too many open files"
                                         : strerror(reason));
}

static mend_result is_late(const conversation *talk)
{
    return unreachable(talk, "does not answer in time");
}

/* Waits until the socket is ready. False: the patience has ended. */
static bool await_socket(const conversation *talk, short events)
{
    for (;;) {
        uint64_t now_ms = mend_now_ms();
        struct pollfd asked = {.fd = talk->socket, .events = events};
        if (now_ms >= talk->end_ms) {
            return false;
        }
        if (poll(&asked, 1, (int)(talk->end_ms - now_ms)) > 0) {
            return true;
        }
    }
}

static mend_result dial(conversation *talk)
{
    struct sockaddr_un address;
    socklen_t length = mend_share_address(talk->token->name, &address);
    talk->socket =
        mend_file_keep(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (talk->socket < 0) {
        return refused_by_system("socket", errno);
    }
    while (connect(talk->socket, (const struct sockaddr *)&address, length) != 0) {
        if (errno == ECONNREFUSED || errno == ENOENT) {
            return unreachable(talk, "has ended, or is not in the same network namespace");
        }
        if (errno != EAGAIN && errno != EINTR) {
            return refused_by_system("connection", errno);
        }
        if (mend_now_ms() >= talk->end_ms) {
            return is_late(talk);
        }
        (void)poll(NULL, 0, TRY_AGAIN_MS);
    }
    return mend_share_is_of_this_user(talk->socket) ? MEND_OK
                                                    : unreachable(talk, "runs as another user");
}

static mend_result ask(conversation *talk)
{
    const mend_share_request request = {MEND_SHARE_MARK, talk->token->key, talk->token->number};
    while (send(talk->socket, &request, sizeof(request), MSG_NOSIGNAL) !=
           (ssize_t)sizeof(request)) {
        if (errno != EAGAIN && errno != EINTR) {
            return unreachable(talk, "ended the connection");
        }
        if (!await_socket(talk, POLLOUT)) {
            return is_late(talk);
        }
    }
    return MEND_OK;
}

/* ---- what comes back ------------------------------------------------------------------------- */

typedef struct batch {
    mend_share_reply reply;
    int files[MEND_SHARE_BATCH];
    size_t count; /* of files */
} batch;

static void close_files(const batch *got)
{
    for (size_t i = 0; i < got->count; i++) {
        if (got->files[i] >= 0) {
            close(got->files[i]);
        }
    }
}

/* The system puts no more in there than fits, and so does `got`. False: the process has no number
 * left for one. It is -1. */
static_assert(sizeof(mend_share_files) - CMSG_LEN(0) == sizeof(((batch *)0)->files), "no padding");
static bool collect_files(struct msghdr *message, batch *got)
{
    got->count = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS) {
            const size_t bytes = at->cmsg_len - CMSG_LEN(0);
            memcpy(got->files + got->count, CMSG_DATA(at), bytes);
            got->count += bytes / sizeof(int);
        }
    }
    bool are_kept = true;
    for (size_t i = 0; i < got->count; i++) {
        got->files[i] = mend_file_keep(got->files[i]);
        are_kept = are_kept && got->files[i] >= 0;
    }
    return are_kept;
}

/* Receives one message. On success the files are the caller's. */
static mend_result receive(conversation *talk, batch *got)
{
    mend_share_files control;
    struct iovec content = {&got->reply, sizeof(got->reply)};
    struct msghdr message = {.msg_iov = &content,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t length;
    while ((length = recvmsg(talk->socket, &message, MSG_CMSG_CLOEXEC)) < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            return unreachable(talk, "ended the connection");
        }
        if (!await_socket(talk, POLLIN)) {
            return is_late(talk);
        }
    }
    /* An empty message may bring some, too. */
    const bool is_cut = !collect_files(&message, got) || (message.msg_flags & MSG_CTRUNC) != 0;
    if (!is_cut && length == (ssize_t)sizeof(got->reply) && got->reply.mark == MEND_SHARE_MARK &&
        got->reply.count == got->count) {
        return MEND_OK;
    }
    close_files(got);
    if (is_cut) {
        return refused_by_system("file descriptors", EMFILE);
    }
    return length == 0 ? unreachable(talk, "freed the memory, or ended the connection")
                       : unreachable(talk, "answers with another version of the library");
}

static mend_result is_confused(const conversation *talk)
{
    return unreachable(talk, "sends an answer that does not belong to the request");
}

/* The first message, about all chunks. */
static mend_result begin(conversation *talk, const mend_fetched *all, const mend_share_taker *taker)
{
    if (all->count == 0) {
        return unreachable(talk, "does not export it any more: the block was freed");
    }
    talk->all = *all;
    return mend_fetched_is_sound(all) ? taker->begin(taker->context, all) : is_confused(talk);
}

/* Gives the chunks of a message to the taker. */
static mend_result pass_on(conversation *talk, const batch *got, const mend_share_taker *taker)
{
    const mend_fetched *all = &got->reply.all;
    MEND_TRY(talk->taken == 0 ? begin(talk, all, taker) : MEND_OK);
    if (got->count == 0 || all->count != talk->all.count || got->count > all->count - talk->taken) {
        return is_confused(talk);
    }
    for (size_t i = 0; i < got->count; i++) {
        const uint64_t bytes = got->reply.chunk_bytes[i];
        if (bytes == 0 || bytes > talk->all.all_bytes - talk->taken_bytes) {
            return is_confused(talk);
        }
        MEND_TRY(taker->take(taker->context, got->files[i], bytes));
        talk->taken++;
        talk->taken_bytes += bytes;
    }
    return MEND_OK;
}

static mend_result take_all(conversation *talk, const mend_share_taker *taker)
{
    do {
        batch got;
        MEND_TRY(receive(talk, &got));
        const mend_result result = pass_on(talk, &got, taker);
        close_files(&got);
        MEND_TRY(result);
    } while (talk->taken < talk->all.count);
    return talk->taken_bytes == talk->all.all_bytes ? MEND_OK : is_confused(talk);
}

mend_result mend_share_fetch(const mend_token_content *token, uint64_t patience_ms,
                             const mend_share_taker *taker)
{
    conversation talk = {.token = token, .end_ms = mend_now_ms() + patience_ms};
    mend_result result = dial(&talk);
    if (result == MEND_OK) {
        result = ask(&talk);
    }
    if (result == MEND_OK) {
        result = take_all(&talk, taker);
    }
    if (talk.socket >= 0) {
        close(talk.socket);
    }
    return result;
}
