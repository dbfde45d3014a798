// What a calibration measures and how it times that, one source each: products, attention, links
// between ranks, and loops over memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/job/run.h"
#include "trireme/models/transformer_config.h"

#include "runtime/cost/profile.h"

namespace trireme::calibrate {

/// Times what all ranks do at the same moment, as they do in training: they share memory, power and
/// links.
class Timer {
 public:
  explicit Timer(const Context& context) : context_(context) {}

  /// Collective. Seconds of a call: the median of the repeats of a rank, averaged over ranks. All
  /// ranks call equally often, for about `budget_s`, at least `least_repeats` times; `call` gets
  /// the number of the call.
  double operator()(const std::function<void(Index)>& call, double budget_s,
                    double least_repeats = 5);
  /// Half the width of the error bar: of p90/p10 - 1 of the repeats, the median of all that was
  /// timed.
  double spread() const;

 private:
  const Context& context_;
  std::vector<double> spreads_;
};

/// The time that there is for all parts of a measurement. What a part takes more or less than its
/// share, those behind it have less or more.
class SharedTime {
 public:
  /// `weights`: of all parts together.
  SharedTime(double seconds, double weights) : seconds_(seconds), weights_(weights) {}

  /// Seconds of the next part, of this weight; `passed`: since the first one began.
  double next(double weight, double passed);

 private:
  double seconds_, weights_;
};

/// Collective.
double mean_over_ranks(const Host& host, double value);
double least_over_ranks(const Host& host, double value);

/// Time for so many bytes: seconds + bytes / bytes_per_s.
struct Line {
  double seconds = 0, bytes_per_s = 0;
};
struct Point {
  double bytes = 0, seconds = 0;
};
/// The line with the least relative errors. Needs a point of more than 0 bytes.
Line fit_line(const std::vector<Point>& points);

// Rates of products: of usual shapes, and of those of a model.

using Products = std::vector<cost::MeasuredProduct>;

/// Returns products of layers 256 to 8192 wide with 64 to 8192 rows: forward (NT), and the
/// gradients of inputs (NN) and of weights (TN). Without rates.
Products usual_products(DType dtype);
/// Returns all products of a transformer on up to so many tensor ranks, with micro-batches of 1, 2
/// and 4 samples; those that take most time come first. Without rates.
Products products_of_model(const TransformerConfig& model, DType dtype, const DeviceTraits& device,
                           int most_tensor_ranks);

/// Collective. Returns their rates, within about `budget_s`, of one at least: the better of two,
/// the second when all have one and as far as the time reaches. Those that would take too long
/// each, or too much memory, are left out.
Products measure_products(const Context& context, Timer& timer, const Products& products,
                          double budget_s);

/// Runs a product, with other matrices in `memory` from call to call, so that caches hold no more
/// of them than in training. Empty: the memory is too small. `memory` must outlive it.
std::function<void(Index call)> product_call(Stream& stream, const cost::MeasuredProduct& product,
                                             const Buffer& memory);

/// Sets peaks, efficiency and half_k by what was measured.
void fit_product_model(cost::Profile& profile);

// Rates of attention, forward and backward.

struct AttentionCase {
  Index sequence, query_heads, kv_heads, head_dim;
};
/// Returns 3 lengths x 2 sizes of heads.
std::vector<AttentionCase> usual_attention();

/// Collective. Adds to the profile those that `budget_s` lets it begin, the first one always.
void measure_attention(const Context& context, Timer& timer,
                       const std::vector<AttentionCase>& cases, double budget_s,
                       cost::Profile& profile);

// Links between ranks: each collective inside a node and across nodes, messages, and what a
// collective costs the work beside it.

struct Nodes {
  int count = 1, ranks = 1;  // ranks per node
  int node = 0, place = 0;   // node of this rank, and its place on the node
};
/// Collective. Throws: Error when nodes have different numbers of ranks, or theirs are not
/// neighbours.
Nodes find_nodes(const Host& host);

/// Collective. Sets Profile::node, across, collectives and contention.
void measure_links(const Context& context, Timer& timer, const Nodes& nodes, double budget_s,
                   cost::Profile& profile);

// Rates of ops that loop over memory, by the profile of a training step (--profile-ops).

/// Returns two shallow transformers that together have the usual ops.
std::vector<TransformerConfig> usual_models(DeviceKind device);

/// Collective. Trains each for a few steps, as data ranks, with micro-batches of so many samples.
/// Sets Profile::loops. `scratch`: a file to write to, which is removed.
void measure_loops(const Context& context, const std::vector<TransformerConfig>& models,
                   Index micro_batch, const std::string& scratch, cost::Profile& profile);

}  // namespace trireme::calibrate
