/* family_dlrm.c - the deep learning recommendation model (Naumov et al., 2019).
 *
 *   d = bottom MLP (dense features)          e_t = pooled rows of table t, one per sparse feature
 *   z = [d, <u, v> for all pairs u, v of d and e_1 .. e_T]
 *   score = top MLP (z)
 *
 * The width of the embeddings is the bottom MLP's last one. Every layer but the last has an
 * activation. All tables have the same number of rows: a model of unequal tables is described by
 * their mean, which keeps parameters and memory but not the balance of a split by table.
 */
#include "model/cnn.h"
#include "model/families.h"

enum {
    MAX_LAYERS = 16,
    MAX_WIDTH = 1 << 16,
    MAX_TABLES = 1 << 12,
    MAX_LOOKUPS = 1 << 12,
    MAX_ROWS = 1 << 30
};

struct dlrm_options {
    const struct doc *bottom, *top;
    int64_t dense, tables, rows, lookups;
};

static const struct dlrm_options DEFAULTS = {
    .dense = 13, .tables = 26, .rows = 1000000, .lookups = 1};

static const struct field FIELDS[] = {
    OPTION_COUNT(struct dlrm_options, dense, MAX_WIDTH),
    {"bottom", FIELD_DOC, offsetof(struct dlrm_options, bottom)},
    OPTION_COUNT(struct dlrm_options, tables, MAX_TABLES),
    OPTION_COUNT(struct dlrm_options, rows, MAX_ROWS),
    OPTION_COUNT(struct dlrm_options, lookups, MAX_LOOKUPS),
    {"top", FIELD_DOC, offsetof(struct dlrm_options, top)},
};

/* The widths of an MLP, without that of its input. */
struct mlp {
    int64_t width[MAX_LAYERS];
    size_t layers;
};
static const struct mlp BOTTOM = {{512, 256, 128}, 3}; /* MLPerf training */
static const struct mlp TOP = {{1024, 1024, 512, 256, 1}, 5};

static weft_status read_mlp(const struct doc *list, const struct mlp *usual, struct mlp *out)
{
    const struct counts_rule rule = {1, MAX_LAYERS, MAX_WIDTH};
    *out = *usual;
    return list ? read_counts(list, &rule, out->width, &out->layers) : WEFT_OK;
}

static int build_mlp(struct builder *b, const char *name, int x, const struct mlp *mlp,
                     bool active_end)
{
    build_module(b, name);
    for (size_t i = 0; i < mlp->layers; i++) {
        const char *linear = arena_printf(b->arena, "%zu", 2 * i);
        const char *relu = arena_printf(b->arena, "%zu", 2 * i + 1);
        x = build_linear(b, linear, x, mlp->width[i], true);
        if (active_end || i + 1 < mlp->layers)
            x = build_relu(b, relu, x);
    }
    build_module_end(b);
    return x;
}

static weft_status build(struct builder *b, const void *options, const struct doc *where)
{
    const struct dlrm_options *o = options;
    struct mlp bottom, top;
    weft_status status;
    (void)where;
    TRY(read_mlp(o->bottom, &BOTTOM, &bottom));
    TRY(read_mlp(o->top, &TOP, &top));
    int64_t width = bottom.width[bottom.layers - 1];
    int x = build_input(b, 2, (int64_t[]){1, o->dense}, ELEMENT_COMPUTE);
    x = build_mlp(b, "bot_l", x, &bottom, true);
    int e = build_embedding_bag(b, "emb_l", o->tables, o->rows, width, o->lookups);
    x = build_interaction(b, "interaction", x, e);
    build_loss(b, "loss", build_mlp(b, "top_l", x, &top, false));
    b->model->layers = (int64_t)(bottom.layers + top.layers);
    b->model->dtype = DTYPE_FP32;
done:
    return status;
}

const struct family FAMILY_DLRM = FAMILY_TRAINED(
    "dlrm", "recommendation: embedding tables, pairwise products, two MLPs", STAYS_WIDE);
