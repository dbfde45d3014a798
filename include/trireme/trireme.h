// All of trireme.
#pragma once

#include "trireme/comm/agree.h"
#include "trireme/comm/mesh.h"
#include "trireme/core/version.h"
#include "trireme/data/prepare.h"
#include "trireme/data/source.h"
#include "trireme/data/token_source.h"
#include "trireme/graph/gradient_check.h"
#include "trireme/graph/graph.h"
#include "trireme/job/run.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/kernels.h"
#include "trireme/models/transformer.h"
#include "trireme/nn/nn.h"
#include "trireme/options/gpt_options.h"
#include "trireme/plan/training_spec.h"
#include "trireme/train/trainer.h"
