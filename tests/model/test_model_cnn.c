/* test_model_cnn.c - the convolutional families and DLRM against their public numbers.
 *
 * Parameters are compared exactly with torchvision's documentation, multiply-adds within 1 %.
 * Aceso's Wide-ResNets are compared with the operator table that its authors profiled: the weights
 * of every convolution, norm and linear layer, and their sum. The sizes in the paper's names are in
 * tests/data/published_models.csv.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include <cmocka.h>

#include "model/model.h"

static struct model *open_model(const char *name, const char *overrides)
{
    struct model *model = NULL;
    if (model_open(name, overrides, &model) != WEFT_OK)
        fail_msg("%s: %s", name, weft_last_error()->message);
    return model;
}

/* ---- torchvision ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    double parameters;
    double gmacs; /* torchvision's "GFLOPS" are multiply-adds */
} PUBLISHED[] = {
    {"resnet-18", 11689512, 1.81},           {"resnet-34", 21797672, 3.66},
    {"resnet-50", 25557032, 4.09},           {"resnet-101", 44549160, 7.80},
    {"resnet-152", 60192808, 11.51},         {"wide-resnet-50-2", 68883240, 11.40},
    {"wide-resnet-101-2", 126886696, 22.75}, {"vgg-11", 132863336, 7.61},
    {"vgg-11-bn", 132868840, 7.61},          {"vgg-13", 133047848, 11.31},
    {"vgg-13-bn", 133053736, 11.31},         {"vgg-16", 138357544, 15.47},
    {"vgg-16-bn", 138365992, 15.47},         {"vgg-19", 143667240, 19.63},
    {"vgg-19-bn", 143678248, 19.63},         {"alexnet", 61100840, 0.71},
    {"inception-v3", 23834568, 5.71},
};

static void sizes_are_torchvisions(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(PUBLISHED); i++) {
        struct model *model = open_model(PUBLISHED[i].name, NULL);
        struct totals totals = model_totals(model, DTYPE_FP32);
        double gmacs = totals.flops[PHASE_FORWARD] / 2e9;
        if (totals.parameters != PUBLISHED[i].parameters)
            fail_msg("%s: %.0f parameters", PUBLISHED[i].name, totals.parameters);
        if (fabs(gmacs / PUBLISHED[i].gmacs - 1) > 0.01)
            fail_msg("%s: %.3f GMAC", PUBLISHED[i].name, gmacs);
        model_free(model);
    }
}

static void inception_has_an_auxiliary_classifier(void **state)
{
    (void)state;
    struct model *model = open_model("inception-v3", "aux: true");
    assert_true(model_totals(model, DTYPE_FP32).parameters == 27161264);
    model_free(model);
}

/* ---- shapes and names ------------------------------------------------------------------------ */

/* Every copy of every operator by its path. */
static struct map *paths_of(const struct model *model, struct arena *arena)
{
    struct map *paths = map_new(arena);
    for (int32_t i = 0; i < model->ops; i++)
        for (int64_t copy = 0; copy < op_copies(model, &model->op[i]); copy++)
            assert_true(map_put(paths, op_path(arena, model, &model->op[i], copy), i));
    return paths;
}

static const struct op *find_op(const struct model *model, const struct map *paths,
                                const char *path)
{
    int64_t index;
    return map_get(paths, path, &index) ? &model->op[index] : NULL;
}

