/* In the place of Mend's class for PyTorch: it is installed, unless the environment says why
 * not. */
#include <stdio.h>
#include <stdlib.h>

int mend_torch_install(int device_count, char *text, size_t capacity);

__attribute__((visibility("default"))) int mend_torch_install(int device_count, char *text,
                                                              size_t capacity)
{
    const char *reason = getenv("FAKE_CLASS_REFUSES");
    if (reason != NULL) {
        snprintf(text, capacity, "%s\nException raised from here", reason);
        return 1;
    }
    printf("installed for %d devices\n", device_count);
    fflush(stdout);
    return 0;
}
