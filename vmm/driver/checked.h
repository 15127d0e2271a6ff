/* A decorator that refuses whatever breaks a rule of the driver, before the driver sees it. */
#ifndef MEND_DRIVER_CHECKED_H
#define MEND_DRIVER_CHECKED_H

#include "driver/driver.h"

/* Called with the name of the call and the rule broken, in words; may not call the table. */
typedef void (*mend_breach_handler)(void *context, mend_driver_call call, const char *rule);

/*
 * Keeps its own ledger of reservations, chunks, mappings, access and events, and answers a call
 * that breaks a rule with INVALID_VALUE (or INVALID_HANDLE) without passing it on, after telling
 * `handler` (which may be NULL). `inner` is borrowed and must outlive the decorator.
 * MEND_ERROR_OUT_OF_HOST_MEMORY.
 */
mend_result mend_checked_driver_create(const mend_driver *inner, mend_breach_handler handler,
                                       void *context, mend_driver **checked);

/* What is still held through the table: chunks, mappings, reservations, events. */
typedef struct mend_checked_ledger {
    uint64_t chunks;
    uint64_t chunk_bytes;
    uint64_t mappings;
    uint64_t mapped_bytes;
    uint64_t reservations;
    uint64_t reserved_address_bytes;
    uint64_t events;
    uint64_t breaches;
} mend_checked_ledger;

void mend_checked_driver_get_ledger(const mend_driver *checked, mend_checked_ledger *ledger);
void mend_checked_driver_destroy(mend_driver *checked);

#endif
