/* test_item_cost.c - what an operator's phase asks the cost model for, in fp8.
 *
 *   F1  In fp8 run the products of weights, except for the one that the loss reads.
 *   F2  Casts move the bytes of item_cost.c's table: by tensor twice over what is cast first, by block
 *       once for both layouts, and then none with the weight's gradient.
 *   F3  What fp8 saves of a layer is within 15 % of what was measured on an H200
 *       (data/profiles/weft/h200_fp8.csv), but for the case whose compiled kernels were slow.
 *   F4  What software does otherwise changes the casts, the passes, the host's time and the matrices that it says.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/csv.h"
#include "sim/item_cost.h"
#include "sim/sim.h"

struct lab {
    struct model *model;
    struct cluster *cluster;
    struct plan *plan;
};

static struct lab open_lab(const char *model, const char *options, const char *cluster,
                           enum dtype dtype, int64_t samples)
{
    struct lab lab;
    assert_int_equal(model_open(model, options, &lab.model), WEFT_OK);
    assert_int_equal(cluster_open(cluster, &lab.cluster), WEFT_OK);
    struct degrees degrees = {
        .global_batch = samples, .micro_batch = samples, .has_dtype = true, .dtype = dtype};
    assert_int_equal(plan_from_degrees(lab.model, lab.cluster, &degrees, &lab.plan), WEFT_OK);
    return lab;
}

static void close_lab(struct lab *lab)
{
    plan_free(lab->plan);
    cluster_free(lab->cluster);
    model_free(lab->model);
}

static int64_t find_op(const struct plan *plan, const char *name)
{
    for (int64_t i = 0; i < plan->instances; i++)
        if (strcmp(plan->model->op[plan->instance[i].op].name, name) == 0)
            return i;
    fail_msg("no operator is called %s", name);
    return -1;
}

static void test_which_run_in_fp8(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum dtype dtype;
    } OPS[] = {{"qkv", DTYPE_FP8},
               {"down", DTYPE_FP8},
               {"attention", DTYPE_BF16},
               {"norm", DTYPE_BF16},
               {"head", DTYPE_BF16}};
    struct lab lab = open_lab("llama3-8b", "layers: 1", "hgx-h200:1x1", DTYPE_FP8, 1);
    for (size_t i = 0; i < COUNT_OF(OPS); i++) {
        struct work works[MAX_ITEM_WORKS];
        int count = item_works(lab.plan, find_op(lab.plan, OPS[i].name), PHASE_FORWARD, works);
        assert_int_equal(works[0].dtype, OPS[i].dtype); /* F1 */
        assert_int_equal(count, OPS[i].dtype == DTYPE_FP8 ? 2 : 1);
    }
    close_lab(&lab);
}

/* F1: so do products of experts, and the router's do not. */
static void test_experts_run_in_fp8(void **state)
{
    (void)state;
    struct lab lab = open_lab("mixtral-8x7b", "layers: 1", "hgx-h200:1x1", DTYPE_FP8, 1);
    struct work works[MAX_ITEM_WORKS];
    item_works(lab.plan, find_op(lab.plan, "gate_up"), PHASE_FORWARD, works);
    assert_int_equal(works[0].kernel, KERNEL_GROUPED_MATMUL);
    assert_int_equal(works[0].dtype, DTYPE_FP8);
    item_works(lab.plan, find_op(lab.plan, "router"), PHASE_FORWARD, works);
    assert_int_equal(works[0].dtype, DTYPE_BF16);
    close_lab(&lab);
}

static void test_bytes_of_casts(void **state)
{
    (void)state;
    enum { IN = 4096, OUT = 4096, TOKENS = 256 };
    static const double IN_ELEMENTS = (double)IN * TOKENS, OUT_ELEMENTS = (double)OUT * TOKENS,
                        WEIGHT_ELEMENTS = (double)IN * OUT;
    const struct {
        const char *cluster;
        double read[PHASE_COUNT], write[PHASE_COUNT];
        enum dtype dtype;
    } CASES[] = {{"hgx-h200:1x1",
                  {4 * (IN_ELEMENTS + WEIGHT_ELEMENTS), 4 * OUT_ELEMENTS + 2 * WEIGHT_ELEMENTS,
                   2 * (IN_ELEMENTS + OUT_ELEMENTS)},
                  {IN_ELEMENTS + WEIGHT_ELEMENTS, OUT_ELEMENTS + WEIGHT_ELEMENTS,
                   IN_ELEMENTS + OUT_ELEMENTS},
                  DTYPE_FP8},
                 {"hgx-b200:1x1",
                  {2 * (IN_ELEMENTS + WEIGHT_ELEMENTS), 2 * OUT_ELEMENTS, 0},
                  {2 * (IN_ELEMENTS + WEIGHT_ELEMENTS), 2 * OUT_ELEMENTS, 0},
                  DTYPE_FP8},
                 /* the largest value first; 4 bits and a sixteenth of a byte, in both layouts */
                 {"hgx-b200:1x1",
                  {4 * (IN_ELEMENTS + WEIGHT_ELEMENTS), 4 * OUT_ELEMENTS, 0},
                  {1.125 * (IN_ELEMENTS + WEIGHT_ELEMENTS), 1.125 * OUT_ELEMENTS, 0},
                  DTYPE_NVFP4}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct lab lab =
            open_lab("llama3-8b", "layers: 1, seq: 256", CASES[i].cluster, CASES[i].dtype, 1);
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            struct work works[MAX_ITEM_WORKS], none = {0};
            int count = item_works(lab.plan, find_op(lab.plan, "proj"), (enum phase)phase, works);
            const struct work *cast = count > 1 ? &works[count - 1] : &none;
            assert_true(cast->read_bytes == CASES[i].read[phase]); /* F2 */
            assert_true(cast->write_bytes == CASES[i].write[phase]);
        }
        close_lab(&lab);
    }
}

