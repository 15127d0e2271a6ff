/*
 * A pass of compactions: for a program that calls mend_defrag, or for a request that found no room
 * in a pool whose program declared its allocations quiet points.
 *
 * The caller holds both locks; a driver scope is open, except for mend_ladder_defrag.
 */
#ifndef MEND_LADDER_DEFRAG_H
#define MEND_LADDER_DEFRAG_H

#include "mend/mend.h"
#include "policy/victims.h"

/*
 * Waits for the context (`asking` is the stream of the current call), tries to map what is missing,
 * and lists candidates. The caller calls mend_compact_end afterwards, whatever the result.
 * MEND_ERROR_CAPTURING: the pool knows of a capture; MEND_ERROR_OUT_OF_HOST_MEMORY,
 * MEND_ERROR_DRIVER, MEND_ERROR_DEVICE_LOST.
 */
mend_result mend_compact_begin(mend_heap *heap, uint32_t asking, const mend_compact_limits *limits,
                               mend_compact_pass *pass);
void mend_compact_end(mend_compact_pass *pass);

/* The same for a request that found no room. *may_help is false if the request would find no room
 * even after all compactions, or if none is possible now. */
mend_result mend_compact_begin_for(mend_heap *heap, const mend_request *request,
                                   mend_compact_pass *pass, bool *may_help);

/* One compaction: of the candidate that copies least for each gained byte; at most `need_bytes` of
 * the gain count. *compacted is false if no candidate is left within the limits. Errors as
 * mend_compact_begin: then the heap is as before this compaction, or blocks lack their mappings. */
mend_result mend_compact_next(mend_compact_pass *pass, uint64_t need_bytes, bool *compacted);

/* Creates again, as far as possible, the room that requests leave free (mend_budget_kept_bytes),
 * from chunks that compactions have made empty. */
void mend_compact_keep_room(mend_heap *heap);

/* Whether mend_defrag would join enough for the request, once the GPU is done: `empty_bytes` of
 * empty chunks are there besides. Each compaction leaves more room than it needs, so their order
 * does not matter. No driver call; O(chunks + spans), a few times. */
bool mend_defrag_would_serve(mend_heap *heap, const mend_request *request, uint64_t empty_bytes);

/* As mend_defrag. */
mend_result mend_ladder_defrag(mend_heap *heap, const mend_defrag_limits *limits,
                               mend_defrag_report *report);

#endif
