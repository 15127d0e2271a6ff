/* Exports over a socket: the importer's side, which asks the exporter that a token names for its
 * chunks, and the exporter's thread, which serves them. */
#include "share/share.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/system.h"
#include "base/thread.h"

/* How soon the importer tries again where the exporter's queue of visitors is full. How often the
 * exporter looks for overdue visitors, and how soon it accepts again after the process had no file
 * descriptor left for one. */
enum { TRY_AGAIN_MS = 5, LOOK_MS = 1000, ACCEPT_AGAIN_MS = 100 };
enum { BACKLOG = 128 };

/* ---- the importer ---------------------------------------------------------------------------- */

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
    return mend_failure(MEND_ERROR_EXPORTER_GONE, "process %lu, which exported the memory, %s",
                        talk->token->process, what);
}

static mend_result refused_by_system(const char *what, int reason)
{
    return mend_failure(MEND_ERROR_SYSTEM, "an import got no %s from the system: %s", what,
                        reason == EMFILE ? "the process has too many open files"
                                         : strerror(reason));
}

/* Waits until the socket is ready. */
static mend_result await_socket(const conversation *talk, short events)
{
    for (;;) {
        uint64_t now_ms = mend_now_ms();
        struct pollfd asked = {.fd = talk->socket, .events = events};
        if (now_ms >= talk->end_ms) {
            return unreachable(talk, "does not answer in time");
        }
        if (poll(&asked, 1, (int)(talk->end_ms - now_ms)) > 0) {
            return MEND_OK;
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
            return unreachable(talk, "does not answer in time");
        }
        (void)poll(NULL, 0, TRY_AGAIN_MS);
    }
    return mend_share_is_of_this_user(talk->socket) ? MEND_OK
                                                    : unreachable(talk, "runs as another user");
}

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

/* Receives one message. On success the files are the caller's. The system puts no more files in a
 * message than fit, and so does `got`. One for which the process has no number left is -1. */
static_assert(sizeof(mend_share_files) - CMSG_LEN(0) == sizeof(((batch *)0)->files), "no padding");
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
        MEND_TRY(await_socket(talk, POLLIN));
    }
    bool is_cut = (message.msg_flags & MSG_CTRUNC) != 0;
    got->count = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&message); at != NULL; at = CMSG_NXTHDR(&message, at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS) {
            const size_t bytes = at->cmsg_len - CMSG_LEN(0);
            memcpy(got->files + got->count, CMSG_DATA(at), bytes);
            got->count += bytes / sizeof(int);
        }
    }
    for (size_t i = 0; i < got->count; i++) {
        got->files[i] = mend_file_keep(got->files[i]);
        is_cut = is_cut || got->files[i] < 0;
    }
    if (!is_cut && length == (ssize_t)sizeof(got->reply) && got->reply.mark == MEND_SHARE_MARK &&
        got->reply.count == got->count) {
        return MEND_OK;
    }
    close_files(got); /* an empty message may bring some, too */
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

