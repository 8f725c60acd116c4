/* import_images.c - the arguments of Megatron-LM's pretrain_vlm.py that pretrain_gpt.py does not have: an encoder of images
 * whose layers, but for their number, are the decoder's (target/images.c).
 *
 *   sequence = text + patches                                                                     (1)
 */
#include <string.h>

#include "exchange/room.h"

bool images_given(const struct arguments *a)
{
    return strstr(a->script, "pretrain_vlm") || argument_given(a, "dataloader-seq-length") ||
           argument_given(a, "disable-vision-class-token");
}

/* arguments.py has these defaults. */
static weft_status patches_read(const struct arguments *a, struct tower_shape *v)
{
    int64_t width = argument_int(a, "img-w", 224);
    v->image = argument_int(a, "img-h", 224);
    v->patch = argument_int(a, "patch-dim", 16);
    if (v->image < 1 || v->patch < 1 || v->image > INT32_MAX || v->image % v->patch)
        return argument_error(a, "patch-dim", NULL,
                              "images of %lld pixels along a side are cut into patches of %lld, "
                              "expected a divisor",
                              (long long)v->image, (long long)v->patch);
    return width == v->image ? WEFT_OK
                             : argument_error(a, "img-w", NULL,
                                              "--img-w is %lld, expected --img-h, %lld: images of "
                                              "Weft are squares",
                                              (long long)width, (long long)v->image);
}

weft_status images_sizes_read(const struct arguments *a, struct model_shape *s)
{
    weft_status status = patches_read(a, &s->images);
    int64_t side = status ? 0 : s->images.image / s->images.patch, all = 0;
    int64_t layers = argument_int(a, "num-layers", 0);
    s->images.layers = argument_int(a, "encoder-num-layers", layers);
    s->layers = argument_int(a, "decoder-num-layers", s->images.layers);
    s->seq = argument_int(a, "dataloader-seq-length", argument_int(a, "seq-length", 0));
    argument_given(a, "decoder-seq-length"); /* follows from (1) */
    argument_given(a, "seq-length");
    if (status)
        return status;
    if (s->layers < 1 || s->images.layers < 1 || s->seq < 1)
        return argument_error(a, "encoder-num-layers", NULL,
                              "layers of the encoder, of the decoder and the length of the text "
                              "are %lld, %lld and %lld, expected at least 1",
                              (long long)s->images.layers, (long long)s->layers, (long long)s->seq);
    if (!checked_mul(side, side, &all) || !checked_add(s->seq, all, &s->seq)) /* (1) */
        return argument_error(a, "img-h", NULL, "too many patches");
    return WEFT_OK;
}

/* After all that the decoder has was read. */
weft_status images_read(struct arena *keep, const struct arguments *a, struct model_shape *s,
                        struct texts *notes)
{
    struct tower_shape *v = &s->images;
    bool llama = s->family == SHAPE_LLAMA;
    if (!llama && s->family != SHAPE_GPT)
        return argument_error(a, "disable-vision-class-token", NULL,
                              "experts or layers by a pattern beside an encoder of images: "
                              "pretrain_vlm.py builds no such model");
    if (!argument_given(a, "disable-vision-class-token"))
        add_text(keep, notes, "the class token of an image has no place in the text here");
    if (s->dropout)
        add_text(keep, notes, "dropout in the encoder of images is not counted");
    s->tied = false; /* LLaVAModel's defaults, which no argument changes */
    s->rope_base = s->rotary ? ROPE_BASE : 0;
    s->rope_scaling = s->rope_scaling > 0 ? 8 : 0;
    s->positions = s->positions ? s->seq : 0;
    v->hidden = s->hidden;
    v->heads = s->heads;
    v->kv_heads = s->kv_heads;
    v->ffn = v->projector_ffn = s->ffn;
    v->images = v->merge = 1;
    v->projector_layers = 2;
    v->class_token = v->positions = v->pre_norm = true;
    v->rms = llama && !s->layer_norm;
    v->gated = v->projector_gated = llama ? !s->ungated : s->gated;
    v->bias = v->projector_bias = s->bias;
    v->projector_norm = v->rms ? "rms" : "layer";
    v->frozen = argument_given(a, "freeze-ViT");
    v->text_frozen = argument_given(a, "freeze-LM");
    return WEFT_OK;
}
