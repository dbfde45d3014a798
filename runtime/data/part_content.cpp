#include "runtime/data/part_content.h"

#include "trireme/data/sidecar.h"

namespace trireme::data {
namespace {

/// The document, counted from 1, in which a token lies.
Index document_of(const TokenFile& file, Index token) {
  Index low = 0, high = file.documents();  // document_begin(low) <= token < document_begin(high)
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (file.document_begin(middle) <= token ? low : high) = middle;
  }
  return low + 1;
}

}  // namespace

TokenPart::Content content_of(const TokenFile& file, const TokenRange& range, Index samples) {
  std::optional<double> bytes_per_token;
  if (const auto sidecar = read_sidecar(file)) bytes_per_token = sidecar->bytes_per_token();
  return {file.prefix(),
          file.type(),
          range.count(),
          samples,
          document_of(file, range.begin),
          document_of(file, range.end - 1),
          file.documents(),
          bytes_per_token};
}

}  // namespace trireme::data
