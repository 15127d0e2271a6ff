/* A user's program that knows no simulated device: on a machine without a GPU Mend says so. */
#include <mend/mend.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    mend_pool *pool = NULL;
    mend_error error = MEND_ERROR_INIT;
    int version = mend_version();
    mend_result result = mend_pool_create(NULL, &pool);
    if (result == MEND_OK) {
        result = mend_pool_destroy(pool);
    } else if (mend_get_last_error(&error) != MEND_OK || strlen(error.message) == 0 ||
               pool != NULL) {
        printf("%s without a reason\n", mend_result_name(result));
        return 1;
    }
    printf("Mend %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    return 0;
}