static void names_are_torchvisions(void **state)
{
    static const struct {
        const char *model, *path;
        enum op_kind kind;
    } CASES[] = {
        {"resnet-50", "conv1", OP_CONV},
        {"resnet-50", "layer1.0.downsample.0", OP_CONV},
        {"resnet-50", "layer1.0.downsample.1", OP_BATCH_NORM},
        {"resnet-50", "layer3.5.conv2", OP_CONV},
        {"resnet-50", "layer4.2.bn3", OP_BATCH_NORM},
        {"resnet-50", "fc", OP_LINEAR},
        {"resnet-18", "layer1.0.conv1", OP_CONV},
        {"vgg-16", "features.0", OP_CONV},
        {"vgg-16", "features.28", OP_CONV},
        {"vgg-16", "features.30", OP_POOL},
        {"vgg-19-bn", "features.49", OP_CONV},
        {"vgg-13", "classifier.6", OP_LINEAR},
        {"alexnet", "features.10", OP_CONV},
        {"alexnet", "classifier.1", OP_LINEAR},
        {"inception-v3", "Mixed_6c.branch7x7dbl_5.conv", OP_CONV},
        {"inception-v3", "Mixed_7c.branch3x3dbl_3b.bn", OP_BATCH_NORM},
        {"dlrm", "top_l.8", OP_LINEAR},
    };
    (void)state;
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct model *model = open_model(CASES[i].model, NULL);
        const struct op *op = find_op(model, paths_of(model, arena), CASES[i].path);
        if (!op || op->kind != CASES[i].kind)
            fail_msg("%s has no %s %s", CASES[i].model, OP_KINDS[CASES[i].kind].name,
                     CASES[i].path);
        model_free(model);
    }
    arena_free(arena);
}

/* Equal blocks are stored once: more of them cost nothing. */
static void repeated_blocks_are_stored_once(void **state)
{
    (void)state;
    struct model *fifty = open_model("resnet-50", NULL), *more = open_model("resnet-152", NULL);
    assert_int_equal(fifty->ops, more->ops);
    assert_int_equal(fifty->layers, 3 + 4 + 6 + 3);
    assert_int_equal(more->layers, 3 + 8 + 36 + 3);
    /* A bottleneck has 10 operators, one with a downsample 12; 4 stem operators, pool, fc, loss. */
    assert_int_equal(model_totals(fifty, DTYPE_FP32).ops, 16 * 10 + 4 * 2 + 4 + 3);
    model_free(fifty);
    model_free(more);
}

/* channels 1, image 8, one basic block, two classes; floats, one sample.
 *   kept: image 3*8*8 = 192, conv1 16, relu 16, maxpool 4 (and 4 places of 8 bytes), then in the
 *   block conv1 4, relu1 4, conv2 4, relu 4; avgpool 1, probabilities 2: 247 * 4 + 32 bytes.
 *   FLOPs: conv1 2*16*3*49 = 4704, the block's 2*4*9 twice, fc 2*2. */
static void a_tiny_resnet_by_hand(void **state)
{
    (void)state;
    struct model *model = open_model("resnet-18", "blocks: [1], channels: 1, image: 8, classes: 2");
    struct totals totals = model_totals(model, DTYPE_FP32);
    assert_true(totals.parameters == 3 * 49 + 2 + 2 * (9 + 2) + 2 + 2);
    assert_true(totals.flops[PHASE_FORWARD] == 4704 + 2 * 72 + 4);
    assert_true(totals.flops[PHASE_BACKWARD_WEIGHT] == 4704 + 2 * 72 + 4);
    assert_true(totals.flops[PHASE_BACKWARD_INPUT] == 2 * 72 + 4); /* none into the image */
    assert_true(totals.kept_bytes == 247 * 4 + 32);
    model_free(model);
}

/* 26 tables of a million rows of 128; MLPs 13-512-256-128 and (128 + 27*26/2)-1024-1024-512-256-1,
 * with biases. */
static void dlrm_by_hand(void **state)
{
    (void)state;
    double bottom = 13 * 512 + 512 * 256 + 256 * 128 + 512 + 256 + 128;
    double top =
        479 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256 + 1024 + 1024 + 512 + 256 + 1;
    struct model *model = open_model("dlrm", NULL);
    struct totals totals = model_totals(model, DTYPE_FP32);
    assert_true(totals.parameters == 26e6 * 128 + bottom + top);
    double products = 2.0 * 27 * 27 * 128;
    double biases = 512 + 256 + 128 + 1024 + 1024 + 512 + 256 + 1;
    assert_true(totals.flops[PHASE_FORWARD] == 2 * (bottom + top - biases) + products);
    model_free(model);
    model = open_model("dlrm", "tables: 2, rows: 10, bottom: [4], top: [3, 1]");
    /* bottom 13*4+4, tables 2*10*4, top (4 + 3)*3+3 and 3+1 */
    assert_true(model_totals(model, DTYPE_FP32).parameters == 56 + 80 + 24 + 4);
    model_free(model);
}

