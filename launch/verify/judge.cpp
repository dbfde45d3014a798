#include "launch/verify/judge.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/verify/program_words.h"

namespace trireme::verify {
namespace {

// Which rank and which shard a difference is in.

/// What is compared, and on whose ranks.
struct FaultWords {
  enum class Of { gradients, parameters };
  std::string what;  // "gradient of step 1"
  const LayoutOfRanks& ranks;
  Of of;
};

/// The parts of tensors that each rank holds, by what it has saved.
class RankPieces {
 public:
  /// None where the job has not saved the step.
  RankPieces(const std::string& folder, const FaultWords& words, Index step = 1);
  std::vector<Piece> of(const std::string& tensor) const;

 private:
  const FaultWords& words_;
  std::optional<SavedParameters> saved_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// The tensors of a checkpoint that differ, those of the parameters first. A step that one of them
/// has not saved had no finite gradients, which its gradient norm shows.
Check check_saved_bits(const std::string& first, const std::string& second, Check check) {
  for (const std::string& folder : {first, second})
    if (!std::filesystem::exists(step_in(folder, steps))) return check;
  const OpenedStep a = open_step(step_in(first, steps)), b = open_step(step_in(second, steps));
  const StepDiff diff = diff_steps(a, b);
  check.compared += diff.tensors_compared;
  check.differing += std::ssize(diff.tensors);
  if (diff.equal() || check.fault) return check;
  const TensorDifference* chosen = &diff.tensors.front();
  for (const TensorDifference& each : diff.tensors)
    if (each.name.starts_with("parameters/")) {
      chosen = &each;
      break;
    }
  TensorFault fault{str("saved after step ", steps, ", second run"), chosen->name,
                    layer_of(chosen->name)};
  fault.unit = "";
  fault.apart = chosen->largest_distance;
  fault.element = str(chosen->first);
  check.fault = fault;
  return check;
}

RankPieces::RankPieces(const std::string& folder, const FaultWords& words, Index step)
    : words_(words) {
  if (std::filesystem::exists(step_in(folder, step))) saved_.emplace(step_in(folder, step));
}

/// Whichever data rank has written a part of a replicated parameter, its gradient is that of the
/// first.
std::vector<Piece> RankPieces::of(const std::string& tensor) const {
  if (!saved_) return {};
  std::vector<Piece> pieces = saved_->pieces(tensor);
  const MeshShape& mesh = words_.ranks.mesh;
  for (Piece& piece : pieces) {
    if (piece.rank >= mesh.size()) piece.rank = -1;
    if (piece.rank < 0 || words_.of == FaultWords::Of::parameters || words_.ranks.sharded) continue;
    piece.rank = mesh.rank_at({{Role::model, mesh.coordinate(piece.rank, Role::model)}});
  }
  return pieces;
}

/// `pieces`: those of the distance.
TensorFault fault_of(const FaultWords& words, const std::string& tensor, const Shape& global,
                     const Distance& distance, const std::vector<Piece>& pieces) {
  TensorFault fault{words.what, tensor, layer_of(tensor)};
  if (words.of == FaultWords::Of::parameters) fault.unit = "the update of a step";
  if (distance.element >= 0) {
    fault.element = index_text(distance.element, global);
    fault.expected = distance.truth_there;
    fault.found = distance.layout_there;
  }
  if (pieces.empty()) return fault;
  const Piece& piece = pieces[distance.piece];
  fault.shard = box_text(piece.box);
  fault.shards = pieces.size();
  fault.shards_apart = distance.pieces_apart;
  fault.rank = piece.rank;
  if (piece.rank >= 0) fault.coordinates = words.ranks.mesh.place(piece.rank);
  return fault;
}

// fp32: invariant 1.
constexpr double loss_limit = 2e-7, norm_limit = 1e-5, gradient_limit = 1e-5;
// A gradient that is zero but for rounding, such as that of a key's bias, is none to compare: this
// share of the norm of all gradients may differ.
constexpr double gradient_noise = 1e-8;
// Of the update of a step, which Adam makes as large for small gradients as for large ones: where
// the sign of an element is rounding, its step is as well.
constexpr double update_limit = 1e-3, update_per_root = 4;
constexpr double parameter_rounding = 1.2e-7;
// bf16.
constexpr double times_one_rank = 1.5;
constexpr double bf16_rounding = 1.0 / 512;  // half of a unit of its last bit

double infinite_if_nan(double x) {
  return std::isfinite(x) ? x : std::numeric_limits<double>::infinity();
}

double relative(double found, double right) {
  return infinite_if_nan(std::abs(found - right) / std::max(std::abs(right), 1e-300));
}

/// How far lines are apart, by `value` of each.
template <class F>
Check check_lines(const std::string& name, const Folders& folders, double limit, F&& value) {
  const auto truth = read_steps(metrics_in(folders.truth)),
             layout = read_steps(metrics_in(folders.layout));
  const auto one = folders.one.empty() ? truth : read_steps(metrics_in(folders.one));
  Check check{name, truth.size() == layout.size() && one.size() == truth.size()};
  check.limit = limit;
  if (!check.passed) {
    check.text = str("one rank made ", truth.size(), " steps, the layout ", layout.size());
    return check;
  }
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double right = value(truth[i]), apart = relative(value(layout[i]), right);
    const double of_one = relative(value(one[i]), right);
    const double allowed =
        folders.one.empty() ? limit : std::max(times_one_rank * of_one, bf16_rounding);
    ++check.compared;
    const bool first = check.differing == 0;
    if (!(apart <= allowed)) ++check.differing;
    // The first step that differs, else the one that is farthest.
    if (i > 0 && (!first || !(apart / allowed > check.value / check.limit))) continue;
    check.value = apart;
    check.limit = allowed;
    check.worst = str("step ", i + 1);
  }
  check.passed = check.differing == 0;
  return check;
}

/// Tensors, one after the other, with how far each may be.
class TensorChecks {
 public:
  explicit TensorChecks(const std::string& name) { check_.name = name; }

