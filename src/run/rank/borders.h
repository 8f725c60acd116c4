/* borders.h - inputs that an operator reads beyond its part; private to the room. */
#ifndef WEFT_RUN_RANK_BORDERS_H
#define WEFT_RUN_RANK_BORDERS_H

#include "run/rank/room.h"

/* Rows of an image, or columns, that this device has a part of (image_borders.c). */
struct border_axis {
    int axis;                   /* of the image: 0 height, 1 width */
    int64_t parts, index;       /* this device's part */
    int64_t own, inner;         /* rows of a part, and elements of a row of it */
    struct image_rows rows;     /* that a call is given */
    int32_t group;              /* of all parts where they are gathered, else -1 */
    int32_t beside[2];          /* pairs with the device before and after, -1: there is none */
    int64_t takes[2], gives[2]; /* rows, from and to these */
};

struct border_moves {
    /* of an image: the axes that are in parts, height before width; 0: it is gathered */
    int32_t axes;
    struct border_axis axis[2];
    /* of the part, of its gradient (addends, where outputs are in parts, too), and with all rows and columns */
    struct layout layout, gradient, source;
    int32_t group;
    struct move gather[CALL_INPUTS], give_back[CALL_INPUTS];
};

weft_status find_border(struct rank *r, struct local_op *local_op);
/* Of one input: the whole of the group's parts; room for its gradient, an addend of the whole; and the
 * own part of the sum of these. Gathering and giving back take over a reference. */
struct value *border_gather(struct rank *r, const struct border_moves *border, int32_t operand,
                            struct value *value);
struct value *border_room(struct rank *r, const struct border_moves *border, int32_t operand,
                          enum dtype dtype);
struct value *border_give_back(struct rank *r, const struct border_moves *border, int32_t operand,
                               struct value *value);

/* ---- image_borders.c ---- */
weft_status find_image_border(struct rank *r, struct local_op *local_op);
struct value *image_gather(struct rank *r, const struct border_moves *border, struct value *value);
struct value *image_room(struct rank *r, const struct border_moves *border, enum dtype dtype);
struct value *image_give_back(struct rank *r, const struct border_moves *border,
                              struct value *value);
/* Out of images with all rows and columns, those that a call is given. Takes over a reference. */
struct value *image_cut(struct rank *r, const struct border_moves *border, struct value *value);
/* The rows and columns that a call is given (kernels.h, I5). */
void image_rows_of(const struct local_op *local_op, struct image_rows *out);

#endif
