// Which optimizer, with which constants, and who updates what.
#pragma once

namespace trireme {

/// Whether every data rank updates all parameters, or each one its slice of every bucket
/// (ZeRO-1: Rajbhandari et al. 2019, arXiv:1910.02054).
enum class Update { replicated, sharded };

struct OptimizerOptions {
  enum class Kind { adamw, sgd };
  Kind kind = Kind::adamw;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // adamw
  double momentum = 0.9;                             // sgd; 0: no state
  double weight_decay = 0.1;                         // applies to parameters that declare `decay`
  double clip_norm = 1;                              // largest global gradient norm; 0: no clipping
};
const char* name(OptimizerOptions::Kind kind);

}  // namespace trireme
