#include "runtime/store/safetensors/directory.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include <sys/stat.h>

#include "trireme/core/error.h"

#include "runtime/core/files/other_files.h"
#include "runtime/core/json/json.h"
#include "runtime/core/text/one_line.h"
#include "runtime/store/file.h"
#include "runtime/store/manifest.h"

namespace trireme::safetensors {
namespace {

constexpr JsonLimits index_limits{most_header_bytes, Index{4} << 20, 8};
bool is_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         one_line(name, NAME_MAX) == name;
}

using FileOfTensor = std::map<std::string, std::string>;

/// {"weight_map": {"<tensor>": "<file>"}}
FileOfTensor parse_index(const std::string& text) {
  const Json json = parse_json(text, index_limits);
  const Json* map = json.find("weight_map");
  require(map != nullptr, "has no weight_map");
  const auto* members = std::get_if<Json::Object>(&map->value);
  require(members != nullptr && !members->empty(),
          "weight_map should be an object with a file for each tensor");
  FileOfTensor files;
  for (const auto& [tensor, value] : *members) {
    const auto* name = std::get_if<std::string>(&value.value);
    check_name(tensor);
    require(name != nullptr, "weight_map.", tensor, " should be a string");
    require(is_plain_name(*name), "weight_map.", tensor, " is \"", one_line(*name, most_of_a_name),
            "\", which is no name of a file in this directory");
    files.emplace(tensor, *name);
  }
  return files;
}

FileOfTensor read_index(const std::string& path) {
  const std::string text = read_whole(path, most_header_bytes);
  try {
    return parse_index(text);
  } catch (const Error& error) {
    throw Error(str(path, ": ", error.what()));
  }
}

/// Those of `names` that are no files in `path`; "": none.
std::string missing_files(const std::string& path, const std::set<std::string>& names) {
  constexpr Index most_listed = 5;
  std::string missing;
  Index count = 0;
  for (const std::string& name : names)
    if (!is_file(str(path, '/', name)) && ++count <= most_listed)
      missing += (missing.empty() ? "" : ", ") + name;
  return missing + (count > most_listed ? str(" and ", count - most_listed, " more") : "");
}

/// Adds the tensors of a file, and its header to `sums`.
void add_file(Directory& directory, const std::string& name, std::string& sums) {
  const FileHeader file = read_header(directory.path + '/' + name);
  const int index = static_cast<int>(directory.files.size());
  if (index == 0) directory.metadata = file.header.metadata;
  directory.files.push_back(name);
  directory.header_bytes += file.data_begin;
  require(directory.header_bytes <= most_header_bytes, directory.path,
          ": the headers of its files have more than ", most_header_bytes,
          " bytes together; this is no model");
  sums += to_text(file.sum);
  for (const StoredTensor& tensor : file.header.tensors)
    directory.tensors.push_back({tensor.name, tensor.type, tensor.shape, index,
                                 file.data_begin + tensor.begin, tensor.end - tensor.begin});
}

/// Adds all files, and their headers to `sums`. Throws: Error with a line for each broken one, the
/// first few, and one for those that are missing.
void add_files(Directory& directory, const std::set<std::string>& names, std::string& sums) {
  constexpr Index most_listed = 5;
  std::string problems;
  if (const std::string missing = missing_files(directory.path, names); !missing.empty())
    problems = str(directory.path, ": ", index_name, " names files that are missing: ", missing);
  Index broken = 0;
  for (const std::string& name : names) try {
      if (is_file(directory.path + '/' + name)) add_file(directory, name, sums);
    } catch (const Error& error) {
      if (++broken <= most_listed) problems += str(problems.empty() ? "" : "\n", error.what());
    }
  if (broken > most_listed)
    problems += str('\n', directory.path, ": and ", broken - most_listed, " more broken file",
                    broken - most_listed == 1 ? "" : "s");
  require(problems.empty(), problems);
}

/// `directory.tensors`, by name, are in the index, each with its file; what else the index has is
/// absent.
void check_index(Directory& directory, const FileOfTensor& index) {
  const std::string path = directory.path + '/' + index_name;
  for (std::size_t i = 1; i < directory.tensors.size(); ++i)
    require(directory.tensors[i].name != directory.tensors[i - 1].name, directory.path, ": tensor ",
            directory.tensors[i].name, " is in two files");
  for (const LocatedTensor& tensor : directory.tensors) {
    const auto found = index.find(tensor.name);
    require(found != index.end(), directory.file_path(tensor), ": has a tensor ", tensor.name,
            ", which ", index_name, " does not name");
    const std::string& file = directory.files[static_cast<std::size_t>(tensor.file)];
    require(found->second == file, path, ": tensor ", tensor.name, " is said to be in ",
            found->second, " but is in ", file);
  }
  for (const auto& [tensor, file] : index)
    if (directory.find(tensor) == nullptr) directory.absent.push_back(tensor);
}

[[noreturn]] void refuse_other(const std::string& path) {
  const std::string other = instead_of(FilesOf::model, path);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) throw Error(str(path, ": ", other));
  throw Error(str(path, ": has neither ", single_file_name, " nor ", index_name, ": ",
                  other.empty() ? "a directory of a model in safetensors files is needed" : other));
}

}  // namespace