/* Attention in fp8: 256 positions of 32 query heads and twice 8 of keys and values are cast, 2 bytes to 1, and the output
 * comes back, 1 to 2; backward the other way round. So it is with a window; in a plan in bf16 nothing is cast. */
static void test_attention_in_fp8(void **state)
{
    (void)state;
    static const double THREE = 256.0 * (4096 + 2 * 1024), OUT = 256.0 * 4096;
    static const struct {
        const char *options;
        enum dtype plan, kernel;
    } CASES[] = {{"layers: 1, seq: 256", DTYPE_FP8, DTYPE_FP8},
                 {"layers: 1, seq: 256", DTYPE_BF16, DTYPE_BF16},
                 {"layers: 1, seq: 256, window: 64", DTYPE_FP8, DTYPE_FP8}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct lab lab = open_lab("llama3-8b", CASES[i].options, "hgx-b200:1x1", CASES[i].plan, 1);
        bool fp8 = CASES[i].kernel == DTYPE_FP8;
        lab.plan->software.word[FACT_ATTENTION] = ATTENTION_FP8;
        lab.plan->software.word[FACT_FP8_RECIPE] = RECIPE_DELAYED;
        for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD_INPUT; phase++) {
            struct work works[MAX_ITEM_WORKS];
            int64_t at = find_op(lab.plan, "attention");
            double down = phase == PHASE_FORWARD ? THREE : OUT, up = THREE + OUT - down;
            assert_int_equal(item_works(lab.plan, at, (enum phase)phase, works), fp8 ? 2 : 1);
            assert_int_equal(works[0].dtype, CASES[i].kernel);
            assert_true(!fp8 || works[1].read_bytes == 2 * down + up);
            assert_true(!fp8 || works[1].write_bytes == down + 2 * up);
        }
        close_lab(&lab);
    }
}

/* Weights that are held in fp8 are not cast: of 256 positions of 4,096 features alone, 4 bytes are read and 1 is written. */
static void test_fp8_weights_are_not_cast(void **state)
{
    (void)state;
    struct lab lab = open_lab("llama3-8b", "layers: 1, seq: 256", "hgx-h200:1x1", DTYPE_FP8, 1);
    struct work works[MAX_ITEM_WORKS];
    lab.plan->policy = POLICY_FP8_WEIGHTS;
    assert_int_equal(item_works(lab.plan, find_op(lab.plan, "proj"), PHASE_FORWARD, works), 2);
    assert_true(works[1].read_bytes == 4 * 256.0 * 4096 && works[1].write_bytes == 256.0 * 4096);
    close_lab(&lab);
}

/* What the gradient of an input reads and writes beside its product: the output's gradient, 256 positions of 8,192 features,
 * is cast with 4 + 1 bytes on an H200 and 2 + 2 on a B200. A frozen weight of 8,192 x 8,192, which is held in one layout, is
 * read and written there once more; one that is trained has both, and a B200 needs one. */
static void test_frozen_fp8_weights_are_transposed(void **state)
{
    (void)state;
    static const struct {
        const char *cluster, *options;
        double read, write, turned;
    } CASES[] = {{"hgx-h200:1x1", "layers: 1, seq: 256, lora: 16", 4, 1, 1},
                 {"hgx-h200:1x1", "layers: 1, seq: 256", 4, 1, 0},
                 {"hgx-b200:1x1", "layers: 1, seq: 256, lora: 16", 2, 2, 0}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct lab lab = open_lab("llama2-70b", CASES[i].options, CASES[i].cluster, DTYPE_FP8, 1);
        struct work works[MAX_ITEM_WORKS];
        double out = 256.0 * 8192, turned = CASES[i].turned * 8192.0 * 8192;
        lab.plan->policy = POLICY_FP8_WEIGHTS;
        int64_t proj = find_op(lab.plan, "proj");
        assert_int_equal(item_works(lab.plan, proj, PHASE_BACKWARD_INPUT, works), 2);
        assert_true(works[1].read_bytes == CASES[i].read * out + turned);
        assert_true(works[1].write_bytes == CASES[i].write * out + turned);
        item_works(lab.plan, proj, PHASE_FORWARD, works);
        assert_true(works[1].write_bytes == CASES[i].write * out);
        close_lab(&lab);
    }
}

