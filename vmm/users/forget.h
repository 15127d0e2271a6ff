/* Streams that end: the program says so, and the pool does not ask the driver about them any
 * more. */
#ifndef MEND_USERS_FORGET_H
#define MEND_USERS_FORGET_H

#include "layout/state.h"

/* As mend_forget_stream. The caller holds both locks. */
mend_result mend_users_forget_stream(mend_heap *heap, mend_stream stream);

#endif
