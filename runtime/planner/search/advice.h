// What a user asks next: why not another layout, what would be faster, and on what the model fits.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/planner/search/search.h"

namespace trireme::planner {

/// A layout that is not among the best, planned exactly, and the reason.
struct NearRefusal {
  Evaluated layout;
  Verdict verdict = Verdict::memory;  // memory, or slower
  /// Where it does not fit: the layout of the same tp and pp that needs least, if that does not fit
  /// either.
  std::optional<Evaluated> leanest;
};

/// A change of the cluster, and the best layout with it.
struct Lever {
  std::string change;  // "140.4 GiB a GPU, as H200"
  double seconds = 0;  // of a step
  std::optional<Layout> layout;
};

/// The least number of the same nodes on which a layout fits.
struct SmallestFit {
  int gpus = 0;
  Evaluated layout;
};

/// At most `most`, each of another tp and pp, nearest first: those that would be fastest, did they
/// fit, and then those that fit and are slower.
std::vector<NearRefusal> nearest_refusals(Searcher& searcher, const GpuGroup& group,
                                          const SearchResult& result, int most = 3);
std::vector<Lever> find_levers(Searcher& searcher, const GpuGroup& group, const SearchAim& aim,
                               const SearchResult& result);
/// Nothing: none of up to 32 times as many nodes, and of at most 256 more.
std::optional<SmallestFit> find_smallest_fit(Searcher& searcher, const GpuGroup& group,
                                             const SearchAim& aim);
/// The considered layout that needs least memory, planned exactly; nothing: none can be planned.
std::optional<Evaluated> find_least_need(Searcher& searcher, const GpuGroup& group,
                                         const SearchResult& result);

}  // namespace trireme::planner
