// Everything of the module nn: what a model's forward pass is written with.
#pragma once

#include "trireme/nn/activation.h"
#include "trireme/nn/add.h"
#include "trireme/nn/arithmetic.h"
#include "trireme/nn/attention.h"
#include "trireme/nn/collectives.h"
#include "trireme/nn/dropout.h"
#include "trireme/nn/embedding.h"
#include "trireme/nn/linear.h"
#include "trireme/nn/loss.h"
#include "trireme/nn/norm.h"
#include "trireme/nn/parallel.h"
#include "trireme/nn/pointwise.h"
#include "trireme/nn/rotary.h"
#include "trireme/nn/views.h"
