/* lab.h - the laboratory: compares what others measured and found with Weft's own answers. The product
 * never includes it.
 *
 *   sources             what is known about a source beyond its file: rules, read from data/validation
 *   published           published measurements of training runs, and predictions of them
 *   planned_anew        published runs, planned again by Weft
 *   published_searches  published answers of planners, and Weft's own searches
 *   aceso_contest       compares two planners on the same models and machines
 *   layer_profile       costs of layers as Galvatron measured them (section V)
 *   validate            `weft validate`, which shows all of these
 */
#ifndef WEFT_LAB_H
#define WEFT_LAB_H

#include "lab/aceso_contest.h"
#include "lab/layer_profile.h"
#include "lab/published.h"
#include "lab/planned_anew.h"
#include "lab/published_searches.h"

int cmd_validate(int argc, char **argv);

#endif
