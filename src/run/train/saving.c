/* saving.c - a rank's state to the shards of a checkpoint, and back (saving.h). */
#include "run/train/saving.h"

/* ---- saving ---------------------------------------------------------------------------------- */

struct collected {
    struct arena *arena;
    ARRAY(struct shard_values) shards;
};

static void collect(struct collected *c, const char *name, const struct run_weight *weight,
                    const float *data)
{
    struct shard_values values = {name, STORED_F32, weight->shard, data};
    if (data)
        array_push(c->arena, &c->shards, values);
}

static void collect_weight(void *context, struct run_weight *weight)
{
    struct collected *c = context;
    const char *name = weight->name;
    collect(c, name, weight, weight->value);
    collect(c, arena_printf(c->arena, "%s%s", name, MOMENT1_SUFFIX), weight, weight->moment1);
    collect(c, arena_printf(c->arena, "%s%s", name, MOMENT2_SUFFIX), weight, weight->moment2);
}

static const char *history_name(struct arena *keep, int32_t rank)
{
    return arena_printf(keep, "rank-%05d%s", rank, HISTORY_SUFFIX);
}

static void collect_history(struct collected *c, struct rank *rank, int32_t number)
{
    const float *history;
    int64_t count = run_history(rank, &history);
    struct shard_values values = {history_name(c->arena, number), STORED_F32,
                                  shard_whole(1, &count), history};
    if (count)
        array_push(c->arena, &c->shards, values);
}

static weft_status save_files(struct rank *rank, const struct rank_agreement *agreement,
                              const struct checkpoint_place *place, int64_t step,
                              struct arena *scratch, struct written *files)
{
    struct collected collected = {.arena = scratch};
    struct written written = {0};
    int32_t number = agreement->transport->rank;
    weft_status status;
    TRY(agreement_reach(agreement, number == 0 ? checkpoint_begin(place, step) : WEFT_OK));
    TRY(run_weights(rank, collect_weight, &collected));
    collect_history(&collected, rank, number);
    TRY(agreement_reach(agreement, checkpoint_save(place, step, number, collected.shards.data,
                                                   collected.shards.len, &written)));
    TRY(agreement_gather(agreement, &written, sizeof written, files));
done:
    return status;
}

weft_status save_state(struct rank *rank, const struct rank_agreement *agreement,
                       const struct checkpoint_place *place, const struct training_state *state,
                       struct arena *keep, const char **out)
{
    struct arena *scratch = arena_new();
    int32_t ranks = agreement->transport->ranks;
    struct written *files = ARENA_ARRAY(scratch, struct written, (size_t)ranks);
    bool first = agreement->transport->rank == 0;
    weft_status status;
    TRY(save_files(rank, agreement, place, state->step, scratch, files));
    TRY(agreement_reach(agreement, first ? checkpoint_commit(place, state, files, ranks, keep, out)
                                         : WEFT_OK));
done:
    if (status && first)
        checkpoint_abandon(place, state->step);
    arena_free(scratch);
    return status;
}

/* ---- loading --------------------------------------------------------------------------------- */

struct loading {
    struct checkpoint *checkpoint;
    struct arena *scratch;
};

static weft_status load(const struct loading *l, const char *name, const struct run_weight *weight,
                        float *out)
{
    return out ? checkpoint_read(l->checkpoint, name, &weight->shard, out) : WEFT_OK;
}

static weft_status load_weight(void *context, const struct run_weight *weight)
{
    const struct loading *l = context;
    const char *name = weight->name;
    weft_status status;
    TRY(load(l, name, weight, weight->value));
    TRY(load(l, arena_printf(l->scratch, "%s%s", name, MOMENT1_SUFFIX), weight, weight->moment1));
    TRY(load(l, arena_printf(l->scratch, "%s%s", name, MOMENT2_SUFFIX), weight, weight->moment2));
done:
    return status;
}

/* Nothing where the checkpoint has none: of another recipe, or from before there were any. */
static weft_status load_history(struct rank *rank, int32_t number, const struct loading *l)
{
    const char *name = history_name(l->scratch, number);
    const float *shown;
    int64_t count = run_history(rank, &shown);
    if (!count || !checkpoint_find(l->checkpoint, name))
        return WEFT_OK;
    struct shard shard = shard_whole(1, &count);
    float *history = ARENA_ARRAY(l->scratch, float, (size_t)count);
    weft_status status;
    TRY(checkpoint_read(l->checkpoint, name, &shard, history));
    run_set_history(rank, history);
done:
    return status;
}

weft_status load_state(struct rank *rank, int32_t number, bool same_plan,
                       struct checkpoint *checkpoint)
{
    struct loading loading = {checkpoint, arena_new()};
    weft_status status = run_fill(rank, load_weight, &loading);
    if (status == WEFT_OK && same_plan)
        status = load_history(rank, number, &loading);
    if (status == WEFT_BAD_INPUT)
        error_hint("%s is of %s; resume with its model and --optimizer",
                   checkpoint_folder(checkpoint), checkpoint_state(checkpoint)->model);
    arena_free(loading.scratch);
    return status;
}

/* ---- folders of transformers ----------------------------------------------------------------- */

static weft_status load_public_weight(void *context, const struct run_weight *weight)
{
    return weight->value ? public_weights_read(context, weight->name, &weight->shard, weight->value)
                         : WEFT_OK;
}

weft_status load_public(struct rank *rank, const struct model *model, const char *folder)
{
    struct public_weights *weights = NULL;
    weft_status status;
    TRY(public_weights_open(model, folder, &weights));
    TRY(run_fill(rank, load_public_weight, weights));
done:
    public_weights_close(weights);
    return status;
}

weft_status save_public(const struct model *model, const struct checkpoint_place *place,
                        const char *saved, const char *folder)
{
    struct checkpoint *checkpoint = NULL;
    weft_status status;
    TRY(checkpoint_open(saved, &checkpoint));
    TRY(public_weights_write(model, checkpoint, place->disk, folder));
done:
    checkpoint_close(checkpoint);
    return status;
}
