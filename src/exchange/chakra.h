/* chakra.h - a prediction's graph as execution traces of MLCommons Chakra, which network simulators replay.
 *
 *   FOLDER/weft.R.et        what rank R does, as one message of metadata and one per node, each after its length
 *   FOLDER/comm_group.json  the ranks of each group of collectives, by the name that nodes call it (`pg_name`)
 *
 *   I1  A rank's nodes are the operators and steps of its tasks, and the exchanges that it takes part in: a
 *       collective on each member, a send on the sender and as a receive on the receiver, with the same `comm_tag`.
 *   I2  A node depends on nodes of its own rank alone, which come before it in the file.
 *   I3  Nodes say how long they take alone (`duration_micros`), not when they begin: that is for the simulator.
 *   I4  Collectives have the size that one rank gives or gets, as nccl-tests counts it (`comm_size`).
 */
#ifndef WEFT_EXCHANGE_CHAKRA_H
#define WEFT_EXCHANGE_CHAKRA_H

#include "sim/sim.h"

/* Name and summary of the format, for `weft export`. */
extern const char CHAKRA_FORMAT[], CHAKRA_SUMMARY[];
/* The prediction's graph is not folded. The folder is made if there is none. */
weft_status chakra_write(const struct prediction *prediction, const char *folder, int64_t *nodes);

#endif
