/* random_plan.h - small models of every family, and plans for them that nobody would choose.
 *
 * A plan is drawn from degrees, or cut and split at random: any legal split of any operator, products
 * of several dims in any order, stages of unequal sizes. What plan_check refuses is drawn again.
 */
#ifndef WEFT_TESTS_RANDOM_PLAN_H
#define WEFT_TESTS_RANDOM_PLAN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "rounds.h"
#include "schedule/schedule.h"

/* ---- models and clusters, opened once -------------------------------------------------------- */

static const struct small_model {
    const char *family, *options;
} SMALL_MODELS[] = {
    {"gpt", "{layers: 4, hidden: 32, heads: 4, seq: 16, vocab: 100}"},
    {"gpt", "{layers: 3, hidden: 32, heads: 4, seq: 16, vocab: 96, attention: eager, tied: false}"},
    {"gpt", "{layers: 2, hidden: 48, heads: 6, seq: 24, vocab: 96, positions: rotary, dropout: 0}"},
    {"llama", "{layers: 4, hidden: 32, heads: 8, kv_heads: 2, ffn: 64, seq: 16, vocab: 96}"},
    {"llama", "{layers: 3, hidden: 48, heads: 6, kv_heads: 3, ffn: 96, seq: 12, vocab: 99, tied: "
              "true, attention: fused}"},
    {"llama", "{layers: 2, hidden: 32, heads: 4, qk_norm: true, apart: true, ffn: 64, seq: 16, "
              "vocab: 64}"},
    {"moe", "{layers: 3, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, seq: 16, vocab: 96, experts: "
            "4, top_k: 2, expert_ffn: 32}"},
    {"moe", "{layers: 4, hidden: 32, heads: 4, ffn: 64, seq: 16, vocab: 96, experts: 8, top_k: 2, "
            "expert_ffn: 32, shared_experts: 1, first_dense: 1}"},
    {"t5",
     "{layers: 2, hidden: 32, heads: 4, d_kv: 8, ffn: 64, seq: 16, decoder_seq: 8, vocab: 96}"},
    {"t5",
     "{layers: 2, decoder_layers: 3, hidden: 32, heads: 4, ffn: 64, seq: 16, vocab: 96, tied: "
     "false, attention: eager}"},
    {"bert", "{layers: 3, hidden: 32, heads: 4, seq: 16, vocab: 96}"},
    {"vit", "{layers: 3, hidden: 32, heads: 4, image: 32, patch: 8, classes: 10}"},
    {"swin", "{depths: [2, 2], hidden: 16, heads: 2, image: 32, patch: 4, window: 4, classes: 12}"},
    {"resnet", "{blocks: [1, 2], channels: 16, image: 32, classes: 12}"},
    {"resnet", "{block: basic, blocks: [2, 1, 1, 1], channels: 8, image: 32, classes: 12}"},
    {"inception", "{classes: 12, image: 75}"},
    {"vgg", "{depth: 11, classes: 12}"},
    {"dlrm", "{dense: 8, bottom: [16, 8], tables: 4, rows: 64, top: [16, 1]}"},
    {"hybrid",
     "{pattern: MM*-, layers: 8, hidden: 32, heads: 4, kv_heads: 2, mamba_dim: 8, groups: 4, "
     "state: 4, chunk: 8, seq: 16, vocab: 96, norm: layer, bias: true}"},
    {"hybrid",
     "{pattern: ME*E, hidden: 32, heads: 4, mamba_dim: 16, groups: 2, state: 8, chunk: 8, "
     "experts: 4, expert_ffn: 32, shared_ffn: 32, latent: 16, mtp: 2, mtp_pattern: E, "
     "seq: 16, vocab: 96}"},
    {"moe", "{layers: 3, hidden: 32, heads: 8, kv_heads: 2, ffn: 32, seq: 16, vocab: 96, experts: "
            "4, top_k: 2, window: 5, full_every: 2, sinks: true, qkv_bias: true, proj_bias: true, "
            "expert_bias: true, activation: clamped}"},
    {"llama", "{layers: 4, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, seq: 16, vocab: 96, tied: "
              "true, window: 6, full_every: 3, sinks: true, qk_norm: true, end_norm: true, "
              "activation: geglu, attention: fused}"},
    {"gpt", "{layers: 2, hidden: 32, heads: 4, seq: 16, vocab: 96, experts: 4, top_k: 1, "
            "shared_ffn: 32, activation: relu2, dropout: 0}"},
    {"llama", "{layers: 3, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, seq: 24, vocab: 96, "
              "vision_layers: 2, vision_hidden: 16, vision_heads: 4, vision_ffn: 32, "
              "vision_image: 16, vision_patch: 4, vision_merge: 2, vision_rotary: true, "
              "vision_norm: rms, vision_activation: swiglu, projector_norm: rms}"},
    {"llama", "{layers: 2, hidden: 32, heads: 4, ffn: 64, seq: 24, vocab: 96, vision_layers: 2, "
              "vision_hidden: 16, vision_heads: 2, vision_image: 16, vision_patch: 4, "
              "vision_class_token: true, vision_positions: true, vision_pre_norm: true, "
              "vision_frozen: true}"},
    {"llama", "{layers: 3, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, seq: 8, vocab: 96, "
              "vision_layers: 3, vision_hidden: 16, vision_heads: 4, vision_ffn: 32, "
              "vision_image: 16, vision_patch: 4, vision_merge: 2, vision_positions: true, "
              "vision_taps: [1, 2], projector_norm: layer}"},
    {"llama", "{layers: 4, hidden: 32, heads: 4, kv_heads: 2, ffn: 64, seq: 16, vocab: 96, "
              "cross_first: 1, cross_every: 3, vision_layers: 3, vision_global_layers: 1, "
              "vision_hidden: 16, vision_heads: 2, vision_image: 8, vision_patch: 4, "
              "vision_tiles: 4, vision_tile_shapes: 3, vision_taps: [1, 2], "
              "vision_class_token: true, vision_positions: true, vision_post_norm: true, "
              "vision_attention_bias: false, projector_layers: 1}"},
};
enum { SMALL_MODEL_COUNT = COUNT_OF(SMALL_MODELS) };

