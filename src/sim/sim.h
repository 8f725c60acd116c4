/* sim.h - the simulator: event-driven execution of a graph of tasks over shared links. */
#ifndef WEFT_SIM_H
#define WEFT_SIM_H

#include "sim/engine.h"

#endif
