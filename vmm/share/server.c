/* The exporter's side: the exports of the process, and the thread that serves them. */
#include "share/share.h"

#include <dlfcn.h>
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

/* How often overdue visitors are looked for, and how soon the thread accepts again after the
 * process had no file descriptor left for a visitor. */
enum { LOOK_MS = 1000, ACCEPT_AGAIN_MS = 100 };
enum { BACKLOG = 128 };

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

/* Fills the reply and the files behind it with the next chunks. */
static void prepare(const mend_published *export, size_t sent, mend_share_reply *reply,
                    mend_share_files *files)
{
    int descriptors[MEND_SHARE_BATCH];
    const size_t count = mend_min_u64(export->all.count - sent, MEND_SHARE_BATCH);
    *reply = (mend_share_reply){.mark = MEND_SHARE_MARK, .all = export->all, .count = count};
    for (size_t i = 0; i < count; i++) {
        reply->chunk_bytes[i] = export->chunks[sent + i].size_bytes;
        descriptors[i] = export->chunks[sent + i].file;
    }
    *files = (mend_share_files){.header = {.cmsg_len = CMSG_LEN(sizeof(int) * count),
                                           .cmsg_level = SOL_SOCKET,
                                           .cmsg_type = SCM_RIGHTS}};
    memcpy(CMSG_DATA(&files->header), descriptors, sizeof(int) * count);
}

/* Sends one message. False: the visitor takes no more now, or it is gone. */
static bool send_some(const mend_published *export, mend_share_visitor *visitor)
{
    mend_share_reply reply = {.mark = MEND_SHARE_MARK};
    mend_share_files files;
    struct iovec content = {&reply, sizeof(reply)};
    struct msghdr message = {.msg_iov = &content, .msg_iovlen = 1};
    if (export != NULL) {
        prepare(export, visitor->sent, &reply, &files);
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
    if (export == NULL) {
        if (visitor->sent == 0) {
            (void)send_some(export, visitor);
        }
        if (visitor->is_here) {
            dismiss(visitor);
        }
        return;
    }
    while (visitor->sent < export->all.count && send_some(export, visitor)) {
    }
    if (visitor->is_here && visitor->sent == export->all.count) {
        dismiss(visitor);
    }
}

static mend_share_visitor *free_place(mend_process_shares *shares)
{
    for (int i = 0; i < MEND_SHARE_VISITORS; i++) {
        if (!shares->visitors[i].is_here) {
            return &shares->visitors[i];
        }
    }
    return NULL;
}

/* Accepts waiting visitors, as far as there are places. False: the process has no file descriptor
 * for one. */
static bool let_in(mend_process_shares *shares, uint64_t now_ms)
{
    mend_share_visitor *place;
    while ((place = free_place(shares)) != NULL) {
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

/* The events that the thread waits for, and for how long. */
static nfds_t gather(mend_process_shares *shares, bool accepts, struct pollfd *asked, int *pause_ms)
{
    nfds_t count = 0;
    *pause_ms = accepts ? -1 : ACCEPT_AGAIN_MS;
    for (int i = 0; i < MEND_SHARE_VISITORS; i++) {
        const mend_share_visitor *visitor = &shares->visitors[i];
        if (visitor->is_here) {
            short events = visitor->number == 0 ? POLLIN : POLLOUT;
            asked[count++] = (struct pollfd){.fd = visitor->socket, .events = events};
            *pause_ms = accepts ? LOOK_MS : ACCEPT_AGAIN_MS;
        }
    }
    if (accepts && count < MEND_SHARE_VISITORS) {
        asked[count++] = (struct pollfd){.fd = shares->listener, .events = POLLIN};
    }
    return count;
}

/* Ends with the process. It holds the mutex for everything but its waits, so a fork meets it
 * there. */
static void *serve(void *arguments)
{
    mend_process_shares *shares = arguments;
    struct pollfd asked[MEND_SHARE_VISITORS + 1];
    bool accepts = true;
    for (;;) {
        int pause_ms;
        mend_mutex_lock(&shares->mutex);
        nfds_t count = gather(shares, accepts, asked, &pause_ms);
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

static bool draw(void *bytes, size_t length)
{
    return getrandom(bytes, length, 0) == (ssize_t)length;
}

static int open_listener(const unsigned char name[MEND_SHARE_NAME_BYTES])
{
    struct sockaddr_un address;
    socklen_t length = mend_share_address(name, &address);
    int listener =
        mend_file_keep(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (listener < 0) {
        return -1;
    }
    if (bind(listener, (const struct sockaddr *)&address, length) != 0 ||
        listen(listener, BACKLOG) != 0) {
        int reason = errno;
        close(listener);
        errno = reason;
        return -1;
    }
    return listener;
}

/* The caller holds the mutex. Returns the call that the system refused, or NULL. */
static const char *open_all(mend_process_shares *shares)
{
    if (!draw(shares->name, sizeof(shares->name)) || !draw(&shares->key, sizeof(shares->key))) {
        return "random numbers";
    }
    shares->listener = open_listener(shares->name);
    if (shares->listener < 0) {
        return "a socket";
    }
    pthread_t thread;
    if (!mend_start_service(&thread, "mend-exports", serve, shares)) {
        close(shares->listener);
        return "a thread";
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
