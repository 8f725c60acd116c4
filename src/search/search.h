/* search.h - finding plans: spaces of strategies, and the algorithms that choose among them.
 *
 * But for planners and the estimate, what is here knows nothing of models or links: a planner fills
 * plain arrays with times and bytes from any cost source and reads back which entry was chosen.
 * Nothing is global; several threads may solve different problems at once.
 *
 *   planner    what every planner is asked and answers, and the planners there are
 *   grid       every combination of degrees, by estimate and bounds
 *   forbid     what a plan must not do
 *   sizes      how many nodes a training needs
 *   estimate   how long a plan or candidate takes and what it holds, without simulating it
 *   what_if    what limits a plan: what would change if the hardware did
 *   space      what a layer may do on a group of devices (Galvatron-BMW, section III)
 *   layerwise  the fastest strategy per layer that fits in memory (Galvatron-BMW, section IV-A)
 *   partition  which layers belong to which stage (Galvatron-BMW, section IV-B)
 */
#ifndef WEFT_SEARCH_H
#define WEFT_SEARCH_H

#include "search/estimate.h"
#include "search/grid.h"
#include "search/layerwise.h"
#include "search/partition.h"
#include "search/planner.h"
#include "search/sizes.h"
#include "search/space.h"
#include "search/what_if.h"

#endif
