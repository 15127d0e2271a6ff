#include "lab/report/advice.h"

#include <stdio.h>
#include <string.h>

#include "base/align.h"
#include "lab/report/others.h"
#include "lab/report/words.h"

#define CALL(owner) mend_report_call_of(owner).text

/* Of the name, so that the sentences around it fit a line. Free memory below this part of what is
 * held is no fragmentation. */
enum { CALL_COLUMNS = 54, LEAST_FREE_PARTS = 50 };

mend_report_call mend_report_call_of(const mend_report_owner *owner)
{
    mend_report_call call;
    const char letter[] = {owner->letter, owner->letter == 0 ? 0 : ' ', 0};
    char name[4 * CALL_COLUMNS + 1] = "";
    FILE *const out = fmemopen(name, sizeof(name), "w");
    if (out != NULL) {
        mend_words_cut(out, owner->name, CALL_COLUMNS, 0);
        fclose(out);
    }
    snprintf(call.text, sizeof(call.text), "%s\"%s\"", letter, name);
    return call;
}

const char *mend_report_owner_kind(const mend_report *report)
{
    static const char *const parts[MEND_TRACE_PARTS] = {"scope", "tag", "line"};
    const mend_trace_detail *detail = &report->detail;
    const char *kind = NULL;
    for (int part = 0; part < MEND_TRACE_PARTS; part++) {
        kind = !detail->has_part[part] ? kind : kind == NULL ? parts[part] : "owner";
    }
    return detail->owner_count == 0 ? "size"
           : detail->is_snapshot    ? "line"
           : kind != NULL           ? kind
                                    : "scope";
}

void mend_report_tell_source(const mend_report *report, char *text, size_t size)
{
    const mend_trace_detail *detail = &report->detail;
    const bool is_known = report->capacity_bytes > 0;
    snprintf(text, size, "%s, %s events, %s blocks%s%s",
             detail->is_recording    ? "recording of Mend"
             : !detail->is_snapshot  ? "log of allocations"
             : detail->is_of_mend    ? "PyTorch snapshot, under Mend"
             : detail->is_expandable ? "PyTorch snapshot, expandable segments"
                                     : "PyTorch snapshot, caching allocator",
             COUNT(report->trace->event_count), COUNT(report->trace->block_count),
             is_known ? ", device " : "", is_known ? SIZE(report->capacity_bytes) : "");
}

typedef struct mend_report_cause {
    char by[96]; /* " by fragmentation". "": nothing in particular */
    bool is_growth;
} mend_report_cause;

/* ---- the verdict --------------------------------------------------------------------------- */

const char *mend_report_reason(const mend_report *report)
{
    const char *failure = report->trace->failure;
    const char *behind = strstr(failure, ". ");
    return failure[0] == 0 ? NULL : behind != NULL ? behind + 2 : failure;
}

static uint64_t growth_of(const mend_report *report, mend_report_trend trend)
{
    uint64_t bytes = 0;
    for (size_t h = 0; h < report->owner_count; h++) {
        bytes += report->owners[h].trend == trend ? report->owners[h].growth_bytes : 0;
    }
    return bytes;
}

/* Why a request fails that the free memory would be enough for: by growth, if that is more than
 * what is free, else by fragmentation, unless next to nothing is free. */
static mend_report_cause cause_of(const mend_report *report, uint64_t free_bytes,
                                  uint64_t held_bytes)
{
    const uint64_t leaked_bytes = growth_of(report, MEND_TREND_LEAKS);
    const uint64_t grown_bytes = growth_of(report, MEND_TREND_GROWS);
    const uint64_t whole_bytes = report->grows_as_whole ? report->whole_growth_bytes : 0;
    mend_report_cause cause = {.by = ""};
    cause.is_growth = mend_max_u64(leaked_bytes + grown_bytes, whole_bytes) > free_bytes;
    if (cause.is_growth && leaked_bytes > 0) {
        snprintf(cause.by, sizeof(cause.by), " by a possible leak of %s", SIZE(leaked_bytes));
    } else if (cause.is_growth && grown_bytes > 0) {
        snprintf(cause.by, sizeof(cause.by), " by growth of %s", SIZE(grown_bytes));
    } else if (cause.is_growth) {
        snprintf(cause.by, sizeof(cause.by), " by growth of %s that no %s explains",
                 SIZE(whole_bytes), mend_report_owner_kind(report));
    } else if (free_bytes >= held_bytes / LEAST_FREE_PARTS) {
        snprintf(cause.by, sizeof(cause.by), " by fragmentation");
    }
    return cause;
}

