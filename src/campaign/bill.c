/* bill.c - money and energy of a run (campaign.h).
 *
 *   money  = devices * hours * price of a device-hour                                             (1)
 *   energy = devices * hours * watts * overhead                                                   (2)
 *
 * Watts are the most that a datasheet lets a device draw, all the time that it is held: (2) is an upper bound for the
 * devices, and what hosts, switches and cooling draw on top is the overhead. Meta reckons the energy of Llama 3.1 so:
 * 700 W in each of its GPU-hours (model card, July 2024).
 */
#include <strings.h>

#include "campaign/campaign.h"

/* The middle of what specialised providers ask per GPU-hour on demand: mercatus-ai.com, Cloud GPU Pricing. */
#define PRICES "US dollars, list prices of May 2026 (mercatus-ai.com)"

/* Names are those of src/cluster/devices.c; a row may lack a price. */
static const struct device_tariff {
    const char *device;
    double watts;
    const char *watts_source;
    double price_per_hour; /* in US dollars */
    const char *price_source;
} TARIFFS[] = {
    {"GTX-TITAN-X", 250, "NVIDIA GeForce GTX TITAN X specification"},
    {"GTX-1080", 180, "NVIDIA GeForce GTX 1080 whitepaper"},
    {"TITAN-Xp", 250, "NVIDIA TITAN Xp specification"},
    {"P100-PCIe-16GB", 250, "NVIDIA Tesla P100 PCIe datasheet"},
    {"V100-SXM2-16GB", 300, "NVIDIA V100 datasheet"},
    {"V100-SXM2-32GB", 300, "NVIDIA V100 datasheet"},
    {"RTX-2080", 215, "NVIDIA Turing whitepaper"},
    {"RTX-2080-Ti", 250, "NVIDIA Turing whitepaper"},
    {"RTX-TITAN", 280, "NVIDIA TITAN RTX specification"},
    {"RTX-3090", 350, "NVIDIA GA102 whitepaper"},
    {"RTX-4090", 450, "NVIDIA Ada whitepaper"},
    {"L40S", 350, "NVIDIA L40S datasheet"},
    {"L4", 72, "NVIDIA L4 as sold: no more than a slot gives"},
    {"A10G", 300, "NVIDIA A10G datasheet (AWS, 2022)"},
    {"A100-SXM4-40GB", 400, "NVIDIA A100 datasheet"},
    {"A100-SXM4-80GB", 400, "NVIDIA A100 datasheet", 1.30, PRICES},
    {"A100-PCIe-80GB", 300, "NVIDIA A100 datasheet"},
    {"A800-SXM4-80GB", 400, "NVIDIA A800 datasheet"},
    {"H100-SXM5-80GB", 700, "NVIDIA H100 datasheet", 3.00, PRICES},
    {"H800-SXM5-80GB", 700, "as H100"},
    {"H20-SXM5-96GB", 400, "NVIDIA H20 as published at its launch"},
    {"H100-PCIe-80GB", 350, "NVIDIA H100 datasheet"},
    {"H100-NVL-94GB", 400, "One Stop Systems on cards of 400 and 600 W"},
    {"H100-96GB-HBM2e", 500, "torchtitan's benchmarks: limited to 500 W"},
    {"H200-SXM-141GB", 700, "NVIDIA H200 datasheet", 4.00, PRICES},
    /* A module with its CPU and memory: what the others leave to the overhead is in it. */
    {"GH200-96GB", 1000, "NVIDIA GH200 datasheet: 450 to 1,000 W with CPU and memory"},
    {"B200-SXM-180GB", 1000, "NVIDIA HGX B200 datasheet"},
    {"B300-SXM-288GB", 1400, "at most (glennklockwood.com, B300)"},
    {"GB200", 1200, "as NVIDIA configures it (glennklockwood.com, B200)"},
    {"GB300", 1400, "at most (glennklockwood.com, B300)"},
    {"RTX-PRO-6000", 600, "its announcement of March 2025 (gpu.name)"},
    {"MI250X-GCD", 280, "AMD Instinct MI250X datasheet: 560 W at most, half of a module"},
    {"MI300X", 750, "AMD Instinct MI300X datasheet"},
    {"MI325X", 1000, "AMD Instinct MI325X datasheet"},
    {"MI350X", 1000, "AMD Instinct MI350X datasheet"},
    {"MI355X", 1400, "AMD Instinct MI355X datasheet"},
    {"cpu", 180, "AMD EPYC 7502: 32 cores of 2.5 GHz, eight channels of DDR4-3200"},
};

struct tariff usual_tariff(const struct device *device)
{
    struct tariff out = {.overhead = 1};
    for (size_t i = 0; i < COUNT_OF(TARIFFS); i++)
        if (strcasecmp(TARIFFS[i].device, device->name) == 0)
            out = (struct tariff){TARIFFS[i].price_per_hour, TARIFFS[i].price_source,
                                  TARIFFS[i].watts, TARIFFS[i].watts_source, 1};
    if (device->price_per_hour > 0) {
        out.price_per_hour = device->price_per_hour;
        out.price_source = "cluster file";
    }
    return out;
}

struct tariff cluster_tariff(const struct cluster *cluster)
{
    struct tariff mean = usual_tariff(&cluster_pool(cluster, 0)->node.device);
    bool priced = true, powered = true;
    if (!cluster->pools)
        return mean;
    mean.price_per_hour = mean.watts = 0;
    for (int32_t p = 0; p < cluster->pools; p++) {
        const struct cluster *own = cluster_pool(cluster, p);
        struct tariff tariff = usual_tariff(&own->node.device);
        double share = (double)own->nodes / (double)cluster->nodes;
        priced &= tariff.price_per_hour > 0;
        powered &= tariff.watts > 0;
        mean.price_per_hour += share * tariff.price_per_hour;
        mean.watts += share * tariff.watts;
    }
    mean.price_per_hour = priced ? mean.price_per_hour : 0;
    mean.watts = powered ? mean.watts : 0;
    mean.price_source = mean.watts_source = "the mean of the pools' devices";
    return mean;
}

struct bill bill_of(const struct tariff *tariff, double devices, double seconds)
{
    static const double SECONDS_PER_HOUR = 3600, WATTS_PER_KW = 1000;
    double hours = devices * seconds / SECONDS_PER_HOUR;
    return (struct bill){hours, hours * tariff->price_per_hour,
                         hours * tariff->watts / WATTS_PER_KW * tariff->overhead};
}
