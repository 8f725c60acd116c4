/* nicknames.c - other names that people have for a cluster, as the name of a preset.
 *
 *   hgx-h100:2     the preset of the same machine: dgx-h100:2
 *   h100, H100:16  so many devices of a kind, in whole nodes or in a part of one: dgx-h100:2
 *   8xH100, "8 H100", "8 x H100", H100*8
 *                  the same: dgx-h100:1x8
 *   64xA100-40G, 64xH100-SXM5-80GB
 *                  a device by the beginnings of words of its own name
 *   h200:1x2       nodes and devices of each, of the machine of such devices: hgx-h200:1x2
 *   gb200-nvl72:256gpus, gb200-nvl72:64nodes, gb200-nvl72:4racks
 *                  a size with its unit: gb200-nvl72:4x64, gb200-nvl72:4x64, gb200-nvl72:4
 *
 *   I1  A preset's own name, and a file, keep their meaning: mi300x:8 is eight nodes, 8xMI300X eight devices.
 *   I2  Devices that are not whole machines are spread evenly over as few as possible.
 *   I3  The table's own names come before the words of devices, and its order decides between those.
 */
#include "cluster/machine.h"
#include "cluster/topology.h"

#include <ctype.h>
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
    {"h800", "hgx-h800", true},
    {"a800", "hgx-a800", true},
    {"h20", "hgx-h20", true},
    {"l40s", "g6e", true},
    {"l4", "g6", true},
    {"a10g", "g5", true},
    {"rtx-4090", "rtx-4090", false},
    {"rtx4090", "rtx-4090", true},
    {"4090", "rtx-4090", true},
    {"a100-80gb", "dgx-a100", true},
    {"a100-40gb", "dgx-a100-40gb", true},
    {"h200-sxm5", "hgx-h200", true}, /* NVIDIA's own lists have no number there */
    {"h200-sxm5-141gb", "hgx-h200", true},
    {"h100-80gb-hbm3", "dgx-h100",
     true},                             /* as nvidia-smi and torch.cuda.get_device_name print it */
    {"b300-sxm6-ac", "hgx-b300", true}, /* the same */
    {"h100-pcie", "h100-pcie", false},
    {"h100-nvl", "h100-nvl", false},
    {"gh200", "gh200", false},
    {"rtx-pro-6000", "rtx-pro-6000", false},
    {"mi250x", "mi250x", false},
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

/* Whether each word of what was said begins a word of the device's name, the first one the first, in their order:
 * "A100-40G" is said of A100-SXM4-40GB. */
static bool is_said_of(const char *said, const char *device)
{
    enum { LEAST = 2 }; /* letters of a word: one says too little */
    size_t word = strcspn(said, "-_ "), whole = strcspn(device, "-");
    if (word != whole || strncasecmp(said, device, word) != 0)
        return false;
    for (said += word; *said; said += word) {
        word = strcspn(++said, "-_ ");
        do {
            device += whole;
            device += *device == '-';
            whole = strcspn(device, "-");
        } while (whole && strncasecmp(said, device, word) != 0);
        if (!whole || word < LEAST)
            return false;
    }
    return true;
}

/* I3 */
static int nickname_index(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(NICKNAMES); i++)
        if (strcasecmp(name, NICKNAMES[i].nickname) == 0)
            return (int)i;
    for (size_t i = 0; i < COUNT_OF(NICKNAMES); i++)
        if (is_said_of(name, cluster_preset_find(NICKNAMES[i].preset)->machine->device))
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

/* Where the name begins after a count: "8xH100", "8 x H100", "8 H100"; NULL: there is no count. */
static const char *after_count(const char *name)
{
    const char *end = name + strspn(name, "0123456789"), *times = end + strspn(end, " ");
    if (end == name || !*times)
        return NULL;
    if (strchr("xX*", *times))
        return times + 1 + strspn(times + 1, " ");
    return times > end ? times : NULL;
}

