/*
 * Parked chunks: empty chunks that the slot of a group keeps, until the group ends, from every
 * other request. Searches do not meet them, or each request would ask each of them. A question
 * notes such a chunk, and the next search parks what was noted, so that no search loses the chunk
 * that it looks at. Invariants, checked by the audit:
 *  - a parked chunk is empty and mapped, and `held_by` is a stamp of a group that has not passed;
 *  - the chunks of a group are shown before it ends, and before a request of its own looks for
 *    chunks. While that looks, none is noted.
 */
#include "physical/chunk.h"

MEND_TREE_ORDER_BY_TWO(compare, mend_chunk, by_size, held_by.stream, memory.number);

void mend_chunks_init_parked(mend_chunks *chunks)
{
    mend_tree_init(&chunks->parked, compare);
    mend_list_init(&chunks->noted);
}

void mend_chunk_note_kept(mend_chunks *chunks, mend_chunk *chunk)
{
    assert(mend_chunk_is_empty(chunk));
    const bool is_in_empty = !chunk->is_parked && mend_list_is_empty(&chunk->newly);
    if (is_in_empty && !chunks->parks_none && mend_list_is_empty(&chunk->noted)) {
        mend_list_append(&chunks->noted, &chunk->noted);
    }
}

void mend_chunks_park(mend_chunks *chunks)
{
    while (!mend_list_is_empty(&chunks->noted)) {
        mend_chunk *chunk = MEND_CONTAINER_OF(chunks->noted.next, mend_chunk, noted);
        assert(mend_list_is_empty(&chunk->newly));
        assert(chunk->held_by.epoch != 0);
        mend_list_remove(&chunk->noted);
        mend_tree_remove(&chunks->empty, &chunk->by_size);
        mend_tree_insert(&chunks->parked, &chunk->by_size);
        chunk->is_parked = true;
    }
}

void mend_chunks_show(mend_chunks *chunks, uint32_t stream)
{
    const mend_chunk key = {.held_by = {.stream = stream}};
    mend_chunk *chunk;
    while (!mend_list_is_empty(&chunks->noted)) { /* the next search looks at these, too */
        mend_list_remove(chunks->noted.next);
    }
    while ((chunk = MEND_CONTAINER_OR_NULL(mend_tree_at_or_after(&chunks->parked, &key.by_size),
                                           mend_chunk, by_size)) != NULL &&
           chunk->held_by.stream == stream) {
        mend_tree_remove(&chunks->parked, &chunk->by_size);
        chunk->is_parked = false;
        mend_list_insert_after(&chunks->newly_empty, &chunk->newly);
    }
}
