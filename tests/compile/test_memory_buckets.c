/* test_memory_buckets.c - memory of what is synchronised, gathered, cast and shared, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "subject.h"

static const char *const SMALL = "layers: 1, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32";

/* Two layers, weights in the order of the backward pass: head 256, norm 8; down 128, gate and up 256, norm 8, proj 64,
 * qkv 192, norm 8, twice; the table 256. Gradients of two bytes each go as soon as 528 bytes or more are together; a
 * layer's weights are gathered together, and what stands around layers apart from them. */
static void buckets_by_hand(void **state)
{
    (void)state;
    static const char TWO[] = "layers: 2, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32";
    static const struct {
        struct degrees degrees;
        int32_t count;
        int64_t bytes[8];
    } ROWS[] = {
        {{.has_bucket = true, .bucket_bytes = 528}, 6, {528, 768, 528, 784, 528, 528}},
        {{.has_bucket = true, .bucket_bytes = 529},
         5,
         {528 + 256, 512 + 16 + 128, 384 + 16 + 256, 512 + 16 + 128, 384 + 16 + 512}},
        {{.has_bucket = true, .bucket_bytes = 0}, 1, {2 * (256 + 8 + 2 * 656 + 256)}},
        {{.has_bucket = true, .bucket_bytes = 528, .shard = 3},
         4,
         {2 * 264, 2 * 656, 2 * 656, 2 * 256}},
    };
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct subject s;
        struct degrees d = ROWS[i].degrees;
        d.has_policy = true;
        d.policy = POLICY_MIXED;
        assert_true(
            predict(family("llama", TWO), "dgx-a100", &d, &(struct simulate_options){0}, &s));
        const struct graph *graph = s.prediction->graph;
        assert_int_equal(graph->buckets, ROWS[i].count);
        for (int32_t b = 0; b < graph->buckets; b++)
            assert_int_equal(graph->bucket[b].bytes, ROWS[i].bytes[b]);
        drop(&s);
    }
}

/* The same with products in fp8 whose weights are gathered in a byte: down, then gate, up and proj, then qkv, twice; the
 * second qkv with what is gathered in two bytes: head, norms, table. */
static void cast_buckets_by_hand(void **state)
{
    (void)state;
    static const char TWO[] = "layers: 2, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32";
    static const int64_t UNCAST = 256 + 5 * 8 + 256;
    const int64_t parameters[] = {128 + 256, 64 + 192 + 128, 256 + 64, 192 + UNCAST};
    struct degrees d = {.has_bucket = true, .bucket_bytes = 2 * 300, .shard = 1};
    struct subject s;
    d.has_policy = true;
    d.policy = POLICY_MIXED;
    d.has_dtype = true;
    d.dtype = DTYPE_FP8;
    assert_int_equal(software_from_text("default,weights=cast", &d.software), WEFT_OK);
    assert_true(predict(family("llama", TWO), "dgx-h100", &d, &(struct simulate_options){0}, &s));
    const struct graph *graph = s.prediction->graph;
    assert_int_equal(graph->buckets, COUNT_OF(parameters));
    for (int32_t b = 0; b < graph->buckets; b++)
        assert_int_equal(graph->bucket[b].bytes, 2 * parameters[b]);
    assert_int_equal(graph->bucket[3].gather_bytes, 192 + 2 * UNCAST);
    drop(&s);
}

/* Bytes of a bucket's gradients that are synchronised in the backward pass, and those left to the next iteration. */
static int64_t slice_bytes(const struct graph *graph, int32_t bucket, bool deferred)
{
    int64_t bytes = 0;
    for (int32_t t = 0; t < graph->tasks; t++) {
        const struct task *task = &graph->task[t];
        if (task->stream == STREAM_GRADIENT && task->exchange >= 0 && task->about == bucket &&
            (task->micro_batch < 0) == deferred)
            bytes += graph->exchange[task->exchange].bytes;
    }
    return bytes;
}