static const struct family *family_named(const char *name)
{
    const struct family *const *all;
    size_t count = model_families(&all);
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    fail_msg("no family %s", name);
    return NULL;
}

static inline struct model *open_small(const struct small_model *small)
{
    struct arena *scratch = arena_new();
    struct doc *options;
    struct model *model = NULL;
    if (doc_parse(scratch, small->family, small->options, strlen(small->options), DOC_YAML,
                  &options) != WEFT_OK ||
        family_build(family_named(small->family), small->family, "test", options, &model) !=
            WEFT_OK)
        fail_msg("%s: %s", small->family, weft_last_error()->message);
    arena_free(scratch);
    return model;
}

static inline struct cluster *open_named(const char *name)
{
    struct cluster *cluster;
    if (cluster_open(name, &cluster) != WEFT_OK)
        fail_msg("%s: %s", name, weft_last_error()->message);
    return cluster;
}

/* ---- draws ----------------------------------------------------------------------------------- */

static bool chance(struct rng *rng, int64_t of)
{
    return rng_below(rng, of) == 0;
}

/* A divisor of n above 1, if n is. */
static int64_t factor_of(struct rng *rng, int64_t n)
{
    int64_t factor = 1;
    while (n > 1 && (factor == 1 || n % factor))
        factor = 2 + rng_below(rng, n - 1);
    return factor;
}

