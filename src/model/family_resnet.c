/* family_resnet.c - residual networks: ResNet, and Wide-ResNet in its two public readings.
 *
 *   stem        7x7 convolution with stride 2, 3x3 maximum with stride 2
 *   stage s     blocks of p = channels * 2^s; the first block of s > 0 halves the image
 *   basic       3x3 (p) - 3x3 (p)                          plus the input
 *   bottleneck  1x1 (p') - 3x3 (p w) - 1x1 (4p)            plus the input
 *
 * `widen` says what the width factor w widens: torchvision's wide_resnet the first two convolutions
 * of a bottleneck (p' = p w), Alpa's and Aceso's only the 3x3 (p' = p). Where the shape changes, the
 * input passes a 1x1 convolution (`downsample`).
 *
 * I1  Blocks 1.. of a stage are equal, and so is block 0 where it needs no downsample: they are
 *     stored once.
 */
#include "model/cnn.h"
#include "model/families.h"

enum { MAX_STAGES = 4, MAX_BLOCKS = 1000, MAX_WIDTH = 64 };
enum residual_block { BLOCK_BASIC, BLOCK_BOTTLENECK };
enum widen { WIDEN_BOTH, WIDEN_CONV2 };

struct resnet_options {
    int block, widen;
    const struct doc *blocks;
    int64_t channels, width, classes, image;
};

static const struct resnet_options DEFAULTS = {
    .block = BLOCK_BOTTLENECK, .channels = 64, .width = 1, .classes = 1000, .image = 224};

static const char *const BLOCKS[] = {"basic", "bottleneck", NULL};
static const char *const WIDENS[] = {"both", "conv2", NULL};

static const struct field FIELDS[] = {
    OPTION_CHOICE(struct resnet_options, block, BLOCKS),
    {"blocks", FIELD_DOC, offsetof(struct resnet_options, blocks)},
    OPTION_COUNT(struct resnet_options, channels, CNN_MAX_CHANNELS),
    OPTION_COUNT(struct resnet_options, width, MAX_WIDTH),
    OPTION_CHOICE(struct resnet_options, widen, WIDENS),
    OPTION_COUNT(struct resnet_options, classes, CNN_MAX_CLASSES),
    OPTION_COUNT(struct resnet_options, image, CNN_MAX_IMAGE),
};

/* The channels of one block's convolutions, in order, and the stride of its 3x3 convolution. */
struct block_shape {
    int64_t first, middle, out, stride;
};

static struct block_shape stage_shape(const struct resnet_options *o, int stage)
{
    int64_t channels = o->channels << stage;
    int64_t stride = stage ? 2 : 1;
    if (o->block == BLOCK_BASIC)
        return (struct block_shape){channels, channels, channels, stride};
    int64_t wide = channels * o->width;
    return (struct block_shape){o->widen == WIDEN_BOTH ? wide : channels, wide, 4 * channels,
                                stride};
}

static int downsample(struct builder *b, int x, const struct block_shape *shape)
{
    struct window w = square(1, shape->stride, 0);
    build_module(b, "downsample");
    x = build_batch_norm(b, "1", build_conv(b, "0", x, shape->out, &w, 1, false));
    build_module_end(b);
    return x;
}

static int add_input(struct builder *b, int y, int x, const struct block_shape *shape, bool reshape)
{
    if (reshape)
        x = downsample(b, x, shape);
    return build_relu(b, "relu", build_add(b, "add", y, x));
}

static int basic(struct builder *b, int x, const struct block_shape *shape, bool reshape)
{
    struct window first = square(3, shape->stride, 1), second = square(3, 1, 1);
    int y = build_conv(b, "conv1", x, shape->first, &first, 1, false);
    y = build_relu(b, "relu1", build_batch_norm(b, "bn1", y));
    y = build_conv(b, "conv2", y, shape->out, &second, 1, false);
    return add_input(b, build_batch_norm(b, "bn2", y), x, shape, reshape);
}

