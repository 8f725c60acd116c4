/* layer_profile.h - costs of layers from measurements of whole layers, as Galvatron profiles them
 * (Galvatron-BMW, section V): a source of costs for layer_search.h that needs no model and no links.
 *
 * With b = samples / dp samples per device, t ns of forward pass per sample, w bytes of weights, x bytes of
 * input per sample, the measured bus rate r of a group, the overlap slowdown k, and P stages:
 *
 *   forward = t b / tp,   backward = 2 forward;   recompute: backward = 3 forward                (1)
 *   tensor  = n 2 (tp - 1) / tp b x / r of n all-reduces in both passes;   recompute: 1.5 n      (2)
 *   sync    = 2 (dp - 1) / dp w / tp / r, all gradients;   gather = sync / 2, all weights        (3)
 *   slow(c, s) = (k - 1) min(c, s),   rest(c, s) = max(s - c, 0)                                 (4)
 *
 * Sending for s ns while computing for c ns slows both by the factor k as long as they overlap. slow() is
 * what that adds to c, and rest() is what then remains to be sent. With s = gather in each backward pass of
 * SDP, and s = sync in the last one:
 *
 *   steady = forward + backward + tensor;   SDP: + gather + (slow + rest)(backward, gather)      (5)
 *   once   = slow(backward, sync) + rest(backward, sync) / P, less what (5) has of them          (6)
 *
 *   states = 4 w / tp (fp32: weight, gradient, two moments);   SDP: (1 / dp + margin) of that
 *   kept   = activations by TP degree as measured (parts are replicated);   recompute: x b
 *   peak   = recompute: the layer's activations
 *
 *   I1  In (6) the passes that are slowed down follow each other, stage by stage, so they add up. What
 *       remains to be sent is sent in all stages at once, so Eq. 9's sum over stages must contain it once.
 *   I2  Embedding and head are not layers here; the first and the last stage have them besides their
 *       layers, split over all devices by samples, never by weights. Nothing overlaps with the gradients
 *       of the first stage, which are ready last; those of the last stage overlap with the other stages.
 *   I3  A device computes whole samples.
 *   I4  All times are multiplied by the profile's estimate_factor, if it has one. It is what its authors
 *       found an iteration to take beyond its layers (optimizer, embedding, head, host).
 */
#ifndef WEFT_LAB_LAYER_PROFILE_H
#define WEFT_LAB_LAYER_PROFILE_H

#include "search/search.h"

enum { MEASURED_RUNS = 4 };
struct measured_model {
    const char *device;  /* "RTX-TITAN" */
    const char *profile; /* the model's name in the database: "bert-1280" */
    int32_t runs;
    struct {
        int32_t layer; /* its number in the profile */
        int32_t count;
    } run[MEASURED_RUNS]; /* in the order of the model */
    double shard_margin;  /* share of a layer's state that SDP holds beyond its own */
    /* The part of a sample's activations on the first and on the last of several stages that only the
     * micro-batch in progress needs. */
    int64_t end_peak_bytes[2];
};

/* Reads everything at once; `profile` may be closed afterwards. */
weft_status layer_profile_source(struct arena *keep, struct profile *profile,
                                 const struct measured_model *model, struct layer_source *out);

/* For GPipe, which holds all samples of an iteration at once, whereas the search counts the micro-batches that 1F1B
 * has in flight. With 0 samples the count of the search is used. */
void layer_profile_hold(struct layer_source *source, int64_t samples);

#endif