/* The pool's own report. */
static bool judge_oom_report(const mend_report *report, char *text, size_t size)
{
    const mend_oom_report *f = &report->detail.oom_report;
    const uint64_t free_bytes = f->free_empty_bytes + f->free_partial_bytes;
    const uint64_t kept_bytes =
        f->waiting_stream_bytes + f->waiting_context_bytes + f->graph_pool_bytes;
    mend_report_cause cause = {.by = ""};
    if (free_bytes >= f->requested_bytes + kept_bytes) {
        cause = cause_of(report, free_bytes, f->reserved_bytes);
    } else if (free_bytes >= f->requested_bytes) {
        snprintf(cause.by, sizeof(cause.by), " by memory that is still used");
    }
    char fitting[64] = "nothing would have fitted";
    if (f->fitting_bytes > 0) {
        snprintf(fitting, sizeof(fitting), "%s would have fitted", SIZE(f->fitting_bytes));
    }
    snprintf(
        text, size, "Out of memory%s: %s asked for, %s, %s short; %s free of the %s that is held",
        cause.by, SIZE(f->requested_bytes), fitting, SIZE(f->requested_bytes - f->fitting_bytes),
        SIZE(free_bytes), SIZE(f->reserved_bytes));
    return cause.is_growth;
}

/* Whether the growth is named. */
static bool judge_failure(const mend_report *report, char *text, size_t size)
{
    const mend_report_memory *memory = &report->memory;
    uint64_t asked = report->failure.size_bytes;
    uint64_t free_bytes = memory->whole_bytes + memory->beside_bytes;
    mend_report_cause cause = {.by = ""};
    if (report->trace->failure[0] != 0) {
        return judge_oom_report(report, text, size);
    }
    if (report->knows_gaps && free_bytes >= asked && memory->longest_bytes < asked) {
        cause = cause_of(report, free_bytes, report->live_bytes + free_bytes);
        snprintf(text, size,
                 "Out of memory%s: %s asked for, %s free of the memory used before, the longest "
                 "piece %s",
                 cause.by, SIZE(asked), SIZE(free_bytes), SIZE(memory->longest_bytes));
    } else if (!report->knows_held) {
        bool had_room = report->live_bytes + asked <= report->peak_bytes;
        snprintf(text, size, "Out of memory%s: %s asked for with %s in use%s",
                 had_room ? ", by fragmentation or by other users" : "", SIZE(asked),
                 SIZE(report->live_bytes), had_room ? ", where there was memory before for " : "");
        if (had_room) {
            size_t length = strlen(text);
            snprintf(text + length, size - length, "%s", SIZE(report->peak_bytes));
        }
    } else if (free_bytes >= asked && memory->longest_bytes < asked) {
        if (free_bytes - memory->others_bytes < asked) {
            snprintf(cause.by, sizeof(cause.by), " by memory of other streams");
        } else {
            cause = cause_of(report, free_bytes, memory->held_bytes);
        }
        snprintf(text, size, "Out of memory%s: %s asked for, %s free, the longest piece %s",
                 cause.by, SIZE(asked), SIZE(free_bytes), SIZE(memory->longest_bytes));
    } else if (free_bytes < asked) {
        snprintf(text, size, "Out of memory: %s asked for, %s free of the %s that is held",
                 SIZE(asked), SIZE(free_bytes), SIZE(memory->held_bytes));
    } else {
        snprintf(
            text, size,
            "Out of memory: %s asked for; a piece of %s is free, but of another pool of PyTorch",
            SIZE(asked), SIZE(memory->longest_bytes));
    }
    return cause.is_growth;
}

