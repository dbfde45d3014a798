// The manifest as text and back. What is read is checked twice: that it has the form which
// describe() gives; then by check(), as what is written is too, that it makes sense.
#include "runtime/store/manifest.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "trireme/core/error.h"

#include "runtime/store/checksum.h"
#include "runtime/store/json_forms.h"

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

namespace trireme::store {

// Whether a manifest makes sense. The numbers may be hostile: each is checked before it is used,
// and the work is bounded.

namespace {

using Stored = Manifest::Stored;
using Listed = Manifest::Tensor;

void check_names_differ(std::vector<std::string_view> names, const char* of) {
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  require(twin == names.end(), "two ", of, " are called ", twin == names.end() ? "" : *twin);
}

void check_facts(const KeyValues& facts, const char* of) {
  std::vector<std::string_view> names;
  for (const auto& fact : facts) names.push_back(fact.first);
  check_names_differ(std::move(names), of);
}

void check_file(const Manifest::File& file) {
  require(!file.name.empty() && file.name.size() <= 255 && file.name != "." && file.name != ".." &&
              file.name != manifest_name &&
              file.name.find_first_of(std::string_view("/\0", 2)) == std::string::npos,
          "\"", file.name, "\" cannot be the name of a file of a checkpoint");
  require(0 <= file.bytes && file.bytes <= largest_count, file.name, " has ", file.bytes, " bytes");
  require(static_cast<Index>(file.blocks.size()) == blocks_of(file.bytes), file.name, " has ",
          file.blocks.size(), " checksums for ", file.bytes, " bytes, should have ",
          blocks_of(file.bytes));
}

/// Elements of `shape`, when they are no more than largest_count.
Index checked_count(const Shape& shape, const std::string& of) {
  Index count = 1;
  for (const Index extent : shape) {
    require(0 <= extent && extent <= largest_count, of, " has the shape ", shape);
    require(extent == 0 || count <= largest_count / extent, of, " has the shape ", shape,
            ", which is too large");
    count *= extent;
  }
  return count;
}

void check_piece(const Manifest& manifest, const Listed& tensor, const Stored& piece) {
  const auto& [file, offset, box] = piece;
  require(0 <= file && file < static_cast<int>(manifest.files.size()), "a piece of ", tensor.name,
          " lies in file ", file, " of ", manifest.files.size());
  const Shape& global = tensor.global;
  require(box.begin.dims() == global.dims() && box.size.dims() == global.dims(), "a piece of ",
          tensor.name, " at ", box.begin, " of size ", box.size, " has other dims than the tensor ",
          global);
  for (int d = 0; d < global.dims(); ++d)
    require(0 <= box.begin[d] && 0 < box.size[d] && box.size[d] <= global[d] &&
                box.begin[d] <= global[d] - box.size[d],
            "the piece of ", tensor.name, " at ", box.begin, " of size ", box.size,
            " does not lie in ", global);
  const auto& [name, bytes, blocks] = manifest.files[static_cast<std::size_t>(file)];
  const Index count = box.count();  // not more than the tensor's, which was checked
  require(0 <= offset && offset <= bytes && count <= (bytes - offset) / size_bytes(tensor.dtype),
          "the piece of ", tensor.name, " at ", box.begin, " of size ", box.size,
          " does not lie in ", name, " of ", bytes, " bytes at offset ", offset);
}

/// How often two pieces may be compared: a hostile manifest is refused, not worked on for hours.
constexpr Index largest_effort = 200'000'000;

int dim_with_most_begins(const Listed& tensor) {
  int best = 0;
  std::size_t most = 0;
  for (int d = 0; d < tensor.global.dims(); ++d) {
    std::vector<Index> begins;
    for (const Stored& piece : tensor.pieces) begins.push_back(piece.box.begin[d]);
    std::sort(begins.begin(), begins.end());
    const auto different =
        static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (different > most) std::tie(best, most) = std::tuple(d, different);
  }
  return best;
}

bool overlap(const Box& a, const Box& b) {
  for (int d = 0; d < a.begin.dims(); ++d)
    if (a.begin[d] + a.size[d] <= b.begin[d] || b.begin[d] + b.size[d] <= a.begin[d]) return false;
  return true;
}

/// A sweep along the dim in which pieces differ most; compared are only those that the sweep meets
/// at the same time.
void check_disjoint(const Listed& tensor, Index& effort) {
  const int dim = dim_with_most_begins(tensor);
  std::vector<const Box*> boxes, met;
  for (const Stored& piece : tensor.pieces) boxes.push_back(&piece.box);
  if (tensor.global.dims() > 0)
    std::sort(boxes.begin(), boxes.end(),
              [dim](const Box* a, const Box* b) { return a->begin[dim] < b->begin[dim]; });
  for (const Box* box : boxes) {
    effort += static_cast<Index>(met.size());
    require(effort <= largest_effort, "the pieces of ", tensor.name, " (", tensor.pieces.size(),
            ") lie in too intricate a way");
    std::erase_if(met, [&](const Box* other) {
      require(!overlap(*other, *box), "two pieces of ", tensor.name, " overlap: at ", other->begin,
              " of size ", other->size, ", and at ", box->begin, " of size ", box->size);
      return tensor.global.dims() > 0 && other->begin[dim] + other->size[dim] <= box->begin[dim];
    });
    met.push_back(box);
  }
}

void check_tensor(const Manifest& manifest, const Listed& tensor, Index& effort) {
  require(!tensor.name.empty(), "a tensor has no name");
  const Index elements = checked_count(tensor.global, tensor.name);
  Index covered = 0;
  for (const Stored& piece : tensor.pieces) {
    check_piece(manifest, tensor, piece);
    require(piece.box.count() <= elements - covered, "the pieces of ", tensor.name,
            " hold more than its ", elements, " elements");
    covered += piece.box.count();
  }
  require(covered == elements, "the pieces of ", tensor.name, " hold ", covered, " of its ",
          elements, " elements");
  check_disjoint(tensor, effort);
}

/// Pieces share no byte of a file.
void check_offsets(const Manifest& manifest) {
  struct Range {
    int file;
    Index begin, end;
    const Listed* tensor;
  };
  std::vector<Range> ranges;
  for (const Listed& tensor : manifest.tensors)
    for (const Stored& piece : tensor.pieces)
      ranges.push_back({piece.file, piece.offset,
                        piece.offset + piece.box.count() * size_bytes(tensor.dtype), &tensor});
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::tie(a.file, a.begin) < std::tie(b.file, b.begin);
  });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    const Range &a = ranges[i - 1], &b = ranges[i];
    require(a.file != b.file || a.end <= b.begin, "pieces of ", a.tensor->name, " and ",
            b.tensor->name, " share bytes of ",
            manifest.files[static_cast<std::size_t>(a.file)].name, " at offset ", b.begin);
  }
}

}  // namespace

void check(const Manifest& manifest) {
  require(0 <= manifest.step && manifest.step <= largest_count, "the step is ", manifest.step);
  check_facts(manifest.identity, "facts of the identity");
  check_facts(manifest.options, "options");
  check_facts(manifest.versions, "versions");
  check_facts(manifest.positions, "positions");
  std::vector<std::string_view> files;
  for (const Manifest::File& file : manifest.files) {
    check_file(file);
    files.push_back(file.name);
  }
  check_names_differ(std::move(files), "files");
  Index effort = 0;
  const Listed* before = nullptr;
  for (const Listed& tensor : manifest.tensors) {
    require(!before || before->name < tensor.name,
            "tensors are not in the order of their names: ", before ? before->name : "", ", then ",
            tensor.name);
    check_tensor(manifest, tensor, effort);
    before = &tensor;
  }
  check_offsets(manifest);
}

}  // namespace trireme::store
