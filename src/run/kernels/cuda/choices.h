/* choices.h - by which of cuBLASLt's algorithms products are computed, where that was measured; private to the room.
 *
 *   I1  A choice is of a product's sizes, steps, types and addresses up to multiples of 16 bytes: more no algorithm asks for.
 *   I2  Another way than cuBLASLt's first is chosen only if it was quicker by more than a hundredth in at least 13 of 15 rounds in
 *       which all were timed in turn. If the two were equally quick this would happen in 0.4 % of cases (binomial), so
 *       noise of the clock does not change a choice.
 */
#ifndef WEFT_RUN_KERNELS_CUDA_CHOICES_H
#define WEFT_RUN_KERNELS_CUDA_CHOICES_H

#include "run/kernels/cuda/gemm.h"

enum { ALGORITHM_WORDS = 8 }; /* of a cublasLtMatmulAlgo_t, which may be stored as it is */
struct chosen_gemm {
    struct gemm gemm; /* by choice_key */
    uint64_t algorithm[ALGORITHM_WORDS];
    int64_t place;
    double ns, first_ns;
    bool found; /* by measuring in this process */
};

/* ---- words ----------------------------------------------------------------------------------- */

const char *gemm_text(struct arena *keep, const struct gemm *gemm);
bool gemm_from_text(const char *text, struct gemm *out);
const char *algorithm_text(struct arena *keep, const uint64_t *algorithm);
bool algorithm_from_text(const char *text, uint64_t *out);

/* ---- the list, whose users hold gemm.c's lock ------------------------------------------------- */

struct gemm choice_key(const struct gemm *gemm);              /* I1 */
const struct chosen_gemm *choice_of(const struct gemm *gemm); /* NULL: there is none */
void choice_add(const struct chosen_gemm *chosen);
size_t choices_found(struct arena *keep, size_t first, struct product_choice **out);

/* ---- the decision ---------------------------------------------------------------------------- */

enum { CHOICE_ROUNDS = 15 };
/* The way to take of `ways`, by I2; seconds of way w in round r are seconds[w][r], infinite if it was refused. */
int quickest_way(int ways, double seconds[][CHOICE_ROUNDS]);
double median_of_rounds(const double *seconds);

#endif
