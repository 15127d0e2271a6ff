/* What a decorator of the table begins with: all calls pass on to an inner table. The decorator
 * then puts its own functions in the place of some. */
#ifndef MEND_DRIVER_PASSING_H
#define MEND_DRIVER_PASSING_H

#include "driver/driver.h"

/* The first member of the decorator, which must not move: `state` of the table is its address. */
typedef struct mend_passing {
    mend_driver table;
    const mend_driver *inner;
} mend_passing;

void mend_passing_init(mend_passing *passing, const mend_driver *inner);

#endif
