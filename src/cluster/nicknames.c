/* nicknames.c - other names that people have for a cluster, as the name of a preset.
 *
 *   hgx-h100:2     the preset of the same machine: dgx-h100:2
 *   h100, H100:16  so many devices of a kind, in whole nodes or in a part of one: dgx-h100:2
 *   8xH100         the same: dgx-h100:1x8
 *
 *   I1  A preset's own name, and a file, keep their meaning.
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
    {"v100", "dgx-v100", true},          {"a100", "dgx-a100", true},
    {"h100", "dgx-h100", true},          {"h200", "hgx-h200", true},
    {"b200", "hgx-b200", true},          {"gb200", "gb200-nvl72", true},
    {"gb300", "gb300-nvl72", true},      {"hgx-a100", "dgx-a100", false},
    {"hgx-h100", "dgx-h100", false},     {"dgx-h200", "hgx-h200", false},
    {"dgx-b200", "hgx-b200", false},     {"nvl72", "gb200-nvl72", false},
    {"dgx-gb200", "gb200-nvl72", false}, {"dgx-gb300", "gb300-nvl72", false},
};

static int nickname_index(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(NICKNAMES); i++)
        if (strcasecmp(name, NICKNAMES[i].nickname) == 0)
            return (int)i;
    return -1;
}

static const char *with_devices(struct arena *keep, const char *preset, int64_t devices)
{
    int64_t node = cluster_preset_find(preset)->machine->devices;
    if (devices < node)
        return arena_printf(keep, "%s:1x%lld", preset, (long long)devices);
    return devices % node ? NULL
                          : arena_printf(keep, "%s:%lld", preset, (long long)(devices / node));
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
    const char *rest = name;
    bool counted = leading_count(name, &devices, &rest);
    const char *colon = strchr(rest, ':');
    char *alone = arena_copy_bytes(keep, rest, colon ? (size_t)(colon - rest) : strlen(rest));
    int at = nickname_index(alone);
    if (at < 0 || cluster_preset_find(alone) || (counted && colon))
        return name; /* I1 */
    const char *preset = NICKNAMES[at].preset;
    if (!counted && (!colon || !NICKNAMES[at].counts_devices))
        return arena_printf(keep, "%s%s", preset, colon ? colon : "");
    if (!counted && (!parse_int(colon + 1, &devices) || devices < 1))
        return name;
    const char *meant = with_devices(keep, preset, devices);
    return meant ? meant : name;
}