static void judge_growth(const mend_report *report, char *text, size_t size)
{
    const uint64_t leaked_bytes = growth_of(report, MEND_TREND_LEAKS);
    const uint64_t grown_bytes = growth_of(report, MEND_TREND_GROWS);
    if (leaked_bytes > 0) {
        snprintf(text, size, "; %s may have leaked", SIZE(leaked_bytes));
    } else if (grown_bytes > 0) {
        snprintf(text, size, "; %s more is in use at the end than at the start", SIZE(grown_bytes));
    } else if (report->grows_as_whole) {
        snprintf(text, size, "; all together grew by %s, and no %s that explains it",
                 SIZE(report->whole_growth_bytes), mend_report_owner_kind(report));
    }
}

void mend_report_judge(const mend_report *report, char *verdict, size_t size)
{
    char outcome[384] = "";
    char failures[64] = "";
    char growth[128] = "";
    bool names_growth = false;
    if (report->has_failed) {
        names_growth = judge_failure(report, outcome, sizeof(outcome));
    } else {
        char held[64] = "";
        if (report->knows_held) {
            snprintf(held, sizeof(held), ", %s held", SIZE(report->peak_held_bytes));
        }
        snprintf(outcome, sizeof(outcome), "%s%s in use%s",
                 mend_report_has_history(report)
                     ? "No request failed: at most "
                     : "The snapshot has no history, so it shows the owners of memory, and nothing "
                       "before that (torch.cuda.memory._record_memory_history() records it): ",
                 SIZE(report->peak_bytes), held);
    }
    if (report->failures > 1) {
        snprintf(failures, sizeof(failures), "; it is the last of %s failures",
                 COUNT(report->failures));
    }
    if (!names_growth) {
        judge_growth(report, growth, sizeof(growth));
    }
    snprintf(verdict, size, "%s%s%s.", outcome, failures, growth);
}

/* ---- moments ----------------------------------------------------------------------------- */

const mend_report_owner *mend_report_largest(const mend_report *report, size_t figure)
{
    const mend_report_owner *largest = NULL;
    uint64_t most = 0;
    for (size_t h = 0; h < report->owner_count; h++) {
        uint64_t value = 0;
        memcpy(&value, (const char *)&report->owners[h] + figure, sizeof(value));
        largest = value > most ? &report->owners[h] : largest;
        most = mend_max_u64(most, value);
    }
    return largest;
}

bool mend_report_tell_keeper(const mend_report *report, char *text, size_t size)
{
    const mend_report_owner *keeper = MEND_REPORT_LARGEST(report, kept_free_bytes);
    if (keeper != NULL) {
        snprintf(text, size, "%s free beside blocks of %s%s, in %s segments",
                 SIZE(keeper->kept_free_bytes), CALL(keeper),
                 keeper->growth_bytes > 0 ? ", which grows" : "", COUNT(keeper->kept_segments));
    }
    return keeper != NULL;
}

bool mend_report_tell_waiting(const mend_report *report, char *text, size_t size)
{
    const mend_report_owner *most = MEND_REPORT_LARGEST(report, waiting_bytes);
    if (most == NULL || !report->knows_held) {
        return false;
    }
    const uint64_t others_bytes = report->failure.pending_bytes -
                                  mend_min_u64(report->failure.pending_bytes, most->waiting_bytes);
    char stream[MEND_NAME_BYTES];
    char others[64] = "";
    mend_trace_detail_tell_stream(&report->detail, most->waiting_stream, stream, sizeof(stream));
    if (others_bytes > 0) {
        snprintf(others, sizeof(others), ", and %s of others", SIZE(others_bytes));
    }
    snprintf(text, size, "%s waits: %s %s of %s, %s%s; in use, not in the %s free",
             SIZE(report->failure.pending_bytes), COUNT(most->waiting_blocks),
             most->waiting_blocks == 1 ? "block" : "blocks", CALL(most), stream, others,
             SIZE(report->memory.whole_bytes + report->memory.beside_bytes));
    return true;
}

bool mend_report_tell_away(const mend_report *report, char *text, size_t size)
{
    const uint64_t asleep_bytes = report->detail.most_asleep_bytes;
    text[0] = '\0';
    if (asleep_bytes > 0) {
        snprintf(text, size, "%s asleep", SIZE(asleep_bytes));
    }
    return asleep_bytes > 0;
}