static int bottleneck(struct builder *b, int x, const struct block_shape *shape, bool reshape)
{
    struct window point = square(1, 1, 0), middle = square(3, shape->stride, 1);
    int y = build_conv(b, "conv1", x, shape->first, &point, 1, false);
    y = build_relu(b, "relu1", build_batch_norm(b, "bn1", y));
    y = build_conv(b, "conv2", y, shape->middle, &middle, 1, false);
    y = build_relu(b, "relu2", build_batch_norm(b, "bn2", y));
    y = build_conv(b, "conv3", y, shape->out, &point, 1, false);
    return add_input(b, build_batch_norm(b, "bn3", y), x, shape, reshape);
}

static int build_block(struct builder *b, const struct resnet_options *o, int x,
                       const struct block_shape *shape, bool reshape)
{
    static int (*const BUILD[])(struct builder *, int, const struct block_shape *,
                                bool) = {[BLOCK_BASIC] = basic, [BLOCK_BOTTLENECK] = bottleneck};
    return BUILD[o->block](b, x, shape, reshape);
}

static int build_stage(struct builder *b, const struct resnet_options *o, int x, int stage,
                       int64_t blocks)
{
    const char *name = arena_printf(b->arena, "layer%d", stage + 1);
    struct block_shape shape = stage_shape(o, stage);
    int64_t special = 0;
    if (stage > 0 || shape.out != o->channels) {
        build_module_indexed(b, name, 0);
        x = build_block(b, o, x, &shape, true);
        build_module_end(b);
        special = 1;
    }
    if (blocks == special)
        return x;
    shape.stride = 1;
    x = build_repeat_from(b, name, blocks - special, special, 1, x); /* I1 */
    return build_repeat_end(b, build_block(b, o, x, &shape, false));
}

static weft_status read_blocks(const struct resnet_options *o, int64_t *blocks, size_t *stages)
{
    const struct counts_rule rule = {1, MAX_STAGES, MAX_BLOCKS};
    if (o->blocks)
        return read_counts(o->blocks, &rule, blocks, stages);
    static const int64_t FIFTY[] = {3, 4, 6, 3};
    for (*stages = 0; *stages < COUNT_OF(FIFTY); ++*stages)
        blocks[*stages] = FIFTY[*stages];
    return WEFT_OK;
}

static weft_status check(const struct resnet_options *o, const struct doc *where)
{
    if (o->block == BLOCK_BASIC && o->width > 1)
        return doc_error(
            option_at(where, "width"), "use block: bottleneck, or widen everything with 'channels'",
            "'width' is %lld, but basic blocks have nothing inside to widen", (long long)o->width);
    return WEFT_OK;
}

static void build_network(struct builder *b, const struct resnet_options *o, const int64_t *blocks,
                          size_t stages)
{
    struct window stem = square(7, 2, 3), pool = square(3, 2, 1);
    int x = build_image(b, 3, o->image, o->image);
    x = build_conv(b, "conv1", x, o->channels, &stem, 1, false);
    x = build_relu(b, "relu", build_batch_norm(b, "bn1", x));
    x = build_max_pool(b, "maxpool", x, &pool);
    for (size_t s = 0; s < stages; s++) {
        x = build_stage(b, o, x, (int)s, blocks[s]);
        b->model->layers += blocks[s];
    }
    x = build_global_pool(b, "avgpool", x);
    build_loss(b, "loss", build_linear(b, "fc", x, o->classes, true));
    b->model->dtype = DTYPE_FP32;
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct resnet_options *o = options;
    int64_t blocks[MAX_STAGES];
    size_t stages = 0;
    weft_status status;
    TRY(check(o, where));
    TRY(read_blocks(o, blocks, &stages));
    build_network(b, o, blocks, stages);
done:
    return status;
}

const struct family FAMILY_RESNET =
    FAMILY_OF("resnet", "residual networks of basic or bottleneck blocks, wide ones too");
