// What a range of tokens of a file contains, for logs.
#pragma once

#include "trireme/data/token_source.h"

namespace trireme::data {

/// `samples`: of an epoch.
TokenPart::Content content_of(const TokenFile& file, const TokenRange& range, Index samples);

}  // namespace trireme::data
