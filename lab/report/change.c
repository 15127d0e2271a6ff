/* Changes between two runs of a program. */
#include "lab/report/change.h"

#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/report/advice.h"
#include "lab/report/words.h"

enum { SHOWN_CHANGES = 14, NAME_COLUMNS = 48 };

/* An owner of either run, by its name. */
typedef struct changed_owner {
    const char *name;
    const mend_report_owner *before; /* NULL: it holds nothing there */
    const mend_report_owner *after;
} changed_owner;

static uint64_t peak_of(const mend_report_owner *owner)
{
    return owner == NULL ? 0 : owner->peak_bytes;
}

static uint64_t size_of_change(const changed_owner *owner)
{
    uint64_t before = peak_of(owner->before);
    uint64_t after = peak_of(owner->after);
    return before > after ? before - after : after - before;
}

static int by_name(const void *a, const void *b)
{
    const changed_owner *one = a;
    const changed_owner *other = b;
    int order = strcmp(one->name, other->name);
    return order != 0 ? order : (one->after != NULL) - (other->after != NULL);
}

static int by_change(const void *a, const void *b)
{
    uint64_t one = size_of_change(a);
    uint64_t other = size_of_change(b);
    return one != other ? (one > other ? -1 : 1) : by_name(a, b);
}

/* The owners of both, each once, those first whose part of the peak changed most. */
static changed_owner *join(const mend_report *before, const mend_report *after, size_t *count)
{
    changed_owner *all = calloc(before->owner_count + after->owner_count + 1, sizeof(*all));
    *count = 0;
    if (all == NULL) {
        return NULL;
    }
    size_t given = 0;
    for (size_t i = 0; i < before->owner_count; i++) {
        all[given++] = (changed_owner){before->owners[i].name, &before->owners[i], NULL};
    }
    for (size_t i = 0; i < after->owner_count; i++) {
        all[given++] = (changed_owner){after->owners[i].name, NULL, &after->owners[i]};
    }
    qsort(all, given, sizeof(*all), by_name);
    for (size_t i = 0; i < given; i++) {
        bool is_same = *count > 0 && all[i].after != NULL && all[*count - 1].after == NULL &&
                       strcmp(all[*count - 1].name, all[i].name) == 0;
        if (is_same) {
            all[*count - 1].after = all[i].after;
        } else {
            all[(*count)++] = all[i];
        }
    }
    qsort(all, *count, sizeof(*all), by_change);
    return all;
}

static void print_row(FILE *out, const char *name, uint64_t before, uint64_t after)
{
    fputs("  ", out);
    mend_words_cut(out, name, NAME_COLUMNS, 1);
    fprintf(out, " %10s %10s %11s\n", mend_word_size(before).text, mend_word_size(after).text,
            mend_word_change(before, after).text);
}

static void print_verdict(FILE *out, const char *when, const mend_report *report)
{
    char verdict[MEND_VERDICT_BYTES];
    char line[MEND_VERDICT_BYTES + 128];
    char name[64];
    mend_report_judge(report, verdict, sizeof(verdict));
    mend_trace_short_name(report->trace, name, sizeof(name));
    snprintf(line, sizeof(line), "%s, %.40s: %s", when, name, verdict);
    mend_words_wrap(out, line, 0, 2);
}

/* Growth of owners, or of all together if no owner explains it. */
static uint64_t growth_of(const mend_report *report)
{
    return report->grows_as_whole ? report->whole_growth_bytes : report->growth_bytes;
}

static void print_figures(FILE *out, const mend_report *before, const mend_report *after)
{
    fprintf(out, "\n%-50s %10s %10s %11s\n", "What changed", "before", "after", "change");
    print_row(out, "most in use", before->peak_bytes, after->peak_bytes);
    if (before->knows_held && after->knows_held) {
        print_row(out, "most held", before->peak_held_bytes, after->peak_held_bytes);
    }
    print_row(out, "owners that grew and never shrank", growth_of(before), growth_of(after));
    fprintf(out, "  %-48s %10s %10s\n", "failed requests", mend_word_count(before->failures).text,
            mend_word_count(after->failures).text);
    fprintf(out, "  %-48s %10s %10s\n", "events", mend_word_count(before->trace->event_count).text,
            mend_word_count(after->trace->event_count).text);
}

void mend_report_print_change(FILE *out, const mend_report *before, const mend_report *after)
{
    print_verdict(out, "Before", before);
    print_verdict(out, "After", after);
    print_figures(out, before, after);
    size_t count;
    changed_owner *all = join(before, after, &count);
    fprintf(out, "%-50s %10s %10s %11s\n", "At the peak", "before", "after", "change");
    size_t shown = 0;
    for (; shown < count && shown < SHOWN_CHANGES && size_of_change(&all[shown]) > 0; shown++) {
        print_row(out, all[shown].name, peak_of(all[shown].before), peak_of(all[shown].after));
    }
    if (shown == 0) {
        fputs("  no owner holds more or less\n", out);
    }
    free(all);
}
