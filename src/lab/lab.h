/* lab.h - the laboratory: what others measured and found, held against Weft's own answers. The product
 * never includes it.
 *
 *   published  published measurements of training runs, and predictions of them
 *   replanned  published runs planned anew
 *   searched   published answers of planners, and Weft's own searches
 *   duel       two planners held against each other on the same models and machines
 *   layer_profile  costs of layers as Galvatron measured them (section V)
 *   validate   `weft validate`, which shows all of these
 */
#ifndef WEFT_LAB_H
#define WEFT_LAB_H

#include "lab/duel.h"
#include "lab/layer_profile.h"
#include "lab/published.h"
#include "lab/replanned.h"
#include "lab/searched.h"

int cmd_validate(int argc, char **argv);

#endif
