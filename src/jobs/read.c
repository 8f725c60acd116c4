/* read.c - placements and faults as text (jobs.h). */
#include <stdlib.h>
#include <string.h>

#include "jobs/jobs.h"

/* ---- placements ------------------------------------------------------------------------------ */

/* Reads a number and moves behind it; -1: there is none. */
static int64_t read_number(const char **text)
{
    enum { MOST_DIGITS = 9 };
    char *end = NULL;
    if (**text < '0' || **text > '9' || strspn(*text, "0123456789") > MOST_DIGITS)
        return -1;
    int64_t number = strtoll(*text, &end, 10);
    *text = end;
    return number;
}

static weft_status wrong_placement(const char *text, const struct cluster *cluster, int64_t nodes)
{
    return bad_argument("such as 0-3,8",
                        "'%s' is no placement of this job, expected %lld different nodes of 0 to "
                        "%lld",
                        text, (long long)nodes, (long long)cluster->nodes - 1);
}

weft_status placement_read(struct arena *keep, const struct cluster *cluster, const char *text,
                           int64_t nodes, struct placement *out)
{
    bool *taken = ARENA_ARRAY(keep, bool, (size_t)cluster->nodes);
    const char *at = text;
    *out = (struct placement){0, ARENA_ARRAY(keep, int64_t, (size_t)nodes)};
    do {
        int64_t first = read_number(&at), last = first;
        if (*at == '-') {
            at++;
            last = read_number(&at);
        }
        if (first < 0 || last < first || last >= cluster->nodes)
            return wrong_placement(text, cluster, nodes);
        for (int64_t i = first; i <= last; i++) {
            if (taken[i] || out->nodes == nodes)
                return wrong_placement(text, cluster, nodes);
            taken[i] = true;
            out->node[out->nodes++] = i;
        }
    } while (*at++ == ',');
    return at[-1] == '\0' && out->nodes == nodes ? WEFT_OK : wrong_placement(text, cluster, nodes);
}

const char *placement_text(struct arena *keep, const struct placement *placement)
{
    const char *text = "";
    for (int64_t i = 0; i < placement->nodes;) {
        int64_t first = placement->node[i], length = 1;
        while (i + length < placement->nodes && placement->node[i + length] == first + length)
            length++;
        text = length > 1 ? arena_printf(keep, "%s%s%lld-%lld", text, i ? "," : "",
                                         (long long)first, (long long)(first + length - 1))
                          : arena_printf(keep, "%s%s%lld", text, i ? "," : "", (long long)first);
        i += length;
    }
    return text;
}

/* ---- faults ---------------------------------------------------------------------------------- */

static weft_status read_nic(const struct cluster *cluster, const char *text, int64_t unit,
                            int64_t nic, struct network_fault *out)
{
    if (unit >= cluster->nodes || nic >= cluster->node.nics)
        return bad_argument(NULL, "--fail %s: the cluster has nodes 0 to %lld with NICs 0 to %d",
                            text, (long long)cluster->nodes - 1, cluster->node.nics - 1);
    if (cluster->node.nics == 1)
        return bad_argument("leave the node out of the placements",
                            "--fail %s: without its only NIC the node is cut off", text);
    *out = (struct network_fault){.unit = unit, .nic = (int16_t)nic};
    return WEFT_OK;
}

static weft_status read_uplink(const struct cluster *cluster, const char *text, int32_t tier,
                               int64_t unit, int64_t percent, struct network_fault *out)
{
    int64_t units = ceil_div(cluster->nodes, cluster->fabric.tier[tier].nodes);
    if (unit >= units || percent < 1 || percent > 100)
        return bad_argument(NULL,
                            "--fail %s: expected a unit from 0 to %lld, and 1 to 100 percent of "
                            "its uplink that are left",
                            text, (long long)units - 1);
    *out = (struct network_fault){(int16_t)(tier + 1), unit, 0, (double)percent / 100};
    return WEFT_OK;
}

weft_status fault_read(const struct cluster *cluster, const char *text, struct network_fault *out)
{
    size_t name = strcspn(text, "=");
    const char *at = text + name + (text[name] == '=');
    int64_t unit = read_number(&at), value = *at == ':' ? (at++, read_number(&at)) : -1;
    if (unit >= 0 && value >= 0 && *at == '\0') {
        if (name == 3 && strncmp(text, "nic", name) == 0)
            return read_nic(cluster, text, unit, value, out);
        for (int32_t t = 0; t + 1 < cluster->fabric.tiers; t++)
            if (strlen(cluster->fabric.tier[t].name) == name &&
                strncmp(text, cluster->fabric.tier[t].name, name) == 0)
                return read_uplink(cluster, text, t, unit, value, out);
    }
    return bad_argument("nic=NODE:I, or the name of a tier with uplinks: leaf=UNIT:PERCENT",
                        "--fail %s names nothing of this cluster", text);
}
