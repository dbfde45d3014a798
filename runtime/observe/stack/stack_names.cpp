// Only what names need is read of an ELF file: of a library with debug information a few percent.
// Every offset that a file holds is checked before it is used.
#include "runtime/observe/stack/stack_names.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>

#include <cxxabi.h>
#include <elf.h>
#include <fmt/format.h>

namespace trireme::observe {
namespace {

struct Mapping {
  std::uint64_t begin, end, offset;
  std::string path;
};

std::vector<Mapping> executable_mappings(std::int64_t pid) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  std::vector<Mapping> found;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    Mapping mapping{};
    std::string rights, device, inode;
    char dash = 0;
    fields >> std::hex >> mapping.begin >> dash >> mapping.end >> rights >> mapping.offset >>
        device >> inode >> std::ws;
    if (!fields && !fields.eof()) continue;
    std::getline(fields, mapping.path);
    if (rights.find('x') != std::string::npos) found.push_back(mapping);
  }
  return found;
}

std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return name;  // of C: "f" would become "float"
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

/// Also where the file was replaced on the disk since: the kernel opens the one that runs.
std::string path_to_open(std::int64_t pid, const Mapping& mapping) {
  return fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, mapping.begin, mapping.end);
}

}  // namespace

/// Parts of a file. Read, not mapped: a file that is cut meanwhile must not end this process.
class ObjectFile::Parts {
 public:
  explicit Parts(const std::string& path) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);  // an error for all but files
    if (error) return;
    size_ = size;
    file_.open(path, std::ios::binary);
  }

  /// As much of it as the file has, and memory should take.
  std::string read(std::uint64_t offset, std::uint64_t bytes) {
    constexpr std::uint64_t most = 1 << 28;
    if (offset >= size_) return "";
    std::string text(std::min({bytes, size_ - offset, most}), '\0');
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file_.gcount()));
    return text;
  }
  template <class T>
  bool get(std::uint64_t offset, T& value) {
    const std::string text = read(offset, sizeof(T));
    if (text.size() < sizeof(T)) return false;
    std::memcpy(&value, text.data(), sizeof(T));
    return true;
  }
  template <class T>
  std::vector<T> list(std::uint64_t offset, std::uint64_t bytes) {
    const std::string text = read(offset, bytes);
    std::vector<T> values(text.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), text.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  std::ifstream file_;
  std::uint64_t size_ = 0;
};

ObjectFile::ObjectFile(const std::string& path) {
  Parts parts(path);
  Elf64_Ehdr header;
  elf_ = parts.get(0, header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
  if (!elf_) return;
  for (const auto& segment :
       parts.list<Elf64_Phdr>(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)))
    if (segment.p_type == PT_LOAD)
      segments_.push_back({segment.p_offset, segment.p_filesz, segment.p_vaddr});
  const auto sections = parts.list<Elf64_Shdr>(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr));
  // .symtab has what .dynsym has, and more; it is missing from stripped files.
  for (const Elf64_Word type : {SHT_SYMTAB, SHT_DYNSYM}) {
    const auto section = std::find_if(sections.begin(), sections.end(),
                                      [&](const auto& each) { return each.sh_type == type; });
    if (functions_.empty() && section != sections.end() && section->sh_link < sections.size())
      read_symbols(parts, *section, sections[section->sh_link]);
  }
  for (const Elf64_Shdr& section : sections)
    if (build_id_.empty() && section.sh_type == SHT_NOTE) read_build_id(parts, section.sh_offset);
}

void ObjectFile::read_symbols(Parts& parts, const Elf64_Shdr& symbols, const Elf64_Shdr& names) {
  for (const auto& symbol : parts.list<Elf64_Sym>(symbols.sh_offset, symbols.sh_size)) {
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if ((type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF)
      functions_.push_back({symbol.st_value, symbol.st_size, symbol.st_name});
  }
  if (!functions_.empty()) names_ = parts.read(names.sh_offset, names.sh_size);
  std::sort(functions_.begin(), functions_.end(),
            [](const Function& a, const Function& b) { return a.begin < b.begin; });
}

void ObjectFile::read_build_id(Parts& parts, std::uint64_t offset) {
  constexpr std::uint64_t name_bytes = 4;  // "GNU"
  constexpr std::uint64_t most_bytes = 32;
  Elf64_Nhdr note;
  if (!parts.get(offset, note) || note.n_type != NT_GNU_BUILD_ID || note.n_namesz != name_bytes)
    return;
  const auto bytes = std::min<std::uint64_t>(note.n_descsz, most_bytes);
  for (const char byte : parts.read(offset + sizeof(note) + name_bytes, bytes))
    build_id_ += fmt::format("{:02x}", static_cast<unsigned char>(byte));
}

ObjectFile::Symbol ObjectFile::find(std::uint64_t file_offset) const {
  for (const Segment& segment : segments_) {
    if (file_offset < segment.offset || file_offset - segment.offset >= segment.bytes) continue;
    const std::uint64_t address = file_offset - segment.offset + segment.address;
    auto after = std::upper_bound(
        functions_.begin(), functions_.end(), address,
        [](std::uint64_t value, const Function& function) { return value < function.begin; });
    if (after == functions_.begin()) return {};
    const Function& function = *--after;
    if (address - function.begin >= std::max<std::uint64_t>(function.bytes, 1)) return {};
    if (function.name >= names_.size()) return {};
    // Up to the next zero.
    return {demangled(names_.c_str() + function.name), address - function.begin};
  }
  return {};
}

std::vector<std::string> name_frames(std::int64_t pid, const std::vector<std::uint64_t>& stack) {
  const std::vector<Mapping> mappings = executable_mappings(pid);
  std::map<std::string, ObjectFile> files;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < stack.size(); ++i) {
    const auto mapping =
        std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& candidate) {
          return candidate.begin <= stack[i] && stack[i] < candidate.end;
        });
    if (mapping == mappings.end()) {
      lines.push_back(fmt::format("{:#x}", stack[i]));
      continue;
    }
    auto file = files.find(mapping->path);
    if (file == files.end()) {
      ObjectFile opened(path_to_open(pid, *mapping));
      if (opened.empty()) opened = ObjectFile(mapping->path);
      file = files.emplace(mapping->path, std::move(opened)).first;
    }
    const std::uint64_t offset = stack[i] - mapping->begin + mapping->offset;
    // A return address may be the first byte of the next function; its call is before it.
    const auto symbol = file->second.find(offset - (i == 0 ? 0 : 1));
    const std::string name = mapping->path.substr(mapping->path.rfind('/') + 1);
    if (!symbol.name.empty())
      lines.push_back(
          fmt::format("{} +{:#x} ({})", symbol.name, symbol.offset + (i == 0 ? 0 : 1), name));
    else if (const std::string id = file->second.build_id(); !id.empty())
      lines.push_back(fmt::format("{} +{:#x} (build id {})", name, offset, id));
    else
      lines.push_back(fmt::format("{} +{:#x}", name.empty() ? "no file" : name, offset));
  }
  return lines;
}

}  // namespace trireme::observe
