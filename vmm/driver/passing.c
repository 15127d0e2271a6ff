/*
 * What a decorator of the table begins with: all calls pass on to an inner table. The decorator
 * then puts its own functions in the place of some.
 */
#include "driver/forward.h"

#include <assert.h>

#define X(member, name, bytes, parameters, arguments)                                              \
    static mend_status passed_##member parameters                                                  \
    {                                                                                              \
        const mend_passing *passing = driver->state;                                               \
        const mend_driver *inner = passing->inner;                                                 \
        return inner->member arguments;                                                            \
    }
MEND_DRIVER_CALLS(X)
#undef X

static uint64_t passed_clock_ns(const mend_driver *driver)
{
    const mend_passing *passing = driver->state;
    return passing->inner->clock_ns(passing->inner);
}

static void passed_pause(const mend_driver *driver, uint64_t duration_ns)
{
    const mend_passing *passing = driver->state;
    passing->inner->pause(passing->inner, duration_ns);
}

static const char *passed_status_name(const mend_driver *driver, mend_status status)
{
    const mend_passing *passing = driver->state;
    return passing->inner->status_name(passing->inner, status);
}

void mend_passing_init(mend_passing *passing, const mend_driver *inner)
{
    assert(inner != NULL);
    *passing = (mend_passing){
        .table =
            {
#define X(member, name, bytes, parameters, arguments) .member = passed_##member,
                MEND_DRIVER_CALLS(X)
#undef X
                    .clock_ns = passed_clock_ns,
                .pause = passed_pause,
                .status_name = passed_status_name,
                .state = passing,
                .name = inner->name,
            },
        .inner = inner,
    };
}
