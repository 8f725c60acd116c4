/* failures.c - how often nodes fail: published rates (campaign.h).
 *
 *   I1  A rate is per 1,000 days of a node with eight devices.
 *   I2  A preset's rates are what its source counted, divided by the days of all nodes; nothing is added.
 */
#include "campaign/campaign.h"

static const double SECONDS_PER_DAY = 86400;

/* 16,384 devices are 2,048 nodes, for 54 days. */
#define LLAMA3(count) ((count) * 1000.0 / (54.0 * 2048.0))

/* The Llama 3 Herd of Models (2024), Table 5: 419 unexpected interruptions. Software, network and planned work on hosts
 * leave the node as it is. */
static const struct failure_rate LLAMA3_RATES[] = {
    {"device", LLAMA3(148), true},
    {"device memory", LLAMA3(72), true},
    {"software", LLAMA3(54), false},
    {"network switch or cable", LLAMA3(35), false},
    {"host maintenance", LLAMA3(32), false},
    {"device cache", LLAMA3(19), true},
    {"device system processor", LLAMA3(17), true},
    {"network card", LLAMA3(7), true},
    {"collective timeout", LLAMA3(7), false},
    {"silent data corruption", LLAMA3(6), true},
    {"device heat and sensors", LLAMA3(6), true},
    {"disk", LLAMA3(3), true},
    {"power supply", LLAMA3(3), true},
    {"chassis", LLAMA3(2), true},
    {"expansion board", LLAMA3(2), true},
    {"dependency", LLAMA3(2), false},
    {"processor", LLAMA3(2), true},
    {"host memory", LLAMA3(2), true},
};

static const struct failure_rate RSC1_RATES[] = {{"node", 6.50, true}};
static const struct failure_rate RSC2_RATES[] = {{"node", 2.34, true}};
/* Jobs on 1,024 devices, 128 nodes, ran 7.9 h in the mean. That is measured, over all that ended jobs; from RSC-1's rate of
 * nodes alone follow 28.8 h. */
static const struct failure_rate RSC_JOBS_RATES[] = {{"job", 1000 * 24 / 7.9 / 128, true}};
static const struct failure_rate NO_RATES[] = {{"none", 0, false}};

static const struct failure_preset PRESETS[] = {
    {"llama3", "3.79 per 1,000 node-days: 419 in 54 days of 16,384 H100",
     "The Llama 3 Herd of Models (2024), Table 5", LLAMA3_RATES, COUNT_OF(LLAMA3_RATES)},
    {"rsc-1", "6.50 per 1,000 node-days, 16,000 A100",
     "Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters "
     "(HPCA 2025), RSC-1",
     RSC1_RATES, COUNT_OF(RSC1_RATES)},
    {"rsc-2", "2.34 per 1,000 node-days, 8,000 A100",
     "Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters "
     "(HPCA 2025), RSC-2",
     RSC2_RATES, COUNT_OF(RSC2_RATES)},
    {"rsc-jobs", "23.7 per 1,000 node-days: 7.9 h between failures on 1,024 A100",
     "Kokolis et al., Revisiting Reliability in Large-Scale Machine Learning Research Clusters "
     "(HPCA 2025), jobs on 1,024 devices",
     RSC_JOBS_RATES, COUNT_OF(RSC_JOBS_RATES)},
    {"none", "nothing fails", "assumed", NO_RATES, COUNT_OF(NO_RATES)},
};

weft_status failure_preset_named(const char *name, const struct failure_preset **out)
{
    int i = NAME_INDEX(name, PRESETS);
    if (i < 0)
        return unknown_name("preset of failures", name, PRESETS, sizeof *PRESETS,
                            COUNT_OF(PRESETS));
    *out = &PRESETS[i];
    return WEFT_OK;
}

void course_failures(struct course *course, const struct failure_rate *rate, size_t rates,
                     double nodes)
{
    course->failures_per_s = course->losses_per_s = 0;
    for (size_t i = 0; i < rates; i++) {
        double per_s = rate[i].per_1000_node_days * nodes / (1000 * SECONDS_PER_DAY);
        course->failures_per_s += per_s;
        course->losses_per_s += rate[i].takes_node ? per_s : 0;
    }
}
