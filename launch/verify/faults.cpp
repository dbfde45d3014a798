#include "launch/verify/faults.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "launch/verify/program_words.h"

namespace trireme::verify {
namespace {

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

}  // namespace

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
    piece.rank = mesh.rank_at({{Axis::pipeline, mesh.coordinate(piece.rank, Axis::pipeline)},
                               {Axis::tensor, mesh.coordinate(piece.rank, Axis::tensor)}});
  }
  return pieces;
}

std::string coordinates_of(int rank, const MeshShape& mesh) {
  return fmt::format("pipeline {}, data {}, tensor {}", mesh.coordinate(rank, Axis::pipeline),
                     mesh.coordinate(rank, Axis::data), mesh.coordinate(rank, Axis::tensor));
}

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
  if (piece.rank >= 0) fault.coordinates = coordinates_of(piece.rank, words.ranks.mesh);
  return fault;
}

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

}  // namespace trireme::verify
