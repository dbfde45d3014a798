// Implements linear_cross_entropy (trireme/nn/loss.h). The last layer of a language model and its
// loss as one op, which processes the rows in pieces: of the logits, the largest tensor of small
// models, only one piece exists at a time.
#include <algorithm>

#include "trireme/kernels/cross_entropy.h"
#include "trireme/kernels/gemm.h"
#include "trireme/nn/loss.h"

#include "runtime/core/round_up.h"
#include "runtime/nn/op_helpers.h"
#include "runtime/nn/products.h"
#include "runtime/nn/vocabulary.h"

namespace trireme {
namespace {

using namespace nn;

/// What ops may ask of their workspace.
constexpr Index aligned(Index bytes) { return round_up(bytes, 256); }

/// Where things lie in the workspace, in bytes; the products' own comes last.
struct Pieces {
  Index rows = 0;    // of a piece; the last one may have fewer
  Index stride = 0;  // of its logits, in elements
  Index partials = 0, loss = 0, products = 0;
  Index forward_bytes = 0, backward_bytes = 0;
};

/// Rows of logits begin at cache lines, whatever the vocabulary: products on a GPU need this to be
/// fast.
constexpr Index line_bytes = 128;

Tensor logits_of(void* memory, const Tensor& x, const Tensor& weight, Index stride) {
  Tensor logits(memory, {x.shape[0], weight.shape[0]}, x.dtype);
  logits.strides[0] = stride;
  return logits;
}

/// Inputs: x, weight, targets. Outputs: loss, logsumexp of each row.
class LinearCrossEntropy final : public KernelOp {
 public:
  LinearCrossEntropy(VocabularyPart part, Index chunks, Pieces pieces)
      : part_(part), chunks_(chunks), pieces_(pieces) {}
  std::string name() const override { return "linear_cross_entropy"; }
  Outputs infer(const Specs& in) const override {
    require_rows(in[0], "linear_cross_entropy's input");
    require_rows_like(in[0], in[1], "linear_cross_entropy's weight");
    const Index rows = in[0].shape[0];
    require(in[0].shape[1] == in[1].shape[1], "linear_cross_entropy's input ", in[0], " has ",
            in[0].shape[1], " channels but its weight (columns, channels) is ", in[1]);
    require(in[2].dtype == DType::i32 && in[2].shape.count() == rows,
            "targets are i32, one a row of the input ", in[0], ", not ", in[2]);
    require(1 <= chunks_ && chunks_ <= rows, "linear_cross_entropy takes 1 to ", rows,
            " chunks for ", rows, " rows, not ", chunks_);
    part_.require_columns(in[1].shape[0]);
    return {Spec(Shape{}, DType::f64), Output::side(Spec({rows}))};
  }
  bool is_weight(int input) const override { return input == 1; }
  Saved saved(const BackwardWork&) const override {
    return Saved::input(0) | Saved::input(1) | Saved::input(2) | Saved::output(1);
  }
  bool forward_in_backward() const override { return true; }
  Sharing sharing() const override { return Sharing().gradient_over_input(0, 0); }
  bool differentiable(int input) const override { return input != 2; }
  bool accumulates(int) const override { return true; }
  Index forward_workspace_bytes(const Specs&) const override { return pieces_.forward_bytes; }
  Index backward_workspace_bytes(const Specs&) const override { return pieces_.backward_bytes; }
  double flops(const Specs& in) const override {
    const auto logits = static_cast<double>(in[0].shape[0] * in[1].shape[0]);
    return logits * (2.0 * static_cast<double>(in[0].shape[1]) + 8.0);
  }
  /// The logits are made again, and their loss where forward did not.
  double backward_flops(const Specs& in, const BackwardWork& work) const override {
    const auto logits = static_cast<double>(in[0].shape[0] * in[1].shape[0]);
    const int products = 1 + work.wants(0) + work.wants(1), sweeps = 1 + work.makes_outputs;
    return logits * (2.0 * products * static_cast<double>(in[0].shape[1]) + 8.0 * sweeps);
  }
  /// Each piece reads the weights, writes its logits and reads them for the loss.
  double bytes(const Specs& in) const override {
    return rows_bytes(in) + weight_bytes(in[0], in[1]) + 2 * logits_bytes(in);
  }
  /// ... reads and writes them where they become their gradients, and reads these and the weights
  /// or the input for each product of a gradient.
  double backward_bytes(const Specs& in, const BackwardWork& work) const override {
    const int sweeps = 3 + work.makes_outputs + work.wants(0) + work.wants(1);
    double sum = rows_bytes(in) + weight_bytes(in[0], in[1]) + sweeps * logits_bytes(in);
    if (work.wants(0)) sum += weight_bytes(in[0], in[1]) + work.passes(0) * bytes_of(in[0]);
    if (work.wants(1))
      sum += bytes_of(in[0]) + static_cast<double>(2 * (pieces(in[0]) - 1) + work.passes(1)) *
                                   gradient_bytes_of(in[1]);
    return sum;
  }

