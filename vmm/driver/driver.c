/* The calls of the table and the meanings of a status, by name. */
#include "driver/driver.h"

const char *mend_driver_call_name(mend_driver_call call)
{
    static const char *const names[MEND_DRIVER_CALL_COUNT] = {
#define X(member, name, bytes, parameters, arguments) name,
        MEND_DRIVER_CALLS(X)
#undef X
    };
    return call < MEND_DRIVER_CALL_COUNT ? names[call] : "";
}

const char *mend_status_name(mend_status status)
{
    switch (status) {
#define X(ours, theirs, value)                                                                     \
    case ours:                                                                                     \
        return #theirs;
        MEND_DRIVER_STATUSES(X)
#undef X
    default:
        break;
    }
    return "CUDA_ERROR_UNKNOWN";
}

bool mend_status_is_fatal(mend_status status)
{
    /* The codes for which cuda.h says that the process must end or the context must be destroyed.
     * tests/abi compares. */
    static const mend_status fatal[] = {
        MEND_DRIVER_DEINITIALIZED,
        214, /* an ECC error that could not be corrected */
        220, /* an NVLink error that could not be corrected */
        226, /* an error that the GPU contained */
        MEND_DRIVER_ILLEGAL_ADDRESS,
        702, /* a kernel ran too long */
        709, /* the context was destroyed, or reset */
        710, /* an assertion of a kernel */
        714, /* an error of the hardware's stack */
        715, /* an illegal instruction */
        716, /* a misaligned address */
        717, /* a wrong address space */
        718, /* a wrong program counter */
        MEND_DRIVER_LAUNCH_FAILED,
        721, /* a kernel ended without freeing its tensor memory */
        810, /* the MPS server ended this client */
        911, /* an error of a device outside CUDA */
    };
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
        if (status == fatal[i]) {
            return true;
        }
    }
    return false;
}
