// The content of a directory of checkpoints, whether it is intact, and how two checkpoints differ:
// what the commands `trireme checkpoint …` show, as data, as text for people and as JSON. Nothing
// here writes to a directory.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/json/json.h"
#include "runtime/store/manifest.h"
#include "runtime/store/steps.h"

namespace trireme {

/// Seconds from `created` (as in Manifest) to `now` (seconds since 1970, UTC); nothing when it is
/// no time.
std::optional<Index> age_s(const std::string& created, Index now);
/// 11520 -> "3 h 12 min"
std::string readable_age(Index seconds);

/// The steps that a path on a command line names, newest first: it is the directory of a run, or of
/// one step (committed or not). `step`: that one only; -1: all. Throws: Error that names what is
/// there when none is meant.
std::vector<CommittedStep> find_steps(const std::string& path, Index step);

struct OpenedStep {
  std::string directory;
  Manifest manifest;
};
/// Reads the manifest of a step and checks it alone, whatever became of the other files. Throws:
/// Error that names it.
OpenedStep open_step(const std::string& directory);

/// A committed step as it lies on the disk.
struct StepSummary {
  Index step = 0;
  std::string path;
  Index bytes = 0;      // size of all its files
  std::string problem;  // empty: the manifest and the sizes of all files hold
  // What the manifest says; empty when it cannot be read.
  std::string created, run, layout;
  Index shards = 0;
  std::string verified = {};  // Manifest::verified
  Index verified_step = -1;   // Manifest::verified_step
};

/// The holder of the lease of a directory.
struct Writer {
  std::string host, run, since;
  Index pid = 0;
  bool gone = false;  // certainly: the lease is free for the next job
};

/// The directory of a run.
struct RunSummary {
  std::string root;
  std::vector<StepSummary> steps;       // newest first
  std::vector<std::string> unfinished;  // names of what dead or running saves left
  std::vector<std::string> set_aside;   // names of steps that a run which went back took away
  std::vector<std::string> cut_off;     // names of steps half deleted or half replaced
  std::optional<Writer> writer;
  Index bytes() const;
  bool holds() const;
};
/// Throws: Error when `root` is no directory, or that of one step, or of something else. An empty
/// one is that of a new run.
RunSummary summarize_run(const std::string& root);
std::string to_text(const RunSummary& run, Index now);
Json to_json(const RunSummary& run, Index now);

/// Sums over the tensors whose names begin with "<group>/".
struct TensorTotal {
  std::string group;  // "optimizer", "parameters", "state"; last "all"
  Index tensors = 0, elements = 0, bytes = 0;
};
std::vector<TensorTotal> totals_of(const Manifest& manifest);

/// What a manifest says: its tensors, totals, layout, facts and files.
std::string to_text(const OpenedStep& step, Index now);
Json to_json(const OpenedStep& step, Index now);

/// Everything about a step that does not hold, a line each: manifest, sizes, every block of every
/// file, extra files; then, only when all that holds, what HDF5 says of each shard. Empty: all
/// holds. `progress(done, total)` in bytes.
std::vector<std::string> step_problems(const std::string& step_directory, int threads,
                                       const std::function<void(Index, Index)>& progress = {});
/// A step that was verified, and what step_problems() found.
struct VerifiedStep {
  CommittedStep step;
  std::vector<std::string> problems;
};
std::string to_text(const VerifiedStep& verified);
Json to_json(const VerifiedStep& verified);

struct DiffOptions {
  enum class Scope { everything, parameters };
  Scope scope = Scope::everything;
  /// Elements a and b, finite and not whole numbers, may differ by tolerance * max(1, |a|, |b|).
  /// 0: not in one bit.
  double tolerance = 0;
  int threads = 1;
  Index window_bytes = Index{64} << 20;  // memory for contents, of both sides together
};

/// A fact that the manifests do not share; nothing: that side has none of this name.
struct FactDifference {
  std::string group, name;  // "options", "--lr"
  std::optional<std::string> a, b;
};

struct TensorDifference {
  enum class Kind { only_in_a, only_in_b, form, contents };
  struct Element {
    std::string value, bits;  // "1", "0x3f800000"
  };
  Kind kind = Kind::contents;
  std::string name;
  std::string form_a, form_b;  // dtype and shape: "f32 (2, 3)"; empty: that side has none

  // These members describe contents. Elements are equal when their bits are.
  Shape first;  // index of the first that differs
  Element a, b;
  Index elements = 0, differing = 0;
  Index not_finite = 0;         // differing elements that are infinite, or no number, on a side
  double largest_distance = 0;  // |a - b| over the others
  Index beyond = 0;             // differing elements that DiffOptions::tolerance does not allow

  /// Where |a - b| / max(1, |a|, |b|) is largest, over finite elements.
  struct Largest {
    double difference = 0;
    Shape index;
    Element a, b;
  };
  Largest largest;
  /// The tolerance does not allow it.
  bool counts() const { return kind != Kind::contents || beyond > 0; }
};

struct StepDiff {
  std::vector<FactDifference> facts;      // in identity, options, versions, positions
  std::vector<TensorDifference> tensors;  // by name; empty: equal
  Index tensors_compared = 0, bytes_compared = 0;
  double tolerance = 0;  // as in DiffOptions
  /// The state is the same bit by bit, whatever wrote it and with which options.
  bool equal() const { return tensors.empty(); }
  /// Tensors that differ by more than the tolerance allows; with none, the sides count as equal.
  Index beyond() const;
  /// Returns where elements differ most, by TensorDifference::Largest; null: nowhere.
  const TensorDifference* largest() const;
};
/// Compares logical tensors, whatever layouts hold them. Throws: Error when a side cannot be read.
StepDiff diff_steps(const OpenedStep& a, const OpenedStep& b, const DiffOptions& options = {});
std::string to_text(const StepDiff& diff, const OpenedStep& a, const OpenedStep& b);
Json to_json(const StepDiff& diff, const OpenedStep& a, const OpenedStep& b);

/// What prune_steps() and clean_leftovers() would delete.
struct PrunePlan {
  std::vector<Index> deleted, kept;  // newest first
  Index bytes = 0;                   // size of the steps that are deleted
  std::vector<std::string>
      damaged;  // kept steps that do not hold: the reasons; retention does not count them
  std::vector<std::string> leftovers;  // names
};
PrunePlan plan_prune(const std::string& root, const Retention& retention);
enum class Tense { done, planned };
std::string to_text(const PrunePlan& plan, Tense tense);
Json to_json(const PrunePlan& plan, Tense tense);

}  // namespace trireme