/* Twice fp8's peak on a B200, of which a fifth more is lost, and the same products in it: a large one takes about
 * 1 / (2 * 0.8) of the time. */
static void test_nvfp4_products(void **state)
{
    (void)state;
    double ns[2];
    for (int i = 0; i < 2; i++) {
        struct lab lab =
            open_lab("llama3-8b", "layers: 1", "hgx-b200:1x1", i ? DTYPE_NVFP4 : DTYPE_FP8, 4);
        struct work works[MAX_ITEM_WORKS];
        item_works(lab.plan, find_op(lab.plan, "gate_up"), PHASE_FORWARD, works);
        assert_int_equal(works[0].dtype, i ? DTYPE_NVFP4 : DTYPE_FP8);
        item_works(lab.plan, find_op(lab.plan, "attention"), PHASE_FORWARD, works);
        assert_int_equal(works[0].dtype, DTYPE_BF16);
        item_works(lab.plan, find_op(lab.plan, "gate_up"), PHASE_FORWARD, works);
        struct cost *cost;
        assert_int_equal(cost_open(&lab.cluster->node.device, NULL, &cost), WEFT_OK);
        ns[i] = (double)cost_on_device(cost, &works[0]).ns;
        cost_close(cost);
        close_lab(&lab);
    }
    assert_true(ns[1] > 0.55 * ns[0] && ns[1] < 0.7 * ns[0]);
}

/* A product whose tensors have a scale for each block of 32 takes 1.096, 1.029 and 1.032 times what it takes with one scale
 * (Transformer Engine's table); on a device that has no such scales in hardware, and in 16 bits, nothing is added. */
static void test_products_with_scales_of_blocks(void **state)
{
    (void)state;
    static const double SHARES[PHASE_COUNT] = {2.365 / 2.158, 2.397 / 2.329, 2.400 / 2.325};
    static const struct {
        const char *cluster;
        enum dtype dtype;
        int recipe;
        bool slower;
    } CASES[] = {{"hgx-b300:1x1", DTYPE_FP8, RECIPE_DEVICE, true},
                 {"hgx-b300:1x1", DTYPE_FP8, RECIPE_BLOCKS, true},
                 {"hgx-b300:1x1", DTYPE_FP8, RECIPE_DELAYED, false},
                 {"hgx-b300:1x1", DTYPE_BF16, RECIPE_DEVICE, false},
                 {"hgx-h200:1x1", DTYPE_FP8, RECIPE_BLOCKS, false}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct lab lab = open_lab("llama3-8b", "layers: 1", CASES[i].cluster, CASES[i].dtype, 1);
        struct arena *arena = arena_new();
        struct cost *cost;
        assert_int_equal(cost_open(&lab.cluster->node.device, NULL, &cost), WEFT_OK);
        lab.plan->software.word[FACT_FP8_RECIPE] = (uint8_t)CASES[i].recipe;
        struct item_costs costs = item_costs_of(arena, lab.plan, cost);
        for (int phase = 0; phase < PHASE_COUNT; phase++) {
            struct work works[MAX_ITEM_WORKS];
            int64_t at = find_op(lab.plan, "gate_up"), alone = 0;
            int count = item_works(lab.plan, at, (enum phase)phase, works);
            for (int w = 1; w < count; w++)
                alone += cost_on_device(cost, &works[w]).ns;
            double ns = (double)(item_cost(&costs, at, (enum phase)phase)->device.ns - alone);
            double share = ns / (double)cost_on_device(cost, &works[0]).ns;
            assert_true(fabs(share - (CASES[i].slower ? SHARES[phase] : 1)) < 1e-3);
        }
        cost_close(cost);
        arena_free(arena);
        close_lab(&lab);
    }
}

/* Two norms with an exchange of 5 us between them, each 1 us on the device and h on the host, which takes s to issue the
 * exchange: where hosts meet there, the first takes h + s - 5, for the host issues on while the device waits, and the second h.
 * Beside products (overlap: tensor) the exchange hides nothing. A loss takes the host 108 issues more. */
