// A lower bound of the time of a step from what its stages cost, without plans of them.
//
// Not installed; modules above may include it.
#pragma once

#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "runtime/cost/op_time.h"
#include "runtime/layouts/search/training_task.h"
#include "runtime/pipeline/program.h"

namespace trireme::layouts {

// Pieces: what the first block of a model, one in the middle and the last one cost, each as a stage
// of its own, planned from a model of three blocks. All others are as the one in the middle.

/// A call of an executor, for one micro-batch. The host queues beside the device, or before it.
struct CallCost {
  double device = 0, host = 0;

  CallCost& operator+=(const CallCost& other);
  CallCost operator*(double times) const;
};

/// Parameters of a tensor rank.
struct PieceParameters {
  double elements = 0;
  double tied = 0;   // elements that another stage has too
  double large = 0;  // how many fill a bucket alone, untied
};

struct Piece {
  CallCost forward, backward, parameter_backward;
  double slot = 0, scratch = 0;  // bytes
  double flops = 0;              // by which stages are cut
  PieceParameters parameters;
};

/// The first and the last one with the ends of the model: embedding and head.
struct Pieces {
  Piece first, middle, last;
  double message = 0;    // bytes from a stage to the next one
  double constants = 0;  // bytes
};

/// Plans them, each once.
class PieceMaker {
 public:
  PieceMaker(const TrainingTask& task, const cost::Profile& profile, const cost::Network& network)
      : task_(task), profile_(profile), network_(network) {}

  /// `split`: backward in two halves.
  const Pieces& of(const Layout& layout, bool split);

 private:
  using Key = std::tuple<int, Index, RecomputeGranularity, bool, Index, bool>;
  /// The pieces that were planned, and all three blocks as one stage.
  struct Measured {
    Pieces pieces;
    Piece whole;
  };
  static Key key_of(const Layout& layout, bool split);
  const Measured& measured(const Layout& layout, bool split);
  Measured measure(const Layout& layout, bool split);

  const TrainingTask& task_;
  const cost::Profile profile_;
  const cost::Network network_;
  std::map<Key, Measured> measured_;
  std::map<Key, Pieces> known_;
};

/// A pipeline rank: seconds of the calls of a micro-batch, bytes, and parameters of its buckets.
struct LeastStage {
  struct Chunk {
    double forward = 0, backward = 0, parameter_backward = 0;

    double seconds() const { return forward + backward + parameter_backward; }
  };
  std::vector<Chunk> chunks;
  std::vector<double> slots;  // bytes of slots of one micro-batch, for each chunk
  double scratch = 0;
  PieceParameters parameters;

  /// Adds the parameters of so many pieces more.
  void add(const PieceParameters& more, double times);
};

/// Never more than step_time(), but for rounding. `message`: bytes from each stage to the next one.
/// The spec has one of the runtime's schedules, and equal data ranks and stages.
/// `programs`: of all stages, to simulate, which is tighter; null: only what is known without.
double least_step(const std::vector<LeastStage>& stages, double message, const TrainingSpec& spec,
                  const cost::Profile& profile, const cost::Network& network,
                  const std::vector<StageProgram>* programs = nullptr);

}  // namespace trireme::layouts
