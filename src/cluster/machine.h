/* machine.h - what a preset says about one machine; private to the room. */
#ifndef WEFT_CLUSTER_MACHINE_H
#define WEFT_CLUSTER_MACHINE_H

#include "cluster/topology.h"

struct nvlink_pair {
    int8_t a, b, count;
};

struct machine {
    const char *notes; /* the full text of the preset's source */
    const char *device;
    int32_t devices;
    int32_t sockets, sockets_per_board; /* sockets of one board are linked to each other */
    enum cpu_kind cpu;
    double pci_gt_per_s;            /* x16 */
    int32_t pci_switches;           /* 0: devices are attached to the sockets */
    double socket_link_bytes_per_s; /* between device and socket, if that is not PCIe */
    int32_t nvswitch_links;         /* from each device to the switch plane */
    double nvlink_bytes_per_s;      /* of one link */
    const struct nvlink_pair *pairs;
    int32_t pair_count;
    /* attached to the PCI switches (or sockets) from number nics_from on */
    int32_t nics, nics_from;
    bool nics_on_sockets;
    double nic_bytes_per_s; /* each */
    enum fabric_kind fabric;
    const char *fabric_source;
    const struct tier_plan *tiers; /* ends with a tier without a name */
    /* to and from host memory, of all devices together, where it was measured; 0: what each device reaches alone */
    double host_bytes_per_s;
    double efficiency_between; /* measured share of the NICs' bandwidth; 0: not measured */
    const struct collective_fit *inside, *between; /* measured, by collective; NULL: not measured */
};

#endif
