// Optimizer: one update of the parameters from the reduced gradients: AdamW or SGD with momentum,
// with clipping, with skipped steps, replicated or sharded over the data axis. All memory comes
// from outside; step() allocates nothing.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/mesh.h"
#include "trireme/optim/clipping.h"
#include "trireme/optim/flat_parameters.h"

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

/// What a step did; the same on every rank.
struct StepReport {
  double grad_norm = 0;         // before clipping
  double clip_coefficient = 1;  // gradients were multiplied with it
  bool skipped = false;         // the norm was not finite: nothing was changed
};

class Optimizer {
 public:
  /// Bytes of `state`: moments, and a few for scalars.
  static Index state_bytes(const FlatParameters& flat, const OptimizerOptions& options);
  /// Names of the tensors of state_tensors(), in their order.
  static std::vector<std::string> state_names(const OptimizerOptions& options);
  /// `flat` is bound. `state`: zeroed device memory of state_bytes(), aligned to 64; borrowed.
  /// Throws: Error that names the option out of range.
  Optimizer(const FlatParameters& flat, Mesh& mesh, Stream& stream, const OptimizerOptions& options,
            std::byte* state);

  /// Collective over the world, after GradientReducer::finish().
  StepReport step(double learning_rate);

  /// Updates made (steps without the skipped ones): the exponent of AdamW's bias correction, part
  /// of a checkpoint.
  Index updates() const { return updates_; }
  void set_updates(Index updates);
  /// Steps skipped since this object was made.
  Index skipped() const { return skipped_; }

  /// The state as tensors, laid out as FlatParameters::state_extents() says.
  struct StateTensor {
    std::string name;  // "first_moment", "second_moment", "momentum"
    float* data;
  };
  std::vector<StateTensor> state_tensors() const;

 private:
  /// A stretch of one bucket that is updated by one call: neighbours of one parameter group.
  struct Run {
    int bucket;
    FlatRange range;    // in the parameter buffer
    Index state_begin;  // in a state buffer
    bool decay;
  };
  static constexpr Index scale_bytes = 64;  // one float, aligned
  void make_runs();
  void update(const Run& run, double learning_rate);
  void start_gather(int bucket);

  const FlatParameters& flat_;
  Communicator& data_;
  Stream& stream_;
  OptimizerOptions options_;
  GradientNorm norm_;
  std::vector<Run> runs_;
  std::vector<Ticket> gathers_;
  float* scale_;             // clipping factor, on the device
  float* first_ = nullptr;   // first moment, or momentum; null: none
  float* second_ = nullptr;  // second moment; null: none
  Index updates_ = 0, skipped_ = 0;
};

}  // namespace trireme
