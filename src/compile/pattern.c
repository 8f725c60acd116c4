#include "compile/graph.h"
int64_t pattern_groups(const struct pattern *p)
{
    if (p->collective == COLLECTIVE_SEND)
        return p->devices;
    int64_t n = p->devices;
    for (int i = 0; i < p->digits; i++)
        n /= p->degree[i];
    return n;
}
struct group pattern_group(const struct pattern *p, int64_t i)
{
    if (p->collective == COLLECTIVE_SEND) {
        int64_t from = p->from_first + reshard_sender(p->reshard, i), to = p->first + i;
        return group_range(from, 2, to - from);
    }
    struct group g = {.first = p->first, .levels = p->digits};
    int64_t first = 0;
    int64_t rest = i;
    for (int k = 0; k < p->digits; k++) {
        g.count[k] = p->degree[k];
        g.stride[k] = p->stride[k];
        rest = rest % p->stride[k] + rest / p->stride[k] * p->stride[k] * p->degree[k];
    }
    first = rest;
    g.first += first;
    return g;
}
int64_t pattern_group_of(const struct pattern *p, int64_t device)
{
    int64_t r = device - p->first;
    if (p->collective == COLLECTIVE_SEND)
        return r;
    for (int k = p->digits - 1; k >= 0; k--)
        r = r % p->stride[k] + r / (p->stride[k] * p->degree[k]) * p->stride[k];
    return r;
}
