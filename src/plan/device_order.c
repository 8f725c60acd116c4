/* device_order.c - where the devices of a plan lie in the cluster.
 *
 * A plan numbers its devices stage by stage. If a stage's devices are not all neighbours, but runs of R of them
 * with those of the other stages in between, device n of stage s, of S stages with E devices each, is the cluster's
 *
 *   at(s E + n) = floor(n / R) R S + s R + n mod R                                              (1)
 *
 * An order such as tp-cp-pp-dp, fastest first, says R: the product of all degrees before pp.
 *
 *   I1  R divides E. A digit of a split (stride, degree) lies inside a run, or goes over whole runs, or is of powers
 *       of two, which (1) cuts into one of each: then all groups of devices are strided in the cluster, too.
 *   I2  Without a run, and with one stage, (1) is the identity.
 */
#include <string.h>

#include "plan/room.h"

struct device_order plan_device_order(const struct plan *plan)
{
    int64_t each = plan->stage[0].devices, stages = cluster_devices(plan->cluster) / each;
    if (!plan->stage_run || stages < 2)
        return (struct device_order){0};
    return (struct device_order){plan->stage_run, stages, each};
}

int64_t device_at(const struct device_order *order, int64_t device)
{
    if (!order->run)
        return device;
    int64_t stage = device / order->each, n = device % order->each;
    return n / order->run * order->run * order->stages + stage * order->run +
           n % order->run; /* (1) */
}

struct group group_at(const struct device_order *order, const struct group *group)
{
    struct group out = {.first = device_at(order, group->first), .crossing = group->crossing};
    if (!order->run)
        return *group;
    for (int32_t k = 0; k < group->levels; k++) {
        int64_t count = group->count[k], stride = group->stride[k], inside = 1;
        if (stride > 0 && stride < order->run && stride * count > order->run) { /* I1 */
            inside = order->run / stride;
            out.count[out.levels] = inside;
            out.stride[out.levels++] = stride;
        }
        out.count[out.levels] = count / inside;
        out.stride[out.levels++] = device_at(order, group->first + stride * inside) - out.first;
    }
    return out;
}

const char *stage_devices_text(struct arena *keep, const struct plan *plan, int32_t stage)
{
    struct device_order order = plan_device_order(plan);
    const struct stage *own = &plan->stage[stage];
    int64_t run = order.run ? order.run : own->devices, runs = own->devices / run;
    const char *text = "";
    for (int64_t i = 0; i < runs && i < 2; i++) {
        long long first = (long long)device_at(&order, own->first_device + i * run);
        const char *end = run > 1 ? arena_printf(keep, "-%lld", first + (long long)run - 1) : "";
        text = arena_printf(keep, "%s%s%lld%s", text, i ? ", " : "", first, end);
    }
    return runs > 2 ? arena_printf(keep, "%s, ...", text) : text;
}

/* ---- orders in words ------------------------------------------------------------------------- */

/* The degrees in the order in which a plan numbers devices of a stage; ep shares the devices of the others. */
static const char *const WORDS[] = {"tp", "cp", "ep", "dp"};

static weft_status bad_order(const char *text, const char *what)
{
    return bad_argument("an example: tp-cp-ep-pp-dp; tp, cp, ep and dp come in this order",
                        "the order of devices is '%.40s': %s", text, what);
}

/* The place of a word among WORDS; COUNT_OF(WORDS) for pp, more for others. */
static size_t place_of(const char *word)
{
    size_t at = 0;
    while (at < COUNT_OF(WORDS) && strcmp(WORDS[at], word) != 0)
        at++;
    return at + (at == COUNT_OF(WORDS) && strcmp(word, "pp") != 0);
}

weft_status order_run(const struct degrees *d, int64_t *run)
{
    const int64_t degree[COUNT_OF(WORDS)] = {d->tp, d->cp, 1, d->dp};
    struct arena *scratch = arena_new();
    char *rest = arena_copy_text(scratch, d->order), *word;
    size_t next = 0, seen = 0, before_pp = SIZE_MAX;
    weft_status status = WEFT_OK;
    while ((word = strsep(&rest, "-")) != NULL && status == WEFT_OK) {
        size_t at = place_of(word);
        if (at > COUNT_OF(WORDS))
            status = bad_order(d->order, "expected tp, cp, ep, dp and pp with - between them");
        else if (at == COUNT_OF(WORDS) ? before_pp != SIZE_MAX : at < next)
            status = bad_order(d->order,
                               "a degree is there twice, or before one that is numbered faster");
        else if (at == COUNT_OF(WORDS))
            before_pp = next;
        else
            next = at + 1, seen |= (size_t)1 << at;
    }
    for (size_t i = 0; i < COUNT_OF(WORDS) && status == WEFT_OK; i++)
        if (degree[i] > 1 && !(seen & (size_t)1 << i))
            status = bad_order(d->order, "a degree above 1 is missing");
    *run = 1;
    for (size_t i = 0; i < COUNT_OF(WORDS) && i < before_pp; i++)
        *run *= degree[i];
    arena_free(scratch);
    return status;
}

const char *order_text(const struct degrees *d)
{
    int64_t tp = d->tp > 1 ? d->tp : 1, cp = d->cp > 1 ? d->cp : 1;
    if (!d->stage_run)
        return "tp-cp-ep-dp-pp";
    if (d->stage_run == tp * cp)
        return "tp-cp-ep-pp-dp";
    if (d->stage_run == tp)
        return "tp-pp-cp-ep-dp";
    return d->stage_run == 1 ? "pp-tp-cp-ep-dp" : NULL;
}

/* ---- whether it fits a plan ------------------------------------------------------------------ */

static bool is_power(int64_t number)
{
    return (number & (number - 1)) == 0;
}

bool split_suits_run(const struct split *split, int64_t run)
{
    int64_t stride = 1;
    for (int32_t i = split->parts - 1; i >= 0; i--) {
        int64_t end = stride * split->part[i].degree;
        bool cut = run % stride == 0 && end % run == 0 && is_power(split->part[i].degree);
        if (run % end != 0 && stride % run != 0 && !cut)
            return false; /* I1 */
        stride = end;
    }
    return true;
}
