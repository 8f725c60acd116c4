/* software.h - the record of facts about the framework that will run a plan, as named profiles.
 *
 * A fact is a word: what the framework does where frameworks differ. A *profile* gives a word to each fact; a
 * record is a profile with some words changed. The words and their meaning are in FACTS, the profiles with their
 * sources in PROFILES (software.c), and docs/reference/software.md prints both.
 *
 *   I1  Word 0 of every fact is what is assumed where nobody says: a record of zeros is the profile "default".
 *   I2  Costs ask for facts, never for a profile's name.
 */
#ifndef WEFT_COST_SOFTWARE_H
#define WEFT_COST_SOFTWARE_H

#include "base/base.h"

enum software_fact {
    FACT_FP8_RECIPE,
    FACT_WEIGHT_CASTS,
    FACT_FUSED_CASTS,
    FACT_ACCUMULATION,
    FACT_EXPERTS,
    FACT_HOST,
    FACT_BUCKETS,
    FACT_GATHERS,
    FACT_GRADIENTS,
    FACT_CHECKPOINTS,
    FACT_OPTIMIZER_STEP,
    FACT_SEQUENCES,
    FACT_INPUTS,
    FACT_ALLOCATOR,
    FACT_ROOT,
    FACT_SCORES,
    FACT_WEIGHTS,
    FACT_WORKSPACE,
    FACT_DISPATCH,
    FACT_TOKEN_SMS,
    FACT_HOST_STEP,
    FACT_GRAPH_POOLS,
    FACT_CLIPPING,
    FACT_ATTENTION,
    FACT_WAITS,
    FACT_GATES,
    FACT_GATHERED,
    FACT_LOGITS,
    FACT_STAGES,
    SOFTWARE_FACTS
};
/* The words of each fact, in the order of FACTS. */
enum { RECIPE_DEVICE, RECIPE_DELAYED, RECIPE_CURRENT, RECIPE_BLOCKS };
enum { WEIGHT_CASTS_EACH, WEIGHT_CASTS_ONCE };
enum { FUSED_CASTS_NONE, FUSED_CASTS_NORMS, FUSED_CASTS_ALL };
enum { ACCUMULATION_APART, ACCUMULATION_FUSED };
enum { EXPERTS_CALLS, EXPERTS_FUSED, EXPERTS_STREAMS };
enum { HOST_KERNELS, HOST_GRAPHS, HOST_NATIVE };
enum { BUCKETS_FIXED, BUCKETS_MEGATRON, BUCKETS_DEEPSPEED };
enum { GATHERS_LAZY, GATHERS_PIECES, GATHERS_ALIGNED };
enum { GRADIENTS_KEPT, GRADIENTS_FREED };
enum { CHECKPOINTS_WHOLE, CHECKPOINTS_EARLY };
enum { STEP_FUSED, STEP_FOREACH, STEP_SINGLE };
enum { SEQUENCES_BALANCED, SEQUENCES_CONSECUTIVE };
enum { INPUTS_WHOLE, INPUTS_CAST, INPUTS_ALL };
enum { ALLOCATOR_SEGMENTS, ALLOCATOR_EXPANDABLE };
enum { ROOT_APART, ROOT_WHOLE };
enum { SCORES_COMBINE, SCORES_ACTIVATION };
enum { WEIGHTS_WHOLE, WEIGHTS_CAST };
enum {
    WORKSPACE_NONE,
    WORKSPACE_WEFT,
    WORKSPACE_TORCH,
    WORKSPACE_TE,
    WORKSPACE_TORCH_8,
    WORKSPACE_TE_8
};
enum { DISPATCH_EXPERTS, DISPATCH_DEVICES, DISPATCH_NODES }; /* as enum token_copies (model.h) */
enum { TOKEN_SMS_NONE, TOKEN_SMS_16, TOKEN_SMS_20, TOKEN_SMS_24 };
enum { HOST_STEP_APART, HOST_STEP_TENSORS };
enum { GRAPH_POOLS_SHARED, GRAPH_POOLS_OWN };
enum { CLIPPING_NONE, CLIPPING_NORM };
enum { ATTENTION_WHOLE, ATTENTION_FP8 };
enum { WAITS_NONE, WAITS_EXCHANGES };
enum { GATES_FUSED, GATES_APART };
enum { GATHERED_AGAIN, GATHERED_KEPT };
enum { LOGITS_FREED, LOGITS_KEPT };
enum { STAGES_LEAN, STAGES_HELD };

/* A record. */
struct software {
    uint8_t profile; /* the profile that it began as */
    uint8_t word[SOFTWARE_FACTS];
};
static inline int software_word(const struct software *software, enum software_fact fact)
{
    return software->word[fact];
}

struct software_profile {
    const char *name, *summary;
    const char *source; /* where its words stand in the framework's own text */
    struct software record;
    /* the FLOP/s in its log leave out the keys that causal masks hide, half of a sequence's */
    bool log_skips_masked;
};
size_t software_profiles(const struct software_profile **out);

/* Sets one fact; errors name the nearest key or the words that there are. */
weft_status software_set(struct software *software, const char *key, const char *word);
/* "megatron-core-0.16" or "megatron-core-0.16,host=graphs": a profile and facts that are otherwise. */
weft_status software_from_text(const char *text, struct software *out);
/* The same text back, in `keep`. */
const char *software_text(struct arena *keep, const struct software *software);
bool software_same(const struct software *one, const struct software *other);
bool software_is_default(const struct software *software);
/* What it assumes that the default does not, in words: "casts of weights once, ...". */
const char *software_assumes(struct arena *keep, const struct software *software);

/* The host's time to issue something, to that of PyTorch, of which profiles and calibrations have it. */
double software_issue(const struct software *software);
bool software_log_skips_masked(const struct software *software);
/* Multiprocessors that kernels which send tokens take from computation beside them. */
int software_token_sms(const struct software *software);
/* Bytes of gradients that are synchronised at once by `devices` devices, by the framework's own rule. */
int64_t software_bucket_bytes(const struct software *software, double gradient_bytes,
                              int64_t devices);

#endif
