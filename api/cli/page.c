#include "cli/page.h"

#include "cli/page_parts.h"
#include "lab/support/page_text.h"

/* States only results: a demo that does not show the point must not claim it. */
static void write_headline(FILE *out, const mend_demo_report *report)
{
    fputs("<h1>", out);
    if (report->own != NULL) {
        char name[128];
        mend_trace_short_name(report->own, name, sizeof(name));
        mend_page_text(out, name);
        fprintf(out, " on %zu devices: it finishes with ", report->act_count);
        for (size_t a = 0; a < MEND_DEMO_ALLOCATORS; a++) {
            mend_page_text(out, mend_demo_allocators[a].title);
            fprintf(out, " on %zu%s", mend_demo_completed(report, a),
                    a + 1 < MEND_DEMO_ALLOCATORS ? ", " : ".");
        }
    } else {
        fprintf(out,
                "Memory held, stalls and failures: %zu runs on devices of 24 and 80 "
                "GiB, and one near the limit.",
                report->act_count - 1);
    }
    fputs("</h1>\n<p class=\"lead\">GPU programs allocate and free memory all the time. The free "
          "memory ends up in pieces, and a request fails although enough is free in sum: that is "
          "<b>fragmentation</b>. Mend joins the free pieces, wherever they lie, without moving "
          "any data.</p>\n",
          out);
    char failures[MEND_TRACE_FAILURES_BYTES] = "";
    if (report->own != NULL) {
        mend_trace_tell_failures(report->own, failures, sizeof(failures));
    }
    if (failures[0] != 0) {
        fputs("<p><b>", out);
        mend_page_text(out, failures);
        fputs("</b></p>\n", out);
    }
}

/* The least device for a program. */
static void write_least(FILE *out, const mend_demo_act *act, size_t allocator)
{
    double fit_factor = act->runs[allocator].fit_factor;
    fputs("<li>", out);
    mend_page_text(out, mend_demo_allocators[allocator].title);
    if (fit_factor == 0) {
        fputs(": the size that is enough was not searched for.</li>\n", out);
        return;
    }
    fputs(" finishes on every device of at least ", out);
    mend_page_bytes(out, (uint64_t)((double)act->peak_live_bytes * fit_factor));
    fprintf(out, ", %.3f times the program's memory.</li>\n", fit_factor);
}

/* Next to the headline: where the sizes come from, and how close the last one is. */
static void write_capacities(FILE *out, const mend_demo_report *report)
{
    fputs("<div class=\"card capacities\"><p><b>The memory sizes.</b> ", out);
    fputs(
        report->own != NULL
            ? "One rule gives them for every program: a device that is large enough, and one with "
              "5 % more memory than it uses at its peak."
            : "Devices of 24 and 80 GiB are sold. Where each step is like the last, and the "
              "program "
              "fits, there is little to gain. The last device has 5 % more memory than the "
              "program uses at its peak, as <code>libmend demo FILE</code> takes it for any "
              "program:",
        out);
    fputs("</p>\n<ul>\n", out);
    for (size_t a = 0; a < MEND_DEMO_ALLOCATORS; a++) {
        write_least(out, &report->acts[report->act_count - 1], a);
    }
    fputs("</ul></div>\n", out);
}

static void write_scores(FILE *out, const mend_demo_report *report)
{
    fputs("<div class=\"three scores\">\n", out);
    for (size_t a = 0; a < MEND_DEMO_ALLOCATORS; a++) {
        size_t completed = mend_demo_completed(report, a);
        fprintf(out, "<div class=\"card score %s\"><span>",
                completed == report->act_count ? "good" : "bad");
        mend_page_text(out, mend_demo_allocators[a].title);
        fprintf(out, "</span><b>%zu of %zu</b><span class=\"soft\">%s; ", completed,
                report->act_count,
                report->own != NULL ? "devices on which it finishes" : "runs finished");
        mend_page_count(out, mend_demo_waits(report, a));
        fputs(" CPU stalls</span></div>\n", out);
    }
    fputs("</div>\n", out);
}

/* The outcome, as a mark and a sentence. */
static void write_outcome(FILE *out, const mend_demo_run *run)
{
    const mend_replay_result *result = &run->result;
    if (result->completed) {
        if (result->failed_again > 0) {
            fputs("<div><span class=\"mark bad\">\xe2\x9c\x95 failed again ", out);
            mend_page_count(out, result->failed_again);
            fputs("\xc3\x97</span></div>\n<p class=\"note\">Held at most ", out);
        } else {
            fputs("<div><span class=\"mark good\">\xe2\x9c\x93 finished</span></div>\n"
                  "<p class=\"note\">Held at most ",
                  out);
        }
        mend_page_bytes(out, result->peak_reserved_bytes);
        if (result->host_syncs == 0) {
            fputs(" and never made the program wait for the GPU.</p>\n", out);
        } else {
            fputs(" and made the program wait for the GPU ", out);
            mend_page_count(out, result->host_syncs);
            fputs(" times.</p>\n", out);
        }
        return;
    }
    fprintf(
        out,
        "<div><span class=\"mark bad\">\xe2\x9c\x95 out of memory at %.0f&nbsp;%%</span></div>\n"
        "<p class=\"note\">Asked for ",
        mend_replay_reached_percent(&run->result));
    mend_page_bytes(out, run->wanted_bytes);
    const bool is_enough = run->unused_bytes >= run->wanted_bytes;
    fputs(is_enough ? " while " : "; ", out);
    mend_page_bytes(out, run->unused_bytes);
    fputs(is_enough ? " were not in use, but not in one piece it could use.</p>\n"
                    : " were not in use.</p>\n",
          out);
}

static void write_act(FILE *out, const mend_demo_act *act)
{
    fputs("<section>\n<h2>", out);
    mend_page_text(out, act->scene->title);
    fputs("</h2>\n<p>", out);
    mend_page_text(out, act->scene->what);
    fputs(" <span class=\"soft\">It has at most ", out);
    mend_page_bytes(out, act->peak_live_bytes);
    fputs(" in use; the device has ", out);
    mend_page_bytes(out, act->capacity_bytes);
    fprintf(out, " (%.3f times that).</span></p>\n<div class=\"three\">\n",
            mend_demo_times_peak(act));
    for (size_t a = 0; a < MEND_DEMO_ALLOCATORS; a++) {
        fputs("<div class=\"card\"><h3>", out);
        mend_page_text(out, mend_demo_allocators[a].title);
        fputs("</h3>\n", out);
        write_outcome(out, &act->runs[a]);
        mend_page_chart(out, act, a);
        fputs("</div>\n", out);
    }
    fputs("</div>\n<p class=\"soft keys\"><span><i class=\"key live\"></i>in use by the "
          "program</span> <span><i class=\"key held\"></i>held by the allocator, free</span> "
          "<span><i class=\"key limit\"></i>memory of the device</span></p>\n</section>\n",
          out);
}

void mend_page_write(FILE *out, const mend_demo_report *report)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<title>Mend: the same memory, without fragmentation</title>\n<style>\n",
          out);
    fputs(mend_page_style, out);
    fputs("</style>\n</head>\n<body>\n<main>\n", out);
    write_headline(out, report);
    mend_page_drawing(out);
    write_scores(out, report);
    write_capacities(out, report);
    for (size_t i = 0; i < report->act_count; i++) {
        write_act(out, &report->acts[i]);
    }
    mend_page_table(out, report);
    mend_page_explain(out, report);
    fputs("</main>\n</body>\n</html>\n", out);
}
