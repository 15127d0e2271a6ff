/*
 * What passes between processes: descriptions of exported blocks, the exporter's thread, the
 * importer's side, and a limit that processes share.
 */
#ifndef MEND_SHARE_SHARE_H
#define MEND_SHARE_SHARE_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/mutex.h"
#include "base/pointer_map.h"
#include "base/process.h"
#include "driver/driver.h"
#include "driver/forward.h"
#include "mend/mend_results.h"
#include "mend/mend_share.h"

/* ---- wire.c ---------------------------------------------------------------------------------- */

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

/* Whether it has sense: the block lies in the chunks, which are at most 2^20, of 2^60 bytes. */
bool mend_fetched_is_sound(const mend_fetched *all);

/* What an importer sends first. */
typedef struct mend_share_request {
    uint64_t mark;
    uint64_t key;
    uint64_t number;
    uint64_t asks; /* not 0: the answer is one message without chunks: only all.count counts */
} mend_share_request;

/* The answer: one message after the other, until all chunks are sent. Files of `count` chunks come
 * with each. */
enum { MEND_SHARE_BATCH = 64 };
typedef struct mend_share_reply {
    uint64_t mark;
    mend_fetched all; /* of no chunks: there is no such export */
    uint64_t count;   /* chunks in this message */
    uint64_t chunk_bytes[MEND_SHARE_BATCH];
} mend_share_reply;

/* The files of a message. */
typedef union mend_share_files {
    struct cmsghdr header; /* aligns the bytes */
    unsigned char bytes[CMSG_SPACE(sizeof(int) * MEND_SHARE_BATCH)];
} mend_share_files;

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

/* What a description begins with. */
typedef struct mend_description {
    uint64_t mark;
    uint64_t description_bytes; /* all of it */
    uint64_t number;            /* of the export in its process; never 0 */
    mend_fetched all;
    uint64_t check; /* of all other bytes */
} mend_description;

/* Behind it, for each chunk in the order of addresses. */
typedef struct mend_described_chunk {
    uint64_t size_bytes;
    unsigned char handle[MEND_FABRIC_HANDLE_BYTES];
} mend_described_chunk;

/* The size of a description of so many chunks. */
size_t mend_description_size(size_t count);

/* Writes a description, part by part: each chunk, then the beginning, whose mark, size and check
 * are filled in here. `bytes` has room for mend_description_size(head->all.count). */
void mend_description_write_chunk(void *bytes, size_t at, const mend_described_chunk *chunk);
void mend_description_write_head(void *bytes, const mend_description *head);

/* NULL: the bytes are a sound description, and *head is its beginning. Otherwise what is wrong with
 * them, behind "the description". Reads no byte behind `size_bytes`. */
const char *mend_description_read(const void *bytes, size_t size_bytes, mend_description *head);

/* A chunk of a sound description. */
mend_described_chunk mend_description_chunk(const void *bytes, size_t at);

/* ---- fetch.c --------------------------------------------------------------------------------- */

/* Who takes the chunks. `begin` is called once, then `take` for each chunk in order, which does not
 * keep the file. A result that is not MEND_OK ends the conversation. */
typedef struct mend_share_taker {
    mend_result (*begin)(void *context, const mend_fetched *all);
    mend_result (*take)(void *context, int file, uint64_t size_bytes);
    void *context;
} mend_share_taker;

/*
 * Fetches the chunks. Waits for the other process, for at most `patience_ms` in all; the caller
 * holds no lock. At most MEND_SHARE_BATCH files are open at a time, and none is when it returns.
 * MEND_ERROR_UNREACHABLE: the exporter has ended, does not answer, is of another user, or exports
 * this no more; MEND_ERROR_SYSTEM: the system refused a socket or file descriptors; or what the
 * taker returned.
 */
mend_result mend_share_fetch(const mend_token_content *token, uint64_t patience_ms,
                             const mend_share_taker *taker);

/* Asks whether the exporter lives, and exports this still. As above; fetches nothing.
 * MEND_ERROR_UNREACHABLE: it does not answer, or is of another user; MEND_ERROR_SYSTEM. */
