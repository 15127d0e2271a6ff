#include "lab/live/command.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/align.h"
#include "lab/live/list.h"
#include "lab/live/read.h"
#include "lab/live/screen.h"
#include "lab/report/words.h"
#include "lab/support/json.h"

enum {
    STATUS_GOOD = 0,
    STATUS_BAD_INPUT = 2,
    SHOWN_OWNERS = 12,
    NAME_COLUMNS = 44,
    BAR_COLUMNS = 60
};
enum { PERIOD_MS = 1000 };
enum { OPTION_ONCE, OPTION_JSON };

static const mend_option options[] = {
    [OPTION_ONCE] = {"once", NULL,
                     "print it once, as where standard output is no terminal; otherwise every "
                     "second until the process ends",
                     NULL},
    [OPTION_JSON] = {"json", NULL, "a JSON array of the pools in a line each time", NULL},
    MEND_OPTION_HELP,
    {NULL, NULL, NULL, NULL},
};

const mend_command mend_top_command = {
    .name = "top",
    .what = "show the memory of running processes, and its owners",
    .arguments = "[PID]",
    .about =
        "Lists the pools of all processes that publish them; of one process it shows more. On a "
        "terminal letters choose the order, and q quits.\n"
        "Shows the pools of a process that publishes them (MEND_CONF=observe:top, or "
        "mend_pool_config.observe): what they hold and why the rest is not free, calls and "
        "waits a second, and who holds memory. The process is neither stopped nor asked: a "
        "thread of it writes a page once a second, which only its user can read.",
    .options = options,
    .status = "Exit status: 0; 2 bad usage, or no page can be read.",
};

typedef struct top_arguments {
    bool once;
    bool json;
    bool has_screen; /* it shows figures until a key ends it */
    char order;      /* of the list */
    pid_t process;   /* 0: all that publish */
} top_arguments;

static bool take_option(int option, char *text, void *into)
{
    (void)text;
    top_arguments *arguments = into;
    arguments->once = arguments->once || option == OPTION_ONCE;
    arguments->json = arguments->json || option == OPTION_JSON;
    return true;
}

/* ---- what is shown --------------------------------------------------------------------------- */

/* Calls and waits since the page before, in a second. */
#define RATES(X)                                                                                   \
    X(allocations)                                                                                 \
    X(frees)                                                                                       \
    X(chunks_created)                                                                              \
    X(chunks_moved)                                                                                \
    X(chunks_released)                                                                             \
    X(host_waits)                                                                                  \
    X(stream_waits)                                                                                \
    X(out_of_memory)

#define RATE(page, figure) mend_live_rate(page, (page)->stats.figure, (page)->before.figure)

static size_t owners_of(const mend_live_page *page)
{
    return mend_min_u64(page->owner_count, MEND_LIVE_OWNERS);
}

static void write_json(mend_json *json, const mend_live_pools *pools, size_t at)
{
    const mend_live_page *page = &pools->pages[at];
    const uint64_t age_ns = pools->age_ns[at];
    mend_json_begin_object(json, NULL);
    mend_json_integer(json, "process", page->process);
    mend_json_string(json, "program", pools->programs[at]);
    mend_json_integer(json, "device", (uint64_t)page->device);
    mend_json_number(json, "age_s", (double)age_ns / 1e9, 3);
    mend_json_begin_object(json, "stats");
#define X(field, unit, meaning) mend_json_integer(json, #field, page->stats.field);
    MEND_STATS(X)
#undef X
    mend_json_end_object(json);
    mend_json_begin_object(json, "free");
    mend_json_integer(json, "whole_bytes", page->free.whole_bytes);
    mend_json_integer(json, "beside_bytes", page->free.beside_bytes);
    mend_json_integer(json, "streams_bytes", page->free.streams_bytes);
    mend_json_integer(json, "no_stream_bytes", page->free.no_stream_bytes);
    mend_json_integer(json, "graphs_bytes", page->free.graphs_bytes);
    mend_json_end_object(json);
    mend_json_begin_object(json, "per_second");
#define X(figure) mend_json_number(json, #figure, RATE(page, figure), 3);
    RATES(X)
#undef X
    mend_json_end_object(json);
    mend_json_integer(json, "owner_count", page->owner_count);
    mend_json_begin_array(json, "owners");
    for (size_t i = 0; i < owners_of(page); i++) {
        const mend_owner *owner = &page->owners[i];
        mend_json_begin_object(json, NULL);
        mend_json_string(json, "name", owner->name);
        mend_json_integer(json, "live_bytes", owner->live_bytes);
        mend_json_integer(json, "live_blocks", owner->live_blocks);
        mend_json_integer(json, "oldest", owner->oldest);
        mend_json_integer(json, "growth_bytes", owner->growth_bytes);
        mend_json_end_object(json);
    }
    mend_json_end_array(json);
    mend_json_end_object(json);
}

static void print_owner(const mend_live_page *page, const mend_owner *owner)
{
    fputs("  ", stdout);
    mend_words_cut(stdout, owner->name, NAME_COLUMNS - 2, 1);
    printf(" %10s %6s %7s %10s  %s%s%s\n", SIZE(owner->live_bytes),
           mend_word_percent(owner->live_bytes, page->stats.live_bytes).text,
           COUNT(owner->live_blocks), COUNT(owner->oldest), owner->growth_bytes > 0 ? "+" : "",
           owner->growth_bytes > 0 ? SIZE(owner->growth_bytes) : "steady",
           owner->growth_bytes > 0 ? " LEAK?" : "");
}

