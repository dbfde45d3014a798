// Pieces: what the first block of a model, one in the middle and the last one cost, each as a stage
// of its own, planned from a model of three blocks. All others are as the one in the middle.
//
// Not installed; modules above may include it.
#pragma once

#include <array>
#include <map>
#include <tuple>

#include "runtime/planner/op_time.h"
#include "runtime/planner/search/training_task.h"

namespace trireme::planner {

/// A call of an executor, for one micro-batch. The host queues beside the device, or before it.
struct CallCost {
  double device = 0, host = 0;

  CallCost& operator+=(const CallCost& other);
  CallCost operator*(double times) const;
};

/// Parameters of a tensor rank.
struct PieceParameters {
  double elements = 0;
  double tied = 0;   // of them, elements that another stage has too
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
  PieceMaker(const TrainingTask& task, const Profile& profile, const Network& network)
      : task_(task), profile_(profile), network_(network) {}

  /// `split`: backward in two halves.
  const Pieces& of(const Layout& layout, bool split);

 private:
  using Key = std::tuple<int, Index, RecomputeGranularity, bool, Index, bool>;
  /// As planned, and all three blocks as one stage.
  struct Measured {
    Pieces pieces;
    Piece whole;
  };
  static Key key_of(const Layout& layout, bool split);
  const Measured& measured(const Layout& layout, bool split);
  Measured measure(const Layout& layout, bool split);

  const TrainingTask& task_;
  const Profile profile_;
  const Network network_;
  std::map<Key, Measured> measured_;
  std::map<Key, Pieces> known_;
};

}  // namespace trireme::planner