static void test_hosts_meet_at_exchanges(void **state)
{
    (void)state;
    enum { DEVICE = 1000, EXCHANGE = 5000 };
    struct lab lab = open_lab("gpt2", "layers: 1", "dgx-a100:1x1", DTYPE_FP16, 1);
    struct arena *arena = arena_new();
    struct cost *cost;
    assert_int_equal(cost_open(&lab.cluster->node.device, NULL, &cost), WEFT_OK);
    struct item_costs costs = item_costs_of(arena, lab.plan, cost);
    struct item norm = {.kind = ITEM_OP, .instance = find_op(lab.plan, "norm")};
    struct item loss = {.kind = ITEM_OP, .instance = find_op(lab.plan, "loss")};
    struct item items[] = {norm, {.kind = ITEM_STEP}, norm};
    struct block block = {.item = items, .items = 3};
    double step = host_step_ns(&costs, 0), host = (double)item_host_ns(&costs, &norm);
    int64_t alone = item_host_ns(&costs, &loss);
    assert_false(hosts_meet(lab.plan));
    lab.plan->software.word[FACT_WAITS] = WAITS_EXCHANGES;
    assert_true(fabs((double)(item_host_ns(&costs, &loss) - alone) - 108 * step) < 2);
    for (int beside = 0; beside < 2; beside++) {
        int64_t ns[] = {DEVICE, EXCHANGE, DEVICE};
        struct part_cost_sums sums = {2 * host + step, 2 * DEVICE};
        double first = host + step - (beside ? 0 : EXCHANGE);
        lab.plan->overlap = beside ? OVERLAP_TENSOR : 0;
        meet_at_exchanges(&costs, &block, step, ns, &sums);
        assert_true(fabs((double)ns[0] - first) < 2 && fabs((double)ns[2] - host) < 2);
        assert_true(ns[1] == EXCHANGE && fabs(sums.device - first - host) < 4);
        assert_true(fabs(sums.host - first - host) < 4);
    }
    cost_close(cost);
    arena_free(arena);
    close_lab(&lab);
}

/* Products of their own, of queries, keys and values, gates and ups: the first of each casts. */
static void test_shared_inputs_are_cast_once(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool casts;
    } OPS[] = {{"q", true}, {"k", false}, {"v", false}, {"gate", true}, {"up", false}};
    struct lab lab =
        open_lab("llama3-8b", "layers: 1, seq: 256, apart: true", "hgx-h200:1x1", DTYPE_FP8, 1);
    for (size_t i = 0; i < COUNT_OF(OPS); i++) {
        struct work works[MAX_ITEM_WORKS];
        int64_t instance = find_op(lab.plan, OPS[i].name);
        const struct op *op = &lab.model->op[lab.plan->instance[instance].op];
        assert_int_equal(item_works(lab.plan, instance, PHASE_FORWARD, works), 2);
        double weight = operand_elements(op, &op->weight[0].operand, op->size);
        double input = operand_elements(op, &op->input[0], op->size);
        assert_true(works[1].write_bytes == weight + (OPS[i].casts ? input : 0));
    }
    close_lab(&lab);
}

/* ---- F3 -------------------------------------------------------------------------------------- */

/* Kernels of one operator and phase at the rates of kernels on one device by itself, as these layers were measured. */
static double alone_ns(const struct plan *plan, int64_t instance, enum phase phase,
                       struct cost *cost)
{
    struct work works[MAX_ITEM_WORKS];
    double ns = 0;
    for (int i = item_works(plan, instance, phase, works); i-- > 0;)
        ns += (double)cost_of(cost, &works[i]).ns;
    return ns;
}

/* Operators of one layer, without the host. */
static double layer_ns(const char *model, const char *options, enum dtype dtype, int64_t samples)
{
    struct lab lab = open_lab(model, options, "hgx-h200:1x1", dtype, samples);
    struct cost *cost;
    double ns = 0;
    assert_int_equal(cost_open(&lab.cluster->node.device, NULL, &cost), WEFT_OK);
    for (int64_t i = 0; i < lab.plan->instances; i++)
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            if (op_in_layer(lab.model, &lab.model->op[lab.plan->instance[i].op]))
                ns += alone_ns(lab.plan, i, (enum phase)phase, cost);
    cost_close(cost);
    close_lab(&lab);
    return ns;
}

enum column { MODEL, SAMPLES, POSITIONS, SCALING, WALL, PRODUCTS, ATTENTION, REST, COLUMN_COUNT };
static const char *const COLUMNS[] = {[MODEL] = "model",
                                      [SAMPLES] = "samples",
                                      [POSITIONS] = "positions",
                                      [SCALING] = "scaling",
                                      [WALL] = "wall_us",
                                      [PRODUCTS] = "products_us",
                                      [ATTENTION] = "attention_us",
                                      [REST] = "rest_us"};

struct saved {
    double bf16_us; /* of the case's first row */
    int cases;
};

