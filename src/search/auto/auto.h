/* auto.h - the planners that look at combinations of degrees: "auto", which also asks the others, and
 * "megatron"; and searches that ask planners many times.
 *
 *   grid   every combination of degrees, by estimate and bounds
 *   sizes  how many nodes a training run needs
 *   pins   which pins make a plan impossible, and what to pin instead
 */
#ifndef WEFT_SEARCH_AUTO_H
#define WEFT_SEARCH_AUTO_H

#include "search/auto/grid.h"
#include "search/auto/pins.h"
#include "search/auto/sizes.h"

weft_status auto_find(const struct plan_request *request, struct planned *out);
weft_status megatron_find(const struct plan_request *request, struct planned *out);

#endif
