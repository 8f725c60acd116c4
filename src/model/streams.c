/* streams.c - a residual of several streams (manifold-constrained hyper-connections: DeepSeek-V4, section 2.2):
 *
 *   X' = B X + c f(a X),  X of `streams` rows, a, B and c by products of X                   (1)
 *
 *   I1  A layer's work is done on one stream's width; X is `streams` times as wide, and is what one layer hands to the next.
 *   I2  B is made doubly stochastic by a few divisions of a matrix of streams x streams, which take no time of their own.
 */
#include "model/blocks.h"
#include "model/draft.h"

static int mix(struct builder *b, const char *name, const int *inputs, int count, int64_t features)
{
    struct op op = draft_op(b, OP_MIX, name);
    draft_inputs(b, &op, inputs, count);
    op.keep = count > 2 ? KEEP_INPUT_0 | KEEP_INPUT_1 | KEEP_INPUT_2 : KEEP_INPUT_0 | KEEP_INPUT_1;
    return draft_append_like(b, &op, inputs[0], features);
}

/* a, B and c of (1), side by side. */
static int weights(struct builder *b, const char *name, int x, int64_t streams)
{
    return build_linear(b, name, x, streams * (streams + 2), false);
}

int streams_begin(struct builder *b, int x, int64_t streams)
{
    struct op op = draft_op(b, OP_MIX, "streams");
    draft_inputs(b, &op, &x, 1);
    op.keep = 0;
    return draft_append_like(b, &op, x, streams * build_features(b, x));
}

int streams_in(struct builder *b, int x, int64_t streams)
{
    int inputs[] = {x, weights(b, "mix_weights", x, streams)};
    return mix(b, "mix_in", inputs, 2, build_features(b, x) / streams);
}

int streams_out(struct builder *b, int y, int x, int64_t streams)
{
    int inputs[] = {x, y, weights(b, "mix_weights_out", x, streams)};
    return mix(b, "mix_out", inputs, 3, build_features(b, x));
}
