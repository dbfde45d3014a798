// What a range of tokens of a file contains, for logs.
#pragma once

#include "trireme/data/token_source.h"

namespace trireme::data {

/// By its sidecar; none where there is none, or no text in it.
std::optional<double> bytes_per_token(const TokenFile& file);

/// `samples`: of an epoch.
TokenPart::Content content_of(const TokenFile& file, const TokenRange& range, Index samples);

}  // namespace trireme::data
