/* Groups and graphs that keep memory, and groups that are restored. */
#ifndef MEND_BENCH_CROWD_GROUPS_H
#define MEND_BENCH_CROWD_GROUPS_H

#include "crowd/crowd.h"

void mend_crowd_make_group(crowd *c);
void mend_crowd_fill_blocks_and_a_group(crowd *c);
void mend_crowd_fill_groups(crowd *c);
void mend_crowd_fill_groups_of_chunks(crowd *c);
void mend_crowd_fill_graphs(crowd *c);
void mend_crowd_release_group(crowd *c);
void mend_crowd_restore_nothing(crowd *c);
void mend_crowd_fill_group_of_blocks(crowd *c);
void mend_crowd_move_chunks(crowd *c);
void mend_crowd_fill_group_of_chunks(crowd *c);
void mend_crowd_restore_blocks(crowd *c);

#endif
