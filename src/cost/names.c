/* names.c - the words for the room's enums. */
#include "cost/cost.h"

static const char *const PROVENANCES[] = {
    [FROM_NOTHING] = "nothing",
    [FROM_MEASUREMENT] = "measured",
    [FROM_INTERPOLATION] = "interpolated",
    [FROM_FORMULA] = "formula",
};

const char *provenance_name(enum provenance provenance)
{
    return PROVENANCES[provenance];
}
