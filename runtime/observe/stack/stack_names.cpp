// Only what names need is read of ELF. Every offset that a file holds is checked before it is used.
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

/// Read, not mapped: a file that is cut meanwhile must not end this process. Empty on an error.
std::string bytes_of(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);  // an error also for a directory
  if (error) return "";
  std::string bytes(size, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace

template <class T>
bool ObjectFile::get(std::uint64_t offset, T& value) const {
  if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return false;
  std::memcpy(&value, bytes_.data() + offset, sizeof(T));
  return true;
}

ObjectFile::ObjectFile(const std::string& path) {
  bytes_ = bytes_of(path);
  Elf64_Ehdr header;
  const bool elf = get(0, header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                   header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
  if (!elf) {
    bytes_.clear();
    return;
  }
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (get(header.e_phoff + i * sizeof(segment), segment) && segment.p_type == PT_LOAD)
      segments_.push_back({segment.p_offset, segment.p_filesz, segment.p_vaddr});
  }
  read_sections();
}

// .symtab has what .dynsym has, and more; it is missing from stripped files.
void ObjectFile::read_sections() {
  Elf64_Ehdr header;
  if (!get(0, header)) return;
  const auto section_at = [&](std::uint64_t index, Elf64_Shdr& section) {
    return index < header.e_shnum && get(header.e_shoff + index * sizeof(section), section);
  };
  for (const Elf64_Word type : {SHT_SYMTAB, SHT_DYNSYM})
    for (std::uint64_t i = 0; functions_.empty() && i < header.e_shnum; ++i) {
      Elf64_Shdr section, names;
      if (section_at(i, section) && section.sh_type == type && section_at(section.sh_link, names))
        read_symbols(section.sh_offset, section.sh_size, names.sh_offset);
    }
  std::sort(functions_.begin(), functions_.end(),
            [](const Function& a, const Function& b) { return a.begin < b.begin; });
}

void ObjectFile::read_symbols(std::uint64_t offset, std::uint64_t bytes, std::uint64_t names) {
  for (std::uint64_t i = 0; i < std::min(bytes, std::uint64_t{bytes_.size()}) / sizeof(Elf64_Sym);
       ++i) {
    Elf64_Sym symbol;
    if (!get(offset + i * sizeof(symbol), symbol)) return;
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if ((type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF)
      functions_.push_back({symbol.st_value, symbol.st_size, names + symbol.st_name});
  }
}

std::string_view ObjectFile::text_at(std::uint64_t offset) const {
  if (offset >= bytes_.size()) return {};
  const std::string_view rest = std::string_view(bytes_).substr(offset);
  return rest.substr(0, rest.find('\0'));
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
    return {demangled(std::string(text_at(function.name))), address - function.begin};
  }
  return {};
}

std::string ObjectFile::build_id() const {
  Elf64_Ehdr header;
  if (!get(0, header)) return "";
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    Elf64_Nhdr note;
    if (!get(header.e_shoff + i * sizeof(section), section) || section.sh_type != SHT_NOTE ||
        !get(section.sh_offset, note) || note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4)
      continue;
    constexpr std::uint64_t name_bytes = 4;  // "GNU"
    std::string digits;
    for (std::uint64_t k = 0; k < std::min<std::uint64_t>(note.n_descsz, 32); ++k) {
      unsigned char byte = 0;
      if (!get(section.sh_offset + sizeof(note) + name_bytes + k, byte)) return "";
      digits += fmt::format("{:02x}", byte);
    }
    return digits;
  }
  return "";
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
