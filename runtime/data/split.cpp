#include "trireme/data/split.h"

#include <cmath>
#include <numeric>

#include "trireme/core/error.h"

#include "runtime/core/parse_number.h"

namespace trireme {

namespace {
constexpr double tolerance = 0.1;  // of a part's share, for cuts at document boundaries

using Cuts = std::array<Index, 4>;  // 0, end of train, end of valid, tokens

// The document boundary nearest to `token`.
Index nearest_boundary(const TokenFile& file, Index token) {
  Index low = 0, high = file.documents();  // document_begin(low) <= token <= document_begin(high)
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (file.document_begin(middle) <= token ? low : high) = middle;
  }
  const Index below = file.document_begin(low), above = file.document_begin(high);
  return token - below <= above - token ? below : above;
}

bool close_to(const Cuts& cuts, const Cuts& exact) {
  for (std::size_t part = 0; part < 3; ++part) {
    const auto size = static_cast<double>(cuts[part + 1] - cuts[part]);
    const auto wanted = static_cast<double>(exact[part + 1] - exact[part]);
    if (std::abs(size - wanted) > tolerance * wanted) return false;
  }
  return true;
}
}  // namespace

const char* name(Part part) {
  constexpr std::array names{"train", "valid", "test"};
  return names[static_cast<std::size_t>(part)];
}

Split parse_split(std::string_view text) {
  Split split{{0, 0, 0}};
  const auto fail = [&] {
    throw Error(str(
        "--split ", text,
        ": wanted are one to three numbers >= 0 whose sum is finite and not 0, as in 969,30,1"));
  };
  std::string_view rest = text;
  for (std::size_t part = 0;; ++part) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    if (part == 3) fail();
    const auto weight = parse_number<double>(word);
    if (!weight || !(*weight >= 0) || !std::isfinite(*weight)) fail();
    split.weights[part] = *weight;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  const double sum = std::accumulate(split.weights.begin(), split.weights.end(), 0.0);
  if (!(sum > 0) || !std::isfinite(sum)) fail();
  return split;
}

std::array<TokenRange, 3> split_tokens(const TokenFile& file, const Split& split) {
  const double sum = std::accumulate(split.weights.begin(), split.weights.end(), 0.0);
  const auto tokens = static_cast<double>(file.tokens());
  Cuts exact{0, 0, 0, file.tokens()}, at_documents = exact;
  double share = 0;
  for (std::size_t part = 0; part < 2; ++part) {
    share += split.weights[part] / sum;
    exact[part + 1] = std::min(static_cast<Index>(std::llround(share * tokens)), file.tokens());
    at_documents[part + 1] = nearest_boundary(file, exact[part + 1]);
  }
  const Cuts& cuts = close_to(at_documents, exact) ? at_documents : exact;
  return {TokenRange{cuts[0], cuts[1]}, {cuts[1], cuts[2]}, {cuts[2], cuts[3]}};
}

}  // namespace trireme