  WorkParts parts(const Specs& in) const override {
    WorkParts parts;
    for_each_piece(in[0], [&](const Spec& x, Index count) {
      parts.products.push_back(counted(forward_work(x, in[1]), count));
      add_partials(x, count, parts);
    });
    return parts;
  }
  WorkParts backward_parts(const Specs& in, const BackwardWork& work) const override {
    WorkParts parts;
    for_each_piece(in[0], [&](const Spec& x, Index count) {
      parts.products.push_back(counted(forward_work(x, in[1]), count));
      if (work.wants(1)) add_weight_gradients(x, in[1], count, work.adds(1), parts);
      if (work.wants(0))
        parts.products.push_back(counted(input_gradient_work(x, in[1], work.adds(0)), count));
      if (work.makes_outputs) add_partials(x, count, parts);
    });
    return parts;
  }

  void prepare_forward(Exec& e, Preparation& preparation) const override {
    for (Index first = 0; first < e.input(0).shape[0]; first += pieces_.rows)
      prepare(e.stream(), logits_product(e, first), workspace(e, pieces_.products), preparation);
  }
  void prepare_backward(Exec& e, Preparation& preparation) const override {
    prepare_forward(e, preparation);
    for (Index first = 0; first < e.input(0).shape[0]; first += pieces_.rows)
      for_each_gradient(e, first, [&](const Gemm& product) {
        prepare(e.stream(), product, workspace(e, pieces_.products), preparation);
      });
  }

  void forward(Exec& e) const override {
    for (Index first = 0; first < e.input(0).shape[0]; first += pieces_.rows)
      add_to_loss(e, first, make_logits(e, first));
  }

  void backward(Exec& e) const override {
    for (Index first = 0; first < e.input(0).shape[0]; first += pieces_.rows) {
      const LogitRows rows = make_logits(e, first);
      if (e.makes_outputs()) add_to_loss(e, first, rows);
      differentiate_logits(e.stream(), part_, rows, e.grad_output(0).as<double>(),
                           rows.logits.data);
      for_each_gradient(e, first, [&](const Gemm& product) {
        multiply(e.stream(), product, workspace(e, pieces_.products));
      });
    }
  }

  Placement placement(const Placements& in, const std::vector<bool>&) const override {
    const Placement x = part_.ranks > 1 ? Placement::partial_gradient : Placement::replicated;
    require(in[0] == x && in[2] == Placement::replicated,
            "linear_cross_entropy takes a replicated input with replicated weights or a "
            "partial_gradient one with sharded weights, and replicated targets, not ",
            in[0], ", ", in[1], " and ", in[2]);
    return Placement::replicated;
  }

 private:
  /// Calls f(piece of x, how many of its size).
  template <class F>
  void for_each_piece(const Spec& x, F&& f) const {
    const Index rows = x.shape[0], whole = rows / pieces_.rows, rest = rows % pieces_.rows;
    const auto piece = [&](Index count) { return Spec({count, x.shape[1]}, x.dtype); };
    if (whole > 0) f(piece(pieces_.rows), whole);
    if (rest > 0) f(piece(rest), Index{1});
  }
  static ProductWork counted(ProductWork product, Index count) {
    product.count = count;
    return product;
  }
  /// All pieces add to the gradient of the weights, but for the first one where nothing is there.
  static void add_weight_gradients(const Spec& x, const Spec& weight, Index count, bool there,
                                   WorkParts& parts) {
    const bool first = parts.products.size() == 1;  // its logits
    const Index assigned = first && !there ? 1 : 0;
    if (assigned > 0) parts.products.push_back(weight_gradient_work(x, weight, false));
    if (count > assigned)
      parts.products.push_back(counted(weight_gradient_work(x, weight, true), count - assigned));
  }
  void add_partials(const Spec& x, Index count, WorkParts& parts) const {
    for (const CollectiveWork& one : exchanged_partials(part_, x.shape[0]))
      parts.collectives.insert(parts.collectives.end(), static_cast<std::size_t>(count), one);
  }

