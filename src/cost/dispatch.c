/* dispatch.c - how long DeepEP takes to send tokens to their experts, and their outputs back.
 *
 * A token goes once to every device that has one of its experts, and once over the network to every other node. With t
 * tokens of h features on each device, k of E experts, n nodes of g devices and e bytes per feature (dispatched in fp8 with a
 * scale for every 128, combined in 16 bits)
 *
 *   D = r(n g),  N = r(n) (n - 1) / n,   r(x) = x (1 - C(E - E/x, k) / C(E, k))                                        (1)
 *   T = t0 + max(t (a + D (b + h e / B)), t N h e / W)                                                                (2)
 *
 *   I1  The numbers are fitted on the rows of data/profiles/aiconfigurator/wideep_deepep_normal.csv whose `half` is "fit", by
 *       the least mean of |ln(predicted / measured)|, without those on 8 nodes, which are far slower than DeepEP publishes.
 *   I2  Only H100 was measured on several nodes: W of the others is a 400 Gb/s NIC's.
 */
#include <math.h>
#include <string.h>

#include "cost/cost.h"

#define FP8_BYTES  (1 + 4.0 / 128)
#define HALF_BYTES 2.0
#define NIC        50.0

static const struct dispatch_rates {
    const char *device;
    bool combine;
    double start_ns, token_ns, copy_ns; /* t0, a, b */
    double link_gb_per_s, nic_gb_per_s; /* B, W */
} RATES[] = {
    {"H100", false, 32700, 14.2, 2.56, 471, 44.2}, {"H100", true, 48000, 40.1, 0, 463, 38.5},
    {"H200", false, 32300, 13.9, 2.21, 462, NIC},  {"H200", true, 46300, 36.8, 0, 447, NIC},
    {"B200", false, 41000, 20.8, 2.72, 498, NIC},  {"B200", true, 53900, 47.5, 0, 594, NIC},
    {"B300", false, 42500, 18.5, 3.43, 546, NIC},  {"B300", true, 53200, 44.5, 0, 576, NIC},
    {"GB200", false, 32100, 23.4, 7.07, 663, NIC}, {"GB200", true, 39700, 31.8, 1.56, 435, NIC},
    {"GB300", false, 32100, 23.4, 7.12, 699, NIC}, {"GB300", true, 38300, 35.4, 0.76, 451, NIC},
};

static const struct dispatch_rates *rates_of(const struct device *device, bool combine)
{
    for (size_t i = 0; i < COUNT_OF(RATES); i++)
        if (RATES[i].combine == combine &&
            strncmp(device->name, RATES[i].device, strlen(RATES[i].device)) == 0)
            return &RATES[i];
    return NULL;
}

/* Equation (1). */
double dispatch_reach(const struct dispatch *d, double places)
{
    double experts = (double)d->experts, each = fmax(1, experts / places), none = 1;
    for (int64_t i = 0; i < d->choices; i++)
        none *= fmax(0, experts - each - (double)i) / (experts - (double)i);
    return places * (1 - none);
}

double dispatch_ns(const struct device *device, const struct dispatch *d)
{
    const struct dispatch_rates *r = rates_of(device, d->combine);
    if (!r)
        return 0;
    double nodes = (double)d->nodes, tokens = (double)d->tokens;
    double bytes = (double)d->hidden * (d->combine ? HALF_BYTES : FP8_BYTES);
    double copies = dispatch_reach(d, nodes * (double)d->per_node);
    double away = dispatch_reach(d, nodes) * (nodes - 1) / nodes;
    double inside = r->token_ns + copies * (r->copy_ns + bytes / r->link_gb_per_s);
    return r->start_ns + tokens * fmax(inside, away * bytes / r->nic_gb_per_s);
}
