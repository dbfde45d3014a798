// The manifest as text and back. What is read is checked twice: that it has the form which
// describe() gives; then by check(), as what is written is too, that it makes sense.
#include "runtime/store/manifest.h"

#include <algorithm>
#include <limits>

#include "trireme/core/error.h"

#include "runtime/store/checked_text.h"
#include "runtime/store/json_forms.h"
#include "runtime/store/manifest_check.h"

namespace trireme {

using namespace store;

namespace {

constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8};

auto counted(auto& number) { return within(number, 0, largest_count); }

}  // namespace

void describe(RecordOf<Manifest::File> auto& file, auto& member) {
  member("name", file.name);
  member("bytes", counted(file.bytes));
  member("blocks", file.blocks);
}

void describe(RecordOf<Manifest::Stored> auto& piece, auto& member) {
  member("file", within(piece.file, 0, std::numeric_limits<int>::max()));
  member("offset", counted(piece.offset));
  member("begin", piece.box.begin);
  member("size", piece.box.size);
}

void describe(RecordOf<Manifest::Tensor> auto& tensor, auto& member) {
  member("name", tensor.name);
  member("dtype", named(tensor.dtype, dtypes, "a type of this version"));
  member("shape", tensor.global);
  member("pieces", tensor.pieces);
}

void describe(RecordOf<Manifest> auto& manifest, auto& member) {
  member.constant("what", std::string("trireme checkpoint"));
  member.constant("format", Manifest::format);
  member("step", counted(manifest.step));
  member("run", manifest.run);
  member("created", manifest.created);
  member("layout", manifest.layout);
  member("identity", manifest.identity);
  member("options", manifest.options);
  member("versions", manifest.versions);
  member("positions", manifest.positions);
  member.constant("block_bytes", block_bytes);
  member("files", manifest.files);
  member("tensors", manifest.tensors);
  member.when(!manifest.verified.empty(), "verified", manifest.verified);
  member.when(manifest.verified_step >= 0, "verified_step", counted(manifest.verified_step));
}

const Manifest::Tensor* Manifest::find(const std::string& name) const {
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const Tensor& tensor, const std::string& wanted) { return tensor.name < wanted; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

const std::string* Manifest::identity_of(const std::string& name) const {
  for (const auto& [fact, value] : identity)
    if (fact == name) return &value;
  return nullptr;
}

std::string to_text(const Manifest& manifest) {
  check(manifest);
  return with_checksum(to_text(to_json(manifest)) + '\n');
}

Manifest parse_manifest(const std::string& text) {
  const Json json = parse_json(checked_line(text, "the manifest"));
  auto manifest = from_json<Manifest>(json, "the manifest");
  check(manifest);
  return manifest;
}

}  // namespace trireme
