/*
 * A pass of compactions: on behalf of a program that asks for it (mend_defrag), or of a request
 * that has found no room where the program declared that its allocations are quiet points.
 *
 * Both locks are held; but for mend_ladder_defrag the driver scope is open.
 */
#ifndef MEND_LADDER_DEFRAG_H
#define MEND_LADDER_DEFRAG_H

#include "mend/mend.h"
#include "policy/victims.h"

/*
 * Waits for the context on behalf of `asking`, gives blocks back what they miss, and looks for
 * candidates. mend_compact_end follows, whatever the result. MEND_ERROR_CAPTURING: a capture is
 * known; MEND_ERROR_OUT_OF_HOST_MEMORY, MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST.
 */
mend_result mend_compact_begin(mend_heap *heap, uint32_t asking, const mend_compact_limits *limits,
                               mend_compact_pass *pass);
void mend_compact_end(mend_compact_pass *pass);

/* The same for a request that found no room. *may_help is false where it would find none after all
 * compactions either, or there can be none now. */
mend_result mend_compact_begin_for(mend_heap *heap, const mend_request *request,
                                   mend_compact_pass *pass, bool *may_help);

/* One compaction: of the candidate that copies least for each byte gained, of which no more than
 * `need_bytes` count. *compacted is false when none is left within the limits. Errors as begin:
 * then the heap is as it was before this compaction, or blocks miss their mappings. */
mend_result mend_compact_next(mend_compact_pass *pass, uint64_t need_bytes, bool *compacted);

/* Refills the room that requests leave alone (mend_budget_kept_bytes) from chunks that
 * compactions have freed, as far as that goes. */
void mend_compact_keep_room(mend_heap *heap);

/* As mend_defrag. */
mend_result mend_ladder_defrag(mend_heap *heap, const mend_defrag_limits *limits,
                               mend_defrag_report *report);

#endif
