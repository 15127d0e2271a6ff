/*
 * The importer's side: asks the exporter that a token names for its chunks.
 */
#ifndef MEND_SHARE_FETCH_H
#define MEND_SHARE_FETCH_H

#include "share/wire.h"

/* What an export consists of. */
typedef struct mend_fetched {
    uint64_t count; /* chunks */
    uint64_t all_bytes;
    uint64_t offset_bytes; /* from the start of the first chunk to the block */
    uint64_t size_bytes;   /* of the block */
} mend_fetched;

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

#endif
