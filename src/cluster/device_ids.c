/* device_ids.c - which device a PCI identifier or a compute capability stands for. */
#include "cluster/topology.h"

/* PCI device identifiers of vendor 10de (pci.ids). */
static const struct {
    int32_t pci_id;
    const char *device;
} PCI_IDS[] = {
    {0x15f8, "P100-PCIe-16GB"}, {0x17c2, "GTX-TITAN-X"},    {0x1b02, "TITAN-Xp"},
    {0x1b80, "GTX-1080"},       {0x1db1, "V100-SXM2-16GB"}, {0x1db5, "V100-SXM2-32GB"},
    {0x1e02, "RTX-TITAN"},      {0x1e04, "RTX-2080-Ti"},    {0x1e07, "RTX-2080-Ti"},
    {0x1e82, "RTX-2080"},       {0x1e87, "RTX-2080"},       {0x20b0, "A100-SXM4-40GB"},
    {0x20b2, "A100-SXM4-80GB"}, {0x20b5, "A100-PCIe-80GB"}, {0x2204, "RTX-3090"},
    {0x2330, "H100-SXM5-80GB"}, {0x2335, "H200-SXM-141GB"}, {0x2342, "GH200-96GB"},
    {0x2901, "B200-SXM-180GB"}, {0x2941, "GB200"},
};

/* Compute capability, the device that is assumed when nothing else identifies it (of several
 * memory sizes the smallest), and what one of its NVLinks carries per direction (NVIDIA's
 * NVLink pages). */
static const struct capability {
    int32_t sm;
    const char *device;
    double nvlink_bytes_per_s;
} CAPABILITIES[] = {
    {52, "GTX-TITAN-X", 0},       {60, "P100-PCIe-16GB", 20e9}, {61, "GTX-1080", 0},
    {70, "V100-SXM2-16GB", 25e9}, {75, "RTX-2080-Ti", 25e9},    {80, "A100-SXM4-40GB", 25e9},
    {86, "RTX-3090", 14.0625e9},  {90, "H100-SXM5-80GB", 25e9}, {100, "B200-SXM-180GB", 50e9},
};

static const struct capability *capability_find(int32_t sm)
{
    for (size_t i = 0; i < COUNT_OF(CAPABILITIES); i++)
        if (CAPABILITIES[i].sm == sm)
            return &CAPABILITIES[i];
    return NULL;
}

const struct device *device_by_ids(int32_t pci_id, int32_t sm)
{
    for (size_t i = 0; i < COUNT_OF(PCI_IDS); i++)
        if (PCI_IDS[i].pci_id == pci_id)
            return device_find(PCI_IDS[i].device);
    const struct capability *capability = capability_find(sm);
    return capability ? device_find(capability->device) : NULL;
}

double nvlink_bytes_per_s(int32_t sm)
{
    const double newest = CAPABILITIES[COUNT_OF(CAPABILITIES) - 1].nvlink_bytes_per_s;
    const struct capability *capability = capability_find(sm);
    return capability ? capability->nvlink_bytes_per_s : newest;
}
