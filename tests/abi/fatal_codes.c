/* Prints each result code that Mend takes for the end of the context, one a line. */
#include <stdio.h>

#include "driver/driver.h"

int main(void)
{
    for (mend_status status = 0; status <= MEND_DRIVER_UNKNOWN; status++) {
        if (mend_status_is_fatal(status)) {
            printf("%d\n", status);
        }
    }
    return 0;
}
