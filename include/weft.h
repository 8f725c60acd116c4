/* weft.h - the public face of Weft, a planner and simulator of parallel training.
 *
 * Three descriptions come first: a *model* (operators with named dims in a module tree), a
 * *cluster* (devices, links, fabric) and the *costs* of one operator or one collective. All are
 * opaque handles that a program opens, asks and closes:
 *
 *     weft_model *model;
 *     weft_cluster *cluster;
 *     if (weft_model_open("gpt3-13b", &model) || weft_cluster_open("dgx-v100:4", &cluster)) {
 *         fprintf(stderr, "%s\n", weft_last_error()->message);
 *         return 1;
 *     }
 *     printf("%.1f B parameters on %lld devices\n", weft_model_parameters(model) / 1e9,
 *            (long long)weft_cluster_devices(cluster));
 *     weft_cluster_close(cluster);
 *     weft_model_close(model);
 *
 * A call that can fail returns a weft_status; the reason is in weft_last_error(), one per thread.
 * The library never prints and never exits. Handles may be read from several threads at once.
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
    WEFT_NO_ANSWER = 1, /* the question is fine, and nothing satisfies it */
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

typedef struct weft_model weft_model;
typedef struct weft_cluster weft_cluster;

/* A preset ("gpt3-13b"), a YAML file, a Hugging Face config.json, or an ONNX file. */
weft_status weft_model_open(const char *name, weft_model **out);
void weft_model_close(weft_model *model);
double weft_model_parameters(const weft_model *model);
double weft_model_flops_per_sample(const weft_model *model); /* forward, matrix products */

/* A preset with a node count ("dgx-a100:16"), a YAML file, or an NCCL topology XML. */
weft_status weft_cluster_open(const char *name, weft_cluster **out);
void weft_cluster_close(weft_cluster *cluster);
int64_t weft_cluster_devices(const weft_cluster *cluster);

#ifdef __cplusplus
}
#endif

#endif
