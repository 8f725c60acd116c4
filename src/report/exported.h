/* exported.h - a plan written for another framework: with what differs, the predictions of both, and why it cannot be
 * written where it cannot. */
#ifndef WEFT_REPORT_EXPORTED_H
#define WEFT_REPORT_EXPORTED_H

#include <jansson.h>

#include "exchange/exchange.h"

struct export_question {
    const char *to; /* a format, "megatron@0.16" */
    bool nearest;   /* write the nearest plan that it runs and that fits */
    /* What the plan was made from; NULL: it was a plan file. Degrees say nothing of what a framework decides by
     * itself, unless they are asked to. */
    const struct degrees *degrees;
};
/* One of two plans as it is predicted. */
struct export_prediction {
    double iteration_s;
    double needed_bytes; /* on the fullest stage */
    bool fits;
};
struct exported {
    struct export_result result;
    struct export_prediction plan, written;
    bool differs; /* what the framework runs is not what the plan was */
};
/* `keep` has the texts. A plan that the target does not run is bad input that names the rule and the nearest plan. */
weft_status exported_make(struct arena *keep, const struct plan *given,
                          const struct export_question *question, struct exported *out);
/* What `weft export --json` prints. */
json_t *exported_json(const char *to, const struct exported *exported);
void exported_close(struct exported *exported);

#endif