static weft_status read_row(void *context, const struct csv *csv, const int *at)
{
    struct saved *saved = context;
    int64_t samples, positions;
    double wall_us;
    weft_status status;
    TRY(csv_int(csv, at[SAMPLES], 1, &samples));
    TRY(csv_int(csv, at[POSITIONS], 1, &positions));
    TRY(csv_real(csv, at[WALL], REAL_POSITIVE, &wall_us));
    const char *model = csv->field[at[MODEL]], *scaling = csv->field[at[SCALING]];
    if (strcmp(scaling, "bf16") == 0)
        saved->bf16_us = wall_us;
    bool slow = strcmp(model, "llama3-8b") == 0 && samples * positions == 8192;
    if (strcmp(scaling, "tensor") != 0 || slow)
        return WEFT_OK;
    char options[64];
    snprintf(options, sizeof options, "layers: 1, seq: %lld", (long long)positions);
    double predicted_us = (layer_ns(model, options, DTYPE_BF16, samples) -
                           layer_ns(model, options, DTYPE_FP8, samples)) *
                          1e-3;
    double ratio = predicted_us / (saved->bf16_us - wall_us);
    if (fabs(ratio - 1) > 0.15)
        fail_msg("%s, %lld samples of %lld: fp8 saves %.0f us, measured %.0f", model,
                 (long long)samples, (long long)positions, predicted_us, saved->bf16_us - wall_us);
    saved->cases++;
done:
    return status;
}

static void test_fp8_saves_what_was_measured(void **state)
{
    (void)state;
    enum { MOST_BYTES = 1 << 16 };
    static const char FILE_NAME[] = WEFT_SOURCE_DIR "/data/profiles/weft/h200_fp8.csv";
    struct arena *keep = arena_new();
    struct csv csv;
    struct saved saved = {0};
    char *text;
    size_t len;
    assert_int_equal(file_read(keep, FILE_NAME, MOST_BYTES, &text, &len), WEFT_OK);
    assert_int_equal(csv_open(&csv, FILE_NAME, text, len), WEFT_OK);
    assert_int_equal(csv_read(&csv, COLUMNS, COLUMN_COUNT, read_row, &saved), WEFT_OK);
    assert_int_equal(saved.cases, 5);
    arena_free(keep);
}

/* ---- what software changes (F4) -------------------------------------------------------------- */

/* A layer's projection is 4096 x 4096, so is that of its inputs of 256 tokens; four micro-batches. */
static struct lab open_four(const char *model, enum dtype dtype, struct degrees more)
{
    struct lab lab;
    more.global_batch = 4 * more.dp;
    more.micro_batch = 1;
    more.has_dtype = true;
    more.dtype = dtype;
    assert_int_equal(model_open(model, "layers: 1, seq: 256", &lab.model), WEFT_OK);
    assert_int_equal(cluster_open(more.dp > 1 ? "hgx-h200:1" : "hgx-h200:1x1", &lab.cluster),
                     WEFT_OK);
    assert_int_equal(plan_from_degrees(lab.model, lab.cluster, &more, &lab.plan), WEFT_OK);
    return lab;
}

static void test_casts_of_software(void **state)
{
    (void)state;
    static const double INPUT = 4096. * 256, WEIGHT = 4096. * 4096, QKV = 4096. * 6144;
    static const struct {
        const char *op;
        int weights, fused;
        double read;
    } CASES[] = {
        {"proj", WEIGHT_CASTS_EACH, FUSED_CASTS_NONE, 4 * (INPUT + WEIGHT)},
        {"proj", WEIGHT_CASTS_ONCE, FUSED_CASTS_NONE, 4 * (INPUT + WEIGHT / 4)},
        {"proj", WEIGHT_CASTS_EACH, FUSED_CASTS_NORMS, 4 * (INPUT + WEIGHT)},
        {"qkv", WEIGHT_CASTS_EACH, FUSED_CASTS_NONE, 4 * (INPUT + QKV)},
        {"qkv", WEIGHT_CASTS_EACH, FUSED_CASTS_NORMS, 4 * QKV},
        {"down", WEIGHT_CASTS_EACH, FUSED_CASTS_NORMS, 4 * 14336. * (256 + 4096)},
        {"down", WEIGHT_CASTS_EACH, FUSED_CASTS_ALL, 4 * 14336. * 4096},
    };
    struct lab lab = open_four("llama3-8b", DTYPE_FP8, (struct degrees){.dp = 1});
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct work works[MAX_ITEM_WORKS];
        lab.plan->software.word[FACT_WEIGHT_CASTS] = (uint8_t)CASES[i].weights;
        lab.plan->software.word[FACT_FUSED_CASTS] = (uint8_t)CASES[i].fused;
        int count = item_works(lab.plan, find_op(lab.plan, CASES[i].op), PHASE_FORWARD, works);
        assert_int_equal(count, 2);
        if (works[1].read_bytes != CASES[i].read)
            fail_msg("case %zu: %g bytes", i, works[1].read_bytes);
    }
    close_lab(&lab);
}

/* Gradients of products are added by a pass of their own or by the product; those of norms always by a pass, and so are
 * those that are sharded after each micro-batch. */
