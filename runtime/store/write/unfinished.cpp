#include "runtime/store/write/unfinished.h"

#include <filesystem>

#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/output/output_file.h"
#include "runtime/store/file.h"
#include "runtime/store/system_call.h"

namespace trireme {

using namespace store;

namespace {

namespace fs = std::filesystem;

const std::string& checked(const std::string& path, Unfinished::Over over) {
  std::error_code ignored;
  const bool taken =
      over == Unfinished::Over::nothing && fs::exists(fs::symlink_status(path, ignored));
  require(!taken, path, ": exists already; remove it, or give another name");
  return path;
}

/// Closes in any case.
class OpenOutput {
 public:
  OpenOutput(const std::string& path, const OutputKind& kind) : file_(open_output(path, kind)) {}
  ~OpenOutput() { ::close(file_); }
  OpenOutput(const OpenOutput&) = delete;
  OpenOutput& operator=(const OpenOutput&) = delete;

  void write(const std::string& path, const std::string& text) const {
    for (std::size_t done = 0; done < text.size();)
      done += static_cast<std::size_t>(check_call(
          repeat_interrupted([&] { return ::write(file_, &text[done], text.size() - done); }), path,
          "write"));
  }

 private:
  int file_;
};

}  // namespace

Unfinished::Unfinished(std::string path, HeldPath::Kind kind, Over over)
    : final_(std::move(path)), over_(over), held_(kind, checked(final_, over) + ".", ".tmp") {}

void Unfinished::finish() {
  if (over_ == Over::file)
    rename_path(held_.path(), final_);
  else
    rename_new(held_.path(), final_);
  held_.keep();
  sync_directory(parent_directory(final_));
}

void replace_file(const std::string& path, const std::string& text) {
  Unfinished fresh(path, HeldPath::Kind::file, Unfinished::Over::file);
  File file = File::open_to_write(fresh.path(), Caching::buffered);
  file.write_at(0, text.data(), static_cast<Index>(text.size()));
  file.sync();
  file.close();
  fresh.finish();
}

void write_output(const std::string& path, const std::string& text, const OutputKind& kind) {
  if (is_stream(path)) return OpenOutput(path, kind).write(path, text);
  const std::string wrong = why_no_output(path, kind);
  require(wrong.empty(), path, ": ", wrong);
  replace_file(behind_links(path), text);
}

}  // namespace trireme