  /// `limit`: of the distance, in the unit of `scale`, which the report divides by.
  void add(const DumpedTensors::Tensor& tensor, const Distance& distance, double limit,
           double scale, const std::vector<Piece>& pieces, const FaultWords& words) {
    ++check_.compared;
    one_ += distance.one * distance.one;
    layout_ += distance.layout * distance.layout;
    const double divisor = std::max(scale, 1e-300);
    const double ratio = limit > 0 ? distance.layout / limit : distance.layout > 0 ? 1e300 : 0;
    if (check_.worst.empty() || ratio > ratio_) {
      ratio_ = ratio;
      check_.worst = tensor.name;
      check_.value = distance.layout / divisor;
      check_.limit = limit / divisor;
    }
    if (distance.layout <= limit) return;
    ++check_.differing;
    if (check_.fault) return;
    check_.fault = fault_of(words, tensor.name, tensor.global, distance, pieces);
    check_.fault->apart = distance.layout / divisor;
    check_.fault->limit = limit / divisor;
  }
  void missing(const std::string& tensor, const FaultWords& words) {
    ++check_.compared;
    ++check_.differing;
    if (check_.fault) return;
    check_.fault = TensorFault{words.what, tensor, layer_of(tensor)};
    check_.fault->apart = std::numeric_limits<double>::infinity();
  }

  /// `bf16`: also of all together.
  std::vector<Check> finish(bool bf16) {
    check_.passed = check_.differing == 0;
    std::vector<Check> checks = {check_};
    if (!bf16) return checks;
    Check all{check_.name + ", all together"};
    all.value = one_ > 0 ? std::sqrt(layout_ / one_) : layout_ > 0 ? infinite_if_nan(layout_) : 0;
    all.limit = times_one_rank;
    all.passed = all.value <= all.limit;
    all.text = str("as far from fp32 as one rank, times ", all.value);
    checks.push_back(all);
    return checks;
  }

 private:
  Check check_;
  double one_ = 0, layout_ = 0, ratio_ = 0;
};

/// In the order in which backward computes gradients, about: the model from its end.
std::vector<DumpedTensors::Tensor> backward_order(const DumpedTensors& tensors) {
  return {tensors.all().rbegin(), tensors.all().rend()};
}

/// What parameters may differ by after two steps, of the update of one; nothing: the gradient is
/// zero but for rounding, so that steps by it are rounding as well.
std::optional<double> share_of_update(const GradientDistances& distances,
                                      const DumpedTensors::Tensor& tensor, double times = 1) {
  const auto found = distances.find(tensor.name);
  if (found == distances.end()) return std::nullopt;
  const double near = update_limit + times * update_per_root * std::sqrt(found->second);
  // Elements whose sign is rounding: as many as their mean and four deviations. Each is apart by
  // two steps either way.
  constexpr double deviations = 4, apart = 4;
  const double elements = std::max<double>(1, static_cast<double>(tensor.global.count()));
  const double mean = found->second * elements;
  const double turned = mean + deviations * std::sqrt(mean);
  return std::sqrt(near * near + apart * apart * turned / elements);
}

double norm_of(const std::vector<float>& values, const std::vector<float>& minus) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(values[i]) - static_cast<double>(minus[i]);
    sum += x * x;
  }
  return std::sqrt(sum);
}

