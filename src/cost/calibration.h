/* calibration.h - the parameters of the analytic model, one set per device architecture.
 *
 * Every fraction is of a datasheet number, so a device without measurements takes the set of its
 * architecture and its own datasheet. fit.c derives a set from measurements; calibration.c holds
 * the sets that Weft ships, each with its source.
 */
#ifndef WEFT_COST_CALIBRATION_H
#define WEFT_COST_CALIBRATION_H

#include "cost/table.h"

/* Which units multiply matrices. */
enum rate { RATE_VECTOR, RATE_TENSOR, RATE_COUNT };

struct calibration {
    const char *device; /* the devices whose name starts with this; NULL: all of `arch` */
    const char *arch;   /* as in struct device; "" for devices that no other row matches */
    const char *source;

    /* Matrix products (matmul.c). */
    double unit_fraction[RATE_COUNT][DIRECTION_COUNT]; /* of a unit's peak, inside a large tile */
    /* Of the device's peak: the share that its power limit allows a product measured by itself. */
    double power_fraction;
    double sustained_fraction; /* the same hour after hour, as in training */
    double fp8_loss;           /* share of either that is lost in fp8 */
    double nvfp4_loss;         /* the same in nvfp4 */
    double prologue_k;         /* steps of the reduction that filling and draining a tile takes */
    double tile_edge;          /* elements: a tile of a x b runs at ab / (ab + edge (a + b)) */
    /* Share of the shorter of compute and memory time that is not overlapped. */
    double unhidden;
    double group_unhidden; /* the same in a grouped product, whose kernels are short */
    /* Of the rate: with rows of multiples of 2 or 4 elements, and of odd numbers of elements. */
    double misaligned[2];
    double winograd_traffic; /* passes over a 3 x 3 convolution's transformed tensors */

    /* Attention (attention.c). */
    double attention_rows[DIRECTION_COUNT];     /* of one block: the kernel's choice, not fitted */
    double attention_fraction[DIRECTION_COUNT]; /* of a unit's peak, inside a row block */
    /* Additional depth that stands for a score's exponential. */
    double attention_softmax[DIRECTION_COUNT];
    /* Where keys and values differ in depth: 1 if both are computed in the larger one, 0 if each in its own. */
    double attention_pads[DIRECTION_COUNT];
    double attention_fp8[DIRECTION_COUNT];   /* of both fractions, what is left in fp8 */
    double attention_power[DIRECTION_COUNT]; /* of the device's peak, sustained */
    /* Share of the longest row block that is idle at the end. */
    double attention_tail;
    double attention_ramp_ns[DIRECTION_COUNT]; /* kernels around the main one */
    /* Keys that starting and ending a row block costs as much as, where a window cuts. */
    double attention_ends[DIRECTION_COUNT];
    double attention_v1, attention_v2; /* factors of time for FlashAttention's older versions */
    /* Of its pace alone, in training: the products around it lower the clock. */
    double attention_sustained;

    /* Of the device's peak, in the products of a scan and of a delta rule (delta.c). */
    double scan_fraction[DIRECTION_COUNT];

    /* Everything. */
    double memory_fraction; /* of datasheet bandwidth that streaming reaches */
    /* Of that, what each kernel's access pattern reaches. */
    double share[KERNEL_COUNT][DIRECTION_COUNT];
    enum measured_loss loss;  /* which loss runs: Megatron's unless an observation says otherwise */
    double ramp_ns;           /* from a kernel's start to its full rate and back */
    double issue_ns;          /* host time to issue one kernel from a training framework */
    bool adds_gradients;      /* see device_adds_gradients */
    bool scales_blocks;       /* see device_scales_blocks */
    bool large_workspaces;    /* see device_large_workspaces */
    double training_issue_ns; /* the same within a training framework's layers and autograd */
    /* Factor by which computation and collectives slow down when they overlap: Galvatron-BMW (V)
     * measured 1.3 on RTX TITAN, its later profiles 1.126 and 1.146 (data/profiles/galvatron). */
    double overlap_slowdown;
};

/* ---- the parts of the model, in seconds and without ramp and issue time ---------------------- */

double matmul_s(const struct device *device, const struct calibration *c, const struct work *work);
double conv_s(const struct device *device, const struct calibration *c, const struct work *work);
double attention_s(const struct device *device, const struct calibration *c,
                   const struct work *work);
double scan_s(const struct device *device, const struct calibration *c, const struct work *work);
double delta_s(const struct device *device, const struct calibration *c, const struct work *work);
double memory_s(const struct device *device, const struct calibration *c, const struct work *work);
double embedding_s(const struct device *device, const struct calibration *c,
                   const struct work *work);
double loss_s(const struct device *device, const struct calibration *c, const struct work *work);

/* Bytes per second that this kernel moves to and from device memory. */
double kernel_bandwidth(const struct device *device, const struct calibration *c,
                        const struct work *work);
/* The device's peak for this dtype, or for the nearest type it multiplies natively. */
double peak_flops(const struct device *device, enum dtype dtype);

/* ---- fitting (fit.c) ------------------------------------------------------------------------- */

struct observation {
    const struct device *device;
    const char *label; /* of the row it comes from (table.h) */
    struct timing time;
    bool held_out; /* not for fitting: the half that errors are reported on */
};
struct observations {
    struct observation *data;
    size_t len, cap;
};

/* The values that fitting starts from, and those for a device of an unknown architecture. */
const struct calibration *calibration_generic(void);
double observation_ns(const struct calibration *c, const struct observation *o);
/* Adjusts the parameters that these observations determine, by a deterministic pattern search on
 * the mean |ln(predicted / measured)|, starting from the values in `c`. Held-out rows are not
 * used. */
void calibration_fit(const struct observations *rows, struct calibration *c);
/* The same for the parameters of these names only (fit_parameters). */
void calibration_fit_only(const struct observations *rows, const char *const *names, size_t count,
                          struct calibration *c);

struct fit_parameter {
    const char *name;
    size_t offset; /* into struct calibration */
    int values;    /* this many values from there on are one parameter */
    double low, high;
};
size_t fit_parameters(const struct fit_parameter **out);

/* ---- layers measured by themselves (alone.c) ------------------------------------------------- */

enum { ALONE_PARAMETERS = 8 };
struct alone_kind {
    const char *name;                        /* "product", "attention", "experts" */
    const char *parameter[ALONE_PARAMETERS]; /* as fit_parameters names them */
};
size_t alone_kinds(const struct alone_kind **out);
/* The parameters of a layer measured by itself, such as "product fp8": those of the device, with what was fitted for
 * this layer in their place. False if nothing was: then they are the device's own. */
bool calibration_alone(const struct device *device, const char *layer, struct calibration *out);

/* ---- what to fit on (observe.c) -------------------------------------------------------------- */

enum observed {
    OBSERVED_SIMUMAX,
    OBSERVED_ACESO,
    OBSERVED_SAILOR,
    OBSERVED_H200,
    OBSERVED_PRODUCTS, /* AIConfigurator's three */
    OBSERVED_ATTENTION,
    OBSERVED_EXPERTS,
    OBSERVED_COUNT
};
/* `folder` is data/profiles. Times are appended to a list in `keep`; half of them, chosen by a hash
 * of what they measure, are held out. */
weft_status observe(const char *folder, enum observed source, struct arena *keep,
                    struct observations *out);

#endif
