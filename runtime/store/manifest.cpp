// The manifest as text and back. What is read is checked twice: here that it has the right form,
// with the place in the text; then by check(), as what is written is too, that it makes sense.
#include "runtime/store/manifest.h"

#include <algorithm>
#include <optional>

#include "trireme/core/error.h"

#include "runtime/core/json.h"
#include "runtime/store/checked_text.h"
#include "runtime/store/manifest_check.h"

namespace trireme {

using namespace store;

namespace {

constexpr const char* what = "trireme checkpoint";

// Writing

Json as_json(const KeyValues& facts) {
  Json::Object object;
  for (const auto& [name, value] : facts) object.emplace_back(name, value);
  return object;
}

Json as_json(const Shape& shape) { return Json::Array(shape.begin(), shape.end()); }

Json as_json(const Manifest::File& file) {
  Json::Array blocks;
  for (const Checksum& block : file.blocks) blocks.emplace_back(to_text(block));
  return Json::Object{{"name", file.name}, {"bytes", file.bytes}, {"blocks", std::move(blocks)}};
}

Json as_json(const Manifest::Tensor& tensor) {
  Json::Array pieces;
  for (const Manifest::Stored& piece : tensor.pieces)
    pieces.emplace_back(Json::Object{{"file", piece.file},
                                     {"offset", piece.offset},
                                     {"begin", as_json(piece.box.begin)},
                                     {"size", as_json(piece.box.size)}});
  return Json::Object{{"name", tensor.name},
                      {"dtype", name(tensor.dtype)},
                      {"shape", as_json(tensor.global)},
                      {"pieces", std::move(pieces)}};
}

// Reading

/// A value and how one comes to it, for error messages: tensors[3].pieces[0].offset
struct Place {
  const Json& json;
  const Place* parent = nullptr;
  std::string_view key = {};
  Index index = -1;

  std::string path() const {
    if (!parent) return "the manifest";
    if (index >= 0) return str(parent->path(), '[', index, ']');
    return parent->parent ? str(parent->path(), '.', key) : std::string(key);
  }
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(str(path(), ' ', parts...));
  }
  Place at(std::string_view member) const {
    const Json* found = json.find(member);
    if (!found) fail("has no ", member);
    return {*found, this, member};
  }
  template <class T>
  const T& as(const char* kind) const {
    const T* found = std::get_if<T>(&json.value);
    if (!found) fail("should be ", kind);
    return *found;
  }
  Index number() const {
    const Index found = as<Index>("an integer");
    if (found < 0 || found > largest_count) fail("is ", found, ", should be 0 to ", largest_count);
    return found;
  }
  const std::string& text() const { return as<std::string>("a string"); }
  /// f(place) of each element.
  template <class F>
  void each(const F& f) const {
    const auto& array = as<Json::Array>("an array");
    for (std::size_t i = 0; i < array.size(); ++i)
      f(Place{array[i], this, {}, static_cast<Index>(i)});
  }
};

KeyValues read_facts(const Place& place) {
  KeyValues facts;
  for (const auto& [name, value] : place.as<Json::Object>("an object"))
    facts.emplace_back(name, Place{value, &place, name}.text());
  return facts;
}

Shape read_shape(const Place& place) {
  Shape shape;
  place.each([&](const Place& extent) {
    if (shape.dims() == Shape::max_dims) place.fail("has more than ", Shape::max_dims, " dims");
    shape.push_back(extent.number());
  });
  return shape;
}

DType read_dtype(const Place& place) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8})
    if (place.text() == name(dtype)) return dtype;
  place.fail("is \"", place.text(), "\", which is no type of this version");
}

Manifest::File read_file(const Place& place) {
  Manifest::File file{place.at("name").text(), place.at("bytes").number(), {}};
  place.at("blocks").each([&](const Place& block) {
    const std::optional<Checksum> sum = parse_checksum(block.text());
    if (!sum) block.fail("should be 32 hexadecimal digits");
    file.blocks.push_back(*sum);
  });
  return file;
}

Manifest::Tensor read_tensor(const Place& place, Index files) {
  Manifest::Tensor tensor{
      place.at("name").text(), read_dtype(place.at("dtype")), read_shape(place.at("shape")), {}};
  place.at("pieces").each([&](const Place& piece) {
    const Index file = piece.at("file").number();
    if (file >= files) piece.fail("lies in file ", file, ", but there are ", files, " files");
    tensor.pieces.push_back({static_cast<int>(file),
                             piece.at("offset").number(),
                             {read_shape(piece.at("begin")), read_shape(piece.at("size"))}});
  });
  return tensor;
}

}  // namespace

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
  Json::Array files, tensors;
  for (const Manifest::File& file : manifest.files) files.push_back(as_json(file));
  for (const Manifest::Tensor& tensor : manifest.tensors) tensors.push_back(as_json(tensor));
  Json::Object all{{"what", what},
                   {"format", Manifest::format},
                   {"step", manifest.step},
                   {"run", manifest.run},
                   {"created", manifest.created},
                   {"layout", manifest.layout},
                   {"identity", as_json(manifest.identity)},
                   {"options", as_json(manifest.options)},
                   {"versions", as_json(manifest.versions)},
                   {"positions", as_json(manifest.positions)},
                   {"block_bytes", block_bytes},
                   {"files", std::move(files)},
                   {"tensors", std::move(tensors)}};
  if (!manifest.verified.empty()) all.emplace_back("verified", manifest.verified);
  if (manifest.verified_step >= 0) all.emplace_back("verified_step", manifest.verified_step);
  return with_checksum(to_text(Json(std::move(all))) + '\n');
}

Manifest parse_manifest(const std::string& text) {
  const Json json = parse_json(checked_line(text, "the manifest"));
  const Place top{json};
  require(top.at("what").text() == what, "the manifest is not of a trireme checkpoint");
  require(top.at("format").number() == Manifest::format, "the manifest has format ",
          top.at("format").number(), ", but this version of trireme reads ", Manifest::format);
  require(top.at("block_bytes").number() == block_bytes, "the manifest has blocks of ",
          top.at("block_bytes").number(), " bytes, but this version of trireme reads ",
          block_bytes);
  Manifest manifest;
  manifest.step = top.at("step").number();
  manifest.run = top.at("run").text();
  manifest.created = top.at("created").text();
  manifest.layout = top.at("layout").text();
  manifest.identity = read_facts(top.at("identity"));
  manifest.options = read_facts(top.at("options"));
  manifest.versions = read_facts(top.at("versions"));
  manifest.positions = read_facts(top.at("positions"));
  top.at("files").each([&](const Place& file) { manifest.files.push_back(read_file(file)); });
  const Index files = static_cast<Index>(manifest.files.size());
  top.at("tensors").each(
      [&](const Place& tensor) { manifest.tensors.push_back(read_tensor(tensor, files)); });
  if (json.find("verified") != nullptr) manifest.verified = top.at("verified").text();
  if (json.find("verified_step") != nullptr)
    manifest.verified_step = top.at("verified_step").number();
  check(manifest);
  return manifest;
}

}  // namespace trireme
