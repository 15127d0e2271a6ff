/* A pool with many imports of another one's blocks: see crowd.c. */
#ifndef MEND_BENCH_CROWD_IMPORTS_H
#define MEND_BENCH_CROWD_IMPORTS_H

#include "crowd/crowd.h"

void mend_crowd_fill_imports(crowd *c);

/* The one at c->at. */
void mend_crowd_import(crowd *c);
void mend_crowd_close_import(crowd *c);

#endif