  Index pieces(const Spec& x) const { return (x.shape[0] + pieces_.rows - 1) / pieces_.rows; }
  /// Of the weights, which each piece reads.
  double weight_bytes(const Spec& x, const Spec& weight) const {
    return static_cast<double>(pieces(x)) * bytes_of(weight);
  }
  static double logits_bytes(const Specs& in) {
    return bytes_of(Spec({in[0].shape[0], in[1].shape[0]}, in[0].dtype));
  }
  /// Of input and targets, logsumexp, and the loss or its gradient.
  static double rows_bytes(const Specs& in) {
    return bytes_of(in[0]) + bytes_of(in[2]) + bytes_of(Spec({in[0].shape[0]})) +
           static_cast<double>(size_bytes(DType::f64));
  }

  static std::byte* workspace(const Exec& e, Index at) {
    return static_cast<std::byte*>(e.workspace()) + at;
  }
  Tensor piece_of(const Tensor& x, Index first) const {
    return rows_of(x, first, std::min(pieces_.rows, x.shape[0] - first));
  }

  /// Those of a piece, at the beginning of the workspace.
  Tensor logits(const Exec& e, Index first) const {
    return logits_of(workspace(e, 0), piece_of(e.input(0), first), e.input(1), pieces_.stride);
  }
  Gemm logits_product(const Exec& e, Index first) const {
    return forward_product(piece_of(e.input(0), first), e.input(1), logits(e, first));
  }

  LogitRows make_logits(Exec& e, Index first) const {
    multiply(e.stream(), logits_product(e, first), workspace(e, pieces_.products));
    return {logits(e, first), e.input(2).as<std::int32_t>() + first,
            e.output(1).as<float>() + first};
  }

  /// The first piece assigns.
  void add_to_loss(Exec& e, Index first, const LogitRows& rows) const {
    const Tensor& loss = e.output(0);
    Tensor mine = loss;
    if (first > 0) mine.data = workspace(e, pieces_.loss);
    sum_loss(e.stream(), e.group(Role::tensor), part_, rows,
             reinterpret_cast<RowPartial*>(workspace(e, pieces_.partials)), mine.as<double>());
    if (first > 0) e.stream().add(loss, mine);
  }

  /// That of the weight comes first: that of the input may lie over the input.
  template <class F>
  void for_each_gradient(const Exec& e, Index first, F&& f) const {
    const Tensor dlogits = logits(e, first);
    if (e.wants(1))
      f(weight_gradient(dlogits, piece_of(e.input(0), first), e.grad_input(1),
                        first > 0 ? Write::add : write_of(e, 1)));
    if (e.wants(0))
      f(input_gradient(dlogits, e.input(1), piece_of(e.grad_input(0), first), write_of(e, 0)));
  }

  VocabularyPart part_;
  Index chunks_;
  Pieces pieces_;
};

Pieces plan_pieces(const Graph& graph, const VocabularyPart& part, const Spec& x_spec,
                   const Spec& w_spec, Index chunks) {
  if (x_spec.shape.dims() != 2 || w_spec.shape.dims() != 2 || chunks < 1 ||
      chunks > x_spec.shape[0])
    return {};  // infer says what is wrong
  const Index all = x_spec.shape[0];
  Pieces p;
  p.rows = (all + chunks - 1) / chunks;
  const Index row_bytes = round_up(w_spec.shape[0] * size_bytes(x_spec.dtype), line_bytes);
  p.stride = row_bytes / size_bytes(x_spec.dtype);
  p.partials = aligned(p.rows * row_bytes);
  p.loss = p.partials + aligned(partials_bytes(part, p.rows));
  p.products = p.loss + aligned(size_bytes(DType::f64));
  const Tensor w = without_memory(w_spec), dw(nullptr, w.shape);
  Index forward = 0, backward = 0;
  for (const Index rows : {p.rows, all % p.rows}) {
    if (rows == 0) continue;
    const Tensor x = rows_of(without_memory(x_spec), 0, rows),
                 logits = logits_of(nullptr, x, w, p.stride);
    forward = std::max(forward, product_bytes(graph, forward_product(x, w, logits)));
    backward =
        std::max({backward, product_bytes(graph, input_gradient(logits, w, x, Write::assign)),
                  product_bytes(graph, weight_gradient(logits, x, dw, Write::add))});
  }
  p.forward_bytes = p.products + forward;
  p.backward_bytes = p.products + std::max(forward, backward);
  return p;
}

}  // namespace

Value linear_cross_entropy(Value x, Value weight, Value targets, Index vocabulary, Index chunks) {
  const VocabularyPart part = vocabulary_part(weight, vocabulary);
  const Pieces pieces = plan_pieces(x.graph(), part, x.spec(), weight.spec(), chunks);
  return apply<LinearCrossEntropy>({x, weight, targets}, part, chunks, pieces);
}

}  // namespace trireme
