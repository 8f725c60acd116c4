/* order.h - the orders after the table of schedules, each with the activations that it holds. */
#ifndef WEFT_SCHEDULE_ORDER_H
#define WEFT_SCHEDULE_ORDER_H

#include "schedule/schedule.h"

void all_in_all_out_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                          struct slots *out);
/* Slots with their whole backward passes in two, one half after the other. */
void backward_in_two(const struct slots *whole, struct arena *keep, struct slots *out);
/* All-in-all-out so. */
void halves_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                  struct slots *out);
int64_t all_in_all_out_in_flight(const struct pipeline *pipeline, int32_t stage);

void one_f_one_b_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                       struct slots *out);
int64_t one_f_one_b_in_flight(const struct pipeline *pipeline, int32_t stage);

void interleaved_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                       struct slots *out);
int64_t interleaved_in_flight(const struct pipeline *pipeline, int32_t stage);

/* With pairs: one more ahead, and how many those are. */
void paired_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                  struct slots *out);
int64_t paired_in_flight(const struct pipeline *pipeline, int32_t stage);
int64_t paired_ahead(const struct pipeline *pipeline, int32_t stage);

void zero_bubble_h1_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                          struct slots *out);
int64_t zero_bubble_h1_in_flight(const struct pipeline *pipeline, int32_t stage);

/* order_filled.c: weight gradients fill the bubbles. */
void zero_bubble_h2_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                          struct slots *out);
int64_t zero_bubble_h2_in_flight(const struct pipeline *pipeline, int32_t stage);
void zero_bubble_v_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                         struct slots *out);
int64_t zero_bubble_v_in_flight(const struct pipeline *pipeline, int32_t stage);
void v_half_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                  struct slots *out);
int64_t v_half_in_flight(const struct pipeline *pipeline, int32_t stage);
void v_min_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                 struct slots *out);
int64_t v_min_in_flight(const struct pipeline *pipeline, int32_t stage);

/* order_waves.c */
void dual_pipe_v_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                       struct slots *out);
int64_t dual_pipe_v_in_flight(const struct pipeline *pipeline, int32_t stage);
void hanayo_order(const struct pipeline *pipeline, int32_t stage, struct arena *keep,
                  struct slots *out);
int64_t hanayo_in_flight(const struct pipeline *pipeline, int32_t stage);

#endif
