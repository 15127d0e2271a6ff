/* Growth is a line that goes up in most steps and does not come back. */
#include "record/growth.h"

#include "base/align.h"

enum { LEAST_PER_MILLE = 5 };

uint64_t mend_growth_judge(const uint64_t least_bytes[MEND_GROWTH_STRETCHES], uint64_t peak_bytes)
{
    const uint64_t *least = least_bytes + MEND_GROWTH_WARM_UP;
    uint64_t most_bytes = 0;
    uint64_t fall_bytes = 0;
    unsigned up = 0;
    for (size_t i = 0; i < MEND_GROWTH_JUDGED; i++) {
        up += i > 0 && least[i] > least[i - 1];
        most_bytes = mend_max_u64(most_bytes, least[i]);
        fall_bytes = mend_max_u64(fall_bytes, most_bytes - least[i]);
    }
    uint64_t needed_bytes = mend_max_u64(MEND_MIB, peak_bytes / 1000 * LEAST_PER_MILLE);
    bool has_grown = least[MEND_GROWTH_JUDGED - 1] > least[0];
    uint64_t growth_bytes = has_grown ? least[MEND_GROWTH_JUDGED - 1] - least[0] : 0;
    const uint64_t *half = &least[MEND_GROWTH_JUDGED / 2];
    const uint64_t quarter_bytes = growth_bytes / 4;
    bool keeps_growing = up * 2 >= MEND_GROWTH_JUDGED - 1 && fall_bytes <= quarter_bytes &&
                         half[-1] >= least[0] + quarter_bytes &&
                         least[MEND_GROWTH_JUDGED - 1] >= half[0] + quarter_bytes;
    return growth_bytes >= needed_bytes && keeps_growing ? growth_bytes : 0;
}

bool mend_growth_leaks(uint32_t kept_stretches)
{
    unsigned stretches = (unsigned)__builtin_popcount(kept_stretches >> MEND_GROWTH_WARM_UP);
    return stretches * 2 >= MEND_GROWTH_JUDGED;
}
