/* layer_profile.h - what layers cost by measurements of whole layers, as Galvatron profiles them
 * (Galvatron-BMW, section V): a source of costs for layer_search.h that needs no model and no links.
 *
 * On b = samples / dp samples a device, with t ns of forward pass a sample, w bytes of weights, x bytes
 * of input a sample, r the measured bus rate of a group, k the overlap slowdown, P stages:
 *
 *   forward = t b / tp,   backward = 2 forward;   recompute: backward = 3 forward                (1)
 *   tensor  = n 2 (tp - 1) / tp b x / r of n all-reduces in both passes;   recompute: 1.5 n      (2)
 *   sync    = 2 (dp - 1) / dp w / tp / r, all gradients;   gather = sync / 2, all weights        (3)
 *   slow(c, s) = (k - 1) min(c, s),   rest(c, s) = max(s - c, 0)                                 (4)
 *
 * Sending for s ns beside computing for c slows both by k while they overlap: slow() is what that
 * adds to c, rest() what is left to send then. With s = gather in each backward pass of SDP, and s =
 * sync in the last one:
 *
 *   steady = forward + backward + tensor;   SDP: + gather + (slow + rest)(backward, gather)      (5)
 *   once   = slow(backward, sync) + rest(backward, sync) / P, less what (5) has of them          (6)
 *
 *   states = 4 w / tp (fp32: weight, gradient, two moments);   SDP: (1 / dp + margin) of that
 *   kept   = activations by TP degree as measured (parts are replicated);   recompute: x b
 *   peak   = recompute: the layer's activations
 *
 *   I1  In (6) the passes that are slowed down follow each other, stage by stage, so they add up;
 *       what is left to send goes on in all stages at once, and Eq. 9's sum over stages is to hold
 *       it once.
 *   I2  Embedding and head are no layers here but what the first and the last stage take beside
 *       theirs: split over all devices by samples, never by weights. Nothing hides the first
 *       stage's gradients, which are ready last; the last stage's hide behind the other stages.
 *   I3  A device computes whole samples.
 *   I4  All times are multiplied with the profile's estimate_factor, where it has one: what its
 *       authors found an iteration to take beyond its layers (optimizer, embedding, head, host).
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
    double shard_margin;  /* of a layer's states, that SDP holds beyond its share */
    /* Of a sample's activations on the first and the last of several stages, what only the
     * micro-batch at work needs. */
    int64_t end_peak_bytes[2];
};

/* Everything is read at once; `profile` may be closed after it. */
weft_status layer_profile_source(struct arena *keep, struct profile *profile,
                                 const struct measured_model *model, struct layer_source *out);

/* Under GPipe all samples of an iteration are held at once, where the search counts 1F1B's
 * micro-batches in flight; 0: as the search counts. */
void layer_profile_hold(struct layer_source *source, int64_t samples);

#endif
