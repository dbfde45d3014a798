// Random graphs of toy ops: views, several uses, side outputs, partly used results, tied
// parameters, skips over cuts, recompute scopes inside and around blocks.
#pragma once

#include <random>

#include "tests/graph/toy_ops.h"

namespace trireme::test {

class RandomGraph {
 public:
  enum class Scopes { recompute, none };
  /// Every other seed has a loss that backward can make, some of them inside a recompute scope.
  explicit RandomGraph(unsigned seed, Scopes scopes = Scopes::recompute,
                       LossMade made = LossMade::in_backward, int blocks = 4, int ops = 6)
      : random_(seed), scopes_(scopes) {
    x_ = graph.input("x", {4, 6});
    const Value y = graph.input("y", {4, 6}), tokens = graph.input("tokens", Spec({4}, DType::i32));
    pool_ = {apply<Rows>({tokens, parameter(Shape{4, 6})}),
             apply<Linear>({x_, parameter(Shape{6, 6})})};
    if (chance(2)) pool_.push_back(apply<Table>({}, Shape{4, 6}));
    nested(blocks, ops, 0);
    const Value out = apply<Add>({apply<Add>({pool_.back(), pick()}), pool_[1]});
    if (seed % 2 == 0) {
      loss = apply<SquaredError>({out, y});
      return;
    }
    const Value w = parameter(Shape{4, 6});
    const auto end = [&] { loss = apply<WeightedError>({out, y, w}, made); };
    chance(2) ? again(end) : end();
  }

  Graph graph;
  Value loss;

 private:
  bool chance(int n) { return random_() % static_cast<unsigned>(n) == 0; }
  template <class O, class... Args>
  Value apply(const Values& in, Args... args) {
    return graph.apply(std::make_shared<O>(args...), in).front();
  }
  template <class F>
  void again(F&& f) {
    scopes_ == Scopes::recompute ? graph.recompute(f) : f();
  }
  // Usually a new one; sometimes one that exists (tied).
  Value parameter(Shape shape) {
    if (chance(4))
      for (const Parameter& p : graph.parameters())
        if (p.spec.shape == shape) return {&graph, p.value};
    return graph.parameter(str("p", graph.parameters().size()), shape, replicated(), normal(1));
  }
  // Mostly a recent value; sometimes an old one, over many cuts.
  Value pick() {
    const std::size_t n = pool_.size();
    return chance(4) ? pool_[random_() % n]
                     : pool_[n - 1 - random_() % std::min<std::size_t>(n, 3)];
  }

  // Blocks, some of them in a recompute scope of their own or in a common one, down to three deep.
  void nested(int blocks, int ops, int depth) {
    for (int b = 0; b < blocks;) {
      const int together = depth < 2 && chance(2)
                               ? 1 + static_cast<int>(random_() % static_cast<unsigned>(blocks - b))
                               : 0;
      if (together > 0) {
        again([&] { nested(together, ops, depth + 1); });
        b += together;
      } else {
        graph.block("block", block_++, [&] { body(ops, depth); });
        ++b;
        if (chance(3)) step();  // outside of all blocks
      }
    }
  }
  void body(int ops, int depth) {
    for (int i = 0; i < ops; ++i) {
      if (depth < 4 && chance(5))
        again([&] { body(3, depth + 1); });
      else
        step();
    }
  }

  void step() {
    switch (random_() % 14) {
      case 0:
        return pool_.push_back(apply<Tanh>({pick()}));
      case 1:
        return pool_.push_back(apply<Tanh>({apply<Mul>({pick(), pick()})}));
      case 2:
        return pool_.push_back(apply<Add>({pick(), pick()}));
      case 3:
        return pool_.push_back(apply<RmsNorm>({pick(), parameter(Shape{6})}));
      case 4:
        return pool_.push_back(apply<Linear>({pick(), parameter(Shape{6, 6})}));
      case 5:
        return pool_.push_back(apply<Tanh>({apply<HalfSquare>({pick()})}));
      case 6:
        return two_results();
      case 7:
        return packed_parts();
      case 8:
        return part_of_wide();
      case 9:
        return pool_.push_back(
            apply<Reshape>({apply<Tanh>({apply<Reshape>({pick()}, Shape{24})})}, Shape{4, 6}));
      case 10:
        return part_of_parameter();
      case 11:
        return pool_.push_back(apply<Mul>({pick(), parameter(Shape{4, 6})}));
      case 12:
        return same_twice();
      default:
        return rows_apart();
    }
  }
  void two_results() {
    const Values both = graph.apply(std::make_shared<SinCos>(), {pick()});
    const unsigned which = random_() % 3;
    if (which != 0) pool_.push_back(both[0]);
    if (which != 1) pool_.push_back(both[1]);
  }
  // Three parts of one value; sometimes the same part twice.
  void packed_parts() {
    const Value wide = apply<Linear>({pick(), parameter(Shape{18, 6})});
    const auto part = [&](Index i) { return apply<Slice>({wide}, 1, 6 * i, 6 * i + 6); };
    const Value q = part(0), k = chance(3) ? q : part(1), v = chance(3) ? k : part(2);
    pool_.push_back(apply<Tanh>({apply<Mix>({q, k, v})}));
  }
  // A part of a value, so that the rest of its gradient is zero; sometimes parts that overlap.
  void part_of_wide() {
    const Value wide = apply<Tanh>({apply<Linear>({pick(), parameter(Shape{12, 6})})});
    pool_.push_back(apply<Contiguous>({apply<Slice>({wide}, 1, Index{2}, Index{8})}));
    if (chance(2))
      pool_.push_back(apply<Contiguous>({apply<Slice>({wide}, 1, Index{5}, Index{11})}));
    if (chance(3))
      pool_.push_back(apply<Mix>({apply<Slice>({wide}, 1, Index{0}, Index{6}), pick(), pick()}));
  }
  void part_of_parameter() {
    const Value wide = parameter(Shape{12, 6});
    const Value a = apply<Slice>({wide}, 0, Index{0}, Index{6}),
                b = apply<Slice>({wide}, 0, Index{3}, Index{9});
    pool_.push_back(apply<Linear>({apply<Tanh>({apply<Linear>({pick(), a})}), chance(2) ? b : a}));
  }
  // One op that receives a value twice, or overlapping parts of one.
  void same_twice() {
    const Value wide = apply<Tanh>({apply<Linear>({pick(), parameter(Shape{12, 6})})});
    const auto part = [&](Index i) { return apply<Slice>({wide}, 1, i, i + 6); };
    const Index other = std::array<Index, 3>{0, 3, 6}[random_() % 3];
    pool_.push_back(apply<Tanh>({apply<Weighted>({part(0), part(other)})}));
    if (chance(2)) pool_.push_back(apply<Weighted>({pool_.back(), pool_.back()}));
  }
  void rows_apart() {
    const Value a = pick();
    pool_.push_back(apply<Mix>({a, apply<Table>({}, Shape{4, 6}), pick()}));
    if (chance(2)) pool_.push_back(apply<Mix>({a, a, pool_.back()}));
  }

  std::mt19937 random_;
  Scopes scopes_;
  Value x_;
  Values pool_;
  int block_ = 0;
};

}  // namespace trireme::test
