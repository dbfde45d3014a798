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

std::optional<double> bytes_per_token(const TokenFile& file) {
  const std::optional<Sidecar> sidecar = read_sidecar(file);
  if (!sidecar || sidecar->text_bytes == 0) return std::nullopt;
  return sidecar->bytes_per_token();
}

TokenPart::Content content_of(const TokenFile& file, const TokenRange& range, Index samples) {
  return {file.prefix(),
          file.type(),
          range.count(),
          samples,
          document_of(file, range.begin),
          document_of(file, range.end - 1),
          file.documents()};
}

}  // namespace trireme::data