mend_result mend_share_ask(const mend_token_content *token, uint64_t patience_ms,
                           mend_import_state *state);

/* ---- limit_file.c ---------------------------------------------------------------------------- */

/*
 * The file has a slot for each pool: the bytes that it has claimed, those it waits for, and whether
 * it gives memory back when others wait. A want has a number, and a slot that gives back says up to
 * which one its last collection knew them: what it had idle then is no answer to a later want.
 *
 * No lock is held while the file is read and changed, so a process that is stopped (SIGSTOP, a
 * freezer, a debugger) keeps nobody waiting, wherever it is. Invariants:
 * - the claims of all living slots, without what they still ask for, are never above the limit;
 * - a slot is written by its owner alone, or by who has found its owner dead;
 * - the owner of a slot holds a lock of the system on one byte of the file, which ends with the
 * last process that has the file open. So a pool that died gives back its claim, and a child of
 * fork keeps the claim of its parent alive, as it does the parent's memory on the device.
 *
 * The first holds because a claim is written before it is judged: first the slot says what it asks
 * for, then it reads all slots, and the claim stands if all that they claim and ask for is within
 * the limit. Of two that ask at once, the one that has written last sees the other. One that
 * is stopped in between is counted by all others for what it asks for; when it goes on, it reads
 * what they have claimed meanwhile. Two that see each other may both be refused where there is room
 * for one: so the slot of the lower number goes on looking for a while, and others withdraw first.
 *
 * The functions of one slot are for one thread at a time. If the file is damaged from outside, all
 * that the slot asks for is granted from then on, and its `is_broken` is set.
 */

/* What a slot says in the file. */
typedef struct mend_limit_claim {
    uint64_t limit_bytes; /* all living slots name the same */
    uint64_t claimed_bytes;
    uint64_t asked_bytes; /* of these: not known yet to be within the limit */
    uint64_t wanted_bytes;
    uint64_t want;       /* the number of its newest want */
    uint64_t idle_bytes; /* at its last collection */
    uint64_t gives_back;
    uint64_t answered; /* the newest want that its last collection knew */
} mend_limit_claim;

typedef struct mend_limit_slot {
    int file;
    int number;
    mend_limit_claim own; /* but that it may want more than the limit */
    bool is_broken;
} mend_limit_slot;

/*
 * Opens the file, or creates it for the user alone, and takes a slot. MEND_OK;
 * MEND_ERROR_INVALID_ARGUMENT (the path is that of something else, others could change the file, or
 * living pools share another limit); MEND_ERROR_SYSTEM (the system refuses the file or its locks,
 * or all slots are taken).
 */
mend_result mend_limit_file_open(const char *path, uint64_t limit_bytes, mend_limit_slot *slot);

/* Gives back all claims and the slot. The file stays. */
void mend_limit_file_close(mend_limit_slot *slot);

/* Claims bytes, and gives them back. False: the limit does not allow it now. */
bool mend_limit_file_claim(mend_limit_slot *slot, uint64_t bytes);
void mend_limit_file_give(mend_limit_slot *slot, uint64_t bytes);

/* Says how much the slot waits for; 0: for nothing. Others hear of the limit at most. Returns the
 * number of the want, which is new if it is for more than before; 0: all slots know it. */
uint64_t mend_limit_file_want(mend_limit_slot *slot, uint64_t bytes);

/* What the limit leaves to claim, and what others may still give back: what they had idle when they
 * answered the want, all that they have before. Of one moment: who gives memory back does so before
 * it answers. */
typedef struct mend_limit_view {
    uint64_t room_bytes;
    uint64_t offered_bytes;
} mend_limit_view;
mend_limit_view mend_limit_file_look(mend_limit_slot *slot, uint64_t want);

/* What other slots wait for, beyond what the limit leaves; *newest: the number of the newest want
 * among them. */
uint64_t mend_limit_file_wanted_by_others(mend_limit_slot *slot, uint64_t *newest);

/* Says how much the slot could give back at the end of a collection that knew the wants up to
 * `answered`, and whether it does so when others wait. */
void mend_limit_file_offer(mend_limit_slot *slot, uint64_t idle_bytes, bool gives_back,
                           uint64_t answered);

