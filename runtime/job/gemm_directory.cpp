#include "runtime/job/gemm_directory.h"

#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/comm/agree.h"

#include "runtime/core/require_call.h"

namespace trireme::job {
namespace {

namespace fs = std::filesystem;

/// An empty file of this rank, for others to see; removed when this goes.
class Probe {
 public:
  Probe(const std::string& directory, int rank)
      : path_(fmt::format("{}/.rank-{}-XXXXXX", directory, rank)) {
    const int file = ::mkstemp(path_.data());
    require_call(file >= 0, "--gemm-cache ", directory, ": no file can be made there");
    ::close(file);
  }
  ~Probe() { ::unlink(path_.c_str()); }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  std::string name() const { return fs::path(path_).filename(); }

 private:
  std::string path_;
};

}  // namespace

void open_gemm_directory(const std::string& directory, const Host& host, Problems& problems) {
  std::unique_ptr<Probe> mine;
  problems.collect([&] {
    std::error_code failed;
    fs::create_directory(directory, failed);
    require(!failed, "--gemm-cache ", directory, ": cannot be made: ", failed.message());
    mine = std::make_unique<Probe>(directory, host.rank());
  });
  const std::string theirs = gather_strings(host, mine ? mine->name() : "").front();
  if (mine && !theirs.empty() && !fs::exists(fs::path(directory) / theirs))
    problems.add("--gemm-cache ", directory,
                 ": what rank 0 writes there is not seen here; all ranks need one directory, on a "
                 "file system that all nodes share");
  host.world().barrier();  // files stay until all have looked
}

}  // namespace trireme::job