/* ---- Aceso's operator table ------------------------------------------------------------------ */

/* "block-2-5-conv1" is layer3.5.conv1; a block's downsample is its convolution without the norm. */
static const char *our_path(struct arena *arena, const char *theirs)
{
    int stage, block, used = 0;
    if (sscanf(theirs, "block-%d-%d-%n", &stage, &block, &used) != 2)
        return theirs;
    const char *op = strcmp(theirs + used, "downsample") == 0 ? "downsample.0" : theirs + used;
    return arena_printf(arena, "layer%d.%d.%s", stage + 1, block, op);
}

struct wide {
    const char *preset, *theirs;
    struct model *model;
    struct map *paths;
    double table_parameters;
    int rows;
};

enum {
    FIELD_MODEL,
    FIELD_MICROBATCH,
    FIELD_TP,
    FIELD_ALGO,
    FIELD_OP,
    FIELD_WEIGHTS_MB = 9,
    FIELDS = 13
};

static bool is_whole_operator(char **fields)
{
    return strcmp(fields[FIELD_MICROBATCH], "16") == 0 && strcmp(fields[FIELD_TP], "1") == 0 &&
           strcmp(fields[FIELD_ALGO], "0") == 0;
}

static void check_row(struct arena *arena, struct wide *wide, char **fields)
{
    double mib = strtod(fields[FIELD_WEIGHTS_MB], NULL);
    wide->table_parameters += mib * 0x1p20 / 4;
    wide->rows++;
    if (mib == 0)
        return; /* no weights; a block without a downsample still has a row of that name */
    const char *path = our_path(arena, fields[FIELD_OP]);
    const struct op *op = find_op(wide->model, wide->paths, path);
    if (!op)
        fail_msg("%s has no %s", wide->preset, path);
    double ours = op_parameters(op) * 4 / 0x1p20;
    if (fabs(ours - mib) > 0.001)
        fail_msg("%s %s: %.4f MiB of weights, Aceso has %.3f", wide->preset, path, ours, mib);
}

static void check_line(struct arena *arena, struct wide *models, size_t count, char *line)
{
    char *fields[FIELDS];
    size_t found = csv_split(line, fields, FIELDS);
    if (found < FIELDS || !is_whole_operator(fields))
        return;
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[FIELD_MODEL], models[i].theirs) == 0)
            check_row(arena, &models[i], fields);
}

static void wide_resnets_are_acesos(void **state)
{
    struct wide models[] = {
        {"wresnet-500m", "resnet_500M"}, {"wresnet-2b", "resnet_2B"},   {"wresnet-4b", "resnet_4B"},
        {"wresnet-6.8b", "resnet_6_8B"}, {"wresnet-13b", "resnet_13B"},
    };
    (void)state;
    struct arena *arena = arena_new();
    char *text;
    size_t len;
    const char *path = WEFT_SOURCE_DIR "/data/profiles/aceso/v100_ops.csv";
    assert_int_equal(file_read(arena, path, 64 << 20, &text, &len), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        models[i].model = open_model(models[i].preset, NULL);
        models[i].paths = paths_of(models[i].model, arena);
    }
    for (char *line = text, *end; (end = memchr(line, '\n', len)); line = end + 1) {
        *end = '\0';
        len -= (size_t)(end + 1 - line);
        check_line(arena, models, COUNT_OF(models), line);
    }
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        double ours = model_totals(models[i].model, DTYPE_FP32).parameters;
        /* 8 operators a block in their table; ours also counts the norms of downsamples. */
        assert_int_equal(models[i].rows, 8 * models[i].model->layers + 6);
        assert_true(fabs(ours / models[i].table_parameters - 1) < 1e-4);
        model_free(models[i].model);
    }
    arena_free(arena);
}

