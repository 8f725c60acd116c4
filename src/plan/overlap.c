/* overlap.c - the words for communication that overlaps with computation, and for bucket sizes. */
#include <string.h>

#include "plan/plan.h"

static const struct {
    const char *name;
    unsigned bits;
} WORDS[] = {
    {"tensor", OVERLAP_TENSOR},
    {"pipeline", OVERLAP_PIPELINE},
    {"gradients", OVERLAP_GRADIENTS},
    {"parameters", OVERLAP_PARAMETERS},
    {"products", OVERLAP_PRODUCTS},
    {"experts", OVERLAP_EXPERTS},
    {"shared", OVERLAP_SHARED},
    {"keys", OVERLAP_KEYS},
    {"all", OVERLAP_ALL},
    {"none", 0},
};
const char OVERLAP_WORDS[] =
    "tensor, pipeline, gradients, parameters, keys, products, experts, shared, all or none";

bool overlap_from_name(const char *name, unsigned *bits)
{
    for (size_t i = 0; i < COUNT_OF(WORDS); i++) {
        if (strcmp(name, WORDS[i].name) == 0) {
            *bits |= WORDS[i].bits;
            return true;
        }
    }
    return false;
}

const char *overlap_near(const char *name)
{
    const char *words[COUNT_OF(WORDS)];
    for (size_t i = 0; i < COUNT_OF(WORDS); i++)
        words[i] = WORDS[i].name;
    return nearest_word(name, words, COUNT_OF(words));
}

const char *overlap_name(unsigned bit)
{
    for (size_t i = 0; i < COUNT_OF(WORDS); i++)
        if (WORDS[i].bits == bit)
            return WORDS[i].name;
    return NULL;
}

const char *overlap_take(unsigned *bits)
{
    unsigned taken = (*bits & OVERLAP_ALL) == OVERLAP_ALL ? OVERLAP_ALL : *bits & -*bits;
    *bits &= ~taken;
    return taken ? overlap_name(taken) : NULL;
}

/* The size of buckets that nobody gives: a number, or BUCKET_BY_RULE. */
static int64_t software_default_bucket(const struct software *software)
{
    bool fixed = software_word(software, FACT_BUCKETS) == BUCKETS_FIXED;
    return fixed ? DEFAULT_BUCKET_BYTES : BUCKET_BY_RULE;
}

bool plan_aligns_gathers(const struct software *software, int64_t pieces)
{
    int word = software_word(software, FACT_GATHERS);
    return word == GATHERS_ALIGNED || (word == GATHERS_PIECES && pieces > 1);
}

int64_t degrees_bucket_bytes(const struct degrees *degrees)
{
    return degrees->has_bucket ? degrees->bucket_bytes
                               : software_default_bucket(&degrees->software);
}

int64_t plan_bucket_bytes(const struct plan *plan, int64_t devices)
{
    if (plan->bucket_bytes != BUCKET_BY_RULE)
        return plan->bucket_bytes;
    return software_bucket_bytes(&plan->software, policy_gradient_bytes(plan->policy), devices);
}

bool bucket_from_text(const char *text, int64_t *bytes)
{
    *bytes = 0;
    return strcmp(text, "whole") == 0 || (parse_bytes(text, bytes) && *bytes >= 0);
}