Check no_step(const std::string& name, const std::string& what) {
  Check check{name};
  check.text = what + " has not saved its steps: a step without finite gradients makes no update";
  return check;
}

bool has_saved(const std::string& folder) {
  for (const Index step : {Index{1}, steps})
    if (!std::filesystem::exists(step_in(folder, step))) return false;
  return true;
}

}  // namespace

Check check_same_bits(const std::string& first, const std::string& second,
                      const LayoutOfRanks& ranks) {
  Check check{"bits of a repeated run"};
  const auto lines = read_steps(metrics_in(first)), others = read_steps(metrics_in(second));
  bool same_lines = lines.size() == others.size();
  for (std::size_t i = 0; same_lines && i < lines.size(); ++i)
    same_lines = same_bits(lines[i].loss, others[i].loss) &&
                 same_bits(lines[i].grad_norm, others[i].grad_norm);
  const FaultWords words{"gradient of step 1, second run", ranks, FaultWords::Of::gradients};
  const RankPieces held(first, words);
  const DumpedTensors a(dump_in(first) + ".gradients"), b(dump_in(second) + ".gradients");
  for (auto tensor = a.all().rbegin(); tensor != a.all().rend(); ++tensor) {
    const auto* other = b.find(tensor->name);
    require(other != nullptr && other->global == tensor->global, "the second run has no tensor ",
            tensor->name);
    const std::vector<float> x = a.read(*tensor), y = b.read(*other);
    ++check.compared;
    if (same_bits(x, y)) continue;
    ++check.differing;
    if (check.fault) continue;
    const std::vector<Piece> pieces = held.of(tensor->name);
    const Distance distance = distance_of({x, {}, y}, tensor->global, pieces);
    check.fault = fault_of(words, tensor->name, tensor->global, distance, pieces);
    check.fault->apart = distance.relative();
  }
  check = check_saved_bits(first, second, check);
  check.passed = same_lines && check.differing == 0;
  check.text = check.passed ? str("the same in losses and ", check.compared, " tensors")
               : check.differing > 0
                   ? str(check.differing, " of ", check.compared, " tensors have other bits")
                   : "losses or gradient norms have other bits";
  return check;
}

std::vector<Check> check_losses(const Folders& folders) {
  return {
      check_lines(loss_check, folders, loss_limit, [](const StepLine& line) { return line.loss; }),
      check_lines("gradient norm", folders, norm_limit,
                  [](const StepLine& line) { return line.grad_norm; })};
}

std::vector<Check> check_gradients(const Folders& folders, const LayoutOfRanks& ranks,
                                   GradientDistances& distances) {
  const bool bf16 = !folders.one.empty();
  const std::string of_one = bf16 ? folders.one : folders.truth;
  const DumpedTensors truth(dump_in(folders.truth) + ".gradients"),
      one(dump_in(of_one) + ".gradients"), layout(dump_in(folders.layout) + ".gradients");
  const auto lines = read_steps(metrics_in(folders.truth));
  const double all = lines.empty() ? 0 : lines.front().grad_norm;
  const FaultWords words{"gradient of step 1", ranks, FaultWords::Of::gradients};
  const RankPieces held(folders.layout, words);
  TensorChecks checks("gradients of step 1");
  for (const DumpedTensors::Tensor& tensor : backward_order(truth)) {
    const auto* in_one = one.find(tensor.name);
    const auto* in_layout = layout.find(tensor.name);
    if (in_one == nullptr || in_layout == nullptr || in_layout->global != tensor.global) {
      checks.missing(tensor.name, words);
      continue;
    }
    const std::vector<float> right = truth.read(tensor), found = layout.read(*in_layout);
    const std::vector<float> half = bf16 ? one.read(*in_one) : std::vector<float>();
    const std::vector<Piece> pieces = held.of(tensor.name);
    const Distance distance = distance_of({right, half, found}, tensor.global, pieces);
    // One rank's distance is that of few roundings where a tensor is small.
    const double elements = std::max<double>(1, static_cast<double>(tensor.global.count()));
    const double limit =
        gradient_noise * all + (bf16 ? times_one_rank * (1 + 4 / std::sqrt(elements)) * distance.one
                                     : gradient_limit * distance.norm);
    if (distance.norm > gradient_noise * all)
      distances[tensor.name] =
          std::min(limit, std::max(distance.layout, distance.one)) / distance.norm;
    checks.add(tensor, distance, limit, distance.norm, pieces, words);
  }
  return checks.finish(bf16);
}

