/* Bytes as a cost table: read or refused with file, line and reason. A refused one has changed
 * nothing, and a read one is within its bounds. */
#include "lab/support/costs.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t most_ns = UINT64_C(1000000000000);
    const char *path = fuzz_file(0, data, size);
    mend_sim_prices before = MEND_SIM_PRICES_INIT;
    memset(&before, 0x5a, sizeof(before));
    mend_sim_prices prices = before;
    mend_result result = mend_costs_read(path, &prices);
    if (result != MEND_OK) {
        FUZZ_CHECK(memcmp(&prices, &before, sizeof(prices)) == 0, "a refused list changed prices");
        fuzz_check_refusal(result, path);
        return 0;
    }
#define X(call)                                                                                    \
    FUZZ_CHECK(prices.call.call_ns < most_ns && prices.call.mapping_ns < most_ns &&                \
                   prices.call.mib_ns < most_ns,                                                   \
               "a price of %s", #call);
    MEND_SIM_PRICED_CALLS(X)
#undef X
    return 0;
}
