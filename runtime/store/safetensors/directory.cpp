#include "runtime/store/safetensors/directory.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <map>
#include <set>

#include <sys/stat.h>

#include "trireme/core/error.h"

#include "runtime/core/files/other_files.h"
#include "runtime/core/json/json.h"
#include "runtime/core/text/one_line.h"
#include "runtime/store/file.h"

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

}  // namespace trireme::safetensors
