/* The table of the page: all figures of all runs. */
#include "base/align.h"
#include "cli/page_parts.h"
#include "lab/support/page_text.h"

static void write_result(FILE *out, const mend_replay_result *result)
{
    if (result->completed && result->failed_again > 0) {
        fputs("<td class=\"bad\">completed, ", out);
        mend_page_count(out, result->failed_again);
        fputs(" failed again</td>", out);
        return;
    }
    if (result->completed) {
        fputs("<td class=\"good\">completed</td>", out);
        return;
    }
    fputs("<td class=\"bad\">out of memory at event ", out);
    mend_page_count(out, result->failed_at_event);
    fputs("</td>", out);
}

static void write_run(FILE *out, const mend_demo_act *act, size_t allocator)
{
    const mend_demo_run *run = &act->runs[allocator];
    const mend_replay_result *result = &run->result;
    fputs(allocator == MEND_DEMO_MEND ? "<tr class=\"mend\"><td>" : "<tr><td>", out);
    mend_page_text(out, mend_demo_allocators[allocator].title);
    fputs("</td>", out);
    if (run->fit_factor != 0) {
        fprintf(out, "<td>%.3f\xc3\x97</td>", run->fit_factor);
    } else {
        fputs("<td>\xe2\x80\x93</td>", out);
    }
    write_result(out, result);
    fprintf(out, "<td>%.3f\xc3\x97</td><td>",
            (double)result->peak_reserved_bytes / (double)mend_max_u64(act->peak_live_bytes, 1));
    mend_page_count(out, result->host_syncs);
    fprintf(out, "</td><td>%.1f ms</td><td>", result->driver_time_us / 1000);
    if (act->on_gpu) {
        fputs("\xe2\x80\x93</td><td>", out);
    } else {
        fprintf(out, "%.1f ms</td><td>", result->compared_time_us / 1000);
    }
    mend_page_count(out, mend_replay_sum_calls(&result->calls));
    fputs("</td><td>", out);
    if (result->bytes_copied > 0) {
        mend_page_bytes(out, result->bytes_copied);
    } else {
        fputs("none", out);
    }
    if (result->is_felt) {
        fprintf(out, "</td><td>%.1f ms</td><td>%.1f&nbsp;%%", result->felt.longest_us / 1000,
                result->felt.gpu_bound_percent);
    } else {
        fputs("</td><td>\xe2\x80\x93</td><td>\xe2\x80\x93", out);
    }
    fputs("</td></tr>\n", out);
}

void mend_page_table(FILE *out, const mend_demo_report *report)
{
    fputs("<section>\n<h2>The numbers</h2>\n<div class=\"scroll\" tabindex=\"0\">\n<table>\n"
          "<tr><th>allocator</th><th>smallest<br>device</th><th>result</th>"
          "<th>most memory<br>held</th><th>CPU<br>stalls</th><th>driver<br>time</th><th>by<br>"
          "reference</th>"
          "<th>driver<br>calls</th><th>data<br>copied</th><th>longest<br>request</th><th>time<br>"
          "added</th></tr>\n",
          out);
    for (size_t i = 0; i < report->act_count; i++) {
        const mend_demo_act *act = &report->acts[i];
        fputs("<tr class=\"act\"><th colspan=\"11\">", out);
        mend_page_text(out, act->scene->title);
        fputs(" <span class=\"soft\">(", out);
        mend_page_text(out, act->scene->source);
        fprintf(out, ", on %s of ", act->on_gpu ? "the GPU, limited to" : "a simulated device");
        mend_page_bytes(out, act->capacity_bytes);
        fputs(")</span></th></tr>\n", out);
        for (size_t a = 0; a < MEND_DEMO_ALLOCATORS; a++) {
            write_run(out, act, a);
        }
    }
    fputs("</table>\n</div>\n<p class=\"soft\">Multiples are relative to the most memory that the "
          "program has in use at once; 1.000\xc3\x97 is the physical limit. Figures of a run that "
          "failed count up to its end. The smallest device is the size from which on the allocator "
          "finishes at every larger one, searched for in steps of 0.2&nbsp;%. Driver times of the "
          "simulated device are sums of prices: by the list "
          "<code>h200</code>, measured on an H200, and by the list <code>reference</code>, "
          "which was assumed before. The longest request is one after the first tenth of the run; "
          "the time added is that of a model of a program that is bound by the "
          "GPU.</p>\n</section>\n",
          out);
}
