/*
 * What processes say to each other: the token, which the program carries from the exporter to the
 * importer, and the messages between the two over a socket. Both run on one machine, so numbers are
 * in its own order.
 */
#include "share/share.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

static uint64_t check_of(const mend_token_content *content)
{
    return mend_hash(MEND_HASH_OF_NOTHING, content, offsetof(mend_token_content, check));
}

void mend_token_write(const mend_token_content *content, mend_export_token *token)
{
    mend_token_content whole = *content;
    whole.mark = MEND_SHARE_MARK;
    whole.check = check_of(&whole);
    memcpy(token, &whole, sizeof(*token));
}

bool mend_token_read(const mend_export_token *token, mend_token_content *content)
{
    memcpy(content, token, sizeof(*content));
    return content->mark == MEND_SHARE_MARK && content->check == check_of(content) &&
           content->number != 0;
}

/* The first byte is 0: the name is in no file system, and goes with the socket. */
socklen_t mend_share_address(const unsigned char name[MEND_SHARE_NAME_BYTES],
                             struct sockaddr_un *address)
{
    static const char start[] = "mend-";
    static const char digits[] = "0123456789abcdef";
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    char *at = address->sun_path + 1;
    memcpy(at, start, sizeof(start) - 1);
    at += sizeof(start) - 1;
    for (int i = 0; i < MEND_SHARE_NAME_BYTES; i++) {
        *at++ = digits[name[i] / 16];
        *at++ = digits[name[i] % 16];
    }
    return (socklen_t)(at - (char *)address);
}

uint64_t mend_share_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool mend_share_is_of_this_user(int connected)
{
    struct ucred other;
    socklen_t length = sizeof(other);
    return getsockopt(connected, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 &&
           length == sizeof(other) && other.uid == geteuid();
}