static bool may_split(const struct plan *plan, const struct op *op, const struct split *split,
                      int place, int64_t degree)
{
    enum dim_role role = OP_KINDS[op->kind].dims[place].role;
    int64_t all = degree * split_degree(split, (int)OP_KINDS[op->kind].dims[place].dim);
    if (role == ROLE_BATCH)
        return plan->step_samples % all == 0;
    return role != ROLE_WHOLE && op->size[place] % all == 0 &&
           split_legal(plan->model, op, place, all);
}

/* Any legal split over so many devices. */
static struct split random_split(struct rng *rng, const struct plan *plan, const struct op *op,
                                 int64_t devices)
{
    struct split split = split_none();
    int dims = op_dims(op->kind);
    while (devices > 1) {
        int64_t degree = split.parts >= MAX_SPLIT_PARTS - 1 ? devices : factor_of(rng, devices);
        int place = (int)rng_below(rng, dims + 1), dim = SPLIT_COPY;
        if (split.parts < MAX_SPLIT_PARTS - 1 && place < dims) {
            if (!may_split(plan, op, &split, place, degree))
                continue;
            dim = (int)OP_KINDS[op->kind].dims[place].dim;
        }
        split_add(&split, dim, degree);
        devices /= degree;
    }
    return split;
}

/* Some operators, or all copies of some, are split otherwise. */
static void choose_splits(struct rng *rng, struct plan *plan, int64_t one_in)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        int32_t stage = plan_stage_of_part(plan, plan_part_of(plan, i));
        if (!chance(rng, one_in))
            continue;
        choice.split = random_split(rng, plan, &plan->model->op[plan->instance[i].op],
                                    plan->stage[stage].devices);
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

static void choose_rest(struct rng *rng, struct plan *plan)
{
    int shard = (int)rng_below(rng, 5), recompute = (int)rng_below(rng, 4);
    bool offload = chance(rng, 3), saved = chance(rng, 2);
    for (int64_t i = 0; i < plan->instances; i++) {
        struct choice choice = *plan_choice(plan, i);
        choice.shard = (uint8_t)(shard < 4 ? shard : rng_below(rng, 4));
        choice.recompute = recompute == 0   ? false
                           : recompute == 1 ? true
                           : recompute == 2 ? chance(rng, 2)
                                            : choice.recompute;
        choice.offload = offload && chance(rng, 2);
        choice.saved = saved && choice.recompute && chance(rng, 3);
        assert_int_equal(plan_choose(plan, i, &choice), WEFT_OK);
    }
}

static void choose_overlap(struct rng *rng, struct plan *plan)
{
    static const int64_t BUCKETS[] = {0, 1, 1 << 12, 1 << 14, DEFAULT_BUCKET_BYTES};
    plan->overlap = chance(rng, 2) ? (chance(rng, 2) ? OVERLAP_ALL : OVERLAP_EVERY)
                                   : (unsigned)rng_below(rng, OVERLAP_KEYS);
    plan->bucket_bytes = BUCKETS[rng_below(rng, COUNT_OF(BUCKETS))];
    if (plan->bucket_bytes > 1) /* most of them: rings, and else what is gathered */
        plan->overlap |= OVERLAP_KEYS;
}

/* ---- plans from degrees ---------------------------------------------------------------------- */

static weft_status draw_degrees(struct rng *rng, const struct model *model,
                                const struct cluster *cluster, struct plan **out)
{
    static const char *const SCHEDULES[] = {NULL, "gpipe", "1f1b", "interleaved", "aiao", "zb-h1"};
    int64_t left = cluster_devices(cluster);
    struct degrees d = {.micro_batch = 1 + rng_below(rng, 2)};
    int64_t *const degree[] = {&d.tp, &d.pp, &d.cp};
    for (size_t i = 0; i < COUNT_OF(degree); i++) {
        *degree[i] = chance(rng, 2) ? 1 : factor_of(rng, left);
        left /= *degree[i];
    }
    d.dp = left;
    d.ep = chance(rng, 2) ? 1 : factor_of(rng, left);
    d.cp_heads = chance(rng, 2) ? 0 : chance(rng, 2) ? CP_HEADS_ALL : CP_HEADS_SOME;
    d.sequence = chance(rng, 2);
    d.schedule = SCHEDULES[rng_below(rng, COUNT_OF(SCHEDULES))];
    d.pieces = d.schedule && strcmp(d.schedule, "interleaved") == 0 ? 2 : 0;
    d.segments = d.schedule && strcmp(d.schedule, "aiao") == 0 ? 1 + rng_below(rng, 3) : 0;
    d.global_batch = d.dp * d.micro_batch * (1 + rng_below(rng, 4));
    d.shard = (int)rng_below(rng, 4);
    d.recompute = (enum recompute)rng_below(rng, RECOMPUTE_COUNT);
    d.offload = chance(rng, 3);
    return plan_from_degrees(model, cluster, &d, out);
}

