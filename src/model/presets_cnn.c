/* presets_cnn.c - the convolutional models and recommenders that Weft knows by name.
 *
 * Aceso's Wide-ResNets take their shapes from its profiled operators (its code's configurations);
 * the paper gives only the rounded parameter counts.
 */
#include "model/families.h"

#define TORCHVISION "torchvision"
#define ACESO       "Aceso Table 2"

const struct preset CNN_PRESETS[] = {
    {"resnet-18", "resnet", "block: basic, blocks: [2, 2, 2, 2]", TORCHVISION},
    {"resnet-34", "resnet", "block: basic, blocks: [3, 4, 6, 3]", TORCHVISION},
    {"resnet-50", "resnet", "blocks: [3, 4, 6, 3]", TORCHVISION ", Proteus Table III"},
    {"resnet-101", "resnet", "blocks: [3, 4, 23, 3]", TORCHVISION},
    {"resnet-152", "resnet", "blocks: [3, 8, 36, 3]", TORCHVISION},
    {"wide-resnet-50-2", "resnet", "blocks: [3, 4, 6, 3], width: 2", TORCHVISION},
    {"wide-resnet-101-2", "resnet", "blocks: [3, 4, 23, 3], width: 2", TORCHVISION},
    {"wresnet-500m", "resnet",
     "blocks: [3, 4, 6, 3], channels: 224, width: 2, widen: conv2, classes: 1024", ACESO},
    {"wresnet-2b", "resnet",
     "blocks: [3, 4, 6, 3], channels: 448, width: 2, widen: conv2, classes: 1024", ACESO},
    {"wresnet-4b", "resnet",
     "blocks: [3, 4, 6, 3], channels: 640, width: 2, widen: conv2, classes: 1024", ACESO},
    {"wresnet-6.8b", "resnet",
     "blocks: [3, 4, 6, 3], channels: 320, width: 16, widen: conv2, classes: 1024", ACESO},
    {"wresnet-13b", "resnet",
     "blocks: [3, 4, 23, 3], channels: 320, width: 16, widen: conv2, classes: 1024", ACESO},
    {"vgg-11", "vgg", "depth: 11", TORCHVISION},
    {"vgg-11-bn", "vgg", "depth: 11, batch_norm: true", TORCHVISION},
    {"vgg-13", "vgg", "depth: 13", TORCHVISION ", AutoDDL Sec. 5"},
    {"vgg-13-bn", "vgg", "depth: 13, batch_norm: true", TORCHVISION},
    {"vgg-16", "vgg", "depth: 16", TORCHVISION},
    {"vgg-16-bn", "vgg", "depth: 16, batch_norm: true", TORCHVISION},
    {"vgg-19", "vgg", "depth: 19", TORCHVISION ", Proteus Table III"},
    {"vgg-19-bn", "vgg", "depth: 19, batch_norm: true", TORCHVISION},
    {"inception-v3", "inception", "", TORCHVISION ", Proteus Table III"},
    {"alexnet", "alexnet", "", TORCHVISION ", AutoDDL Sec. 4.4"},
    {"dlrm", "dlrm", "", "MLPerf's MLPs, 26 tables of 1 M rows"},
    /* Criteo's terabyte data has 26 tables with 187,767,399 rows in all, with ids below 40 M: their
     * mean. */
    {"dlrm-mlperf", "dlrm", "rows: 7221823", "MLPerf training v1, mean of its tables"},
};
const size_t CNN_PRESET_COUNT = COUNT_OF(CNN_PRESETS);
