/* Pages in captured graphs: a graph may be launched whenever all pages that it uses are committed,
 * whatever became of them since its capture. */
#include "tests/sim/ranges.h"

bool trial_record_page(trial *t, const operation *op, const trial_block *page, int stream)
{
    trial_page_uses *uses = &t->streams[stream].page_uses;
    const bool writes = op->amount & 1;
    if (uses->count == TRIAL_PAGE_USES || t->streams[stream].origin != stream) {
        return false;
    }
    const uint64_t tag = writes ? ++t->last_tag : 0;
    trial_call call = {.kind = CALL_LAUNCH,
                       .stream = trial_handle(t, stream, op->amount & 16),
                       .work = {.kind = writes ? MEND_SIM_WORK_WRITE : MEND_SIM_WORK_TOUCH,
                                .address = page->address,
                                .size_bytes = page->size_bytes,
                                .tag = tag,
                                .finish_ns = mend_sim_now_ns(t->sim)}};
    if (trial_call_device(t, trial_thread_of(t, stream, op->thread), &call)) {
        uses->list[uses->count++] = (trial_page_use){page->address, page->size_bytes, tag};
    }
    return true;
}

static trial_block *page_of(trial *t, const trial_page_use *use)
{
    trial_block *page = trial_page_at(t, use->address);
    return page != NULL && page->size_bytes == use->size_bytes ? page : NULL;
}

bool trial_lead_pages(trial *t, const trial_page_uses *uses, int stream)
{
    bool can = true;
    for (uint32_t i = 0; i < uses->count; i++) {
        const trial_block *page = page_of(t, &uses->list[i]);
        can = can && page != NULL && !page->unmapped && !page->asleep &&
              !trial_is_in_capture(t, page) && (uses->list[i].tag == 0 || !page->frozen);
    }
    for (uint32_t i = 0; i < uses->count && can; i++) {
        trial_block *page = page_of(t, &uses->list[i]);
        can = trial_move_to(t, page, stream) &&
              (uses->list[i].tag == 0 || trial_join_readers(t, page, true));
    }
    return can;
}

void trial_note_pages(trial *t, const trial_page_uses *uses)
{
    for (uint32_t i = 0; i < uses->count; i++) {
        trial_block *page = page_of(t, &uses->list[i]);
        page->used = true;
        page->written = page->written || uses->list[i].tag != 0;
        page->tag = uses->list[i].tag != 0 ? uses->list[i].tag : page->tag;
    }
}