/* ---- plans cut at random --------------------------------------------------------------------- */

static void draw_cuts(struct rng *rng, int64_t instances, int64_t parts, int64_t *cut)
{
    int64_t first = 0;
    for (int64_t k = 0; k < parts - 1; k++) {
        int64_t left = parts - 1 - k, spare = instances - first - left - 1;
        first += 1 + rng_below(rng, 1 + 2 * spare / (left + 1));
        cut[k] = first;
    }
}

static weft_status draw_map(struct rng *rng, const struct model *model,
                            const struct cluster *cluster, struct plan **out)
{
    enum { MOST_STAGES = 4, MOST_PIECES = 3 };
    struct plan *plan = NULL;
    int64_t all = cluster_devices(cluster), devices[MOST_STAGES], cut[MOST_STAGES * MOST_PIECES];
    int32_t stages = (int32_t)(1 + rng_below(rng, all < MOST_STAGES ? all : MOST_STAGES));
    int64_t pieces = chance(rng, 2) ? 1 : 1 + rng_below(rng, MOST_PIECES), left = all;
    weft_status status;
    for (int32_t s = 0; s < stages; s++) {
        int64_t most = left - (stages - 1 - s);
        devices[s] = s == stages - 1 ? left : 1 + rng_below(rng, most);
        if (chance(rng, 2) && all % stages == 0 && s < stages - 1 && most >= all / stages)
            devices[s] = all / stages;
        left -= devices[s];
    }
    TRY(plan_new(model, cluster, &plan));
    pieces = stages * pieces > plan->instances ? 1 : pieces;
    draw_cuts(rng, plan->instances, stages * pieces, cut);
    TRY(plan_map(plan, stages, pieces, cut, devices));
    static const int64_t BATCHES[] = {1, 2, 4, 6, 12, 16};
    plan->step_samples = BATCHES[rng_below(rng, COUNT_OF(BATCHES))];
    plan->global_batch = plan->step_samples * (1 + rng_below(rng, 4));
    plan->schedule = pieces > 1       ? (chance(rng, 2) ? "aiao" : "interleaved")
                     : chance(rng, 3) ? "zb-h1"
                     : chance(rng, 2) ? "gpipe"
                                      : "1f1b";
    choose_splits(rng, plan, 1);
    choose_rest(rng, plan);
    *out = plan;
    plan = NULL;
done:
    plan_free(plan);
    return status;
}

/* A plan that passes plan_check. */
static inline struct plan *random_plan(struct rng *rng, const struct model *model,
                                       const struct cluster *cluster)
{
    for (;;) {
        struct plan *plan = NULL;
        weft_status status = chance(rng, 2) ? draw_map(rng, model, cluster, &plan)
                                            : draw_degrees(rng, model, cluster, &plan);
        if (status == WEFT_OK) {
            choose_overlap(rng, plan);
            if (chance(rng, 3))
                choose_splits(rng, plan, 1 + rng_below(rng, 8));
            if (chance(rng, 4))
                choose_rest(rng, plan);
            if (plan_check(plan) == WEFT_OK)
                return plan;
        }
        plan_free(plan);
    }
}

#endif
