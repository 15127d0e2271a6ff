/* Handles: numbers that name objects. The handle freed last is the next to be used. */
#include <assert.h>
#include <stdlib.h>

#include "sim/state.h"

enum { FIRST_CAPACITY = 64, HANDLE_STEP = 64 };

void mend_sim_handles_init(mend_sim_handles *handles, uintptr_t base)
{
    *handles = (mend_sim_handles){.base = base};
}

void mend_sim_handles_clear(mend_sim_handles *handles)
{
    free(handles->slots);
    mend_sim_handles_init(handles, handles->base);
}

bool mend_sim_handles_reserve(mend_sim_handles *handles)
{
    if (handles->vacant != 0 || handles->count < handles->capacity) {
        return true;
    }
    size_t capacity = handles->capacity != 0 ? handles->capacity * 2 : FIRST_CAPACITY;
    mend_sim_slot *slots = realloc(handles->slots, capacity * sizeof(mend_sim_slot));
    if (slots == NULL) {
        return false;
    }
    assert(capacity > handles->count);
    handles->slots = slots;
    handles->capacity = capacity;
    return true;
}

uintptr_t mend_sim_handles_add(mend_sim_handles *handles, void *object)
{
    assert(object != NULL);
    assert(handles->vacant != 0 || handles->count < handles->capacity);
    size_t index = handles->count;
    if (handles->vacant != 0) {
        index = handles->vacant - 1;
        assert(index < handles->count);
        assert(handles->slots[index].object == NULL);
        handles->vacant = handles->slots[index].next_vacant;
    } else {
        handles->count++;
    }
    handles->slots[index] = (mend_sim_slot){object, 0};
    return handles->base + index * HANDLE_STEP;
}

void *mend_sim_handles_find(const mend_sim_handles *handles, uintptr_t handle)
{
    if (handle < handles->base || (handle - handles->base) % HANDLE_STEP != 0) {
        return NULL;
    }
    size_t index = (handle - handles->base) / HANDLE_STEP;
    return index < handles->count ? handles->slots[index].object : NULL;
}

void mend_sim_handles_remove(mend_sim_handles *handles, uintptr_t handle)
{
    assert(mend_sim_handles_find(handles, handle) != NULL);
    size_t index = (handle - handles->base) / HANDLE_STEP;
    handles->slots[index] = (mend_sim_slot){NULL, handles->vacant};
    handles->vacant = index + 1;
}
