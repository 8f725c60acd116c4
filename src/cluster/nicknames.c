/* nicknames.c - other names that people have for a cluster, as the name of a preset.
 *
 *   hgx-h100:2     the preset of the same machine: dgx-h100:2
 *   h100, H100:16  so many devices of a kind, in whole nodes or in a part of one: dgx-h100:2
 *   8xH100         the same: dgx-h100:1x8
 *   gb200-nvl72:256gpus, gb200-nvl72:64nodes, gb200-nvl72:4racks
 *                  a size with its unit: gb200-nvl72:4x64, gb200-nvl72:4x64, gb200-nvl72:4
 *
 *   I1  A preset's own name, and a file, keep their meaning: mi300x:8 is eight nodes, 8xMI300X eight devices.
 *   I2  Devices that are not whole machines are spread evenly over as few as possible.
 */
#include "cluster/machine.h"
#include "cluster/topology.h"

#include <string.h>
#include <strings.h>

/* The machine that a device is usually bought in. */
static const struct {
    const char *nickname, *preset;
    bool counts_devices; /* a device's name: a number after it is of devices, not of nodes */
} NICKNAMES[] = {
    {"v100", "dgx-v100", true},
    {"a100", "dgx-a100", true},
    {"h100", "dgx-h100", true},
    {"h200", "hgx-h200", true},
    {"b200", "hgx-b200", true},
    {"b300", "hgx-b300", true},
    {"gb200", "gb200-nvl72", true},
    {"gb300", "gb300-nvl72", true},
    {"l40s", "g6e", true},
    {"a100-80gb", "dgx-a100", true},
    {"a100-40gb", "dgx-a100-40gb", true},
    {"h100-pcie", "h100-pcie", false},
    {"h100-nvl", "h100-nvl", false},
    {"gh200", "gh200", false},
    {"rtx-pro-6000", "rtx-pro-6000", false},
    {"mi300x", "mi300x", false},
    {"mi325x", "mi325x", false},
    {"mi350x", "mi350x", false},
    {"mi355x", "mi355x", false},
    {"hgx-a100", "dgx-a100", false},
    {"hgx-h100", "dgx-h100", false},
    {"dgx-h200", "hgx-h200", false},
    {"dgx-b200", "hgx-b200", false},
    {"dgx-b300", "hgx-b300", false},
    {"nvl72", "gb200-nvl72", false},
    {"dgx-gb200", "gb200-nvl72", false},
    {"dgx-gb300", "gb300-nvl72", false},
};

static int nickname_index(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(NICKNAMES); i++)
        if (strcasecmp(name, NICKNAMES[i].nickname) == 0)
            return (int)i;
    return -1;
}

/* I2; NULL: no number of machines shares them evenly but one device each. */
static const char *with_devices(struct arena *keep, const char *preset, int64_t devices)
{
    int64_t node = cluster_preset_find(preset)->machine->devices;
    int64_t nodes = devices / node + (devices % node != 0);
    while (nodes < devices && devices % nodes)
        nodes++;
    int64_t each = devices / nodes;
    if (each == node)
        return arena_printf(keep, "%s:%lld", preset, (long long)nodes);
    return each == 1 && nodes > 1
               ? NULL
               : arena_printf(keep, "%s:%lldx%lld", preset, (long long)nodes, (long long)each);
}

/* ---- sizes with a unit ----------------------------------------------------------------------- */

static int64_t devices_of_one(const struct machine *machine)
{
    (void)machine;
    return 1;
}

static int64_t devices_of_host(const struct machine *machine)
{
    int32_t boards = machine->sockets_per_board ? machine->sockets / machine->sockets_per_board : 1;
    return machine->devices / boards;
}

static int64_t devices_of_rack(const struct machine *machine)
{
    return machine->devices;
}

static const struct {
    const char *name;
    int64_t (*devices)(const struct machine *machine);
} UNITS[] = {
    {"devices", devices_of_one}, {"gpus", devices_of_one},     {"gpu", devices_of_one},
    {"nodes", devices_of_host},  {"node", devices_of_host},    {"racks", devices_of_rack},
    {"rack", devices_of_rack},   {"domains", devices_of_rack},
};

/* "64nodes" of a preset; NULL: it has no unit, or is too large. */
static const char *with_unit(struct arena *keep, const char *preset, const char *size)
{
    size_t digits = strspn(size, "0123456789");
    int64_t count, devices;
    int at = NAME_INDEX(size + digits, UNITS);
    if (digits == 0 || at < 0 || !parse_int(arena_copy_bytes(keep, size, digits), &count) ||
        count < 1)
        return NULL;
    int64_t each = UNITS[at].devices(cluster_preset_find(preset)->machine);
    return __builtin_mul_overflow(count, each, &devices) ? NULL
                                                         : with_devices(keep, preset, devices);
}

/* "8xH100": the number, and where the name begins. */
static bool leading_count(const char *name, int64_t *count, const char **rest)
{
    size_t digits = strspn(name, "0123456789");
    char number[16];
    if (digits == 0 || digits >= sizeof number || (name[digits] != 'x' && name[digits] != 'X'))
        return false;
    memcpy(number, name, digits);
    number[digits] = '\0';
    *rest = name + digits + 1;
    return parse_int(number, count) && *count > 0;
}

const char *cluster_meant(struct arena *keep, const char *name)
{
    int64_t devices = 0;
    const char *rest = name, *meant = NULL;
    bool counted = leading_count(name, &devices, &rest);
    const char *colon = strchr(rest, ':');
    char *alone = arena_copy_bytes(keep, rest, colon ? (size_t)(colon - rest) : strlen(rest));
    int at = nickname_index(alone);
    const char *preset = cluster_preset_find(alone) ? alone : at >= 0 ? NICKNAMES[at].preset : NULL;
    if (!preset || (counted && (colon || at < 0)))
        return name; /* I1 */
    if (colon && (meant = with_unit(keep, preset, colon + 1)))
        return meant;
    if (preset == alone && !counted)
        return name;
    if (!counted && (!colon || !NICKNAMES[at].counts_devices))
        return arena_printf(keep, "%s%s", preset, colon ? colon : "");
    if (!counted && (!parse_int(colon + 1, &devices) || devices < 1))
        return name;
    meant = with_devices(keep, preset, devices);
    return meant ? meant : name;
}
