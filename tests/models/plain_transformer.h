// The transformer's loss in plain fp64 loops, from named parameters: what the traced model is
// checked against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/models/transformer_config.h"

namespace trireme {

class PlainTransformer {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  PlainTransformer(const TransformerConfig& config, std::map<std::string, Row> parameters)
      : c_(config), p_(std::move(parameters)) {}

  /// Of one sample.
  double loss(const std::int32_t* tokens, const std::int32_t* targets) const {
    Rows x;
    for (Index t = 0; t < c_.seq_length; ++t) x.push_back(embed(tokens[t], t));
    for (Index i = 0; i < c_.num_layers; ++i) {
      const std::string block = "block." + std::to_string(i) + ".";
      add(x, attention(norm(x, block + "attention_norm"), block + "attention."));
      add(x, mlp(norm(x, block + "mlp_norm"), block + "mlp."));
    }
    x = norm(x, "norm");
    const Row& head = p_.at(c_.tie_embeddings ? "embedding.weight" : "head.weight");
    double sum = 0;
    for (std::size_t t = 0; t < x.size(); ++t) {
      if (targets[t] < 0) continue;
      const Row logits = product(x[t], head, c_.vocab_size);
      double total = 0;
      for (const double logit : logits) total += std::exp(logit);
      sum += std::log(total) - logits[static_cast<std::size_t>(targets[t])];
    }
    return sum;
  }

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }

