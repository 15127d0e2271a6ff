/* Numbers first, then remedies, then owners: three sentences at most. */
#include "alloc/fallback.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/words.h"
#include "layout/feature.h"

void mend_sentence_add(mend_sentence *s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(s->text + s->used, sizeof(s->text) - s->used, format, arguments);
    va_end(arguments);
    s->used = mend_min_u64(s->used + (size_t)written, sizeof(s->text) - 1);
}

void mend_sentence_join(mend_sentence *s, const char *part)
{
    const bool is_first = s->used == 0;
    mend_sentence_add(s, "%s%c%s", is_first ? "" : "; ", is_first ? part[0] : part[0] | 0x20,
                      part + 1);
}

/* Adds `before`, the amount and `behind`, if the amount is not 0. */
static bool add_amount(mend_sentence *s, const char *before, uint64_t bytes, const char *behind)
{
    if (bytes > 0) {
        mend_sentence_add(s, "%s%s%s", before, mend_words_amount(bytes).text, behind);
    }
    return bytes > 0;
}

/* The figures, as parts of one sentence. */
static void add_request(mend_sentence *s, const mend_oom_report *f, const mend_pages *pages)
{
    mend_sentence_add(s, "out of memory: %s requested", mend_words_amount(f->requested_bytes).text);
    if (pages != NULL) {
        mend_sentence_add(s, " in the range 0x%llx", (unsigned long long)pages->address);
        if (pages->other_ranges > 0) {
            mend_sentence_add(s, " and %zu more", pages->other_ranges);
        }
    }
}

static void add_pool(mend_sentence *s, const mend_oom_report *f)
{
    bool is_above = f->reserved_bytes > f->limit_bytes;
    mend_sentence_add(s, "; the limit is %s", mend_words_amount(f->limit_bytes).text);
    add_amount(s, ", the pool holds ", is_above ? f->reserved_bytes - f->limit_bytes : 0,
               " more than that");
    add_amount(s, ", in use ", f->live_bytes, "");
    const char *of_it = " (";
    if (add_amount(s, ", free ", f->free_empty_bytes + f->free_partial_bytes, "")) {
        of_it = add_amount(s, of_it, f->free_partial_bytes - f->pinned_bytes, " beside live blocks")
                    ? ", "
                    : of_it;
        of_it = add_amount(s, of_it, f->pinned_bytes, " pinned") ? ", " : of_it;
        of_it = add_amount(s, of_it, f->waiting_stream_bytes, " in use by the GPU") ? ", " : of_it;
        of_it = add_amount(s, of_it, f->waiting_context_bytes, " freed without a stream") ? ", "
                                                                                          : of_it;
        of_it = add_amount(s, of_it, f->graph_pool_bytes, " held for graphs") ? ", " : of_it;
        mend_sentence_add(s, "%s", of_it[0] == ',' ? ")" : "");
    }
}

static void tell_device(mend_sentence *s, const mend_oom_report *f)
{
    mend_sentence_add(s, "; the GPU has %s, of which %s is free",
                      mend_words_amount(f->device_bytes).text,
                      mend_words_amount(f->device_free_bytes).text);
    add_amount(s, " and ", f->device_others_bytes, " held by other pools and processes");
    add_amount(s, " and ", f->device_kept_bytes, " kept free (min_free_bytes)");
    mend_sentence_add(s, ".");
}

/* Remedies, in one sentence: not freeing, for a request above the limit. */
static void add_advice(mend_sentence *s, const mend_oom_report *f, const char *advice)
{
    const bool is_above =
        f->requested_bytes > f->limit_bytes && f->reserved_bytes <= f->limit_bytes;
    mend_sentence all = {.used = 0};
    if (f->sufficient_limit_bytes > 0) {
        mend_sentence_add(&all, "Raise the limit to %s or more%s",
                          mend_words_amount_above(f->sufficient_limit_bytes).text,
                          is_above ? "" : ", or free memory");
    }
    if (advice[0] != '\0') {
        mend_sentence_join(&all, advice);
    }
    if (f->fitting_bytes > 0) {
        add_amount(&all, all.used > 0 ? "; a request of " : "A request of ", f->fitting_bytes,
                   " would fit");
    }
    if (all.used > 0) {
        mend_sentence_add(s, " %s.", all.text);
    }
}

mend_result mend_report_fail(const mend_heap *heap, const mend_oom_report *oom_report,
                             const char *advice, const mend_pages *pages)
{
    mend_owner owners[MEND_OWNERS_TOLD] = {0};
    mend_sentence s = {.used = 0};
    add_request(&s, oom_report, pages);
    add_pool(&s, oom_report);
    tell_device(&s, oom_report);
    add_advice(&s, oom_report, advice);
    MEND_FEATURES_CALL(describe, heap, owners, s.text + s.used, sizeof(s.text) - s.used);
    mend_result result = mend_failure(MEND_ERROR_OUT_OF_MEMORY, "%s", s.text);
    mend_thread_error *failure = mend_process_failure();
    failure->oom_report = *oom_report;
    failure->oom_report.struct_size = sizeof(*oom_report);
    memcpy(failure->owners, owners, sizeof(failure->owners));
    return result;
}