/* The time of a slot by the formula of its device: operators, then steps alone. Counted anew from the graph. */
static int64_t slot_ns(const struct graph *graph, int32_t part, bool forward)
{
    const struct plan *plan = graph->plan;
    const struct device *device = &plan->cluster->node.device;
    int64_t ns = 0;
    for (int32_t b = 0; b < graph->blocks; b++) {
        const struct block *block = &graph->block[b];
        bool wanted = block->part == part && (block->kind == SLOT_FORWARD) == forward;
        for (int32_t i = 0; wanted && i < block->items; i++) {
            const struct item *item = &block->item[i];
            assert_int_equal(item->kind, ITEM_OP); /* no tensor parallelism here */
            const struct laid *laid = graph_laid(graph, item->instance);
            struct work work = op_work(laid->op, laid->local, plan->dtype, (enum phase)item->phase);
            if (work.flops > 0 || work.read_bytes + work.write_bytes > 0)
                ns += analytic_device_ns(device, calibration_for(device), &work);
        }
    }
    return ns;
}

static bool part_has_tied(const struct graph *graph, const struct bucket *bucket)
{
    return bucket->part == graph->plan->parts - 1 &&
           graph->uses->bucket_of[graph->plan->instances - 2] == bucket - graph->bucket;
}

/* Fold3D leaves gradients of all pieces but the first to the next iteration, in proportion to the times of the passes that
 * hide them, F / (F + B) of the piece before: about a third, with recomputation about a quarter. Not those of ZeRO-2, nor
 * those of a tied weight (whose bucket has nothing else), nor any where the norm of all is needed. */
static void slices_by_hand(void **state)
{
    (void)state;
    static const struct {
        enum recompute recompute;
        int shard;
        unsigned overlap;
        bool left, clips;
        const char *model;
        double least, most; /* of the share */
    } ROWS[] = {{RECOMPUTE_NONE, 0, OVERLAP_GRADIENTS, true, false, "llama", 0.28, 0.40},
                {RECOMPUTE_FULL, 0, OVERLAP_GRADIENTS, true, false, "llama", 0.22, 0.29},
                {RECOMPUTE_NONE, 0, OVERLAP_GRADIENTS, true, false, "gpt", 0.28, 0.40},
                {RECOMPUTE_NONE, 0, OVERLAP_GRADIENTS, false, true, "llama", 0, 0},
                {RECOMPUTE_NONE, 2, OVERLAP_GRADIENTS, false, false, "llama", 0, 0},
                {RECOMPUTE_NONE, 1, OVERLAP_GRADIENTS, false, false, "llama", 0, 0},
                {RECOMPUTE_FULL, 1, OVERLAP_GRADIENTS | OVERLAP_PARAMETERS, true, false, "llama",
                 0.22, 0.29}};
    for (size_t i = 0; i < COUNT_OF(ROWS); i++) {
        struct subject s;
        struct degrees d = {.pp = 2,
                            .dp = 4,
                            .segments = 2,
                            .schedule = "aiao",
                            .has_overlap = true,
                            .global_batch = 16,
                            .micro_batch = 1,
                            .shard = ROWS[i].shard,
                            .recompute = ROWS[i].recompute,
                            .overlap = ROWS[i].overlap};
        d.software.word[FACT_CLIPPING] = ROWS[i].clips ? CLIPPING_NORM : CLIPPING_NONE;
        assert_true(predict(family(ROWS[i].model, "layers: 8, hidden: 1024, heads: 8, ffn: 4096, "
                                                  "seq: 512, vocab: 2048"),
                            "dgx-a100", &d, &(struct simulate_options){.fold = FOLD_ALWAYS}, &s));
        const struct graph *graph = s.prediction->graph;
        for (int32_t b = 0; b < graph->buckets; b++) {
            const struct bucket *bucket = &graph->bucket[b];
            int32_t before = bucket->part - 2;
            bool tied = strcmp(ROWS[i].model, "gpt") == 0 && part_has_tied(graph, bucket);
            bool split = before >= 0 && ROWS[i].left && !tied;
            int64_t f = split ? slot_ns(graph, before, true) : 0;
            int64_t all = split ? f + slot_ns(graph, before, false) : 1;
            int64_t left = (int64_t)((double)bucket->bytes * ((double)f / (double)all));
            assert_int_equal(slice_bytes(graph, b, true), left);
            assert_int_equal(slice_bytes(graph, b, false),
                             (bucket->bytes - left) * (ROWS[i].shard == 2 ? 4 : 1));
            assert_true(!split || ((double)f / (double)all > ROWS[i].least &&
                                   (double)f / (double)all < ROWS[i].most));
        }
        drop(&s);
    }
}

