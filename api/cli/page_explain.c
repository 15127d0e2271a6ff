/* The part of the page that explains fragmentation, Mend, and the simulation. */
#include "base/align.h"
#include "cli/page_parts.h"
#include "lab/support/page_text.h"

/* The drawing: cells of memory, some used, and a request of three cells. */
enum { CELLS = 10, CELL_WIDTH = 34, CELL_HEIGHT = 26, FIRST_X = 10, MEMORY_Y = 92, REQUEST_Y = 26 };
enum { REQUEST_CELLS = 3, REQUEST_X = 44 };
static const bool cell_is_used[CELLS] = {true, false, true, true, false,
                                         true, false, true, true, false};

static void draw_cell(FILE *out, const char *class, int x, int y)
{
    fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"/>\n",
            class, x + 1, y, CELL_WIDTH - 3, CELL_HEIGHT);
}

static void draw_memory(FILE *out, const char *request_class)
{
    for (int i = 0; i < REQUEST_CELLS; i++) {
        draw_cell(out, request_class, REQUEST_X + i * CELL_WIDTH, REQUEST_Y);
    }
    for (int i = 0; i < CELLS; i++) {
        draw_cell(out, cell_is_used[i] ? "used" : "hole", FIRST_X + i * CELL_WIDTH, MEMORY_Y);
    }
}

/* Lines from each cell of the request to a hole. */
static void draw_threads(FILE *out)
{
    int part = 0;
    for (int i = 0; i < CELLS && part < REQUEST_CELLS; i++) {
        if (cell_is_used[i]) {
            continue;
        }
        draw_cell(out, "ask", FIRST_X + i * CELL_WIDTH, MEMORY_Y);
        int from = REQUEST_X + part * CELL_WIDTH + CELL_WIDTH / 2;
        int to = FIRST_X + i * CELL_WIDTH + CELL_WIDTH / 2;
        fprintf(out, "<path class=\"thread\" d=\"M%d %dC%d %d %d %d %d %d\"/>\n", from,
                REQUEST_Y + CELL_HEIGHT, from, REQUEST_Y + CELL_HEIGHT + 20, to, MEMORY_Y - 20, to,
                MEMORY_Y);
        part++;
    }
}

static void draw(FILE *out, bool with_mend)
{
    fprintf(out, "<svg viewBox=\"0 0 360 140\" role=\"img\" aria-label=\"%s\">\n",
            with_mend ? "A request is served from three separate free pieces of memory"
                      : "A request finds no free place, though enough memory is free");
    draw_memory(out, with_mend ? "ask" : "refused");
    if (with_mend) {
        draw_threads(out);
    }
    fprintf(out,
            "<text x=\"%d\" y=\"%d\">%s</text>\n"
            "<text x=\"%d\" y=\"%d\">memory of the device</text>\n</svg>\n",
            REQUEST_X, REQUEST_Y - 8,
            with_mend ? "one range of addresses" : "a request: three pieces in a row", FIRST_X,
            MEMORY_Y + CELL_HEIGHT + 15);
}

void mend_page_drawing(FILE *out)
{
    fputs("<section>\n<div class=\"two\">\n<div class=\"card\">\n<h3>Fragmentation</h3>\n", out);
    draw(out, false);
    fputs("<p>Blocks are freed in another order than they were allocated. Four pieces are free "
          "here, but no three lie side by side: the request fails.</p>\n</div>\n"
          "<div class=\"card\">\n<h3>With Mend</h3>\n",
          out);
    draw(out, true);
    fputs("<p>A GPU translates addresses to memory page by page. Mend maps free pieces, from "
          "wherever they are, side by side into a range of addresses. Nothing is copied, and no "
          "block in use changes its address.</p>\n</div>\n</div>\n</section>\n",
          out);
}

/* How far the figures can be trusted. */
static void write_caveats(FILE *out, const mend_demo_report *report)
{
    fputs("<section>\n<h2>Real and simulated parts</h2>\n<ul>\n", out);
    fputs(
        report->own != NULL
            ? "<li><b>The program:</b> the allocations and frees of the file, in their order; a "
              "program that would react to a lack of memory does not here.</li>\n"
            : "<li><b>The workloads:</b> recordings are the allocations and frees of real PyTorch "
              "code, made without a GPU (sizes and order are PyTorch\xe2\x80\x99s own). A "
              "workload whose name begins with <code>stress:</code> is made up.</li>\n",
        out);
    fputs("<li><b>Mend:</b> the library itself, called through its public interface.</li>\n"
          "<li><b>The PyTorch allocators:</b> models of their rules, not PyTorch itself.</li>\n",
          out);
    if (report->gpu[0] != '\0') {
        fputs("<li><b>The device:</b> ", out);
        mend_page_text(out, report->gpu);
        fputs(", limited in software to the sizes shown, except where the table says "
              "\xe2\x80\x9csimulated\xe2\x80\x9d. The smallest size was searched for on the "
              "simulated device.</li>\n",
              out);
    } else {
        fputs(
            "<li><b>The device:</b> simulated. It follows the rules of the CUDA driver and "
            "checks that they are kept, but has no memory and runs no kernels.</li>\n"
            "<li><b>Driver time:</b> sums of fixed prices by two lists, <code>h200</code>, which "
            "was "
            "measured on an H200, and <code>reference</code>, which was assumed. The order of the "
            "allocators may depend on it. This run itself measured nothing on a GPU.</li>\n",
            out);
    }
    fputs("<li><b>The choice:</b> ", out);
    fputs(
        report->own != NULL
            ? "the program is yours. "
            : "the made-up program was chosen to show a difference, and so were two recordings of "
              "many. For other programs another allocator holds as little as Mend, or less. ",
        out);
    fputs("The column \xe2\x80\x9csmallest device\xe2\x80\x9d shows how close it "
          "is.</li>\n</ul>\n",
          out);
}

void mend_page_explain(FILE *out, const mend_demo_report *report)
{
    write_caveats(out, report);
    fputs("<p>To run it again, or to try your own recording (<code>libmend demo FILE</code> makes "
          "this page of it):</p>\n<pre><code>",
          out);
    for (size_t i = 0; i < report->act_count; i++) {
        const mend_demo_scene *scene = report->acts[i].scene;
        fputs("libmend replay --allocator caching,expandable,mend --capacity ", out);
        if (scene->memory_bytes % MEND_GIB == 0 && scene->memory_bytes != 0) {
            fprintf(out, "%lluGiB ", (unsigned long long)(scene->memory_bytes / MEND_GIB));
        } else if (scene->memory_bytes != 0) {
            fprintf(out, "%llu ", (unsigned long long)scene->memory_bytes);
        } else {
            fprintf(out, "%.3fx,fit ", scene->factor);
        }
        fputs(report->own == NULL && mend_demo_source_is_recording(scene) ? "bench/traces/" : "",
              out);
        mend_page_text(out, scene->source);
        fputc('\n', out);
    }
    fputs("</code></pre>\n", out);
    if (report->own == NULL) {
        fputs("<p class=\"soft\"><code>bench/traces</code> is a folder of Mend's repository. An "
              "installed package does not have it.</p>\n",
              out);
    }
    fputs("</section>\n", out);
}