/* "8xH100", "8 H100", "H100*8": the number, and the name. The name of a device may end in an x or a number itself, so
 * that a number after it counts only where the rest is a name. */
static bool counts_devices(struct arena *keep, const char *name, int64_t *count, const char **rest)
{
    size_t len = strlen(name), digits = strspn(name, "0123456789"), last = len;
    if (after_count(name)) {
        *rest = after_count(name);
        return parse_int(arena_copy_bytes(keep, name, digits), count) && *count > 0;
    }
    while (last && name[last - 1] >= '0' && name[last - 1] <= '9')
        last--;
    if (last == len || last < 2 || !strchr("xX*", name[last - 1]) || nickname_index(name) >= 0)
        return false;
    const char *before = arena_copy_bytes(keep, name, last - 1);
    if (nickname_index(before) < 0)
        return false;
    *rest = before;
    return parse_int(name + last, count) && *count > 0;
}

/* "2x4": so many nodes with so many devices each. */
static bool is_nodes_by_devices(const char *size)
{
    size_t digits = strspn(size, "0123456789");
    return digits > 0 && size[digits] == 'x';
}

/* Presets are written in small letters: DGX-H100 is dgx-h100. */
static const char *in_small(struct arena *keep, const char *name, size_t len)
{
    char *small = arena_copy_bytes(keep, name, len);
    for (char *c = small; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return small;
}

const char *cluster_meant(struct arena *keep, const char *name)
{
    int64_t devices = 0;
    const char *rest = name, *meant = NULL;
    bool counted = counts_devices(keep, name, &devices, &rest);
    if (!counted && rest != name)
        return name; /* no device, or more than can be counted */
    const char *colon = strchr(rest, ':');
    const char *alone = in_small(keep, rest, colon ? (size_t)(colon - rest) : strlen(rest));
    int at = nickname_index(alone);
    const char *preset = cluster_preset_find(alone) ? alone : at >= 0 ? NICKNAMES[at].preset : NULL;
    if (!preset || (counted && (colon || at < 0)))
        return name; /* I1 */
    if (colon && (meant = with_unit(keep, preset, colon + 1)))
        return meant;
    if (preset == alone && !counted)
        return strncmp(name, alone, strlen(alone)) == 0
                   ? name
                   : arena_printf(keep, "%s%s", preset, colon ? colon : "");
    bool as_preset = !colon || !NICKNAMES[at].counts_devices || is_nodes_by_devices(colon + 1);
    if (!counted && as_preset)
        return arena_printf(keep, "%s%s", preset, colon ? colon : "");
    if (!counted && (!parse_int(colon + 1, &devices) || devices < 1))
        return name;
    meant = with_devices(keep, preset, devices);
    return meant ? meant : name;
}

/* ---- what was meant by a name that is none --------------------------------------------------------- */

static const char *device_names(struct arena *keep)
{
    const char *text = "", *before = "";
    for (size_t i = 0; i < COUNT_OF(NICKNAMES); i++)
        if (strcmp(NICKNAMES[i].preset, before) != 0 &&
            is_said_of(NICKNAMES[i].nickname,
                       cluster_preset_find(NICKNAMES[i].preset)->machine->device)) {
            text = arena_printf(keep, "%s%s%s", text, *text ? ", " : "", NICKNAMES[i].nickname);
            before = NICKNAMES[i].preset;
        }
    return text;
}

bool hint_devices(const char *name)
{
    const char *rest = after_count(name);
    if (!rest)
        return false;
    struct arena *scratch = arena_new();
    int at = nickname_index(rest);
    if (cluster_preset_find(rest))
        error_hint("%.100s:N is N nodes of it", rest);
    else if (at >= 0)
        error_hint(
            "its nodes have %s, which so many do not share evenly",
            counted(cluster_preset_find(NICKNAMES[at].preset)->machine->devices, "device").s);
    else
        error_hint("devices that have a name: %s; a file describes any other: "
                   "docs/reference/cluster-file.md",
                   device_names(scratch));
    arena_free(scratch);
    return true;
}