/* Counts the buckets of which a slice was left and whose first gather waits for a slice. */
static int gathers_wait_for_slices(const struct graph *graph)
{
    int found = 0;
    for (int32_t b = 0; b < graph->buckets; b++) {
        int32_t t = 0;
        while (t < graph->tasks &&
               (graph->task[t].stream != STREAM_PARAMETER || graph->task[t].about != b))
            t++;
        bool waits = false;
        for (int64_t i = graph->depends_first[t];
             t < graph->tasks && i < graph->depends_first[t + 1]; i++) {
            const struct task *on = &graph->task[graph->depends[i]];
            waits |= on->stream == STREAM_GRADIENT && on->micro_batch < 0;
        }
        assert_true(waits || graph->bucket[b].left == 0);
        found += waits;
    }
    return found;
}

/* An executor divides as the simulator does (slices.c, I1), and leaves nothing where it needs the norm of all. */
static void slices_alike(void **state)
{
    (void)state;
    struct subject s;
    struct degrees d = {.pp = 2,
                        .dp = 2,
                        .tp = 2,
                        .segments = 2,
                        .schedule = "aiao",
                        .global_batch = 16,
                        .shard = 1};
    assert_true(
        predict(family("gpt", "layers: 8, hidden: 64, heads: 4, ffn: 256, seq: 32, vocab: 128"),
                "dgx-a100", &d, &(struct simulate_options){.fold = FOLD_ALWAYS}, &s));
    const struct graph *simulated = s.prediction->graph;
    assert_true(gathers_wait_for_slices(simulated) > 0);
    struct graph *executed = NULL;
    for (int norm = 0; norm < 2; norm++) {
        struct compile_options options = {FOLD_NEVER, .executed = true, .norm = norm};
        assert_int_equal(graph_compile(s.plan, &options, &executed), WEFT_OK);
        int64_t left = 0;
        for (int32_t b = 0; b < executed->buckets; b++) {
            left += executed->bucket[b].left;
            if (!norm)
                assert_int_equal(executed->bucket[b].left, simulated->bucket[b].left);
        }
        assert_int_equal(left > 0, !norm);
        graph_free(executed);
    }
    drop(&s);
}

/* Bytes of the copy that a product keeps from the forward to the backward pass. */
static int64_t cast_of(const struct subject *s, const char *path)
{
    const struct part_lifetimes *l = part_of(s, 0);
    struct arena *scratch = arena_new();
    int64_t bytes = 0;
    for (int32_t i = 0; i < l->lives; i++)
        if (l->life[i].held == HELD_COPY && l->life[i].born_in != l->life[i].dies_in &&
            strcmp(plan_path(scratch, s->plan, l->life[i].instance), path) == 0)
            bytes += l->life[i].bytes;
    arena_free(scratch);
    return bytes;
}

/* Bytes that the first gather of an operator's input moves to each device. */
static int64_t gathered_bytes(const struct subject *s, const char *path)
{
    const struct graph *graph = s->prediction->graph;
    struct arena *scratch = arena_new();
    int64_t bytes = 0;
    for (int32_t b = 0; b < graph->blocks && !bytes; b++)
        for (int32_t i = 0; i < graph->block[b].items && !bytes; i++) {
            const struct item *item = &graph->block[b].item[i];
            if (item->kind == ITEM_STEP && item->phase == FLOW_FORWARD &&
                strcmp(plan_path(scratch, s->plan, item->instance), path) == 0)
                bytes = item->bytes;
        }
    arena_free(scratch);
    return bytes;
}

/* Tensor parallel by 2 with sequence parallelism: the norm's output stays as a half of the sequence
 * on each device, 32, and is gathered again, 64, where its weight gradient is made. */
