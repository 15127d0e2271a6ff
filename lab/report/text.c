#include "lab/report/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "lab/report/advice.h"
#include "lab/report/others.h"
#include "lab/report/words.h"

enum { SHOWN_OWNERS = 5, NAME_COLUMNS = 54 };

static void print_head(FILE *out, const mend_report *report)
{
    char name[256];
    char line[512];
    char source[256];
    mend_trace_short_name(report->trace, name, sizeof(name));
    mend_report_tell_source(report, source, sizeof(source));
    snprintf(line, sizeof(line), "%.40s: %s", name, source);
    mend_words_wrap(out, line, 0, 1);
}

static void print_verdict(FILE *out, const mend_report *report)
{
    char verdict[MEND_VERDICT_BYTES];
    mend_report_judge(report, verdict, sizeof(verdict));
    mend_words_wrap(out, verdict, 0, 2);
}

static void print_curve(FILE *out, const mend_report *report)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    fputs("live  ", out);
    for (size_t i = 0; i < MEND_REPORT_COLUMNS; i++) {
        double share = (double)report->highest[i] / (double)mend_max_u64(report->peak_bytes, 1);
        size_t bar = (size_t)(share * 8);
        fputs(bars[mend_min_u64(bar, 7)], out);
    }
    fprintf(out, "  peak %s, event %s\n", SIZE(report->peak_bytes), COUNT(report->peak_event));
    if (report->knows_held) {
        char line[256];
        snprintf(line, sizeof(line),
                 "held  %s at most, %.3f of the peak in use; memory was created %s times, released "
                 "%s times",
                 SIZE(report->peak_held_bytes),
                 (double)report->peak_held_bytes / (double)mend_max_u64(report->peak_bytes, 1),
                 COUNT(report->taken), COUNT(report->given));
        mend_words_wrap(out, line, 0, 1);
    }
    char away[128];
    if (mend_report_tell_away(report, away, sizeof(away))) {
        fprintf(out, "away  %s at most: in use, and not held\n", away);
    }
    if (report->detail.wait_count > 0) {
        fprintf(out, "waits the CPU waited for the GPU %s times\n",
                COUNT(report->detail.wait_count));
    }
}

static void print_advice(FILE *out, const mend_report *report, size_t most)
{
    mend_advice advice[MEND_ADVICE_MOST];
    size_t count = mend_report_advise(report, advice);
    if (count == 0) {
        return;
    }
    fputs("\nWhat helps most\n", out);
    for (size_t i = 0; i < count && i < most; i++) {
        char line[512];
        char saved[48] = "";
        if (advice[i].saved_bytes > 0) {
            snprintf(saved, sizeof(saved), ": -%s", SIZE(advice[i].saved_bytes));
        }
        snprintf(line, sizeof(line), "%zu. %s%s", i + 1, advice[i].what, saved);
        mend_words_wrap(out, line, 2, 1);
        mend_words_wrap(out, advice[i].evidence, 5, 2);
    }
}

static void print_growth(FILE *out, const mend_report *report, const mend_report_owner *owner)
{
    const char *const words[] = {report->grows_as_whole ? "unclear" : "steady", "new", "grows",
                                 "LEAK?"};
    if (owner->growth_bytes == 0) {
        fprintf(out, "  %s\n", words[owner->trend]);
    } else {
        fprintf(out, "  +%s %s\n", SIZE(owner->growth_bytes), words[owner->trend]);
    }
}

static void print_owner(FILE *out, const mend_report *report, const mend_report_owner *owner)
{
    fprintf(out, "  %c ", owner->letter == 0 ? '.' : owner->letter);
    mend_words_cut(out, owner->name, NAME_COLUMNS, 1);
    const bool has_age = owner->blocks > 0 && mend_report_has_history(report);
    fprintf(out, " %10s %5s %6s %9s", SIZE(owner->bytes),
            mend_word_percent(owner->bytes, report->live_bytes).text, COUNT(owner->blocks),
            has_age ? COUNT(report->moment_events - owner->oldest_event) : "");
    if (mend_report_has_history(report)) {
        print_growth(out, report, owner);
    } else {
        fputs("  unknown\n", out);
    }
}

/* The largest ones, and the suspect that grew most, if it is not among them. */
static void print_owners(FILE *out, const mend_report *report)
{
    char title[96];
    bool shows_suspect = report->suspects == 0;
    const mend_report_owner *const suspect = MEND_REPORT_LARGEST(report, growth_bytes);
    if (mend_report_has_history(report)) {
        snprintf(title, sizeof(title), "Owners at the %s (event %s)",
                 report->has_failed ? "failure" : "peak", COUNT(report->moment_events));
    } else {
        snprintf(title, sizeof(title), "Owners");
    }
    fputc('\n', out);
    mend_words_cut(out, title, NAME_COLUMNS + 4, 1);
    fprintf(out, " %10s %5s %6s %9s  %s\n", "now", "share", "blocks", "oldest", "growth");
    for (size_t i = 0; i < report->owner_count && i < SHOWN_OWNERS; i++) {
        bool is_last = i + 1 == SHOWN_OWNERS;
        const mend_report_owner *const owner =
            is_last && !shows_suspect ? suspect : &report->owners[report->order[i]];
        shows_suspect = shows_suspect || owner == suspect;
        if (owner->bytes > 0) {
            print_owner(out, report, owner);
        }
    }
    if (report->detail.is_recording && report->detail.owner_count == 0) {
        fputs("Lines of a Python program: record it with MEND_STACKS=1MiB\n", out);
    }
}

