/* run.h - plans that run.
 *
 *   device      where numbers lie: memory, copies, streams and events, a table per backend
 *   kernels     what operators do to numbers: a table of functions per backend, the CPU's and the GPU's
 *   backends    the devices that a run can compute on, by name
 *   transport   how ranks exchange buffers: threads of one process, or MPI
 *   data        what a model is trained on
 *   checkpoint  the state of a run on disk
 *   rank        one rank of a run: the execution graph with real numbers
 *   measure     how long this machine takes for what a plan asks
 *   train       a run from its data to its last checkpoint
 */
#ifndef WEFT_RUN_H
#define WEFT_RUN_H

#include "run/backends/backends.h"
#include "run/checkpoint/checkpoint.h"
#include "run/data/data.h"
#include "run/device/device.h"
#include "run/kernels/kernels.h"
#include "run/measure/measure.h"
#include "run/rank/rank.h"
#include "run/train/train.h"
#include "run/transport/transport.h"

#endif