static void gathered_again(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {
        .dp = 4, .tp = 2, .sequence = true, .has_policy = true, .policy = POLICY_PURE_BF16};
    assert_true(
        predict(family("llama", SMALL), "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    const struct lifetime *norm = find_life(&s, 0, "layers.0.mlp.norm", HELD_OUTPUT);
    assert_int_equal(norm->bytes, 32);
    assert_int_equal(norm->dies_in, SLOT_BACKWARD);
    const struct part_lifetimes *l = part_of(&s, 0);
    int forward = 0, backward = 0;
    struct arena *scratch = arena_new();
    for (int32_t i = 0; i < l->lives; i++) {
        const struct lifetime *life = &l->life[i];
        if (life->held != HELD_COPY ||
            strcmp(plan_path(scratch, s.plan, life->instance), "layers.0.mlp.gate_up") != 0)
            continue;
        assert_int_equal(life->bytes, 64);
        assert_int_equal(life->born_in, life->dies_in);
        forward += life->born_in == SLOT_FORWARD;
        backward += life->born_in == SLOT_BACKWARD;
    }
    assert_int_equal(forward, 1);
    assert_int_equal(backward, 1);
    arena_free(scratch);
    drop(&s);
}

/* In fp8, with inputs kept as they were cast: of the norm's half of the sequence, 4 * 8 / 2 elements, 16 bytes are kept,
 * and both gathers move one byte per element. With `all`, the gate and up's 2 * 16 / 2 * 4 elements take 64 bytes. */
static void cast_inputs(void **state)
{
    (void)state;
    static const struct {
        const char *software;
        int norm_dies, gates_die;
        int64_t cast, gathered;
    } CASES[] = {{"default", SLOT_BACKWARD, SLOT_BACKWARD, 0, 64},
                 {"default,inputs=cast", SLOT_FORWARD, SLOT_BACKWARD, 16, 32},
                 {"default,inputs=all", SLOT_FORWARD, SLOT_FORWARD, 16, 32}};
    for (size_t i = 0; i < COUNT_OF(CASES); i++) {
        struct subject s;
        struct degrees degrees = {
            .dp = 4, .tp = 2, .sequence = true, .has_dtype = true, .dtype = DTYPE_FP8};
        assert_int_equal(software_from_text(CASES[i].software, &degrees.software), WEFT_OK);
        assert_true(predict(family("llama", SMALL), "dgx-h100", &degrees,
                            &(struct simulate_options){0}, &s));
        assert_int_equal(find_life(&s, 0, "layers.0.mlp.norm", HELD_OUTPUT)->dies_in,
                         CASES[i].norm_dies);
        assert_int_equal(find_life(&s, 0, "layers.0.mlp.gate_up", HELD_OUTPUT)->dies_in,
                         CASES[i].gates_die);
        if (CASES[i].gates_die == SLOT_FORWARD)
            assert_int_equal(find_life(&s, 0, "layers.0.mlp.gated", HELD_COPY)->bytes, 64);
        assert_int_equal(cast_of(&s, "layers.0.mlp.gate_up"), CASES[i].cast);
        assert_int_equal(gathered_bytes(&s, "layers.0.mlp.gate_up"), CASES[i].gathered);
        drop(&s);
    }
}

/* Attention in fp8 keeps queries, keys, values and its output in a byte each: 4 positions of one head of 4 and as many of
 * the others, 64 bytes; what it read and wrote in 16 bits is freed if products keep casts of their own. */
static void attention_is_kept_cast(void **state)
{
    (void)state;
    static const char *const SOFTWARE[] = {"default,inputs=cast",
                                           "default,inputs=cast,attention=fp8"};
    for (int fp8 = 0; fp8 < 2; fp8++) {
        struct subject s;
        struct degrees degrees = {
            .dp = 4, .tp = 2, .sequence = true, .has_dtype = true, .dtype = DTYPE_FP8};
        assert_int_equal(software_from_text(SOFTWARE[fp8], &degrees.software), WEFT_OK);
        assert_true(predict(family("llama", SMALL), "dgx-h100", &degrees,
                            &(struct simulate_options){0}, &s));
        assert_int_equal(find_life(&s, 0, "layers.0.attn.attention", HELD_OUTPUT)->dies_in,
                         fp8 ? SLOT_FORWARD : SLOT_BACKWARD);
        assert_int_equal(cast_of(&s, "layers.0.attn.attention"), fp8 ? 64 : 0);
        drop(&s);
    }
}

static bool is_kept_cast(const struct lifetime *life)
{
    return life->held == HELD_COPY && life->born_in != life->dies_in;
}

static int32_t read_first(const struct plan *plan, int64_t instance)
{
    return plan->model->op[plan->instance[instance].op].input[0].tensor;
}

/* Products near each other that read one tensor keep one cast of it: queries, keys and values; the way down to keys and
 * values in DeepSeek's attention and the product for what is rotated of keys, with a norm and a product between them. */
static void products_share_a_cast(void **state)
{
    (void)state;
    static const struct {
        const char *model, *options;
        int64_t apart; /* instances between two products of the same input */
    } CASES[] = {{"qwen3-8b", "layers: 2", 1}, {"deepseek-v3", "layers: 4, seq: 512", 3}};
    for (size_t c = 0; c < COUNT_OF(CASES); c++) {
        struct subject s;
        struct model *model;
        struct degrees degrees = {.global_batch = 8, .has_dtype = true, .dtype = DTYPE_FP8};
        int alike = 0, casts = 0;
        assert_int_equal(model_open(CASES[c].model, CASES[c].options, &model), WEFT_OK);
        assert_int_equal(software_from_text("default,inputs=cast", &degrees.software), WEFT_OK);
        assert_true(predict(model, "dgx-h100", &degrees, &(struct simulate_options){0}, &s));
        for (int64_t i = CASES[c].apart; i < s.plan->instances; i++)
            alike += s.model->op[s.plan->instance[i].op].kind == OP_LINEAR &&
                     read_first(s.plan, i) == read_first(s.plan, i - CASES[c].apart);
        assert_true(alike > 0);
        const struct part_lifetimes *l = part_of(&s, 0);
        for (int32_t i = 0; i < l->lives; i++)
            for (int32_t k = 0; k < i && is_kept_cast(&l->life[i]); k++) {
                int64_t apart = l->life[i].instance - l->life[k].instance;
                casts++;
                if (is_kept_cast(&l->life[k]) && apart > 0 && apart <= 3)
                    assert_int_not_equal(read_first(s.plan, l->life[i].instance),
                                         read_first(s.plan, l->life[k].instance));
            }
        assert_true(casts > 0);
        drop(&s);
    }
}

/* ZeRO-3 over 8 devices, 3 layers: whole weights of the unit at work and of the next one. A layer
 * has 8 + 192 + 64 + 8 + 256 + 128 = 656 weights, the embedding, a unit of its own, 256. Forward,
 * the first layer is there beside the embedding, the second beside the first, and so on. */
static void sharded_weights(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {.dp = 8, .shard = 3, .has_policy = true, .policy = POLICY_PURE_BF16};
    assert_true(
        predict(family("llama", "layers: 3, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32"),
                "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    const struct part_lifetimes *l = part_of(&s, 0);
    static const char *const UNIT[] = {"embedding", "layers.0.attn.norm", "layers.1.attn.norm",
                                       "layers.2.attn.norm"};
    const struct lifetime *unit[COUNT_OF(UNIT)];
    for (size_t i = 0; i < COUNT_OF(UNIT); i++) {
        unit[i] = find_life(&s, 0, UNIT[i], HELD_WEIGHTS);
        assert_int_equal(unit[i]->bytes, (i ? 656 : 256) * 2);
        assert_int_equal(unit[i]->memory, MEMORY_WEIGHTS);
    }
    for (size_t i = 2; i < COUNT_OF(UNIT); i++) {
        assert_true(unit[i]->born <= unit[i - 1]->dies); /* beside the one before */
        assert_true(unit[i]->born > unit[i - 2]->dies);
    }
    int64_t gradients = 0;
    for (int32_t i = 0; i < l->lives; i++)
        if (l->life[i].held == HELD_WEIGHT_GRADIENTS)
            gradients += l->life[i].bytes;
    /* each layer's, the embedding's and the head's 256 each, the last norm's 8: once, whole */
    assert_int_equal(gradients, (3 * 656 + 256 + 8 + 256) * 2);
    drop(&s);
}

/* The same under fsdp, whose streams have memory of their own: a layer's weights are brought into that of gathers
 * and copied out at its first use, and the eighth of all 3 * 656 + 520 gradients in fp32 that the device keeps is in
 * that of sums. Everything is small, so that each of the three reserves 2 MiB, and another policy one of them. The
 * root's weights are there in all of a pass but for the loss where the software has them so. */
static void memory_of_streams(void **state)
{
    (void)state;
    static const char *const OPTIONS = "layers: 3, hidden: 8, heads: 2, ffn: 16, seq: 4, vocab: 32";
    struct subject s, other;
    struct degrees degrees = {.dp = 8, .shard = 3, .has_policy = true, .policy = POLICY_FSDP};
    degrees.software.word[FACT_ROOT] = ROOT_WHOLE;
    assert_true(
        predict(family("llama", OPTIONS), "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    const struct part_lifetimes *l = part_of(&s, 0);
    const struct lifetime *brought = find_life(&s, 0, "layers.1.attn.norm", HELD_WEIGHTS);
    assert_int_equal(brought->stream, MEMORY_GATHERED);
    assert_int_equal(brought[1].stream, MEMORY_COMPUTED);
    assert_int_equal(brought[1].born, brought->dies + 1);
    assert_int_equal(brought[1].bytes, brought->bytes);
    const struct lifetime *root = find_life(&s, 0, "embedding", HELD_WEIGHTS);
    assert_int_equal(root->born, -1);
    assert_int_equal(root[1].dies, find_life(&s, 0, "loss", HELD_OUTPUT)->born - 1);
    int64_t shares = 0;
    for (int32_t i = 0; i < l->lives; i++)
        shares += l->life[i].stream == MEMORY_REDUCED ? l->life[i].bytes : 0;
    assert_int_equal(shares, (3 * 656 + 256 + 8 + 256) * 4 / 8);
    assert_int_equal(s.prediction->stage[0].memory.reserved, 3 << 21);
    degrees.shard = 2; /* weights are gathered once, and stay */
    assert_true(predict(family("llama", OPTIONS), "dgx-a100", &degrees,
                        &(struct simulate_options){0}, &other));
    assert_int_equal(other.prediction->stage[0].memory.reserved, 3 << 21);
    drop(&other);
    degrees.shard = 3;
    degrees.policy = POLICY_MIXED_FP32_GRADIENTS;
    assert_true(predict(family("llama", OPTIONS), "dgx-a100", &degrees,
                        &(struct simulate_options){0}, &other));
    assert_int_equal(other.prediction->stage[0].memory.reserved, 1 << 21);
    assert_int_equal(brought->bytes, 656 * 2); /* weights in bf16, gradients in fp32 */
    assert_int_equal(find_life(&other, 0, "layers.1.attn.norm", HELD_WEIGHTS)->bytes, 656 * 2);
    assert_int_equal(find_life(&other, 0, "layers.1.attn.norm", HELD_WEIGHT_GRADIENTS)->bytes,
                     656 * 4);
    drop(&other);
    drop(&s);
}

/* The head of a GPT uses the embedding's table; on another stage it is a second copy with its
 * gradient and its optimizer state. One layer a stage, h = 64, V = 32. A layer, with biases: norms
 * 2 * 128, qkv 64 * 192 + 192, proj 64 * 64 + 64, up 64 * 256 + 256, down 256 * 64 + 64 = 49984;
 * first stage: table 32 * 64, positions 16 * 64; last: norm 128, table again 32 * 64. */
static void tied_table(void **state)
{
    (void)state;
    struct subject s;
    struct degrees degrees = {
        .dp = 4, .pp = 2, .global_batch = 8, .has_policy = true, .policy = POLICY_PURE_BF16};
    assert_true(predict(
        family("gpt", "layers: 2, hidden: 64, heads: 2, seq: 16, vocab: 32, max_positions: 16"),
        "dgx-a100", &degrees, &(struct simulate_options){0}, &s));
    assert_int_equal(state_of(&s, 0), (49984 + 32 * 64 + 16 * 64) * 8);
    assert_int_equal(state_of(&s, 1), (49984 + 128 + 32 * 64) * 8);
    drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_by_hand),
        cmocka_unit_test(cast_buckets_by_hand),
        cmocka_unit_test(slices_by_hand),
        cmocka_unit_test(slices_alike),
        cmocka_unit_test(gathered_again),
        cmocka_unit_test(cast_inputs),
        cmocka_unit_test(products_share_a_cast),
        cmocka_unit_test(sharded_weights),
        cmocka_unit_test(memory_of_streams),
        cmocka_unit_test(attention_is_kept_cast),
        cmocka_unit_test(tied_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
