// The subject of gradient_check, traced in one way and run once: on one rank, or as one of several
// tensor ranks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/comm/mesh.h"
#include "trireme/graph/gradient_check.h"

#include "runtime/graph/device_scalars.h"
#include "runtime/graph/executor.h"

namespace trireme::graph {

using Build = std::function<Values(Graph&, const Values&)>;
/// One tensor per input, whole, whichever part of it a tensor rank has.
using Contents = std::vector<std::vector<double>>;

enum class Uses { once, twice };
enum class Rerun { no, yes };

/// The subject, its inputs, and the requested gradients.
struct Subject {
  Build build;
  std::vector<CheckInput> inputs;
  std::vector<bool> wanted;
};

/// How it is traced.
struct Way {
  Uses uses = Uses::once;
  Rerun rerun = Rerun::no;
  DType compute = DType::f32;
  int tensor_rank = 0, tensor_size = 1;
  std::vector<Shape> outputs = {};  // on one rank, which need not give them
};

/// Along which dim a rank has a part of a tensor, and which; dim -1: all of it.
struct Part {
  Shape global;
  int dim = -1;
  Index first = 0;
  /// Index in the global tensor of element i of `local`.
  Index global_index(const Shape& local, Index i) const;
};

/// The subject on a device. Inputs whose gradients are wanted are parameters of the graph.
class Traced {
 public:
  Traced(const Subject& subject, const Way& way, Device& device);
  Graph graph;
  Values outputs;           // results of the first use
  Value loss;               // a random linear function of all outputs, in fp64
  std::vector<Part> parts;  // one per input
  std::vector<Part> output_parts;
  std::vector<int> parameter_of_input;  // -1: data
};

/// One plan of `results` (the loss, or the outputs) with its memory, ready to run on contents. What
/// it returns is what this rank has, in the order of outputs or inputs.
class Runner {
 public:
  Runner(const Traced& traced, const Values& results, const PlanOptions& options, Device& device,
         Mesh& mesh);
  ~Runner();
  double loss(const Contents& contents);
  std::vector<std::vector<double>> results(const Contents& contents);
  /// Returns the gradients of inputs; empty where they are not wanted.
  std::vector<std::vector<double>> gradients(const Contents& contents);
  /// The gradient of this input is one term of a sum over the tensor axis.
  bool is_term(std::size_t input) const;

 private:
  std::vector<Tensor> upload(const Contents& contents);
  std::optional<std::size_t> position_of(std::size_t input) const;

  const Traced& traced_;
  Plan plan_;
  std::unique_ptr<Stream> stream_;
  Buffer slot_, scratch_, constants_;
  std::vector<Buffer> buffers_;
  std::vector<std::vector<std::byte>> data_;
  DeviceScalars scalars_;
  ExecutorMemory memory_;
  ExecutorHooks hooks_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace trireme::graph