static void test_gradients_are_added(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        uint8_t shard;
        int saved;
    } OPS[] = {{"proj", 0, 1}, {"norm", 0, 0}, {"proj", 1, 1}, {"proj", 2, 0}, {"proj", 3, 0}};
    for (size_t i = 0; i < COUNT_OF(OPS); i++) {
        struct lab lab =
            open_four("llama3-8b", DTYPE_BF16, (struct degrees){.dp = 8, .shard = OPS[i].shard});
        struct work works[MAX_ITEM_WORKS];
        int64_t at = find_op(lab.plan, OPS[i].op);
        lab.plan->software.word[FACT_ACCUMULATION] = ACCUMULATION_APART;
        int apart = item_works(lab.plan, at, PHASE_BACKWARD_WEIGHT, works);
        lab.plan->software.word[FACT_ACCUMULATION] = ACCUMULATION_FUSED;
        int fused = item_works(lab.plan, at, PHASE_BACKWARD_WEIGHT, works);
        assert_int_equal(apart - fused, OPS[i].saved);
        close_lab(&lab);
    }
}

/* Of 8 experts the host issues eight products, or one; of graphs nothing. */
static void test_host_of_software(void **state)
{
    (void)state;
    struct lab lab = open_four("mixtral-8x7b", DTYPE_BF16, (struct degrees){.dp = 1});
    struct arena *arena = arena_new();
    struct cost *cost;
    int64_t ns[3], at = find_op(lab.plan, "gate_up");
    static const int WORDS[][2] = {
        {EXPERTS_CALLS, HOST_KERNELS}, {EXPERTS_FUSED, HOST_KERNELS}, {EXPERTS_CALLS, HOST_GRAPHS}};
    assert_int_equal(cost_open(&lab.cluster->node.device, NULL, &cost), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        lab.plan->software.word[FACT_EXPERTS] = (uint8_t)WORDS[i][0];
        lab.plan->software.word[FACT_HOST] = (uint8_t)WORDS[i][1];
        struct item_costs costs = item_costs_of(arena, lab.plan, cost);
        ns[i] = item_cost(&costs, at, PHASE_FORWARD)->host_ns;
        assert_int_equal(host_step_ns(&costs, 0) > 0, i < 2);
    }
    assert_int_equal(ns[0] / 8, ns[1]);
    assert_int_equal(ns[2], 0);
    cost_close(cost);
    arena_free(arena);
    close_lab(&lab);
}

/* Tokens of a plain all-to-all are put in the order of a device's experts, if it has several: of mixtral's 8, on 4 and on 8
 * devices. What sends a token to a device once does so on its way. */
static void test_tokens_are_regrouped(void **state)
{
    (void)state;
    static const struct {
        int64_t ep;
        int word, passes;
    } CASES[] = {{4, DISPATCH_EXPERTS, 1}, {8, DISPATCH_EXPERTS, 0}, {4, DISPATCH_DEVICES, 0}};
    static const char *const OPS[] = {"dispatch", "combine"};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct lab lab =
            open_four("mixtral-8x7b", DTYPE_BF16, (struct degrees){.dp = 8, .ep = CASES[i].ep});
        lab.plan->software.word[FACT_DISPATCH] = (uint8_t)CASES[i].word;
        for (size_t k = 0; k < COUNT_OF(OPS); k++) {
            struct work works[MAX_ITEM_WORKS];
            int64_t at = find_op(lab.plan, OPS[k]);
            int count = item_works(lab.plan, at, PHASE_FORWARD, works);
            assert_int_equal(count, 1 + CASES[i].passes);
            double copies =
                2.0 * (double)lab.plan->step_samples / 8 * (double)lab.model->seq * 4096;
            if (count > 1)
                assert_true(works[1].read_bytes == 2 * copies &&
                            works[1].write_bytes == 2 * copies);
        }
        close_lab(&lab);
    }
}

/* Attention of Llama 3 8B whose keys go round a ring of 4: each device has 2,048 queries of 4,096 features and 2,048 keys and
 * values of 1,024, and each of 4 steps begins anew. Its outputs are merged: 2 bytes read and 2 written of each element for the
 * first, 4 and 2 for the others, 14 and 8; backward the same of the three gradients. The items of the ring share it. */