/* ---- ration.c -------------------------------------------------------------------------------- */

typedef struct mend_ration {
    mend_passing pass;        /* first; this structure must not move */
    uint64_t keep_free_bytes; /* of the device's memory; constant */
    bool has_file;            /* constant */
    mend_mutex mutex;         /* guards the rest; never held while the inner table runs */
    mend_limit_slot slot;
    uint64_t wanted_bytes;  /* by all threads that wait */
    uint64_t kept_bytes;    /* of keep_free_bytes, what was free when the device was asked last */
    mend_pointer_map sizes; /* from a chunk's handle to its bytes */
    mend_pointer_map plain_sizes; /* from the address of memory of the driver's own */
    atomic_bool is_lost; /* the file is damaged: all is granted; may be read without the lock */
    atomic_bool is_told; /* the log has said so */
} mend_ration;

/* `path` NULL: no limit is shared. `limit_bytes`: the limit that is. Results as
 * mend_limit_file_open; it is closed in any case. */
mend_result mend_ration_open(mend_ration *ration, const mend_driver *inner,
                             uint64_t keep_free_bytes, const char *path, uint64_t limit_bytes);

/* All chunks were released before, or stay with the driver. */
void mend_ration_close(mend_ration *ration);

/* Whether the pool is rationed at all. */
static inline bool mend_ration_is_on(const mend_ration *ration)
{
    return ration->keep_free_bytes > 0 || ration->has_file;
}

/* Free memory of the device that `keep_free_bytes` keeps from the pool, when it was asked last; and
 * what was lacking for that. */
uint64_t mend_ration_kept_free(mend_ration *ration);
uint64_t mend_ration_owed_bytes(mend_ration *ration);

/* How much the pool should give back for others: what the device lacks to `keep_free_bytes`, or
 * what other processes wait for; the larger. Needs a current context. */
typedef struct mend_ration_owed {
    uint64_t bytes;
    uint64_t newest; /* the number of the newest want among them */
} mend_ration_owed;
mend_ration_owed mend_ration_ask_owed(mend_ration *ration);

/* Says what the pool could give back after a collection that knew the wants up to `answered`, and
 * whether a thread collects it. */
void mend_ration_offer(mend_ration *ration, uint64_t idle_bytes, bool gives_back,
                       uint64_t answered);

/*
 * Waits until the shared limit has room for so much, at most MEND_RATION_PATIENCE_MS, and only
 * while other processes may give any back: until each that collects has answered, then while one
 * has idle memory. True if there is room.
 */
enum { MEND_RATION_PATIENCE_MS = 200 };
bool mend_ration_wait(mend_ration *ration, uint64_t room_bytes);

/* ---- server.c -------------------------------------------------------------------------------- */

/*
 * The exporter's side: what the process exports, and the thread that hands it out.
 *
 * The first export of a process opens a socket and starts the thread, and both stay until the
 * process ends. The thread calls no driver and allocates nothing. It gives the files of an export's
 * chunks to processes of the same user that name the export, several at a time, and none for longer
 * than MEND_SHARE_PATIENCE_MS. All signals are blocked in it.
 *
 * All functions are thread-safe; the caller may hold the locks of a pool.
 */

/* Opens the socket and starts the thread, unless that is done. MEND_ERROR_SYSTEM: the system
 * refused one of them; nothing is left. */
mend_result mend_share_open(void);

/* Gives the export a number and lets importers have it; cannot fail. `export` and its chunks stay
 * the caller's, and stay as they are until mend_share_withdraw. */
void mend_share_publish(mend_published *export);

/* A number for an export that is not published; never 0, never given again. */
uint64_t mend_share_next_number(void);

/* When it returns, no importer gets the export any more, and its files may be closed. */
void mend_share_withdraw(mend_published *export);

/* The token of a published export. */
void mend_share_write_token(const mend_published *export, mend_export_token *token);

/* dlclose leaves the library in the process from now on. */
void mend_share_hold_library(void);

/* mend_signals_start_thread of one that holds the library, whose code it may run until the process
 * ends. */
bool mend_share_start_thread(pthread_t *thread, const char *name, void *(*run)(void *),
                             void *context);

#endif
