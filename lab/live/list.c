/* An order is a figure of the page, the largest first. */
#include "lab/live/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/align.h"
#include "lab/report/words.h"

enum { PROGRAM_COLUMNS = 32 };

static double held(const mend_live_page *page)
{
    return (double)page->stats.reserved_bytes;
}

static double live(const mend_live_page *page)
{
    return (double)page->stats.live_bytes;
}

static double calls(const mend_live_page *page)
{
    return mend_live_rate(page, page->stats.allocations, page->before.allocations);
}

static double waits(const mend_live_page *page)
{
    return mend_live_rate(page, page->stats.host_waits, page->before.host_waits);
}

static double number(const mend_live_page *page)
{
    return -(double)page->process; /* the lowest first */
}

static const struct order {
    char key;
    const char *name;
    double (*figure)(const mend_live_page *page);
} orders[] = {{'h', "held", held},
              {'l', "live", live},
              {'a', "allocations", calls},
              {'w', "waits", waits},
              {'p', "process", number}};
enum { ORDERS = sizeof(orders) / sizeof(*orders) };

static const struct order *order_of(char key)
{
    size_t at = 0;
    while (at < ORDERS && orders[at].key != key) {
        at++;
    }
    return at < ORDERS ? &orders[at] : NULL;
}

bool mend_live_has_order(char key)
{
    return order_of(key) != NULL;
}

void mend_live_print_bar(const mend_stats *stats, size_t columns)
{
    const double limit =
        (double)mend_max_u64(mend_max_u64(stats->limit_bytes, stats->reserved_bytes), 1);
    const size_t held_columns = (size_t)((double)stats->reserved_bytes / limit * (double)columns);
    const size_t live_columns = (size_t)((double)stats->live_bytes / limit * (double)columns);
    fputc('[', stdout);
    for (size_t i = 0; i < columns; i++) {
        fputc(i < live_columns ? '#' : i < held_columns ? '=' : '.', stdout);
    }
    fputc(']', stdout);
}

static void print_pool(const mend_live_pools *pools, size_t at)
{
    const mend_live_page *page = &pools->pages[at];
    printf("%8" PRIu64 " %3d %10s %10s %10s ", page->process, (int)page->device,
           SIZE(page->stats.live_bytes), SIZE(page->stats.reserved_bytes),
           SIZE(page->stats.limit_bytes));
    mend_live_print_bar(&page->stats, MEND_LIVE_BAR_COLUMNS);
    printf(" %9.0f %8.1f %4s  ", calls(page), waits(page), COUNT(page->stats.out_of_memory));
    mend_words_cut(stdout, pools->programs[at], PROGRAM_COLUMNS, 0);
    fputc('\n', stdout);
}

void mend_live_print_list(const mend_live_pools *pools, char key, bool has_keys)
{
    const struct order *order = order_of(key) != NULL ? order_of(key) : &orders[0];
    bool is_printed[MEND_LIVE_MOST_POOLS] = {false};
    if (has_keys) {
        printf("by %s; keys:", order->name);
        for (size_t i = 0; i < ORDERS; i++) {
            printf(" %c %s,", orders[i].key, orders[i].name);
        }
        printf(" q quits; # live, = free, . left of the limit\n");
    }
    printf("%8s %3s %10s %10s %10s %-*s %9s %8s %4s  %s\n", "process", "dev", "live", "held",
           "limit", MEND_LIVE_BAR_COLUMNS + 2, "", "allocs/s", "waits/s", "OOM", "program");
    for (size_t printed = 0; printed < pools->count; printed++) {
        size_t best = pools->count;
        for (size_t i = 0; i < pools->count; i++) {
            if (!is_printed[i] &&
                (best == pools->count ||
                 order->figure(&pools->pages[i]) > order->figure(&pools->pages[best]))) {
                best = i;
            }
        }
        is_printed[best] = true;
        print_pool(pools, best);
    }
}