static void test_steps_of_a_ring_are_kernels(void **state)
{
    (void)state;
    static const double MERGED[] = {2048.0 * 4096, 2048.0 * (4096 + 2 * 1024)}; /* by phase */
    struct degrees degrees = {.cp = 4, .has_dtype = true, .dtype = DTYPE_BF16};
    struct arena *arena = arena_new();
    struct lab lab;
    struct cost *cost;
    assert_int_equal(model_open("llama3-8b", "layers: 1, seq: 8192", &lab.model), WEFT_OK);
    assert_int_equal(cluster_open("dgx-h100:1x4", &lab.cluster), WEFT_OK);
    assert_int_equal(plan_from_degrees(lab.model, lab.cluster, &degrees, &lab.plan), WEFT_OK);
    const struct plan *plan = lab.plan;
    assert_int_equal(cost_open(&lab.cluster->node.device, NULL, &cost), WEFT_OK);
    struct item_costs costs = item_costs_of(arena, plan, cost);
    for (int phase = 0; phase < PHASE_BACKWARD_WEIGHT; phase++) {
        struct item all = {.instance = find_op(plan, "attention"), .phase = (uint8_t)phase};
        struct item one = all, rest = all;
        struct work works[MAX_ITEM_WORKS];
        struct work merge = {.kernel = KERNEL_ELEMENTWISE,
                             .dtype = DTYPE_BF16,
                             .shape = {(int64_t)(4 * MERGED[phase])},
                             .read_bytes = 14 * MERGED[phase],
                             .write_bytes = 8 * MERGED[phase]};
        one.chunks = rest.chunks = 4;
        rest.share = 3;
        rest.rest = true;
        assert_int_equal(item_works(plan, all.instance, (enum phase)phase, works), 1);
        assert_int_equal(item_device_ns(&costs, &one) + item_device_ns(&costs, &rest),
                         item_device_ns(&costs, &all) + 3 * cost_begin_ns(cost, works) +
                             cost_on_device(cost, &merge).ns);
        assert_true(cost_begin_ns(cost, works) > 0 && cost_on_device(cost, &merge).ns > 0);
        assert_int_equal(item_host_ns(&costs, &one), 4 * item_host_ns(&costs, &all));
    }
    cost_close(cost);
    arena_free(arena);
    close_lab(&lab);
}

/* In KiB: two handles of PyTorch, 32 MiB each from Hopper on or as CUBLAS_WORKSPACE_CONFIG=:4096:8 has it, else 8,320 KiB; and
 * Transformer Engine's, 32 or 4 MiB, of which experts on streams have 4 more and products in chunks 3. */
static void test_workspaces_of_frameworks(void **state)
{
    (void)state;
    enum { MIB = 1024 };
    static const struct {
        const char *model, *cluster;
        int word, experts;
        unsigned overlap;
        int64_t kib;
    } CASES[] = {
        {"llama3-8b", "dgx-a100:1x1", WORKSPACE_TORCH, EXPERTS_CALLS, 0, 2 * 8320},
        {"llama3-8b", "dgx-a100:1x1", WORKSPACE_TE, EXPERTS_CALLS, 0, 2 * 8320 + 4 * MIB},
        {"llama3-8b", "dgx-a100:1x1", WORKSPACE_TORCH_8, EXPERTS_CALLS, 0, 64 * MIB},
        {"llama3-8b", "dgx-a100:1x1", WORKSPACE_TE_8, EXPERTS_CALLS, 0, 68 * MIB},
        {"llama3-8b", "dgx-h100:1x1", WORKSPACE_TORCH, EXPERTS_CALLS, 0, 64 * MIB},
        {"llama3-8b", "hgx-b200:1x1", WORKSPACE_TE, EXPERTS_CALLS, 0, 96 * MIB},
        {"llama3-8b", "dgx-h100:1x1", WORKSPACE_TE, EXPERTS_STREAMS, OVERLAP_PRODUCTS, 192 * MIB},
        {"mixtral-8x7b", "dgx-h100:1x1", WORKSPACE_TE, EXPERTS_CALLS, 0, 96 * MIB},
        {"mixtral-8x7b", "dgx-h100:1x1", WORKSPACE_TE, EXPERTS_STREAMS, 0, 224 * MIB},
    };
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct lab lab = open_lab(CASES[i].model, "layers: 1", CASES[i].cluster, DTYPE_BF16, 1);
        lab.plan->overlap = CASES[i].overlap;
        lab.plan->software.word[FACT_EXPERTS] = (uint8_t)CASES[i].experts;
        int64_t without = stage_state_bytes(lab.plan, 0);
        lab.plan->software.word[FACT_WORKSPACE] = (uint8_t)CASES[i].word;
        assert_int_equal(stage_state_bytes(lab.plan, 0) - without, CASES[i].kib * 1024);
        close_lab(&lab);
    }
}

/* ResNet-50's convolution with such a window and so many outputs. */
static int64_t find_conv(const struct plan *plan, int64_t window, int64_t outputs, int64_t pixels)
{
    for (int64_t i = 0; i < plan->instances; i++) {
        const struct op *op = &plan->model->op[plan->instance[i].op];
        if (op->kind == OP_CONV && op->kernel[0] == window && op->size[2] == outputs &&
            op->size[3] == pixels && op->stride[0] == 1)
            return i;
    }
    fail_msg("there is no such convolution");
    return -1;
}

/* What a formula says of a kernel that reads and writes so many numbers of 16 bits. */
static int64_t copy_ns(struct cost *cost, double elements)
{
    struct work work = {.kernel = KERNEL_ELEMENTWISE, .dtype = DTYPE_BF16};
    work.shape[0] = (int64_t)elements;
    work.read_bytes = work.write_bytes = 2 * elements;
    return cost_on_device(cost, &work).ns;
}

