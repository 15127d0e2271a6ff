/* Faults: calls that fail because a test wants them to. They are kept oldest first: the first that
 * matches a call by its name and size answers it. */
#include "sim/state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"

/* Whether a call can fail. Calls that cannot get no fault and are not counted. */
bool mend_sim_call_can_fail(mend_driver_call call)
{
    return call != MEND_CALL_context_pop && call != MEND_CALL_device_close &&
           call != MEND_CALL_stream_destroy && call != MEND_CALL_event_destroy;
}

const char *mend_sim_call_member(mend_driver_call call)
{
    static const char *const members[MEND_DRIVER_CALL_COUNT] = {
#define X(member, name, bytes, parameters, arguments) #member,
        MEND_DRIVER_CALLS(X)
#undef X
    };
    assert(call < MEND_DRIVER_CALL_COUNT);
    return members[call];
}

/* The call that a fault names. -1: any call, -2: no such call, or one that cannot fail. */
static int call_of(const char *name)
{
    if (name == NULL) {
        return -1;
    }
    for (int i = 0; i < MEND_DRIVER_CALL_COUNT; i++) {
        mend_driver_call call = (mend_driver_call)i;
        if (strcmp(mend_sim_call_member(call), name) == 0) {
            return mend_sim_call_can_fail(call) ? i : -2;
        }
    }
    return -2;
}

mend_result mend_sim_fail(mend_sim *sim, const mend_sim_fault *fault)
{
    mend_sim_fault rule = MEND_SIM_FAULT_INIT;
    if (sim == NULL || fault == NULL || !MEND_STRUCT_IS_WHOLE(fault) ||
        fault->struct_size > sizeof(rule)) {
        return mend_sim_invalid("mend_sim_fail: sim or fault is NULL, or its struct_size is wrong");
    }
    memcpy(&rule, fault, fault->struct_size);
    int call = call_of(rule.call);
    if (call < -1) {
        return mend_sim_invalid(
            "mend_sim_fail: no call of that name can fail: it is a member of mend_driver");
    }
    mend_sim_standing_fault *standing = malloc(sizeof(*standing));
    if (standing == NULL) {
        return MEND_ERROR_OUT_OF_HOST_MEMORY;
    }
    rule.call = NULL;
    rule.until_release = rule.until_release == 1; /* -1: off */
    rule.sticky = rule.sticky == 1;
    if (rule.status == 0) {
        rule.status = MEND_DRIVER_OUT_OF_MEMORY;
    }
    if (rule.count == 0) {
        rule.count = rule.until_release ? UINT64_MAX : 1;
    }
    *standing = (mend_sim_standing_fault){NULL, call, rule};
    mend_mutex_lock(&sim->mutex);
    mend_sim_standing_fault **last = &sim->faults;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = standing;
    mend_mutex_unlock(&sim->mutex);
    return MEND_OK;
}

static void drop_fault(mend_sim_standing_fault **at)
{
    mend_sim_standing_fault *gone = *at;
    assert(gone != NULL);
    *at = gone->next;
    free(gone);
}

mend_status mend_sim_fault_answer(mend_sim *sim, mend_driver_call call, uint64_t size_bytes)
{
    assert(mend_sim_call_can_fail(call));
    assert(mend_mutex_is_held(&sim->mutex));
    for (mend_sim_standing_fault **at = &sim->faults; *at != NULL; at = &(*at)->next) {
        mend_sim_fault *rule = &(*at)->rule;
        bool matches = ((*at)->call == (int)call || (*at)->call < 0) &&
                       (rule->above_bytes == 0 || size_bytes > rule->above_bytes);
        if (!matches) {
            continue;
        }
        if (rule->after_calls > 0) {
            rule->after_calls--;
            continue;
        }
        assert(rule->count > 0);
        assert(rule->status != MEND_DRIVER_OK);
        mend_status status = rule->status;
        if (rule->sticky) {
            sim->broken = status;
        }
        if (rule->count != UINT64_MAX && --rule->count == 0) {
            drop_fault(at);
        }
        return status;
    }
    return MEND_DRIVER_OK;
}

/* The calls that still work with a broken context. */
static bool works_when_broken(mend_driver_call call)
{
    return call == MEND_CALL_device_count || call == MEND_CALL_device_close ||
           call == MEND_CALL_context_push || call == MEND_CALL_context_pop ||
           call == MEND_CALL_context_device || call == MEND_CALL_exchange_capture_mode;
}

mend_status mend_sim_out_of_order(const mend_sim *sim, mend_driver_call call)
{
    if (sim->stopped) {
        return MEND_DRIVER_DEINITIALIZED;
    }
    return works_when_broken(call) ? MEND_DRIVER_OK : sim->broken;
}

void mend_sim_faults_released(mend_sim *sim)
{
    mend_sim_standing_fault **at = &sim->faults;
    while (*at != NULL) {
        if ((*at)->rule.until_release && (*at)->rule.after_calls == 0) {
            drop_fault(at);
        } else {
            at = &(*at)->next;
        }
    }
}

void mend_sim_faults_drop_all(mend_sim *sim)
{
    while (sim->faults != NULL) {
        drop_fault(&sim->faults);
    }
}

void mend_sim_clear_faults(mend_sim *sim)
{
    mend_mutex_lock(&sim->mutex);
    mend_sim_faults_drop_all(sim);
    mend_mutex_unlock(&sim->mutex);
}
