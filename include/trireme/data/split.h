// Split: which tokens of a file are for training, validation and test. The parts are contiguous and
// disjoint.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "trireme/data/token_file.h"

namespace trireme {

enum class Part { train, valid, test };
const char* name(Part part);

/// Relative sizes of the parts, as in `--split 969,30,1`.
struct Split {
  std::array<double, 3> weights{969, 30, 1};
};
/// "969,30,1"; parts left out are 0. Throws: Error when it is not one to three numbers >= 0 with a
/// sum > 0.
Split parse_split(std::string_view text);

struct TokenRange {
  Index begin = 0, end = 0;
  Index count() const { return end - begin; }
};

/// Parts by tokens, in the order train, valid, test. The cuts lie at document boundaries if that
/// leaves every part within a tenth of its share; otherwise in the middle of documents, at the
/// exact token.
std::array<TokenRange, 3> split_tokens(const TokenFile& file, const Split& split);

}  // namespace trireme
