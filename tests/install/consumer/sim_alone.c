/* A user's program that tests an allocator of its own on the simulated device, without libmend. */
#include <mend/mend_sim.h>
#include <stdio.h>

int main(void)
{
    mend_sim_config config = MEND_SIM_CONFIG_INIT;
    mend_sim_ledger ledger = MEND_SIM_LEDGER_INIT;
    mend_sim *sim = NULL;
    mend_stream stream = NULL;
    if (mend_sim_create(&config, &sim) != MEND_OK || mend_sim_driver(sim) == NULL ||
        mend_sim_stream_create(sim, NULL, &stream) != MEND_OK ||
        mend_sim_get_ledger(sim, &ledger) != MEND_OK || ledger.streams != 1 ||
        mend_sim_stream_destroy(sim, stream) != MEND_OK) {
        printf("the simulated device does not work\n");
        return 1;
    }
    mend_sim_destroy(sim);
    printf("Mend %d.%d.%d\n", MEND_VERSION_MAJOR, MEND_VERSION_MINOR, MEND_VERSION_PATCH);
    return 0;
}