const LocatedTensor* Directory::find(const std::string& name) const {
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const LocatedTensor& tensor, const std::string& wanted) { return tensor.name < wanted; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

Index Directory::bytes() const {
  Index sum = 0;
  for (const LocatedTensor& tensor : tensors) sum += tensor.bytes;
  return sum;
}

Directory open_directory(const std::string& path) {
  Directory directory;
  directory.path = path;
  const bool single = is_file(path + '/' + single_file_name);
  if (!single && !is_file(path + '/' + index_name)) refuse_other(path);
  FileOfTensor index;
  std::set<std::string> names{single_file_name};
  if (!single) {
    index = read_index(path + '/' + index_name);
    names.clear();
    for (const auto& [tensor, file] : index) names.insert(file);
  }
  std::string sums;
  add_files(directory, names, sums);
  directory.headers = checksum(sums.data(), static_cast<Index>(sums.size()));
  std::sort(directory.tensors.begin(), directory.tensors.end(),
            [](const LocatedTensor& a, const LocatedTensor& b) { return a.name < b.name; });
  if (!single) check_index(directory, index);
  return directory;
}

namespace {

constexpr JsonLimits json_limits{most_header_bytes, Index{4} << 20, 4};
constexpr const char* metadata_name = "__metadata__";
constexpr std::size_t header_alignment = 8;
struct Type {
  std::string_view name;
  Index bytes;
};
constexpr std::array<Type, 16> types{{{"BOOL", 1},
                                      {"U8", 1},
                                      {"I8", 1},
                                      {"F8_E5M2", 1},
                                      {"F8_E4M3", 1},
                                      {"F8_E8M0", 1},
                                      {"I16", 2},
                                      {"U16", 2},
                                      {"F16", 2},
                                      {"BF16", 2},
                                      {"I32", 4},
                                      {"U32", 4},
                                      {"F32", 4},
                                      {"F64", 8},
                                      {"I64", 8},
                                      {"U64", 8}}};

/// The member `key` of the tensor `name`.
template <class T>
const T& member(const Json& tensor, const std::string& name, const char* key, const char* kind) {
  const Json* found = tensor.find(key);
  require(found != nullptr, "tensor ", name, " has no ", key);
  const T* value = std::get_if<T>(&found->value);
  require(value != nullptr, "tensor ", name, ": ", key, " should be ", kind);
  return *value;
}

Index whole_number(const Json& json, const std::string& name, const char* what) {
  const Index* number = std::get_if<Index>(&json.value);
  require(number != nullptr && *number >= 0 && *number <= store::largest_count, "tensor ", name,
          ": ", what, " holds something else than whole numbers from 0 to ", store::largest_count);
  return *number;
}

Shape parse_shape(const Json::Array& extents, const std::string& name) {
  require(extents.size() <= Shape::max_dims, "tensor ", name, " has ", extents.size(),
          " dims, more than ", Shape::max_dims);
  Shape shape;
  for (const Json& extent : extents) shape.push_back(whole_number(extent, name, "shape"));
  return shape;
}

/// Bytes that the shape needs. The extents beside a 0 must be possible too: shapes are multiplied.
Index bytes_of(const StoredTensor& tensor) {
  const auto* type = std::find_if(types.begin(), types.end(),
                                  [&](const Type& each) { return each.name == tensor.type; });
  require(type != types.end(), "tensor ", tensor.name, " has the type ",
          one_line(tensor.type, most_of_a_name), ", which this version of trireme does not know");
  Index bytes = type->bytes;
  bool empty = false;
  for (const Index extent : tensor.shape) {
    empty = empty || extent == 0;
    const Index most = extent == 0 ? 1 : extent;
    require(bytes <= store::largest_count / most, "tensor ", tensor.name, ": its shape ",
            tensor.shape, " is too large");
    bytes *= most;
  }
  return empty ? 0 : bytes;
}

StoredTensor parse_tensor(const std::string& name, const Json& json) {
  check_name(name);
  require(std::holds_alternative<Json::Object>(json.value), "tensor ", name,
          " should be an object with dtype, shape and data_offsets");
  for (const auto& [key, value] : std::get<Json::Object>(json.value))
    require(key == "dtype" || key == "shape" || key == "data_offsets", "tensor ", name,
            " has a member ", one_line(key, most_of_a_name), ", which the format does not know");
  StoredTensor tensor{name, member<std::string>(json, name, "dtype", "a string"),
                      parse_shape(member<Json::Array>(json, name, "shape", "an array"), name)};
  const auto& offsets = member<Json::Array>(json, name, "data_offsets", "an array");
  require(offsets.size() == 2, "tensor ", name, ": data_offsets has ", offsets.size(),
          " elements, should have 2");
  tensor.begin = whole_number(offsets[0], name, "data_offsets");
  tensor.end = whole_number(offsets[1], name, "data_offsets");
  const Index bytes = bytes_of(tensor);
  require(tensor.begin <= tensor.end && tensor.end - tensor.begin == bytes, "tensor ", name,
          ": data_offsets ", tensor.begin, " to ", tensor.end, " do not hold the ", bytes,
          " bytes of ", tensor.type, " ", tensor.shape);
  return tensor;
}

KeyValues parse_metadata(const Json& json) {
  const auto* members = std::get_if<Json::Object>(&json.value);
  require(members != nullptr, metadata_name, " should be an object");
  KeyValues metadata;
  for (const auto& [key, value] : *members) {
    const auto* text = std::get_if<std::string>(&value.value);
    require(text != nullptr, metadata_name, ".", one_line(key, most_of_a_name),
            " should be a string");
    metadata.emplace_back(key, *text);
  }
  return metadata;
}

/// The tensors, sorted, fill the data: no gap, no overlap.
void check_tiling(const std::vector<StoredTensor>& tensors, Index data_bytes) {
  Index end = 0;
  for (const StoredTensor& tensor : tensors) {
    require(tensor.begin >= end, "tensor ", tensor.name, " begins at byte ", tensor.begin,
            " of the data, inside of the tensor before it, which ends at ", end);
    require(tensor.begin == end, "tensor ", tensor.name, " begins at byte ", tensor.begin,
            " of the data, but the tensor before it ends at ", end);
    end = tensor.end;
  }
  require(end == data_bytes, "the tensors end at byte ", end, " of the data, but the file has ",
          data_bytes, end > data_bytes ? ": it is cut off" : ": bytes of no tensor follow");
}

}  // namespace

void check_name(const std::string& name) {
  constexpr std::size_t most = 1024;
  require(!name.empty(), "a tensor has no name");
  require(name.size() <= most, "a tensor has a name of ", name.size(), " bytes, more than ", most);
  require(one_line(name, most) == name,
          "the name of a tensor has control characters: ", one_line(to_text(Json(name)), 2000));
}

Header parse_header(std::string_view text, Index data_bytes) {
  require(text.starts_with('{'), "the header should begin with {");
  const Json json = parse_json(text, json_limits);
  Header header;
  for (const auto& [name, value] : std::get<Json::Object>(json.value)) {
    if (name == metadata_name)
      header.metadata = parse_metadata(value);
    else
      header.tensors.push_back(parse_tensor(name, value));
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  check_tiling(header.tensors, data_bytes);
  return header;
}

FileHeader read_header(const std::string& path) {
  const File file = File::open(path, Caching::buffered);
  const Index bytes = file.size();
  try {
    std::array<char, length_bytes> first{};
    const bool whole = file.read_at(0, first.data(), length_bytes) == length_bytes;
    require(whole, "has ", bytes, " bytes; a safetensors file begins with 8, the header's length");
    std::uint64_t length = 0;
    std::memcpy(&length, first.data(), sizeof length);
    const bool possible = length <= static_cast<std::uint64_t>(most_header_bytes);
    const std::string other = what_begins_so({first.data(), first.size()});
    require(possible || other.empty(), other);
    require(possible, "says that its header has ", length, " bytes, more than ", most_header_bytes,
            "; this is no safetensors file");
    const auto json_bytes = static_cast<Index>(length);
    require(json_bytes <= bytes - length_bytes, "has ", bytes, " bytes, but its header alone ",
            json_bytes, ": it is cut off");
    std::string json(static_cast<std::size_t>(json_bytes), '\0');
    require(file.read_at(length_bytes, json.data(), json_bytes) == json_bytes,
            "ends inside of its header");
    const Index data_begin = length_bytes + json_bytes;
    return {parse_header(json, bytes - data_begin), data_begin, checksum(json.data(), json_bytes)};
  } catch (const Error& error) {
    throw Error(str(path, ": ", error.what()));
  }
}

std::string header_text(const Header& header) {
  Json::Object all;
  if (!header.metadata.empty())
    all.emplace_back(metadata_name, Json::Object(header.metadata.begin(), header.metadata.end()));
  for (const StoredTensor& tensor : header.tensors)
    all.emplace_back(tensor.name,
                     Json::Object{{"dtype", tensor.type},
                                  {"shape", Json::Array(tensor.shape.begin(), tensor.shape.end())},
                                  {"data_offsets", Json::Array{tensor.begin, tensor.end}}});
  std::string json = to_text(Json(std::move(all)));
  json.resize((json.size() + header_alignment - 1) / header_alignment * header_alignment, ' ');
  const std::uint64_t length = json.size();
  std::string text(length_bytes, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + json;
}

}  // namespace trireme::safetensors