std::vector<Check> check_parameters(const Folders& folders, const LayoutOfRanks& ranks,
                                    const GradientDistances& distances) {
  const std::string name = "updated parameters";
  const bool bf16 = !folders.one.empty();
  if (!has_saved(folders.truth)) return {no_step(name, "one rank")};
  if (!has_saved(folders.layout)) return {no_step(name, "the layout")};
  const DumpedTensors order(dump_in(folders.truth) + ".gradients");
  const SavedParameters before(step_in(folders.truth, 1)), after(step_in(folders.truth, steps)),
      one(step_in(bf16 ? folders.one : folders.truth, steps)),
      layout(step_in(folders.layout, steps));
  const FaultWords words{str("parameters after step ", steps), ranks, FaultWords::Of::parameters};
  const RankPieces held(folders.layout, words);
  TensorChecks checks(name);
  for (const DumpedTensors::Tensor& tensor : backward_order(order)) {
    const std::optional<double> share = share_of_update(distances, tensor);
    if (!share) continue;
    const std::vector<float> right = after.read(tensor.name, tensor.global);
    const double update = norm_of(right, before.read(tensor.name, tensor.global));
    const std::vector<float> found = layout.read(tensor.name, tensor.global);
    const std::vector<float> half =
        bf16 ? one.read(tensor.name, tensor.global) : std::vector<float>();
    const std::vector<Piece> pieces = held.of(tensor.name);
    const Distance distance = distance_of({right, half, found}, tensor.global, pieces);
    const double limit = std::max(*share * update, times_one_rank * distance.one) +
                         parameter_rounding * distance.norm;
    checks.add(tensor, distance, limit, update, pieces, words);
  }
  return checks.finish(bf16);
}

Check check_resumed(const std::string& name, const std::string& whole, const std::string& resumed,
                    bool bf16, const LayoutOfRanks& ranks, const GradientDistances& distances) {
  if (!has_saved(whole)) return no_step(name, "the job that resumes from nothing");
  if (!std::filesystem::exists(step_in(resumed, steps))) return no_step(name, "the resumed job");
  const SavedParameters before(step_in(whole, 1)), after(step_in(whole, steps)),
      other(step_in(resumed, steps));
  const DumpedTensors order(dump_in(whole) + ".gradients");
  const FaultWords words{str("parameters after step ", steps, ", ", name), ranks,
                         FaultWords::Of::parameters};
  const RankPieces held(resumed, words, steps);
  TensorChecks checks(name);
  for (const DumpedTensors::Tensor& tensor : backward_order(order)) {
    const std::optional<double> share = share_of_update(distances, tensor, times_one_rank);
    if (!share) continue;
    const std::vector<float> right = after.read(tensor.name, tensor.global);
    const double update = norm_of(right, before.read(tensor.name, tensor.global));
    const std::vector<float> found = other.read(tensor.name, tensor.global);
    const std::vector<Piece> pieces = held.of(tensor.name);
    const Distance distance = distance_of({right, {}, found}, tensor.global, pieces);
    const double limit = *share * update + parameter_rounding * distance.norm;
    checks.add(tensor, distance, limit, update, pieces, words);
  }
  Check check = checks.finish(false).front();
  const auto lines = read_steps(metrics_in(whole)), others = read_steps(metrics_in(resumed));
  if (lines.empty() || others.size() != 1) {
    check.passed = false;
    check.text = str("it made ", others.size(), " steps, not 1");
    return check;
  }
  const struct {
    const char* name;
    double right, found, limit;
  } compared[] = {
      {"loss", lines.back().loss, others.back().loss, loss_limit},
      {"gradient norm", lines.back().grad_norm, others.back().grad_norm, norm_limit},
  };
  for (const auto& each : compared) {
    const double apart = relative(each.found, each.right);
    if (apart <= (bf16 ? bf16_rounding : each.limit)) continue;
    check.passed = false;
    check.text =
        str("its ", each.name, " of step ", steps, " is ", each.found, ", not ", each.right);
  }
  return check;
}

Index layer_of(const std::string& tensor) {
  const std::string block = "block.";
  const std::size_t at = tensor.find(block);
  Index layer = -1;
  if (at != std::string::npos)
    std::from_chars(tensor.data() + at + block.size(), tensor.data() + tensor.size(), layer);
  return layer;
}

}  // namespace trireme::verify
