// Which optimizer, and with which constants (optim/optimizer.h).
#pragma once

namespace trireme {

struct OptimizerOptions {
  enum class Kind { adamw, sgd };
  Kind kind = Kind::adamw;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // adamw
  double momentum = 0.9;                             // sgd; 0: no state
  double weight_decay = 0.1;                         // of parameters that declare `decay`
  double clip_norm = 1;                              // largest global gradient norm; 0: no clipping
};
const char* name(OptimizerOptions::Kind kind);

}  // namespace trireme
