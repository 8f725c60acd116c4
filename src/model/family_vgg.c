/* family_vgg.c - VGG: stages of 3x3 convolutions between 2x2 maxima, three large linear layers.
 *
 * Names and numbering are torchvision's: `features` counts every convolution, norm, activation and
 * pool; `classifier` every linear layer, activation and dropout.
 */
#include "model/cnn.h"
#include "model/families.h"

enum { STAGES = 5, GRID = 7, HIDDEN = 4096, DEPTHS = 4 };
enum { SMALLEST_IMAGE = GRID << STAGES }; /* each pool halves it, down to the grid */

struct vgg_options {
    int depth;
    bool batch_norm;
    int64_t classes, image;
};

/* Layers with weights: convolutions per stage, and three linear. */
static const char *const DEPTH[DEPTHS + 1] = {"11", "13", "16", "19", NULL};
static const int64_t LAYERS[DEPTHS] = {11, 13, 16, 19};
static const int CONVOLUTIONS[DEPTHS][STAGES] = {
    {1, 1, 2, 2, 2}, {2, 2, 2, 2, 2}, {2, 2, 3, 3, 3}, {2, 2, 4, 4, 4}};
static const int64_t CHANNELS[STAGES] = {64, 128, 256, 512, 512};

static const struct vgg_options DEFAULTS = {.depth = 2, .classes = 1000, .image = SMALLEST_IMAGE};

static const struct field FIELDS[] = {
    OPTION_CHOICE(struct vgg_options, depth, DEPTH),
    OPTION_BOOL(struct vgg_options, batch_norm),
    OPTION_COUNT(struct vgg_options, classes, CNN_MAX_CLASSES),
    {"image", FIELD_COUNT, offsetof(struct vgg_options, image), .min = SMALLEST_IMAGE,
     .max = CNN_MAX_IMAGE},
};

static const char *number(struct builder *b, int *next)
{
    return arena_printf(b->arena, "%d", (*next)++);
}

static int features(struct builder *b, const struct vgg_options *o, int x)
{
    struct window conv = square(3, 1, 1), pool = square(2, 2, 0);
    int next = 0;
    build_module(b, "features");
    for (int stage = 0; stage < STAGES; stage++) {
        for (int i = 0; i < CONVOLUTIONS[o->depth][stage]; i++) {
            x = build_conv(b, number(b, &next), x, CHANNELS[stage], &conv, 1, true);
            if (o->batch_norm)
                x = build_batch_norm(b, number(b, &next), x);
            x = build_relu(b, number(b, &next), x);
        }
        x = build_max_pool(b, number(b, &next), x, &pool);
    }
    build_module_end(b);
    return x;
}

static int classifier(struct builder *b, const struct vgg_options *o, int x)
{
    build_module(b, "classifier");
    x = build_relu(b, "1", build_linear(b, "0", x, HIDDEN, true));
    x = build_dropout(b, "2", x);
    x = build_relu(b, "4", build_linear(b, "3", x, HIDDEN, true));
    x = build_dropout(b, "5", x);
    x = build_linear(b, "6", x, o->classes, true);
    build_module_end(b);
    return x;
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct vgg_options *o = options;
    (void)where; /* every bound is in FIELDS */
    int x = features(b, o, build_image(b, 3, o->image, o->image));
    x = build_pool_onto(b, "avgpool", x, GRID);
    build_loss(b, "loss", classifier(b, o, build_flatten(b, x)));
    b->model->layers = LAYERS[o->depth];
    b->model->dtype = DTYPE_FP32;
    return WEFT_OK;
}

const struct family FAMILY_VGG =
    FAMILY_OF("vgg", "3x3 convolutions in five stages, three linear layers");