static void print_free(FILE *out, const mend_report *report)
{
    const mend_report_memory *memory = &report->memory;
    char line[MEND_MESSAGE_BYTES + 32];
    if (mend_report_reason(report) != NULL) {
        snprintf(line, sizeof(line), "Why it did not fit: %s", mend_report_reason(report));
        mend_words_wrap(out, line, 0, 2);
    } else if (report->knows_gaps) {
        fprintf(out,
                "Free between and beside blocks, of the memory used before: %s; longest piece %s "
                "of %s\n",
                SIZE(memory->whole_bytes + memory->beside_bytes), SIZE(memory->longest_bytes),
                COUNT(memory->pieces));
    }
    if (report->knows_held && mend_report_reason(report) == NULL) {
        char beside[64] = "";
        char others[64] = "";
        if (report->detail.is_of_mend) {
            beside[0] = 0; /* it does not say where chunks end */
        } else if (memory->whole_bytes == 0 && memory->beside_bytes > 0) {
            snprintf(beside, sizeof(beside), ", all beside live blocks");
        } else if (memory->beside_bytes > 0) {
            snprintf(beside, sizeof(beside), ", %s of it beside live blocks",
                     SIZE(memory->beside_bytes));
        }
        if (memory->others_bytes > 0) {
            snprintf(others, sizeof(others), ", %s of other streams", SIZE(memory->others_bytes));
        }
        snprintf(line, sizeof(line), "Free then: %s%s%s; longest piece %s of %s",
                 SIZE(memory->whole_bytes + memory->beside_bytes), beside, others,
                 SIZE(memory->longest_bytes), COUNT(memory->pieces));
        mend_words_wrap(out, line, 0, 2);
    }
    if (mend_report_tell_keeper(report, line, sizeof(line))) {
        mend_words_wrap(out, line, 0, 2);
    }
    if (mend_report_tell_waiting(report, line, sizeof(line))) {
        mend_words_wrap(out, line, 0, 2);
    }
    if (mend_report_tell_new(report, line, sizeof(line))) {
        mend_words_wrap(out, line, 0, 1);
    }
}

static void print_other(FILE *out, const mend_report *report, const mend_report_other *other)
{
    char needs[128] = "    not simulated: too long";
    char here[96] = "";
    char line[256];
    if (other->is_known) {
        snprintf(needs, sizeof(needs), "%3s%10s %9s CPU stalls %10.1f ms driver",
                 other->is_close ? "" : "<=", SIZE(other->needs_bytes), COUNT(other->waits),
                 other->driver_ms);
    }
    if (other->knows_here && other->completes_here) {
        snprintf(here, sizeof(here), "   in %s: completes", SIZE(report->capacity_bytes));
    } else if (other->knows_here) {
        snprintf(here, sizeof(here), "   in %s: fails at %u %%", SIZE(report->capacity_bytes),
                 other->here_percent);
    }
    snprintf(line, sizeof(line), "%-20s %s%s", other->name, needs, here);
    mend_words_wrap(out, line, 2, 1);
}

static void print_others(FILE *out, const mend_report *report)
{
    if (report->other_count == 0) {
        return;
    }
    bool is_any_known = false;
    for (size_t i = 0; i < report->other_count; i++) {
        is_any_known = is_any_known || report->others[i].is_known;
    }
    if (!is_any_known) {
        fputs("The needs of the same requests were not simulated: see --what-if\n", out);
        return;
    }
    fputs("Needs of the same requests\n", out);
    for (size_t i = 0; i < report->other_count; i++) {
        print_other(out, report, &report->others[i]);
    }
}

static void print_all(FILE *out, const mend_report *report, size_t most_advice)
{
    print_head(out, report);
    print_verdict(out, report);
    if (mend_report_has_history(report)) {
        print_curve(out, report);
    }
    print_advice(out, report, most_advice);
    print_owners(out, report);
    print_free(out, report);
    print_others(out, report);
}

/* As much advice as fits. */
void mend_report_print(FILE *out, const mend_report *report)
{
    bool fits = false;
    for (size_t advice = MEND_ADVICE_MOST; !fits; advice--) {
        char *text = NULL;
        size_t size = 0;
        size_t lines = 0;
        FILE *const whole = open_memstream(&text, &size);
        if (whole == NULL) {
            print_all(out, report, 1);
            return;
        }
        print_all(whole, report, advice);
        fclose(whole);
        for (size_t i = 0; i < size; i++) {
            lines += text[i] == '\n';
        }
        fits = lines <= MEND_TEXT_LINES || advice == 1;
        fwrite(text, 1, fits ? size : 0, out);
        free(text);
    }
}

void mend_report_print_others(FILE *out, const mend_report *report)
{
    print_head(out, report);
    print_verdict(out, report);
    print_curve(out, report);
    print_others(out, report);
    fprintf(out, "Simulated: %s events. The peak in use is %s: no allocator needs less.\n",
            COUNT(report->simulated_events), SIZE(report->peak_bytes));
}
