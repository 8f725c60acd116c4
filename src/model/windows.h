/* windows.h - which rows of an image some outputs of a convolution or pooling read; part of model.h.
 *
 * Along height or width, a window of k places and stride s over an image of n rows with p rows of padding before it
 * reads for the outputs [b, e)
 *
 *   [max(0, b s - p), min(n, (e - 1) s + k - p))                                                 (1)
 *
 * Of d equal parts of the outputs, part v has the rows [v n / d, (v + 1) n / d) of the image to begin with. What it reads
 * beyond them is its *halo*, which its neighbours have.
 *
 *   I1  A model keeps sizes, not paddings: the padding is the least one that gives the output its size.
 *   I2  A part that reads beyond its neighbours' rows, too, is given the whole image: `whole`.
 */
#ifndef WEFT_MODEL_WINDOWS_H
#define WEFT_MODEL_WINDOWS_H

#include "model/model.h"

/* Rows first .. end - 1, or columns. */
struct image_rows {
    int64_t first, end;
};

/* Of d parts: rows that one has to begin with; the most that any has with its halo; the most that any gets or gives. */
struct halo {
    int64_t own, rows, moved;
    bool whole; /* I2 */
};

/* The axis of the image along a dim (its place in the kind's row) whose windows may reach over a border; -1: none. */
int window_axis_of(const struct op *op, int place);
int64_t window_pad(const struct op *op, int place);
/* What one of `parts` has and reads: its own rows and its halo, or the whole (I2). */
struct image_rows window_rows(const struct op *op, int place, int64_t parts, int64_t part);
struct halo window_halo(const struct op *op, int place, int64_t parts);

#endif