  static void add(Rows& x, const Rows& delta) {
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t c = 0; c < x[t].size(); ++c) x[t][c] += delta[t][c];
  }
  Row embed(std::int32_t token, Index position) const {
    Row row(at(c_.hidden_size));
    for (Index c = 0; c < c_.hidden_size; ++c) {
      row[at(c)] = p_.at("embedding.weight")[at(token * c_.hidden_size + c)];
      if (c_.position == PositionKind::learned)
        row[at(c)] += p_.at("position.weight")[at(position * c_.hidden_size + c)];
    }
    return row;
  }
  static Row product(const Row& x, const Row& weight, Index out) {
    Row y(at(out));
    for (std::size_t o = 0; o < y.size(); ++o)
      for (std::size_t i = 0; i < x.size(); ++i) y[o] += x[i] * weight[o * x.size() + i];
    return y;
  }
  Rows linear(const Rows& x, const std::string& name, Index out, bool own_bias = false) const {
    Rows y;
    for (const Row& row : x) {
      y.push_back(product(row, p_.at(name + ".weight"), out));
      if (c_.add_bias_linear || own_bias)
        for (std::size_t o = 0; o < y.back().size(); ++o) y.back()[o] += p_.at(name + ".bias")[o];
    }
    return y;
  }
  Rows norm(Rows x, const std::string& name) const {
    const bool layer = c_.normalization == Normalization::layer_norm;
    for (Row& row : x) {
      const double n = static_cast<double>(row.size());
      double mean = 0, square = 0;
      for (const double v : row) mean += layer ? v / n : 0;
      for (const double v : row) square += (v - mean) * (v - mean) / n;
      for (std::size_t c = 0; c < row.size(); ++c)
        row[c] =
            (row[c] - mean) / std::sqrt(square + c_.norm_epsilon) * p_.at(name + ".weight")[c] +
            (layer ? p_.at(name + ".bias")[c] : 0);
    }
    return x;
  }
  /// Each head as a row of its own.
  Rows norm_heads(const Rows& x, const std::string& name) const {
    Rows all = x;
    for (Row& row : all)
      for (std::size_t head = 0; head < row.size(); head += at(c_.head_dim())) {
        const auto begin = row.begin() + static_cast<std::ptrdiff_t>(head);
        const Row normed = norm({Row(begin, begin + c_.head_dim())}, name).front();
        std::copy(normed.begin(), normed.end(), begin);
      }
    return all;
  }
  /// Radians a position of pair j. The scaled forms follow the text of the papers, case by case.
  double frequency(double j) const {
    const RotaryScaling& s = c_.rotary_scaling;
    const double d = double(c_.head_dim()), base = c_.rotary_base, factor = s.factor;
    const double f = std::pow(base, -2.0 * j / d), length = double(s.original_positions);
    const double wavelength = 2 * M_PI / f;
    if (s.kind == RotaryScalingKind::linear) return f / factor;
    if (s.kind == RotaryScalingKind::llama3) {
      const double low = s.low_frequency_factor, high = s.high_frequency_factor;
      if (wavelength < length / high) return f;
      if (wavelength > length / low) return f / factor;
      const double smooth = (length / wavelength - low) / (high - low);
      return (1 - smooth) * f / factor + smooth * f;
    }
    if (s.kind == RotaryScalingKind::yarn) {
      const auto pair = [&](double turns) {
        return d * std::log(length / (turns * 2 * M_PI)) / (2 * std::log(base));
      };
      const double low = std::max(std::floor(pair(s.beta_fast)), 0.0);
      const double high = std::min(std::ceil(pair(s.beta_slow)), d - 1);
      const double ramp = j <= low ? 0 : j >= high ? 1 : (j - low) / (high - low);
      return f / factor * ramp + f * (1 - ramp);
    }
    return f;
  }
  double amplitude() const {
    const RotaryScaling& s = c_.rotary_scaling;
    if (s.kind != RotaryScalingKind::yarn) return 1;
    return s.attention_factor > 0 ? s.attention_factor : 0.1 * std::log(double(s.factor)) + 1;
  }
  /// Turns pair (j, j + head_dim / 2) of every head by position * frequency(j).
  void turn(Rows& x) const {
    const Index d = c_.head_dim();
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t head = 0; head < x[t].size(); head += at(d))
        for (std::size_t j = 0; j < at(d / 2); ++j) {
          double &a = x[t][head + j], &b = x[t][head + j + at(d / 2)];
          const double angle = static_cast<double>(t) * frequency(double(j)), m = amplitude();
          const double turned = m * (a * std::cos(angle) - b * std::sin(angle));
          b = m * (a * std::sin(angle) + b * std::cos(angle));
          a = turned;
        }
  }
  Rows attention(const Rows& x, const std::string& name) const {
    const Index d = c_.head_dim(), kv = c_.kv_heads() * d, width = c_.num_attention_heads * d;
    const bool own = c_.add_qkv_bias || c_.add_attention_bias;
    Rows q = linear(x, name + "query", width, own), k = linear(x, name + "key", kv, own);
    const Rows v = linear(x, name + "value", kv, own);
    if (c_.qk_layernorm) {
      q = norm_heads(q, name + "query_norm");
      k = norm_heads(k, name + "key_norm");
    }
    if (c_.position == PositionKind::rotary) {
      turn(q);
      turn(k);
    }
    Rows y(x.size(), Row(at(width)));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (Index h = 0; h < c_.num_attention_heads; ++h) {
        const std::size_t from = at(h * d),
                          shared = at(h * c_.kv_heads() / c_.num_attention_heads * d);
        Row weight(t + 1);
        double total = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (std::size_t c = 0; c < at(d); ++c) score += q[t][from + c] * k[s][shared + c];
          total += weight[s] = std::exp(score / std::sqrt(double(d)));
        }
        for (std::size_t s = 0; s <= t; ++s)
          for (std::size_t c = 0; c < at(d); ++c)
            y[t][from + c] += weight[s] / total * v[s][shared + c];
      }
    return linear(y, name + "output", c_.hidden_size, c_.add_attention_bias);
  }
  double activation(double x) const {
    if (c_.mlp == MlpKind::swiglu) return x / (1 + std::exp(-x));
    if (c_.mlp == MlpKind::gelu_erf) return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  Rows mlp(const Rows& x, const std::string& name) const {
    Rows h = linear(x, name + "up", c_.ffn());
    const bool gated = c_.mlp == MlpKind::swiglu;
    const Rows gate = gated ? linear(x, name + "gate", c_.ffn()) : h;
    for (std::size_t t = 0; t < h.size(); ++t)
      for (std::size_t c = 0; c < h[t].size(); ++c)
        h[t][c] = activation(gate[t][c]) * (gated ? h[t][c] : 1);
    return linear(h, name + "down", c_.hidden_size);
  }

  TransformerConfig c_;
  std::map<std::string, Row> p_;
};

}  // namespace trireme
