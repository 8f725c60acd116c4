/* optimizers.c - what optimizers keep, move and compute.
 *
 * With g the gradient, w the weight and s the state, each 4 bytes of a parameter, a fused step reads and writes
 *
 *   adam, adamw   reads g, w, m, v (16), writes w, m, v (12)                                       (1)
 *   momentum      reads g, w, m (12), writes w, m (8)
 *   sgd           reads g, w (8), writes w (4)
 *   adafactor     reads g twice, for the sums of rows and columns and for the update, and w (12), writes w (4);
 *                 of the sums themselves, 4 (rows + columns) bytes, nothing is counted
 *   muon          reads g, m (8), writes m (4); after the products reads w, o (8), writes w (4)
 *
 * One kernel for each operation (PyTorch's foreach and single implementations, torch/optim/adamw.py): weight decay
 * (4 + 4), lerp of m (8 + 4), two operations on v (4 + 4, 8 + 4), square root, division and addition (3 (4 + 4)), update
 * (12 + 4): 48 + 32 in place of (1); with momentum two operations on m (4 + 4, 8 + 4) and the update (8 + 4): 20 + 12.
 * What the host takes for so many kernels is not counted.
 *
 * Muon makes the momentum of a matrix of r rows and c columns, r <= c, orthogonal by 5 steps of Newton and Schulz (Jordan
 * et al., 2024), in bf16:
 *
 *   A = X X^T (2 r^2 c FLOPs), B = b A + c A A (2 r^3), X = a X + B X (2 r^2 c)                    (2)
 *
 * A device does this for its own part of a matrix under tensor parallelism (Megatron's muon_tp_mode, blockwise), and
 * replicas that share state share the matrices (its layer-wise optimizer), so nothing further is gathered. Embeddings,
 * heads, norms and biases are left to Adam.
 */
#include "cost/optimizers.h"

static const struct {
    const char *name;
    int moments;                  /* tensors of state besides a copy of the weights */
    double read, write;           /* bytes per parameter of a fused step */
    double each_read, each_write; /* with one kernel for each operation */
} OPTIMIZERS[] = {
    [UPDATE_ADAMW] = {"adamw", 2, 16, 12, 48, 32},
    [UPDATE_ADAM] = {"adam", 2, 16, 12, 44, 28},
    [UPDATE_MOMENTUM] = {"momentum", 1, 12, 8, 20, 12},
    [UPDATE_SGD] = {"sgd", 0, 8, 4, 8, 4},
    [UPDATE_ADAFACTOR] = {"adafactor", 0, 12, 4, 12, 4},
    [UPDATE_MUON] = {"muon", 1, 16, 8, 20, 12},
};
_Static_assert(COUNT_OF(OPTIMIZERS) == UPDATE_COUNT, "an optimizer without a row");

const char *optimizer_name(enum update_rule optimizer)
{
    return OPTIMIZERS[optimizer].name;
}

bool optimizer_from_name(const char *name, enum update_rule *out)
{
    int at = NAME_INDEX(name, OPTIMIZERS);
    if (at >= 0)
        *out = (enum update_rule)at;
    return at >= 0;
}

struct step_bytes optimizer_step_bytes(enum update_rule optimizer, int step)
{
    bool fused = step == STEP_FUSED;
    return (struct step_bytes){
        (fused ? OPTIMIZERS[optimizer].read : OPTIMIZERS[optimizer].each_read) -
            OPTIMIZERS[UPDATE_ADAMW].read,
        (fused ? OPTIMIZERS[optimizer].write : OPTIMIZERS[optimizer].each_write) -
            OPTIMIZERS[UPDATE_ADAMW].write};
}

double host_step_bytes(enum policy policy, enum dtype dtype, enum update_rule optimizer)
{
    int up = policy_gather_bytes(policy, dtype);
    return OPTIMIZERS[optimizer].read + OPTIMIZERS[optimizer].write + (up < 4 ? 4 + up : 0);
}

bool is_orthogonalised(enum update_rule optimizer, const struct op *op)
{
    bool logits = op->output.axes > 0 && op->kind == OP_LINEAR && op->module == 0;
    return optimizer == UPDATE_MUON && op_trains(op) && !logits &&
           (op->kind == OP_LINEAR || op->kind == OP_EXPERT_LINEAR);
}

double optimizer_state_share(enum update_rule optimizer, enum policy policy, const struct op *op)
{
    bool adam = optimizer == UPDATE_MUON && !is_orthogonalised(optimizer, op);
    int moments = adam ? OPTIMIZERS[UPDATE_ADAM].moments : OPTIMIZERS[optimizer].moments;
    double all = policy_state_bytes(policy);
    return (all - (2 - moments) * policy_memory(policy).moment) / all;
}

void orthogonal_works(int64_t batch, int64_t rows, int64_t columns,
                      struct work out[ORTHOGONAL_PRODUCTS])
{
    int64_t r = rows < columns ? rows : columns, c = rows < columns ? columns : rows;
    const int64_t shapes[ORTHOGONAL_PRODUCTS][3] = {
        {r, r, c}, {r, r, r}, {r, c, r}}; /* (2): m, n, k */
    for (int i = 0; i < ORTHOGONAL_PRODUCTS; i++) {
        const int64_t *s = shapes[i];
        double each = (double)batch * 2;
        out[i] = (struct work){.kernel = KERNEL_MATMUL,
                               .phase = PHASE_FORWARD,
                               .dtype = DTYPE_BF16,
                               .shape = {batch, s[0], s[1], s[2]},
                               .flops = each * (double)s[0] * (double)s[1] * (double)s[2],
                               .read_bytes = each * (double)(s[0] * s[2] + s[1] * s[2]),
                               .write_bytes = each * (double)(s[0] * s[1])};
    }
}