/* With Weft's own kernels, or with others'. */
static int64_t phase_ns(struct arena *arena, struct plan *plan, struct cost *cost, int64_t at,
                        enum phase phase, bool own)
{
    plan->software.word[FACT_WORKSPACE] = own ? WORKSPACE_WEFT : WORKSPACE_NONE;
    struct item_costs costs = item_costs_of(arena, plan, cost);
    return item_cost(&costs, at, phase)->device.ns;
}

/* F4: Weft's convolutions lay out images, weights and outputs again, but for products of planes of whole 16 bytes: of 56 x 56
 * pixels, not of 7 x 7. What was measured, as 3 x 3 windows of 32 images were, has that in it. */
static void test_layouts_of_convolutions(void **state)
{
    (void)state;
    static const struct {
        double window, in, out, side;
        bool laid_out;
    } CASES[] = {{1, 64, 256, 56, false}, {1, 512, 2048, 7, true}, {3, 512, 512, 7, true}};
    const double OWN_CONVOLUTION = 1.3; /* own_kernels.c, of the gradient of an input */
    struct lab lab = open_lab("resnet-50", NULL, "hgx-h200:1x1", DTYPE_BF16, 32);
    struct arena *arena = arena_new();
    struct cost *cost;
    assert_int_equal(cost_open(&lab.cluster->node.device, NULL, &cost), WEFT_OK);
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        double pixels = 32 * CASES[i].side * CASES[i].side, in = CASES[i].in, out = CASES[i].out;
        int64_t at =
            find_conv(lab.plan, (int64_t)CASES[i].window, (int64_t)out, (int64_t)CASES[i].side);
        int64_t other = phase_ns(arena, lab.plan, cost, at, PHASE_BACKWARD_INPUT, false);
        int64_t own = phase_ns(arena, lab.plan, cost, at, PHASE_BACKWARD_INPUT, true);
        double weights = in * out * CASES[i].window * CASES[i].window;
        int64_t more = copy_ns(cost, pixels * in) + copy_ns(cost, pixels * out + weights);
        double whole = OWN_CONVOLUTION * (double)(other + (CASES[i].laid_out ? more : 0));
        assert_true(fabs((double)own - whole) <= 2);
    }
    int64_t at = find_conv(lab.plan, 3, 64, 56);
    assert_int_equal(phase_ns(arena, lab.plan, cost, at, PHASE_FORWARD, true),
                     phase_ns(arena, lab.plan, cost, at, PHASE_FORWARD, false));
    cost_close(cost);
    arena_free(arena);
    close_lab(&lab);
}

/* Eight devices that share a state orthogonalise an eighth of its matrices each; AdamW none. */
static void test_matrices_are_shared(void **state)
{
    (void)state;
    double ns[3];
    for (int i = 0; i < 3; i++) {
        struct degrees d = {
            .dp = 8, .shard = i == 1, .optimizer = i == 2 ? UPDATE_ADAMW : UPDATE_MUON};
        struct lab lab = open_four("llama3-8b", DTYPE_BF16, d);
        struct arena *arena = arena_new();
        struct cost *cost;
        assert_int_equal(cost_open(&lab.cluster->node.device, NULL, &cost), WEFT_OK);
        struct item_costs costs = item_costs_of(arena, lab.plan, cost);
        ns[i] = (double)orthogonal_ns(&costs, 0);
        cost_close(cost);
        arena_free(arena);
        close_lab(&lab);
    }
    assert_true(ns[0] > 0 && fabs(ns[0] / ns[1] / 8 - 1) < 1e-6);
    assert_true(ns[2] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_run_in_fp8),
        cmocka_unit_test(test_nvfp4_products),
        cmocka_unit_test(test_products_with_scales_of_blocks),
        cmocka_unit_test(test_hosts_meet_at_exchanges),
        cmocka_unit_test(test_experts_run_in_fp8),
        cmocka_unit_test(test_bytes_of_casts),
        cmocka_unit_test(test_attention_in_fp8),
        cmocka_unit_test(test_fp8_weights_are_not_cast),
        cmocka_unit_test(test_frozen_fp8_weights_are_transposed),
        cmocka_unit_test(test_shared_inputs_are_cast_once),
        cmocka_unit_test(test_fp8_saves_what_was_measured),
        cmocka_unit_test(test_casts_of_software),
        cmocka_unit_test(test_layouts_of_convolutions),
        cmocka_unit_test(test_gradients_are_added),
        cmocka_unit_test(test_host_of_software),
        cmocka_unit_test(test_tokens_are_regrouped),
        cmocka_unit_test(test_steps_of_a_ring_are_kernels),
        cmocka_unit_test(test_workspaces_of_frameworks),
        cmocka_unit_test(test_matrices_are_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
