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
#ifndef MEND_SHARE_SERVER_H
#define MEND_SHARE_SERVER_H

#include "base/process.h"
#include "mend/mend_share.h"

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

/* dlclose leaves the library in the process from now on: a thread may run its code until the
 * process ends. */
void mend_share_hold_library(void);

#endif
