/* subject.h - a small model, a plan of it and what is predicted, for tests of memory. */
#ifndef WEFT_TESTS_SUBJECT_H
#define WEFT_TESTS_SUBJECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

struct subject {
    struct model *model;
    struct cluster *cluster;
    struct plan *plan;
    struct prediction *prediction;
};

static inline void drop(struct subject *s)
{
    prediction_free(s->prediction);
    if (s->plan)
        plan_free(s->plan);
    cluster_free(s->cluster);
    model_free(s->model);
}

static inline struct model *family(const char *name, const char *options)
{
    const struct family *const *families;
    size_t count = model_families(&families);
    struct arena *scratch = arena_new();
    struct doc *doc;
    struct model *model = NULL;
    char text[512];
    snprintf(text, sizeof text, "{%s}", options);
    assert_int_equal(doc_parse(scratch, "options", text, strlen(text), DOC_YAML, &doc), WEFT_OK);
    for (size_t i = 0; i < count; i++)
        if (strcmp(families[i]->name, name) == 0)
            assert_int_equal(family_build(families[i], "small", "test", doc, &model), WEFT_OK);
    assert_non_null(model);
    arena_free(scratch);
    return model;
}

/* False where the degrees fit neither the model nor the schedule. */
static inline bool predict(struct model *model, const char *cluster, const struct degrees *degrees,
                           const struct simulate_options *options, struct subject *out)
{
    *out = (struct subject){.model = model};
    assert_int_equal(cluster_open(cluster, &out->cluster), WEFT_OK);
    if (plan_from_degrees(model, out->cluster, degrees, &out->plan) || plan_check(out->plan)) {
        drop(out);
        return false;
    }
    assert_int_equal(simulate(out->plan, options, &out->prediction), WEFT_OK);
    return true;
}

static inline int64_t state_of(const struct subject *s, int32_t stage)
{
    int64_t bytes = 0;
    for (int k = 0; k < MEMORY_CLASS_COUNT; k++)
        bytes += s->prediction->stage[stage].memory.state[k];
    return bytes;
}

static const struct part_lifetimes *part_of(const struct subject *s, int32_t part)
{
    return &s->prediction->graph->lifetimes->part[part];
}

/* What one micro-batch of a part keeps for its backward pass; `away`: in host memory. */
static inline int64_t kept(const struct subject *s, int32_t part, bool away)
{
    const struct part_lifetimes *l = part_of(s, part);
    int64_t bytes = 0;
    for (int32_t i = 0; i < l->lives; i++)
        if (l->life[i].born_in == SLOT_FORWARD && l->life[i].dies_in != SLOT_FORWARD &&
            l->life[i].offloaded == away)
            bytes += l->life[i].bytes;
    return bytes;
}

static inline const struct lifetime *find_life(const struct subject *s, int32_t part,
                                               const char *path, enum held held)
{
    const struct part_lifetimes *l = part_of(s, part);
    struct arena *scratch = arena_new();
    const struct lifetime *found = NULL;
    for (int32_t i = 0; i < l->lives && !found; i++)
        if (l->life[i].held == held &&
            strcmp(plan_path(scratch, s->plan, l->life[i].instance), path) == 0)
            found = &l->life[i];
    arena_free(scratch);
    if (!found)
        fail_msg("%s has no %s", path, held_name(held));
    return found;
}

/* h is so large that the ids of all micro-batches, 8 bytes a token against 2 h of a checkpoint, do
 * not make another one. */
static inline struct model *uniform(int64_t layers)
{
    char options[128];
    snprintf(options, sizeof options,
             "layers: %lld, hidden: 512, heads: 4, ffn: 64, seq: 8, vocab: 16", (long long)layers);
    return family("llama", options);
}
enum { CHECKPOINT = 8 * 512 * 2 }; /* bytes: 8 tokens */

#endif
