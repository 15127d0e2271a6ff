/* Growable ranges in a trial: a committed page is one of its blocks, used, shared and pinned as any
 * other. Its beginning and its end are of its own, and so are the figures. */
#ifndef MEND_TESTS_SIM_RANGES_H
#define MEND_TESTS_SIM_RANGES_H

#include "tests/sim/trial.h"

/* The operations of ranges. */

mend_result trial_call_range_create(trial_call *call, mend_pool *pool);

/* commits.c: a commit, as an operation and as a call. */
mend_result trial_call_commit(const trial_call *call);

/* Such a call may answer so, though nothing was planted. `holds_capture`: the pool may know of one.
 */
bool trial_may_answer_range(const trial *t, const trial_call *call, bool holds_capture);

/* Of a commit that was refused: the bytes that it needed at most, as callbacks decommit pages. */
uint64_t trial_needed(trial *t, const trial_call *call);

/* Whether a request may need other chunks than there are, and whether they can be made of empty
 * ones: not while old mappings or memory must stay for graphs, nor where one was exported. */
bool trial_makes_chunks(const trial_call *call);
bool trial_can_make_chunks(trial *t, int pool);

/* Whether the pool has chunks that were exported: they are not given back for others, because their
 * memory may not come back. */
bool trial_any_was_exported(const trial *t, int pool);

/* The call names a page of the model, by range and offset. */
void trial_name_page(const trial *t, const trial_block *page, trial_call *call);

/* The committed page that begins at the address, NULL: none. */
trial_block *trial_page_at(trial *t, uint64_t address);

/* A captured stream uses a page. Pages are led to the stream that a graph is
 * launched on, false if that is forbidden, and the launch's writes. */
bool trial_record_page(trial *t, const operation *op, const trial_block *page, int stream);
bool trial_lead_pages(trial *t, const trial_page_uses *uses, int stream);
void trial_note_pages(trial *t, const trial_page_uses *uses);

/* The range that an operation names, NULL: there is none, and its pages. */
trial_range *trial_range_of(trial *t, const operation *op);
void trial_name_pages(const trial_range *range, const operation *op, trial_call *call);
/* Writes or compares, page by page. */
void trial_use_pages(trial *t, const trial_range *range, const trial_call *call,
                     const operation *op, bool writes);

/* mistakes.c: a page that is no more committed is decommitted once more, which changes nothing. */
void trial_decommit_again(trial *t, const trial_block *page, mend_stream stream);

/* The range that the call under way destroys: nobody else touches its pages. */
bool trial_is_ending(const trial *t, const trial_block *block);

void trial_end_ranges(trial *t);

/* The model's sums of one pool. */
typedef struct trial_range_figures {
    uint64_t ranges;
    uint64_t size_bytes;   /* of addresses */
    uint64_t unused_bytes; /* mapped and not committed, as the ranges themselves say */
    uint64_t asleep_bytes; /* of committed pages, as they say */
} trial_range_figures;
trial_range_figures trial_look_at_ranges(const trial *t, int pool);

#endif
