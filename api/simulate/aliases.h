/* Entry points of the driver, by name. */
#ifndef MEND_SIMULATE_ALIASES_H
#define MEND_SIMULATE_ALIASES_H

typedef void (*simulate_any)(void);

typedef struct simulate_entry {
    const char *name; /* NULL: the end */
    simulate_any entry;
} simulate_entry;

/* Those that are the runtime's functions by another name. */
extern const simulate_entry simulate_aliases[];

#endif
