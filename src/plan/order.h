/* order.h - a plan's schedule, named or as lists, and where it places the pieces of the model; part of plan.h. */
#ifndef WEFT_PLAN_ORDER_H
#define WEFT_PLAN_ORDER_H

#include "plan/plan.h"
#include "schedule/schedule.h"

/* The row of the plan's schedule, or the order that it has instead; NULL: there is none of this name. */
const struct schedule *plan_row(const struct plan *plan);
/* Names the plan's schedule; before the plan is mapped, because it says where pieces lie. */
void plan_name_schedule(struct plan *plan, const char *name);
/* Gives the plan an order that was read or found; copies it. Also before the plan is mapped, unless pieces lie
 * the same way. */
void plan_order_by(struct plan *plan, const struct schedule *listed);
/* The micro-batches that a stage takes at once (schedule.h, I7). */
int32_t plan_stage_joins(const struct plan *plan, int32_t stage);
/* The most parts of the batch that an operator of a stage has which takes several at once (joins.c, I1). */
int64_t plan_joined_parts(const struct plan *plan);
/* Gives all choices what the plan's order says of that (plan.h, I7); once the plan is mapped and chosen. */
weft_status plan_join_stages(struct plan *plan);
/* Makes the gradients of the head's weights of so many micro-batches wait (defer.c), in a plan that is mapped; 0: nothing
 * is done. The order is the plan's from then on. */
weft_status plan_defer_head(struct plan *plan, int64_t count);
/* Says what stands against that, if anything does: of so many stages (0: any number) under a schedule (NULL: any) of which
 * a row tells the order, with sharded gradients or not. */
weft_status deferral_check(int64_t stages, const char *schedule, bool shards);
/* Reads a number of micro-batches, or "all". */
bool deferral_from_text(const char *text, int64_t *count);
const char *deferral_text(struct arena *keep, int64_t count);
/* Whether the weight gradients of an instance wait for the end of the passes. */
bool plan_defers(const struct plan *plan, int64_t instance);
/* The order that was read or found; NULL: there is none, or it is what deferring makes of the row's. */
const struct schedule *plan_own_order(const struct plan *plan);
/* The plan's schedule, with passes in pairs if OVERLAP_EXPERTS has something to overlap and the
 * schedule allows it. */
const struct schedule *plan_schedule(const struct plan *plan);
/* Its pipeline: stages, pieces, micro-batches and their groups; the same with other micro-batches in those groups. */
struct pipeline plan_pipeline(const struct plan *plan);
struct pipeline plan_pipeline_of(const struct plan *plan, int64_t micro_batches);
/* Whether OVERLAP_SHARED has, or would have, something to hide. */
bool plan_could_hide_shared(const struct plan *plan);
int32_t plan_stage_of_part(const struct plan *plan, int32_t part);
int32_t plan_part_of_piece(const struct plan *plan, int32_t stage, int32_t piece);
/* The next part of the same stage; that of its first piece is the number of the stage. */
int32_t plan_next_part(const struct plan *plan, int32_t part);
/* Whether a part lies on its stage's devices with their halves exchanged (plan.h, I1). */
bool plan_part_is_turned(const struct plan *plan, int32_t part);
/* The place in a part's splits of a device of its stage, both counted from 0; and back, which is the same. */
int64_t plan_place(const struct plan *plan, int32_t part, int64_t device);

#endif