/* Gives the chunks of a message to the taker. The first one is about all chunks. */
static mend_result pass_on(conversation *talk, const batch *got, const mend_share_taker *taker)
{
    const mend_fetched *all = &got->reply.all;
    if (talk->taken == 0) {
        if (all->count == 0) {
            return unreachable(talk, "does not export it any more: the block was freed");
        }
        talk->all = *all;
        MEND_TRY(mend_fetched_is_sound(all) ? taker->begin(taker->context, all)
                                            : is_confused(talk));
    }
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

static mend_result converse(conversation *talk, const mend_share_taker *taker)
{
    const mend_share_request request = {MEND_SHARE_MARK, talk->token->key, talk->token->number};
    MEND_TRY(dial(talk));
    while (send(talk->socket, &request, sizeof(request), MSG_NOSIGNAL) !=
           (ssize_t)sizeof(request)) {
        if (errno != EAGAIN && errno != EINTR) {
            return unreachable(talk, "ended the connection");
        }
        MEND_TRY(await_socket(talk, POLLOUT));
    }
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
    const mend_result result = converse(&talk, taker);
    if (talk.socket >= 0) {
        close(talk.socket);
    }
    return result;
}

/* ---- visitors -------------------------------------------------------------------------------- */

static mend_published *find(mend_process_shares *shares, uint64_t number)
{
    mend_published key = {.number = number};
    mend_published *found = MEND_CONTAINER_OR_NULL(
        mend_tree_at_or_after(&shares->published, &key.by_number), mend_published, by_number);
    return found != NULL && found->number == number ? found : NULL;
}

static void dismiss(mend_share_visitor *visitor)
{
    close(visitor->socket);
    *visitor = (mend_share_visitor){0};
}

/* Whether the visitor has sent its request. One that says anything else is dismissed. */
static bool hear(const mend_process_shares *shares, mend_share_visitor *visitor)
{
    mend_share_request request;
    ssize_t length = recv(visitor->socket, &request, sizeof(request), MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (length != (ssize_t)sizeof(request) || request.mark != MEND_SHARE_MARK ||
        request.key != shares->key || request.number == 0) {
        dismiss(visitor);
        return false;
    }
    visitor->number = request.number;
    return true;
}

/* Sends the next chunks, with their files, or that there is no such export. False: the visitor
 * takes no more now, or it is gone. */
static bool send_some(const mend_published *export, mend_share_visitor *visitor)
{
    mend_share_reply reply = {.mark = MEND_SHARE_MARK};
    mend_share_files files;
    struct iovec content = {&reply, sizeof(reply)};
    struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1};
    if (export != NULL) {
        int descriptors[MEND_SHARE_BATCH];
        reply.all = export->all;
        reply.count = mend_min_u64(export->all.count - visitor->sent, MEND_SHARE_BATCH);
        for (size_t i = 0; i < reply.count; i++) {
            reply.chunk_bytes[i] = export->chunks[visitor->sent + i].size_bytes;
            descriptors[i] = export->chunks[visitor->sent + i].file;
        }
        files = (mend_share_files){.header = {.cmsg_len = CMSG_LEN(sizeof(int) * reply.count),
                                              .cmsg_level = SOL_SOCKET,
                                              .cmsg_type = SCM_RIGHTS}};
        memcpy(CMSG_DATA(&files.header), descriptors, sizeof(int) * reply.count);
        message.msg_control = files.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * reply.count);
    }
    if (sendmsg(visitor->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        bool is_full = errno == EAGAIN || errno == EINTR || errno == ENOBUFS ||
                       errno == ETOOMANYREFS || errno == ENOMEM;
        if (!is_full) {
            dismiss(visitor);
        }
        return false;
    }
    visitor->sent += (size_t)reply.count;
    return true;
}

/* Goes on with a visitor as far as that is possible without a wait. An export that is withdrawn
 * half-way ends the conversation. */
static void attend(mend_process_shares *shares, mend_share_visitor *visitor, uint64_t now_ms)
{
    if (now_ms - visitor->since_ms > MEND_SHARE_PATIENCE_MS) {
        dismiss(visitor);
        return;
    }
    if (visitor->number == 0 && !hear(shares, visitor)) {
        return;
    }
    const mend_published *export = find(shares, visitor->number);
    if (export == NULL && visitor->sent == 0) {
        (void)send_some(export, visitor);
    }
    while (export != NULL && visitor->sent < export->all.count && send_some(export, visitor)) {
    }
    if (visitor->is_here && (export == NULL || visitor->sent == export->all.count)) {
        dismiss(visitor);
    }
}

/* Accepts waiting visitors, as far as there are places. False: the process has no file descriptor
 * for one. */
static bool let_in(mend_process_shares *shares, uint64_t now_ms)
{
    for (int i = 0; i < MEND_SHARE_VISITORS;) {
        mend_share_visitor *place = &shares->visitors[i];
        if (place->is_here) {
            i++;
            continue;
        }
        int connected =
            mend_file_keep(accept4(shares->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (connected < 0) {
            return errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS;
        }
        if (!mend_share_is_of_this_user(connected)) {
            close(connected);
            continue;
        }
        *place = (mend_share_visitor){.is_here = true, .socket = connected, .since_ms = now_ms};
    }
    return true;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Ends with the process. It holds the mutex for everything but its waits, so a fork meets it
 * there. */
static void *serve(void *arguments)
{
    mend_process_shares *shares = arguments;
    struct pollfd asked[MEND_SHARE_VISITORS + 1];
    bool accepts = true;
    for (;;) {
        nfds_t count = 0;
        int pause_ms = accepts ? -1 : ACCEPT_AGAIN_MS;
        mend_mutex_lock(&shares->mutex);
        for (int i = 0; i < MEND_SHARE_VISITORS; i++) {
            const mend_share_visitor *visitor = &shares->visitors[i];
            if (visitor->is_here) {
                short events = visitor->number == 0 ? POLLIN : POLLOUT;
                asked[count++] = (struct pollfd){.fd = visitor->socket, .events = events};
                pause_ms = accepts ? LOOK_MS : ACCEPT_AGAIN_MS;
            }
        }
        if (accepts && count < MEND_SHARE_VISITORS) {
            asked[count++] = (struct pollfd){.fd = shares->listener, .events = POLLIN};
        }
        mend_mutex_unlock(&shares->mutex);
        (void)poll(asked, count, pause_ms);
        uint64_t now_ms = mend_now_ms();
        mend_mutex_lock(&shares->mutex);
        accepts = let_in(shares, now_ms);
        for (int i = 0; i < MEND_SHARE_VISITORS; i++) {
            if (shares->visitors[i].is_here) {
                attend(shares, &shares->visitors[i], now_ms);
            }
        }
        mend_mutex_unlock(&shares->mutex);
    }
    return NULL;
}

/* The caller holds the mutex. Returns the call that the system refused, or NULL. */
static const char *open_all(mend_process_shares *shares)
{
    if (getrandom(shares->name, sizeof(shares->name), 0) != (ssize_t)sizeof(shares->name) ||
        getrandom(&shares->key, sizeof(shares->key), 0) != (ssize_t)sizeof(shares->key)) {
        return "random numbers";
    }
    struct sockaddr_un address;
    const socklen_t length = mend_share_address(shares->name, &address);
    shares->listener =
        mend_file_keep(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (shares->listener < 0) {
        return "a socket";
    }
    pthread_t thread;
    const bool listens = bind(shares->listener, (const struct sockaddr *)&address, length) == 0 &&
                         listen(shares->listener, BACKLOG) == 0;
    if (!listens || !mend_start_service(&thread, "mend-exports", serve, shares)) {
        close(shares->listener);
        return listens ? "a thread" : "a socket";
    }
    pthread_detach(thread);
    shares->is_open = true;
    return NULL;
}

mend_result mend_share_open(void)
{
    mend_process_shares *shares = &mend_process_own_shares;
    mend_mutex_lock(&shares->mutex);
    const char *refused = shares->is_open ? NULL : open_all(shares);
    mend_mutex_unlock(&shares->mutex);
    return refused == NULL
               ? MEND_OK
               : mend_failure(MEND_ERROR_SYSTEM,
                              "the system has not %s for exports; the process may have too many "
                              "open files or threads",
                              refused);
}

void mend_share_publish(mend_published *export)
{
    mend_process_shares *shares = &mend_process_own_shares;
    mend_mutex_lock(&shares->mutex);
    mend_tree_insert(&shares->published, &export->by_number);
    mend_mutex_unlock(&shares->mutex);
}

uint64_t mend_share_next_number(void)
{
    mend_process_shares *shares = &mend_process_own_shares;
    mend_mutex_lock(&shares->mutex);
    uint64_t number = ++shares->last_number;
    mend_mutex_unlock(&shares->mutex);
    return number;
}

void mend_share_withdraw(mend_published *export)
{
    mend_process_shares *shares = &mend_process_own_shares;
    mend_mutex_lock(&shares->mutex);
    assert(find(shares, export->number) == export);
    mend_tree_remove(&shares->published, &export->by_number);
    mend_mutex_unlock(&shares->mutex);
}

void mend_share_write_token(const mend_published *export, mend_export_token *token)
{
    mend_process_shares *shares = &mend_process_own_shares;
    mend_token_content content = {.number = export->number, .process = (uint64_t)getpid()};
    mend_mutex_lock(&shares->mutex);
    memcpy(content.name, shares->name, sizeof(content.name));
    content.key = shares->key;
    mend_mutex_unlock(&shares->mutex);
    mend_token_write(&content, token);
}