/* A twentieth of all memory or more. */
bool mend_report_tell_new(const mend_report *report, char *text, size_t size)
{
    size_t i = 0;
    while (i < report->owner_count && report->owners[report->order[i]].trend != MEND_TREND_NEW) {
        i++;
    }
    const mend_report_owner *most = &report->owners[report->order[i]];
    if (i == report->owner_count || most->bytes < report->live_bytes / 20) {
        return false;
    }
    snprintf(text, size, "New %s events before the failure, and not freed: %s of %s",
             COUNT(report->moment_events - most->oldest_event), SIZE(most->bytes), CALL(most));
    return true;
}

/* ---- advice -------------------------------------------------------------------------------- */

typedef struct advice_list {
    const mend_report *report;
    mend_advice *items;
    size_t count;
} advice_list;

/* A place for advice that saves so much, behind equal advice. NULL: it is not among the best.
 */
static mend_advice *place_for(advice_list *list, uint64_t saved_bytes)
{
    size_t at = list->count;
    while (at > 0 && list->items[at - 1].saved_bytes < saved_bytes) {
        at--;
    }
    if (at == MEND_ADVICE_MOST) {
        return NULL;
    }
    list->count += list->count < MEND_ADVICE_MOST;
    memmove(&list->items[at + 1], &list->items[at], (list->count - 1 - at) * sizeof(*list->items));
    list->items[at] = (mend_advice){.saved_bytes = saved_bytes};
    return &list->items[at];
}

static void advise_growth(advice_list *list, size_t number)
{
    const mend_report *report = list->report;
    const mend_report_owner *owner = &report->owners[number];
    uint64_t saved_bytes = report->peak_bytes - owner->without_bytes;
    mend_advice *advice = place_for(list, saved_bytes);
    if (advice == NULL) {
        return;
    }
    snprintf(advice->what, sizeof(advice->what), "Stop the growth of %s", CALL(owner));
    snprintf(advice->evidence, sizeof(advice->evidence),
             "+%s from event %s to %s%s %s%s at the peak: %s without it; %s",
             SIZE(owner->growth_bytes), COUNT(report->growth_event), COUNT(report->end_events),
             saved_bytes > owner->growth_bytes ? "; since the start" : ",", SIZE(saved_bytes),
             saved_bytes > owner->growth_bytes ? "" : " of it", SIZE(owner->without_bytes),
             owner->trend == MEND_TREND_LEAKS ? "old blocks stay"
                                              : "its blocks are replaced by larger ones");
}

/* The one that grew most is named. */
static void advise_step(advice_list *list)
{
    const mend_report *report = list->report;
    const mend_report_owner *most = NULL;
    for (size_t h = 0; h < report->owner_count; h++) {
        const mend_report_owner *owner = &report->owners[h];
        if (owner->in_step && (most == NULL || owner->growth_bytes > most->growth_bytes)) {
            most = owner;
        }
    }
    mend_advice *advice = place_for(list, report->peak_bytes - report->without_step_bytes);
    if (advice == NULL) {
        return;
    }
    const char *kind = mend_report_owner_kind(report);
    const bool is_size = strcmp(kind, "size") == 0;
    snprintf(advice->what, sizeof(advice->what), "Stop the growth of %s and %s in step", CALL(most),
             COUNT(report->in_step - 1));
    snprintf(advice->evidence, sizeof(advice->evidence),
             "+%s from event %s to %s: %s times blocks of the same %s %ss stay: %s without them%s",
             SIZE(report->in_step_bytes), COUNT(report->growth_event), COUNT(report->end_events),
             COUNT(report->rounds), COUNT(report->in_step), kind, SIZE(report->without_step_bytes),
             is_size ? ""
                     : "; if a loss is kept, its whole graph is: keep loss.item(), and evaluate "
                       "under torch.no_grad()");
}

