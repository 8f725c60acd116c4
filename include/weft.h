/* weft.h - the public interface of Weft, a planner and simulator of parallel training.
 *
 * A *plan* says how a model is laid over a cluster. A program finds a plan for a question, opens it
 * from a file or reads it from text, and simulates it. Models, clusters, plans and predictions are
 * opaque handles that a program opens, asks and closes:
 *
 *     weft_plan *plan;
 *     weft_prediction *prediction;
 *     const char *question = "model: gpt3-13b\ncluster: dgx-a100:4\nbatch: {global: 64}\n";
 *     if (weft_plan_find(question, NULL, &plan) || weft_simulate(plan, &prediction)) {
 *         fprintf(stderr, "%s\n", weft_last_error()->message);
 *         return 1;
 *     }
 *     printf("%.2f s an iteration, %s\n", weft_prediction_iteration_s(prediction),
 *            weft_prediction_fits(prediction) ? "fits" : "does not fit");
 *     weft_prediction_close(prediction);
 *     weft_plan_close(plan);
 *
 * A call that can fail returns a weft_status; the reason is in weft_last_error(), one per thread.
 * The library never prints and never exits. Handles may be read from several threads at once. A call
 * that would need more memory than it may take (weft_limit_memory), or than the machine has, fails
 * with WEFT_FAILURE and frees what it took.
 *
 * The names in this header are stable: functions may be added, but none changes its arguments or
 * meaning before the library's major version changes. Whatever has many parts is passed as text:
 * questions and plans in YAML or JSON (docs/reference/plan-file.md), predictions in JSON
 * (docs/reference/json.md).
 */
#ifndef WEFT_H
#define WEFT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Also the exit codes of the program. */
typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_NO_ANSWER = 1, /* the question is valid, but nothing satisfies it */
    WEFT_BAD_INPUT = 2, /* the message names file, line and what was expected */
    WEFT_FAILURE = 3    /* the machine failed: memory, files, libraries */
} weft_status;

typedef struct weft_error {
    weft_status status;
    const char *message; /* "file:line: what, expected what" */
    const char *hint;    /* what to do about it, or NULL */
} weft_error;

const weft_error *weft_last_error(void);
const char *weft_version(void);
/* Sets the bytes of memory that one call may take, from the next call on; 0: the default, which is
 * the value of the environment variable WEFT_MAX_MEMORY (such as 8GiB), else 3/4 of the machine's
 * memory. */
void weft_limit_memory(int64_t bytes);

typedef struct weft_model weft_model;
typedef struct weft_cluster weft_cluster;

/* A preset ("gpt3-13b"), a YAML file, a Hugging Face config.json, or an ONNX file. */
weft_status weft_model_open(const char *name, weft_model **out);
void weft_model_close(weft_model *model);
double weft_model_parameters(const weft_model *model);
double weft_model_flops_per_sample(const weft_model *model); /* of the forward's matrix products */

/* A preset with a node count ("dgx-a100:16"), a YAML file, or an NCCL topology XML. */
weft_status weft_cluster_open(const char *name, weft_cluster **out);
void weft_cluster_close(weft_cluster *cluster);
int64_t weft_cluster_devices(const weft_cluster *cluster);

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct weft_plan weft_plan;

/* The best plan for a question, which is written like a plan file: model, cluster, batch, and under
 * `degrees` those that the planner must keep. `planner` is a name that `weft plan --planner` takes;
 * NULL is the default. WEFT_NO_ANSWER: nothing fits; *out is then the plan that comes nearest to
 * fitting, or NULL. */
weft_status weft_plan_find(const char *question, const char *planner, weft_plan **out);
weft_status weft_plan_open(const char *path, weft_plan **out); /* a plan file */
weft_status weft_plan_read(const char *text, weft_plan **out); /* the same as text */
void weft_plan_close(weft_plan *plan);
/* The plan as a plan file in JSON; the text lives as long as the plan. */
const char *weft_plan_text(const weft_plan *plan);

/* ---- predictions ----------------------------------------------------------------------------- */

typedef struct weft_prediction weft_prediction;

weft_status weft_simulate(const weft_plan *plan, weft_prediction **out);
void weft_prediction_close(weft_prediction *prediction);
double weft_prediction_iteration_s(const weft_prediction *prediction);
double weft_prediction_samples_per_s(const weft_prediction *prediction);
double weft_prediction_tflops_per_device(const weft_prediction *prediction); /* of the model */
int weft_prediction_fits(const weft_prediction *prediction);                 /* in memory: 1, 0 */
int64_t weft_prediction_peak_bytes(const weft_prediction *prediction); /* the fullest device */
/* The whole prediction, as `weft simulate --json` prints it; the text lives as long as the
 * prediction. */
const char *weft_prediction_json(const weft_prediction *prediction);

#ifdef __cplusplus
}
#endif

#endif