static void print(const mend_live_pools *pools, size_t at, bool has_bar)
{
    const mend_live_page *page = &pools->pages[at];
    const uint64_t age_ns = pools->age_ns[at];
    const mend_stats *stats = &page->stats;
    const mend_live_free *free_ = &page->free;
    printf("process %" PRIu64 " (", page->process);
    mend_words_cut(stdout, pools->programs[at], NAME_COLUMNS, 0);
    printf("), device %d", (int)page->device);
    if (age_ns > UINT64_C(3000000000)) {
        printf("; as of %.0f s ago: it is stopped, or busy", (double)age_ns / 1e9);
    }
    printf("\nlive  %s in %s blocks, peak %s\n", SIZE(stats->live_bytes), COUNT(stats->live_blocks),
           SIZE(stats->peak_live_bytes));
    printf("held  %s of %s, peak %s; asleep %s\n", SIZE(stats->reserved_bytes),
           SIZE(stats->limit_bytes), SIZE(stats->peak_reserved_bytes), SIZE(stats->asleep_bytes));
    if (has_bar) {
        fputs("      ", stdout);
        mend_live_print_bar(stats, BAR_COLUMNS);
        puts(" # live, = free, . left of the limit");
    }
    printf("free  %s: %s in whole chunks, %s beside live blocks, %s in use by streams,\n"
           "      %s freed without a stream, %s for graphs\n",
           SIZE(stats->free_bytes), SIZE(free_->whole_bytes), SIZE(free_->beside_bytes),
           SIZE(free_->streams_bytes), SIZE(free_->no_stream_bytes), SIZE(free_->graphs_bytes));
    printf("calls %.0f allocations/s, %.0f frees/s; chunks %.0f created/s, %.0f moved/s, %.0f "
           "released/s\n",
           RATE(page, allocations), RATE(page, frees), RATE(page, chunks_created),
           RATE(page, chunks_moved), RATE(page, chunks_released));
    printf("waits %.1f of the CPU/s, %.1f of streams/s; out of memory %s times\n",
           RATE(page, host_waits), RATE(page, stream_waits), COUNT(stats->out_of_memory));
    if (page->owner_count > 0) {
        printf("%-*s %10s %6s %7s %10s  growth\n", NAME_COLUMNS, "Owners", "now", "share", "blocks",
               "oldest");
    }
    for (size_t i = 0; i < owners_of(page); i++) {
        if (i < SHOWN_OWNERS || page->owners[i].growth_bytes > 0) {
            print_owner(page, &page->owners[i]);
        }
    }
}

static void show(const mend_live_pools *pools, const top_arguments *arguments)
{
    if (arguments->has_screen) {
        mend_screen_clear();
    }
    if (!arguments->json && arguments->process == 0) {
        mend_live_print_list(pools, arguments->order, arguments->has_screen);
    }
    if (arguments->json) {
        mend_json json = {.out = stdout};
        mend_json_begin_array(&json, NULL);
        for (size_t i = 0; i < pools->count; i++) {
            write_json(&json, pools, i);
        }
        mend_json_end_array(&json);
        fputc('\n', stdout);
    }
    for (size_t i = 0; !arguments->json && arguments->process != 0 && i < pools->count; i++) {
        fputs(i > 0 ? "\n" : "", stdout);
        print(pools, i, arguments->has_screen);
    }
    if (arguments->has_screen && arguments->process != 0) {
        puts("\nq quits");
    }
    fflush(stdout);
    if (pools->left_out > 0) {
        fprintf(stderr, "libmend top: pools beyond these, not shown: %zu\n", pools->left_out);
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

/* -1: the line is wrong. */
static pid_t read_process(int argc, char **argv)
{
    if (argc == optind) {
        return 0;
    }
    char *end = NULL;
    const long number = argc - optind == 1 ? strtol(argv[optind], &end, 10) : 0;
    if (number <= 0 || number > INT32_MAX || *end != '\0') {
        fprintf(stderr, "libmend top: %s%s; see libmend top --help\n",
                argc - optind == 1 ? "not the number of a process: " : "it takes one process",
                argc - optind == 1 ? argv[optind] : "");
        return -1;
    }
    return (pid_t)number;
}

/* Until the next look: false if there is none. */
static bool goes_on(const mend_live_pools *pools, top_arguments *arguments)
{
    if (arguments->once || ferror(stdout)) {
        return false;
    }
    char key = mend_screen_key(PERIOD_MS);
    while (key != 0 && key != 'q') {
        if (mend_live_has_order(key)) {
            arguments->order = key;
            show(pools, arguments);
        }
        key = mend_screen_key(PERIOD_MS);
    }
    return key != 'q';
}

int mend_cli_top(int argc, char **argv)
{
    top_arguments arguments = {0};
    int status;
    if (!mend_command_read(&mend_top_command, argc, argv, take_option, &arguments, &status)) {
        return status;
    }
    arguments.process = read_process(argc, argv);
    mend_live_pools *pools = arguments.process >= 0 ? calloc(1, sizeof(*pools)) : NULL;
    if (pools == NULL) {
        return STATUS_BAD_INPUT;
    }
    if (!arguments.json && !arguments.once) {
        arguments.has_screen = mend_screen_begin();
        arguments.once = !arguments.has_screen;
    }
    bool was_there = false;
    bool is_there = true;
    while (is_there) {
        is_there = arguments.process == 0 ? mend_live_read_every(pools)
                                          : mend_live_read(arguments.process, pools);
        if (is_there) {
            show(pools, &arguments);
        } else if (!was_there) {
            fprintf(stderr, "libmend top: %s\n", pools->problem);
        }
        was_there = was_there || is_there;
        is_there = is_there && goes_on(pools, &arguments);
    }
    if (arguments.has_screen) {
        mend_screen_end();
    }
    free(pools);
    return was_there ? STATUS_GOOD : STATUS_BAD_INPUT;
}
