// Names for addresses in another process of this machine, from its memory map and the symbol tables
// of the files that it has loaded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::observe {

/// One line for each address, innermost first; see NamedStack.
std::vector<std::string> name_frames(std::int64_t pid, const std::vector<std::uint64_t>& stack);

/// An executable or library on the disk.
class ObjectFile {
 public:
  /// Empty when the file cannot be read or is not a 64-bit ELF file of this machine.
  explicit ObjectFile(const std::string& path);
  bool empty() const { return bytes_.empty(); }

  struct Symbol {
    std::string name;  // demangled; empty: none covers the address
    std::uint64_t offset = 0;
  };
  /// `file_offset`: of the byte in the file that is mapped at the address.
  Symbol find(std::uint64_t file_offset) const;
  /// In hexadecimal digits; empty where the file has none.
  std::string build_id() const;

 private:
  template <class T>
  bool get(std::uint64_t offset, T& value) const;
  std::string_view text_at(std::uint64_t offset) const;
  void read_sections();
  void read_symbols(std::uint64_t offset, std::uint64_t bytes, std::uint64_t names);

  struct Function {
    std::uint64_t begin, bytes, name;  // address in the object; offset of its name in the file
  };
  struct Segment {
    std::uint64_t offset, bytes, address;
  };
  std::string bytes_;
  std::vector<Function> functions_;  // by address
  std::vector<Segment> segments_;
};

}  // namespace trireme::observe
