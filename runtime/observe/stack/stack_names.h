// Names for addresses in another process of this machine, from its memory map and the symbol tables
// of the files that it has loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <elf.h>

namespace trireme::observe {

/// One line for each address, innermost first; see NamedStack.
std::vector<std::string> name_frames(std::int64_t pid, const std::vector<std::uint64_t>& stack);

/// An executable or library on the disk.
class ObjectFile {
 public:
  /// Empty when the file cannot be read or is not a 64-bit ELF file of this machine.
  explicit ObjectFile(const std::string& path);
  bool empty() const { return !elf_; }

  struct Symbol {
    std::string name;  // demangled; empty: none covers the address
    std::uint64_t offset = 0;
  };
  /// `file_offset`: of the byte in the file that is mapped at the address.
  Symbol find(std::uint64_t file_offset) const;
  /// In hexadecimal digits; empty where the file has none.
  const std::string& build_id() const { return build_id_; }

 private:
  class Parts;
  void read_symbols(Parts& parts, const Elf64_Shdr& symbols, const Elf64_Shdr& names);
  void read_build_id(Parts& parts, std::uint64_t offset);

  struct Function {
    std::uint64_t begin, bytes;  // address in the object
    std::uint32_t name;          // begins there in names_, and ends with a zero
  };
  struct Segment {
    std::uint64_t offset, bytes, address;
  };
  bool elf_ = false;
  std::string names_, build_id_;
  std::vector<Function> functions_;  // by address
  std::vector<Segment> segments_;
};

}  // namespace trireme::observe
