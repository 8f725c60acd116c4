/* family_inception.c - Inception v3 as torchvision has it.
 *
 * A mixed block sends its input through branches of convolutions and concatenates their outputs. A
 * block is written as a table of units: each reads the block's input or an earlier unit, and those
 * marked JOINS make up the block's output. (Two of torchvision's blocks first join a branch by
 * itself; here one concatenation takes all parts.)
 *
 * Every convolution has no bias and is followed by a norm and an activation.
 */
#include "model/cnn.h"
#include "model/families.h"

#include <string.h>

enum { MAX_UNITS = 16 };
/* The stem and three halvings reduce 75 pixels to one: (75-3)/2+1 = 37, 35, 17, 15, 7; 3; 1. */
enum { SMALLEST_IMAGE = 75 };

struct inception_options {
    bool aux;
    int64_t classes, image;
};

static const struct inception_options DEFAULTS = {.classes = 1000, .image = 299};

static const struct field FIELDS[] = {
    OPTION_BOOL(struct inception_options, aux),
    OPTION_COUNT(struct inception_options, classes, CNN_MAX_CLASSES),
    {"image", FIELD_COUNT, offsetof(struct inception_options, image), .min = SMALLEST_IMAGE,
     .max = CNN_MAX_IMAGE},
};

enum unit_kind { UNIT_CONV, UNIT_AVERAGE, UNIT_MAXIMUM };
/* what a unit reads: the block's input, the unit before, or unit i */
enum { INPUT = -1, LAST = -2 };
enum { BLOCK_CHANNELS = 0 }; /* the block's row gives the number of channels */
enum { INSIDE = false, JOINS = true };

struct unit {
    const char *name;
    int from;
    int64_t channels;
    struct window window;
    bool joins;
    enum unit_kind kind;
};

#define POINT   {1, 1, 1, 0, 0}
#define SQUARE3 {3, 3, 1, 1, 1}
#define SQUARE5 {5, 5, 1, 2, 2}
#define HALVE3  {3, 3, 2, 0, 0}
#define ROW3    {1, 3, 1, 0, 1}
#define COLUMN3 {3, 1, 1, 1, 0}
#define ROW7    {1, 7, 1, 0, 3}
#define COLUMN7 {7, 1, 1, 3, 0}

static const struct unit BLOCK_A[] = {
    {"branch1x1", INPUT, 64, POINT, JOINS},
    {"branch5x5_1", INPUT, 48, POINT, INSIDE},
    {"branch5x5_2", LAST, 64, SQUARE5, JOINS},
    {"branch3x3dbl_1", INPUT, 64, POINT, INSIDE},
    {"branch3x3dbl_2", LAST, 96, SQUARE3, INSIDE},
    {"branch3x3dbl_3", LAST, 96, SQUARE3, JOINS},
    {"pool", INPUT, 0, SQUARE3, INSIDE, UNIT_AVERAGE},
    {"branch_pool", LAST, BLOCK_CHANNELS, POINT, JOINS},
    {NULL},
};
static const struct unit BLOCK_B[] = {
    {"branch3x3", INPUT, 384, HALVE3, JOINS},        {"branch3x3dbl_1", INPUT, 64, POINT, INSIDE},
    {"branch3x3dbl_2", LAST, 96, SQUARE3, INSIDE},   {"branch3x3dbl_3", LAST, 96, HALVE3, JOINS},
    {"pool", INPUT, 0, HALVE3, JOINS, UNIT_MAXIMUM}, {NULL},
};
static const struct unit BLOCK_C[] = {
    {"branch1x1", INPUT, 192, POINT, JOINS},
    {"branch7x7_1", INPUT, BLOCK_CHANNELS, POINT, INSIDE},
    {"branch7x7_2", LAST, BLOCK_CHANNELS, ROW7, INSIDE},
    {"branch7x7_3", LAST, 192, COLUMN7, JOINS},
    {"branch7x7dbl_1", INPUT, BLOCK_CHANNELS, POINT, INSIDE},
    {"branch7x7dbl_2", LAST, BLOCK_CHANNELS, COLUMN7, INSIDE},
    {"branch7x7dbl_3", LAST, BLOCK_CHANNELS, ROW7, INSIDE},
    {"branch7x7dbl_4", LAST, BLOCK_CHANNELS, COLUMN7, INSIDE},
    {"branch7x7dbl_5", LAST, 192, ROW7, JOINS},
    {"pool", INPUT, 0, SQUARE3, INSIDE, UNIT_AVERAGE},
    {"branch_pool", LAST, 192, POINT, JOINS},
    {NULL},
};
static const struct unit BLOCK_D[] = {
    {"branch3x3_1", INPUT, 192, POINT, INSIDE},      {"branch3x3_2", LAST, 320, HALVE3, JOINS},
    {"branch7x7x3_1", INPUT, 192, POINT, INSIDE},    {"branch7x7x3_2", LAST, 192, ROW7, INSIDE},
    {"branch7x7x3_3", LAST, 192, COLUMN7, INSIDE},   {"branch7x7x3_4", LAST, 192, HALVE3, JOINS},
    {"pool", INPUT, 0, HALVE3, JOINS, UNIT_MAXIMUM}, {NULL},
};
static const struct unit BLOCK_E[] = {
    {"branch1x1", INPUT, 320, POINT, JOINS},
    {"branch3x3_1", INPUT, 384, POINT, INSIDE},
    {"branch3x3_2a", 1, 384, ROW3, JOINS},
    {"branch3x3_2b", 1, 384, COLUMN3, JOINS},
    {"branch3x3dbl_1", INPUT, 448, POINT, INSIDE},
    {"branch3x3dbl_2", LAST, 384, SQUARE3, INSIDE},
    {"branch3x3dbl_3a", 5, 384, ROW3, JOINS},
    {"branch3x3dbl_3b", 5, 384, COLUMN3, JOINS},
    {"pool", INPUT, 0, SQUARE3, INSIDE, UNIT_AVERAGE},
    {"branch_pool", LAST, 192, POINT, JOINS},
    {NULL},
};

