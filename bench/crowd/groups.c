/* Groups and graphs that keep memory, and groups whose blocks are restored. */
#include "crowd/groups.h"

/* Each holds a block's free memory for its graphs. */
static void make_group_of(crowd *c, uint64_t size_bytes)
{
    mend_crowd_require(mend_group_create(c->pool, &c->group) == MEND_OK, "mend_group_create");
    mend_crowd_require(mend_group_begin(c->group, c->streams[0]) == MEND_OK, "mend_group_begin");
    mend_crowd_free_on(c, mend_crowd_alloc_bytes(c, size_bytes, c->streams[0]), c->streams[0]);
    mend_crowd_require(mend_group_end(c->group) == MEND_OK, "mend_group_end");
}

void mend_crowd_make_group(crowd *c)
{
    make_group_of(c, GROUP_BYTES);
}

void mend_crowd_fill_blocks_and_a_group(crowd *c)
{
    mend_crowd_fill_blocks(c);
    mend_crowd_make_group(c);
}

void mend_crowd_fill_groups(crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        mend_crowd_make_group(c);
    }
}

void mend_crowd_fill_groups_of_chunks(crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        make_group_of(c, PAGE);
    }
}

/* The graphs live on, and each keeps a block's memory. */
void mend_crowd_fill_graphs(crowd *c)
{
    for (size_t i = 0; i < c->count; i++) {
        mend_sim_graph *graph = NULL;
        (void)mend_sim_begin_capture(c->sim, c->streams[1], MEND_SIM_CAPTURE_RELAXED);
        mend_crowd_free_on(c, mend_crowd_alloc_bytes(c, GROUP_BYTES, c->streams[1]), c->streams[1]);
        mend_crowd_require(mend_sim_end_capture(c->sim, c->streams[1], &graph) == MEND_OK,
                           "a capture");
    }
}

void mend_crowd_release_group(crowd *c)
{
    mend_crowd_require(mend_group_destroy(c->group, c->streams[0]) == MEND_OK,
                       "mend_group_destroy");
}

void mend_crowd_restore_nothing(crowd *c)
{
    mend_crowd_require(mend_group_set_blocks(c->group, NULL, sizeof(mend_group_block), 0) ==
                           MEND_OK,
                       "mend_group_set_blocks");
}

static void take_in_group(crowd *c, uint64_t size_bytes)
{
    mend_crowd_require(mend_group_begin(c->group, c->streams[0]) == MEND_OK, "mend_group_begin");
    for (size_t i = 0; i < c->count; i++) {
        c->blocks[i] = mend_crowd_alloc_bytes(c, size_bytes, c->streams[0]);
        c->listed[i] = (mend_group_block){c->blocks[i], size_bytes, c->streams[0], 0};
    }
    mend_crowd_require(mend_group_end(c->group) == MEND_OK, "mend_group_end");
    mend_crowd_restore_nothing(c);
}

void mend_crowd_fill_group_of_blocks(crowd *c)
{
    mend_crowd_make_group(c);
    take_in_group(c, GROUP_BYTES);
}

/* Each block has a chunk, and one block of all of them was in the group since. */
void mend_crowd_move_chunks(crowd *c)
{
    mend_crowd_restore_nothing(c);
    mend_crowd_require(mend_group_begin(c->group, c->streams[0]) == MEND_OK, "mend_group_begin");
    mend_crowd_free_on(c, mend_crowd_alloc_bytes(c, c->count * CHUNK, c->streams[0]),
                       c->streams[0]);
    mend_crowd_require(mend_group_end(c->group) == MEND_OK, "mend_group_end");
}

void mend_crowd_fill_group_of_chunks(crowd *c)
{
    mend_crowd_make_group(c);
    take_in_group(c, CHUNK);
    mend_crowd_move_chunks(c);
}

void mend_crowd_restore_blocks(crowd *c)
{
    mend_crowd_require(
        mend_group_set_blocks(c->group, c->listed, sizeof(mend_group_block), c->count) == MEND_OK,
        "mend_group_set_blocks");
}
