/* search.h - finding plans: spaces of strategies, and the algorithms that choose among them.
 *
 * But for planners and the estimate, what is here knows nothing of models or links: a planner fills
 * plain arrays with times and bytes from any cost source and reads back which entry was chosen.
 * Nothing is global; several threads may solve different problems at once.
 *
 *   planner    what every planner is asked and answers, and the planners there are
 *   grid       every combination of degrees, by estimate and bounds
 *   forbid     what a plan must not do
 *   counted    memory by somebody else's count
 *   sizes      how many nodes a training needs
 *   estimate   how long a plan or candidate takes and what it holds, without simulating it
 *   what_if    what limits a plan: what would change if the hardware did
 *   space      what a layer may do on a group of devices (Galvatron-BMW, section III)
 *   layerwise  the fastest strategy per layer that fits in memory (Galvatron-BMW, section IV-A)
 *   splits     every way to lay one operator over a stage's devices (AutoDDL, section 4.2)
 *   assign     each variable one option, pairs cost too: AutoDDL's searches and an exact one
 *   layout_problem  operators and their splits as such an assignment
 *   partition  which layers belong to which stage (Galvatron-BMW, section IV-B)
 *   galvatron  both, over batches, PP degrees and micro-batches, for any source of layers' costs
 *   layer_profile  layers' costs as Galvatron measured them (Galvatron-BMW, section V)
 */
#ifndef WEFT_SEARCH_H
#define WEFT_SEARCH_H

#include "search/assign.h"
#include "search/estimate.h"
#include "search/galvatron.h"
#include "search/layer_profile.h"
#include "search/layout_problem.h"
#include "search/grid.h"
#include "search/layerwise.h"
#include "search/partition.h"
#include "search/planner.h"
#include "search/sizes.h"
#include "search/space.h"
#include "search/what_if.h"
#include "search/splits.h"

#endif
