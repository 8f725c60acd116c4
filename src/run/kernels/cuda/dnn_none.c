/* dnn_none.c - what dnn.h promises, of a program that was built without cuDNN's headers: there is no recipe. */
#include "run/kernels/cuda/dnn.h"

#include <stdlib.h>

#if !__has_include(<cudnn.h>)

struct dnn_recipe *dnn_recipe_new(void)
{
    return NULL;
}

void dnn_recipe_free(struct dnn_recipe *recipe)
{
    free(recipe);
}

int dnn_given(struct dnn_recipe *recipe, const struct dnn_tensor *tensor)
{
    (void)recipe, (void)tensor;
    return 0;
}

int dnn_number(struct dnn_recipe *recipe)
{
    (void)recipe;
    return 0;
}

int dnn_between(struct dnn_recipe *recipe, const struct dnn_tensor *tensor)
{
    (void)recipe, (void)tensor;
    return 0;
}

void dnn_product(struct dnn_recipe *recipe, int a, int b, int c)
{
    (void)recipe, (void)a, (void)b, (void)c;
}

void dnn_each(struct dnn_recipe *recipe, enum dnn_operation operation, int x, int b, int t, int y)
{
    (void)recipe, (void)operation, (void)x, (void)b, (void)t, (void)y;
}

void dnn_reduce(struct dnn_recipe *recipe, enum reduce how, int x, int y)
{
    (void)recipe, (void)how, (void)x, (void)y;
}

void dnn_view(struct dnn_recipe *recipe, int x, int y)
{
    (void)recipe, (void)x, (void)y;
}

void dnn_convolution(struct dnn_recipe *recipe, enum dnn_pass pass, const struct dnn_window *window,
                     int x, int w, int y)
{
    (void)recipe, (void)pass, (void)window, (void)x, (void)w, (void)y;
}

void dnn_plan(struct dnn_recipe *recipe, struct dnn_plan *out)
{
    (void)recipe;
    *out = (struct dnn_plan){0};
}

bool dnn_run(const struct dnn_plan *plan, struct device_stream *stream,
             const struct dnn_place *places, void *workspace)
{
    (void)plan, (void)stream, (void)places, (void)workspace;
    return false;
}

#endif
