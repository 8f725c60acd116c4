/* machine.h - what a preset says of one machine; private to the room. */
#ifndef WEFT_CLUSTER_MACHINE_H
#define WEFT_CLUSTER_MACHINE_H

#include "cluster/topology.h"

struct nvlink_pair {
    int8_t a, b, count;
};

struct machine {
    const char *notes; /* the long form of the preset's source */
    const char *device;
    int32_t devices;
    int32_t sockets, sockets_per_board; /* sockets of one board are linked to each other */
    enum cpu_kind cpu;
    double pci_gt_per_s;            /* x16 */
    int32_t pci_switches;           /* 0: devices hang on the sockets */
    double socket_link_bytes_per_s; /* device to socket where that is not PCIe */
    int32_t nvswitch_links;         /* of each device to the switch plane */
    double nvlink_bytes_per_s;      /* of one link */
    const struct nvlink_pair *pairs;
    int32_t pair_count;
    int32_t nics, nics_from; /* on the PCI switches (or sockets) from number nics_from on */
    bool nics_on_sockets;
    double nic_bytes_per_s; /* each */
    enum fabric_kind fabric;
    const char *fabric_source;
    const struct tier_plan *tiers; /* up to the one without a name */
    double efficiency_between;     /* measured share of the NICs' bandwidth; 0: not measured */
    const struct collective_fit *inside, *between; /* measured, by collective; NULL: not */
};

#endif