static const struct unit STEM[] = {
    {"Conv2d_1a_3x3", INPUT, 32, HALVE3},
    {"Conv2d_2a_3x3", LAST, 32, {3, 3, 1, 0, 0}},
    {"Conv2d_2b_3x3", LAST, 64, SQUARE3},
    {"maxpool1", LAST, 0, HALVE3, INSIDE, UNIT_MAXIMUM},
    {"Conv2d_3b_1x1", LAST, 80, POINT},
    {"Conv2d_4a_3x3", LAST, 192, {3, 3, 1, 0, 0}},
    {"maxpool2", LAST, 0, HALVE3, JOINS, UNIT_MAXIMUM},
    {NULL},
};

/* The second classifier of the training recipe, after Mixed_6e. */
static const struct unit AUX[] = {
    {"pool", INPUT, 0, {5, 5, 3, 0, 0}, INSIDE, UNIT_AVERAGE},
    {"conv0", LAST, 128, POINT},
    {"conv1", LAST, 768, {5, 5, 1, 0, 0}, JOINS},
    {NULL},
};
/* Its 5x5 windows need an image of 17 after Mixed_6e: 17 pixels become 5, then 1. */
enum { SMALLEST_AUX_IMAGE = 299 };

static const struct {
    const char *name;
    const struct unit *units;
    int64_t channels;
} MIXED[] = {
    {"Mixed_5b", BLOCK_A, 32},  {"Mixed_5c", BLOCK_A, 64},  {"Mixed_5d", BLOCK_A, 64},
    {"Mixed_6a", BLOCK_B, 0},   {"Mixed_6b", BLOCK_C, 128}, {"Mixed_6c", BLOCK_C, 160},
    {"Mixed_6d", BLOCK_C, 160}, {"Mixed_6e", BLOCK_C, 192}, {"Mixed_7a", BLOCK_D, 0},
    {"Mixed_7b", BLOCK_E, 0},   {"Mixed_7c", BLOCK_E, 0},
};

static int build_unit(struct builder *b, const struct unit *unit, int x, int64_t channels)
{
    if (unit->kind == UNIT_AVERAGE)
        return build_pool(b, unit->name, x, &unit->window);
    if (unit->kind == UNIT_MAXIMUM)
        return build_max_pool(b, unit->name, x, &unit->window);
    build_module(b, unit->name);
    x = build_conv(b, "conv", x, channels, &unit->window, 1, false);
    x = build_relu(b, "relu", build_batch_norm(b, "bn", x));
    build_module_end(b);
    return x;
}

/* Builds the units in order; returns the concatenation of those that join. */
static int build_units(struct builder *b, const struct unit *units, int input, int64_t channels)
{
    int output[MAX_UNITS], joined[MAX_UNITS], joins = 0;
    for (int i = 0; units[i].name; i++) {
        int from = units[i].from == LAST ? i - 1 : units[i].from;
        int64_t wide = units[i].channels == BLOCK_CHANNELS ? channels : units[i].channels;
        output[i] = build_unit(b, &units[i], from == INPUT ? input : output[from], wide);
        if (units[i].joins)
            joined[joins++] = output[i];
    }
    return joins == 1 ? joined[0] : build_concat(b, "concat", joined, joins, 1);
}

static void build_aux(struct builder *b, int x, int64_t classes)
{
    build_module(b, "AuxLogits");
    x = build_global_pool(b, "avgpool", build_units(b, AUX, x, 0));
    build_loss(b, "loss", build_linear(b, "fc", x, classes, true));
    build_module_end(b);
}

static int build_mixed(struct builder *b, const struct inception_options *o, int x)
{
    for (size_t i = 0; i < COUNT_OF(MIXED); i++) {
        build_module(b, MIXED[i].name);
        x = build_units(b, MIXED[i].units, x, MIXED[i].channels);
        build_module_end(b);
        if (o->aux && strcmp(MIXED[i].name, "Mixed_6e") == 0)
            build_aux(b, x, o->classes);
    }
    return x;
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct inception_options *o = options;
    if (o->aux && o->image < SMALLEST_AUX_IMAGE)
        return doc_error(option_at(where, "image"), "leave 'aux' out, or make the image larger",
                         "'image' is %lld, expected at least %d with the auxiliary classifier",
                         (long long)o->image, SMALLEST_AUX_IMAGE);
    int x = build_units(b, STEM, build_image(b, 3, o->image, o->image), 0);
    x = build_mixed(b, o, x);
    x = build_dropout(b, "dropout", build_global_pool(b, "avgpool", x));
    build_loss(b, "loss", build_linear(b, "fc", x, o->classes, true));
    b->model->layers = COUNT_OF(MIXED);
    b->model->dtype = DTYPE_FP32;
    return WEFT_OK;
}

const struct family FAMILY_INCEPTION =
    FAMILY_OF("inception", "Inception v3: mixed blocks of parallel convolutions");
