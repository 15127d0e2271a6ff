/* The pools of all processes that publish, a line for each. */
#ifndef MEND_LAB_LIVE_LIST_H
#define MEND_LAB_LIVE_LIST_H

#include "lab/live/read.h"

enum { MEND_LIVE_BAR_COLUMNS = 24 };

/* Prints the lines in the order that a key stands for, and above them, if `has_keys`, a list of the
 * keys. An unknown key orders by reserved memory. */
void mend_live_print_list(const mend_live_pools *pools, char order, bool has_keys);

/* Whether there is such an order. */
bool mend_live_has_order(char key);

/* "####====......": live, reserved and free, and the rest of the limit. */
void mend_live_print_bar(const mend_stats *stats, size_t columns);

#endif
