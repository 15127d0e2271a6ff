/* The list of what is owed. */
#include "physical/owed.h"

#include <assert.h>

#include "base/align.h"

#define OWED_OF(at) MEND_CONTAINER_OR_NULL(at, mend_owed, node)

static int compare_owed(const mend_tree_node *a, const mend_tree_node *b)
{
    const mend_owed *first = OWED_OF(a);
    const mend_owed *second = OWED_OF(b);
    int order = (first->kind > second->kind) - (first->kind < second->kind);
    return order ? order : (first->at > second->at) - (first->at < second->at);
}

void mend_owing_init(mend_owing *owing)
{
    mend_tree_init(&owing->list, compare_owed);
}

void mend_owe(mend_owing *owing, mend_owed *owed, mend_owed_kind kind, uint64_t at)
{
    if (owed->kind == kind) {
        assert(kind == MEND_OWED_NOTHING || owed->at == at);
        return;
    }
    if (owed->kind != MEND_OWED_NOTHING) {
        mend_tree_remove(&owing->list, &owed->node);
        owing->count[owed->kind]--;
    }
    owed->kind = kind;
    owed->at = at;
    if (kind != MEND_OWED_NOTHING) {
        mend_tree_insert(&owing->list, &owed->node);
        owing->count[kind]++;
    }
}

mend_owed *mend_owed_from(const mend_owing *owing, mend_owed_kind kind, uint64_t at)
{
    const mend_owed key = {.kind = kind, .at = at};
    mend_owed *owed =
        owing->count[kind] > 0 ? OWED_OF(mend_tree_at_or_after(&owing->list, &key.node)) : NULL;
    return owed != NULL && owed->kind == kind ? owed : NULL;
}

mend_owed *mend_owed_next(const mend_owed *owed)
{
    mend_owed *next = OWED_OF(mend_tree_next(&owed->node));
    return next != NULL && next->kind == owed->kind ? next : NULL;
}

bool mend_owing_any(const mend_owing *owing, mend_owed_kind last)
{
    uint32_t count = 0;
    for (int kind = MEND_OWED_RESTORE; owing->list.count > 0 && kind <= (int)last; kind++) {
        count += kind != MEND_OWED_MAPPING ? owing->count[kind] : 0;
    }
    return count > 0;
}
