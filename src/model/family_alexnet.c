/* family_alexnet.c - AlexNet as torchvision has it (the one-column variant): five convolutions,
 * three linear layers. */
#include "model/cnn.h"
#include "model/families.h"

enum { GRID = 6, HIDDEN = 4096 };
/* The grid needs an image of 13 before the last pool, 27 before the second and 55 before the first:
 * (223 + 2 * 2 - 11) / 4 + 1 = 55. */
enum { SMALLEST_IMAGE = 223 };

struct alexnet_options {
    int64_t classes, image;
};

static const struct alexnet_options DEFAULTS = {.classes = 1000, .image = 224};

static const struct field FIELDS[] = {
    OPTION_COUNT(struct alexnet_options, classes, CNN_MAX_CLASSES),
    {"image", FIELD_COUNT, offsetof(struct alexnet_options, image), .min = SMALLEST_IMAGE,
     .max = CNN_MAX_IMAGE},
};

/* A convolution with its activation; some are followed by a maximum pool, 3x3 with stride 2. */
static const struct layer {
    const char *conv, *relu, *pool;
    int64_t channels, kernel, stride, pad;
} LAYERS[] = {
    {"0", "1", "2", 64, 11, 4, 2},    {"3", "4", "5", 192, 5, 1, 2},
    {"6", "7", NULL, 384, 3, 1, 1},   {"8", "9", NULL, 256, 3, 1, 1},
    {"10", "11", "12", 256, 3, 1, 1},
};

static int features(struct builder *b, int x)
{
    struct window pool = square(3, 2, 0);
    build_module(b, "features");
    for (const struct layer *l = LAYERS; l < LAYERS + COUNT_OF(LAYERS); l++) {
        struct window w = square(l->kernel, l->stride, l->pad);
        x = build_relu(b, l->relu, build_conv(b, l->conv, x, l->channels, &w, 1, true));
        if (l->pool)
            x = build_max_pool(b, l->pool, x, &pool);
    }
    build_module_end(b);
    return x;
}

static int classifier(struct builder *b, const struct alexnet_options *o, int x)
{
    build_module(b, "classifier");
    x = build_linear(b, "1", build_dropout(b, "0", x), HIDDEN, true);
    x = build_dropout(b, "3", build_relu(b, "2", x));
    x = build_relu(b, "5", build_linear(b, "4", x, HIDDEN, true));
    x = build_linear(b, "6", x, o->classes, true);
    build_module_end(b);
    return x;
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct alexnet_options *o = options;
    (void)where; /* every bound is in FIELDS */
    int x = features(b, build_image(b, 3, o->image, o->image));
    x = build_pool_onto(b, "avgpool", x, GRID);
    build_loss(b, "loss", classifier(b, o, build_flatten(b, x)));
    b->model->layers = 8;
    b->model->dtype = DTYPE_FP32;
    return WEFT_OK;
}

const struct family FAMILY_ALEXNET = FAMILY_OF("alexnet", "five convolutions, three linear layers");
