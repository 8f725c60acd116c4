/* usual.c - the course of a run of which only the plan is known (campaign.h). */
#include "campaign/campaign.h"

/* From a failure to a decision, and from there to the first iteration: MegaScale (NSDI 2024, section 6.3) finds and
 * tests a failure in less than ten minutes and has caught up within fifteen. Repairs of a day are assumed. */
const struct usual_terms USUAL_TERMS = {
    .failures = "llama3",
    .detect_s = 600,
    .restart_s = 300,
    .repair_s = 86400,
};

double rated_nodes(const struct cluster *cluster)
{
    enum { RATED_DEVICES = 8 };
    return (double)cluster_devices(cluster) / RATED_DEVICES;
}

/* A spare is paid for all the time, as every other node. */
static double node_seconds(struct course course, int64_t spares)
{
    course.spares = spares;
    return (double)(course.nodes + spares) * expect(&course, best_checkpoints(&course)).all_s;
}

/* Each further spare saves less than the one before it (erlang_b is convex), so that the first that costs more than it saves
 * ends the search. */
int64_t cheapest_spares(const struct course *course)
{
    int64_t spares = 0;
    for (double next, now = node_seconds(*course, 0); spares < course->nodes; spares++, now = next)
        if (!((next = node_seconds(*course, spares + 1)) < now))
            break;
    return spares;
}

weft_status usual_course(const struct plan *plan, double iterations, double iteration_s,
                         struct course *out)
{
    const struct cluster *cluster = plan->cluster;
    const struct failure_preset *preset;
    weft_status status;
    *out = (struct course){.work_s = iterations * iteration_s,
                           .iterations = iterations,
                           .detect_s = USUAL_TERMS.detect_s,
                           .restart_s = USUAL_TERMS.restart_s,
                           .repair_s = USUAL_TERMS.repair_s,
                           .nodes = cluster->nodes};
    TRY(failure_preset_named(USUAL_TERMS.failures, &preset));
    course_failures(out, preset->rate, preset->rates, rated_nodes(cluster));
    course_saving(out, plan, SAVING_SYNC, usual_storage(cluster));
    out->spares = cheapest_spares(out);
done:
    return status;
}
