/* Host memory of a pool with very many blocks, on large pages: a call that looks at a few random
 * places of it waits for the processor's tables of pages less often. */
#ifndef MEND_BASE_PAGES_H
#define MEND_BASE_PAGES_H

#include <stddef.h>

/* Asks the system for large pages in [start, start + bytes), as far as whole ones lie in it. A
 * wish: nothing else changes. Best before the memory is used. */
void mend_pages_prefer_large(void *start, size_t bytes);

#endif