/* No owner explains the growth, which leaves an allocator only a few more rounds. */
static void advise_whole(advice_list *list)
{
    const mend_report *report = list->report;
    const char *kind = mend_report_owner_kind(report);
    mend_advice *advice = place_for(list, report->whole_growth_bytes);
    if (advice != NULL) {
        snprintf(advice->what, sizeof(advice->what), "Find what stays from round to round");
        snprintf(advice->evidence, sizeof(advice->evidence),
                 "+%s from event %s to %s, and no %s that explains it%s; another allocator fails "
                 "later, too",
                 SIZE(report->whole_growth_bytes), COUNT(report->growth_event),
                 COUNT(report->end_events), kind,
                 strcmp(kind, "size") == 0
                     ? ": record who allocates, as MEND_STACKS=1MiB does"
                     : ", as of a leak in its first rounds: record more of them");
    }
}

static const char *how_to(const char *policy)
{
    return strcmp(policy, "expandable") == 0
               ? "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
           : strcmp(policy, "mend") == 0 ? "Use Mend (libmend.torch.enable() in PyTorch)"
                                         : "Use PyTorch's default allocator";
}

static const mend_report_other *most_needy(const mend_report *report)
{
    const mend_report_other *most = NULL;
    for (size_t i = 0; i < report->other_count; i++) {
        const mend_report_other *other = &report->others[i];
        if (other->is_known && (most == NULL || other->needs_bytes > most->needs_bytes)) {
            most = other;
        }
    }
    return most;
}

/* Differences below a hundredth are within the search's steps. */
static void advise_allocator(advice_list *list, const mend_report_other *other)
{
    const mend_report *report = list->report;
    const mend_report_other *base = mend_report_recorded(report);
    bool is_usual = strcmp(other->policy, "mend") == 0 ||
                    strcmp(other->policy, "expandable") == 0 ||
                    strcmp(other->policy, "caching") == 0;
    base = base == NULL && !report->detail.is_snapshot ? most_needy(report) : base;
    if (base == NULL || !is_usual || !other->is_known ||
        other->needs_bytes + base->needs_bytes / 100 > base->needs_bytes) {
        return;
    }
    mend_advice *advice = place_for(list, base->needs_bytes - other->needs_bytes);
    if (advice != NULL) {
        snprintf(advice->what, sizeof(advice->what), "%s", how_to(other->policy));
        char waits[128] = "";
        if (other->waits != base->waits) {
            snprintf(waits, sizeof(waits), "; CPU stalls: %s instead of %s", COUNT(other->waits),
                     COUNT(base->waits));
        }
        snprintf(advice->evidence, sizeof(advice->evidence),
                 "the same requests need %s instead of %s with %s%s", SIZE(other->needs_bytes),
                 SIZE(base->needs_bytes), base->name, waits);
    }
}

static void advise_largest(advice_list *list)
{
    const mend_report *report = list->report;
    const mend_report_owner *owner = MEND_REPORT_LARGEST(report, peak_bytes);
    if (owner == NULL || owner->growth_bytes > 0) {
        return;
    }
    mend_advice *advice = place_for(list, 0);
    if (advice != NULL) {
        snprintf(advice->what, sizeof(advice->what), "Look at %s first", CALL(owner));
        snprintf(advice->evidence, sizeof(advice->evidence),
                 "it has %s of the peak (%s); each tenth of it that goes saves %s",
                 SIZE(owner->peak_bytes),
                 mend_word_percent(owner->peak_bytes, report->peak_bytes).text,
                 SIZE(owner->peak_bytes / 10));
    }
}

size_t mend_report_advise(const mend_report *report, mend_advice *advice)
{
    advice_list list = {.report = report, .items = advice};
    for (size_t h = 0; h < report->owner_count; h++) {
        const mend_report_owner *owner = &report->owners[h];
        if (owner->growth_bytes > 0 && owner->without_bytes < report->peak_bytes &&
            (report->in_step == 0 || !owner->in_step)) {
            advise_growth(&list, h);
        }
    }
    if (report->in_step > 0 && report->without_step_bytes < report->peak_bytes) {
        advise_step(&list);
    }
    if (report->grows_as_whole) {
        advise_whole(&list);
    }
    for (size_t i = 0; i < report->other_count; i++) {
        advise_allocator(&list, &report->others[i]);
    }
    advise_largest(&list);
    return list.count;
}
