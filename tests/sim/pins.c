/* Pins: pinned memory keeps its mappings, whatever happens to the blocks in it. */
#include "tests/sim/trial.h"

static trial_pinned *free_place(trial *t)
{
    for (int i = 0; i < TRIAL_PINS; i++) {
        if (t->pins[i].size_bytes == 0) {
            return &t->pins[i];
        }
    }
    return NULL;
}

/* More than the block may not be mapped to its end. */
bool trial_pin(trial *t, const operation *op)
{
    const trial_block *block = &t->blocks[op->slot % TRIAL_BLOCKS];
    trial_pinned *pin = free_place(t);
    if (!block->live || pin == NULL) {
        return false;
    }
    uint64_t pages = op->size % 4;
    trial_call call = {.kind = CALL_PIN,
                       .pool = block->pool,
                       .pointer = (void *)(uintptr_t)block->address,
                       .size_bytes = pages == 0 ? block->size_bytes : pages * t->page_bytes};
    mend_result result = trial_call_pool(t, op->thread % t->turns.count, &call);
    if (result == MEND_OK) {
        *pin = (trial_pinned){block->address, call.size_bytes, block->pool};
    }
    trial_claim(t, TRIAL_RESULT, result != MEND_ERROR_FOREIGN_POINTER || pages != 0,
                "a live block cannot be pinned");
    return true;
}

static void undo(trial *t, trial_pinned *pin, int thread)
{
    trial_call call = {.kind = CALL_UNPIN,
                       .pool = pin->pool,
                       .pointer = (void *)(uintptr_t)pin->address,
                       .size_bytes = pin->size_bytes};
    if (trial_call_pool(t, thread, &call) == MEND_OK) {
        *pin = (trial_pinned){0};
    }
}

bool trial_unpin(trial *t, const operation *op)
{
    trial_pinned *pin = &t->pins[op->slot % TRIAL_PINS];
    if (pin->size_bytes == 0) {
        return false;
    }
    undo(t, pin, op->thread % t->turns.count);
    return true;
}

/* Something keeps chunks of the pool where they are: a graph pool cannot have those back that it
 * moved.
 */
bool trial_holds_chunks(const trial *t, int pool)
{
    bool holds = false;
    for (int i = 0; i < TRIAL_PINS; i++) {
        holds |= t->pins[i].size_bytes != 0 && t->pins[i].pool == pool;
    }
    for (int i = 0; i < TRIAL_BLOCKS; i++) {
        holds |= trial_pins_its_chunks(&t->blocks[i]) && t->blocks[i].pool == pool;
    }
    return holds;
}

/* Where the context is lost the calls fail, and the pools end with their pins. */
void trial_end_pins(trial *t)
{
    for (int i = 0; i < TRIAL_PINS; i++) {
        if (t->pins[i].size_bytes != 0) {
            undo(t, &t->pins[i], 0);
            t->pins[i] = (trial_pinned){0};
        }
    }
}
