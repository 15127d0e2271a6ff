/* Sleeping memory of the program, in words, for the explanation of work that touches it. */
#include <stdio.h>

#include "sim/state.h"

MEND_TREE_ORDER(compare_addresses, mend_sim_note, by_address, address);

static mend_sim_note *note_of(mend_tree_node *node)
{
    return MEND_CONTAINER_OR_NULL(node, mend_sim_note, by_address);
}

void mend_sim_notes_init(mend_sim *sim)
{
    mend_tree_init(&sim->notes, compare_addresses);
}

/* The last note that begins before the end of the range, if it reaches into it. */
static mend_sim_note *note_in(const mend_sim *sim, uint64_t address, uint64_t size_bytes)
{
    mend_sim_note key = {.address = address + size_bytes - 1};
    mend_sim_note *note = note_of(mend_tree_at_or_before(&sim->notes, &key.by_address));
    return note != NULL && note->address + note->size_bytes > address ? note : NULL;
}

void mend_sim_notes_remove(mend_sim *sim, uint64_t address, uint64_t size_bytes)
{
    for (mend_sim_note *note; (note = note_in(sim, address, size_bytes)) != NULL;) {
        mend_tree_remove(&sim->notes, &note->by_address);
        mend_slab_give(&sim->note_slab, note);
    }
}

void mend_sim_note_add(mend_sim *sim, uint64_t address, uint64_t size_bytes, const char *what)
{
    mend_sim_notes_remove(sim, address, size_bytes);
    if (mend_slab_reserve(&sim->note_slab, 1)) {
        mend_sim_note *note = mend_slab_take(&sim->note_slab);
        note->address = address;
        note->size_bytes = size_bytes;
        snprintf(note->what, sizeof(note->what), "%s", what);
        mend_tree_insert(&sim->notes, &note->by_address);
    }
}

const char *mend_sim_note_at(const mend_sim *sim, uint64_t address)
{
    const mend_sim_note *note = note_in(sim, address, 1);
    return note != NULL ? note->what : "";
}
