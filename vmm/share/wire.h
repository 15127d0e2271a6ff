/*
 * What processes say to each other: the token, which the program carries from the exporter to the
 * importer, and the messages between the two over a socket. Both run on one machine, so numbers are
 * in its own order.
 */
#ifndef MEND_SHARE_WIRE_H
#define MEND_SHARE_WIRE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/process.h"
#include "mend/mend_share.h"

/* It changes with every change of the structures below. */
#define MEND_SHARE_MARK UINT64_C(0x32446e656d45584d)

/* The content of a mend_export_token. */
typedef struct mend_token_content {
    uint64_t mark;
    unsigned char name[MEND_SHARE_NAME_BYTES]; /* of the exporter's socket */
    uint64_t key;
    uint64_t number;
    uint64_t process; /* its id, for people */
    uint64_t unused;
    uint64_t check; /* of all before it */
} mend_token_content;
static_assert(sizeof(mend_token_content) == sizeof(mend_export_token),
              "a token has no other bytes");

/* What an importer sends first. */
typedef struct mend_share_request {
    uint64_t mark;
    uint64_t key;
    uint64_t number;
    uint64_t
        asks; /* not 0: the answer is one message without chunks, of which only all_count counts */
} mend_share_request;

/* The answer: one message after the other, until all chunks are sent. Files of `count` chunks come
 * with each. */
enum { MEND_SHARE_BATCH = 64 };
typedef struct mend_share_reply {
    uint64_t mark;
    uint64_t all_count; /* chunks; 0: there is no such export */
    uint64_t all_bytes; /* their sum */
    uint64_t offset_bytes;
    uint64_t size_bytes;
    uint64_t count; /* chunks in this message */
    uint64_t chunk_bytes[MEND_SHARE_BATCH];
} mend_share_reply;

/* How long either side waits for the other. */
enum { MEND_SHARE_PATIENCE_MS = 10000 };

/* The token of an export. */
void mend_token_write(const mend_token_content *content, mend_export_token *token);

/* False: it is not a token of this version of the library, or it is damaged. */
bool mend_token_read(const mend_export_token *token, mend_token_content *content);

/* The address of an exporter's socket, in the abstract namespace, and its length. */
socklen_t mend_share_address(const unsigned char name[MEND_SHARE_NAME_BYTES],
                             struct sockaddr_un *address);

/* A clock that only runs forward. */
uint64_t mend_share_now_ms(void);

/* Whether the process at the other end runs as this one's user. */
bool mend_share_is_of_this_user(int connected);

#endif