/* ---- wrong options --------------------------------------------------------------------------- */

static void wrong_options_are_refused(void **state)
{
    static const struct {
        const char *model, *options, *message;
    } CASES[] = {
        {"resnet-50", "blocks: 3", "'blocks' is a number, expected a list"},
        {"resnet-50", "blocks: []", "'blocks' has 0 entries, expected 1 to 4"},
        {"resnet-50", "blocks: [3, 4, 6, 3, 3]", "'blocks' has 5 entries, expected 1 to 4"},
        {"resnet-50", "blocks: [3, 0, 6, 3]", "expected a whole number of at least 1"},
        {"resnet-50", "blocks: [3, 4, 100000, 3]", "expected at most 1000"},
        {"resnet-50", "channels: 1e30", "'channels'"},
        {"resnet-50", "channels: 100000", "'channels'"},
        {"resnet-18", "width: 2", "basic blocks have nothing inside to widen"},
        {"resnet-50", "widen: all", "'widen'"},
        {"vgg-16", "depth: 17", "'depth'"},
        {"vgg-16", "image: 223", "'image' is 223"},
        {"alexnet", "image: 222", "'image' is 222"},
        {"inception-v3", "image: 74", "'image' is 74"},
        {"inception-v3", "image: 298, aux: true", "expected at least 299"},
        {"dlrm", "bottom: []", "'bottom' has 0 entries"},
        {"dlrm", "top: [0]", "expected a whole number of at least 1"},
        {"dlrm", "tables: 4096, rows: 1000000000, bottom: [65536]", "2^50"},
        {"alexnet", "imege: 224", "'imege' is not a known key"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct model *model = NULL;
        weft_status status = model_open(CASES[i].model, CASES[i].options, &model);
        if (status != WEFT_BAD_INPUT || !strstr(weft_last_error()->message, CASES[i].message))
            fail_msg("%s with %s: %d, %s", CASES[i].model, CASES[i].options, (int)status,
                     status ? weft_last_error()->message : "accepted");
    }
}

/* The smallest and the largest that the options allow build, and count up to something finite. */
static void extreme_options_build(void **state)
{
    static const struct {
        const char *model, *options;
    } CASES[] = {
        {"resnet-50", "image: 1, channels: 1, blocks: [1], classes: 1"},
        {"resnet-50", "image: 8192, channels: 65536, width: 8, classes: 16777216, "
                      "blocks: [1000, 1000, 1000, 1000]"},
        {"vgg-19", "image: 8192, classes: 16777216"},
        {"vgg-11", "image: 230"},
        {"alexnet", "image: 223"},
        {"alexnet", "image: 8191"},
        {"inception-v3", "image: 75"},
        {"inception-v3", "image: 8192, aux: true, classes: 16777216"},
        {"dlrm", "tables: 1, rows: 1, lookups: 1, bottom: [1], top: [1]"},
        {"dlrm", "tables: 4096, rows: 1000, lookups: 4096, dense: 65536"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct model *model = open_model(CASES[i].model, CASES[i].options);
        struct totals totals = model_totals(model, DTYPE_FP32);
        assert_true(isfinite(totals.parameters) && totals.parameters > 0);
        assert_true(isfinite(totals.kept_bytes) && totals.kept_bytes > 0);
        assert_true(totals.flops[PHASE_FORWARD] > 0);
        model_free(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_torchvisions),
        cmocka_unit_test(inception_has_an_auxiliary_classifier),
        cmocka_unit_test(names_are_torchvisions),
        cmocka_unit_test(repeated_blocks_are_stored_once),
        cmocka_unit_test(a_tiny_resnet_by_hand),
        cmocka_unit_test(dlrm_by_hand),
        cmocka_unit_test(wide_resnets_are_acesos),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(extreme_options_build),
    };
    return cmocka_run_group_tests_name("model_cnn", tests, NULL, NULL);
}
