// PageMapping: the file of a status page, mapped. The file outlives the process that wrote it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace trireme::observe {

/// "DIRECTORY/rank-00003"
std::string page_path(const std::string& directory, int rank);

class PageMapping {
 public:
  PageMapping() = default;
  /// A new file of `bytes` zeros in the place of any old one, with all its memory reserved: a full
  /// memory file system is an error here, not a SIGBUS later. The file has its name only once
  /// `fill` has returned. Throws: Error that names the path, the call and the reason.
  static PageMapping create(const std::string& path, std::size_t bytes,
                            const std::function<void(void*)>& fill);
  /// Opens a page for reading. Throws: Error also when the file is shorter than `bytes`.
  static PageMapping open(const std::string& path, std::size_t bytes);
  /// Opens a page for writing, too.
  static PageMapping open_to_write(const std::string& path, std::size_t bytes);
  PageMapping(PageMapping&& other) noexcept { *this = static_cast<PageMapping&&>(other); }
  PageMapping& operator=(PageMapping&& other) noexcept;
  ~PageMapping();

  void* data() const { return data_; }

 private:
  static PageMapping open(const std::string& path, std::size_t bytes, int flags, int protection);
  PageMapping(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace trireme::observe
