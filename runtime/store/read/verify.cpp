// Implements verify_step (reader.h).
// Checking a whole step: sizes and names first, then every block of the files that have the right
// size.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "trireme/core/error.h"
#include "trireme/core/thread_pool.h"

#include "runtime/store/read/block_reader.h"
#include "runtime/store/read/reader.h"

namespace trireme {

using namespace store;

namespace {

/// Problems of many threads, sorted by place.
class Problems {
 public:
  void add(int file, Index block, const std::string& text) {
    const std::lock_guard lock(mutex_);
    found_.insert({file, block, text});
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> texts;
    for (const Problem& p : found_) texts.push_back(p.text);
    return texts;
  }

 private:
  struct Problem {
    int file;
    Index block;
    std::string text;
    auto operator<=>(const Problem&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  std::mutex mutex_;
  std::set<Problem> found_;
};

std::vector<BlockRun> runs_of(const Manifest::File& file, int index) {
  std::vector<BlockRun> runs;
  const Index blocks = blocks_of(file.bytes);
  for (Index first = 0; first < blocks; first += most_blocks_read)
    runs.push_back({index, first, std::min(most_blocks_read, blocks - first)});
  return runs;
}

void find_extra_files(const std::string& directory, const Manifest& manifest, Problems& problems) {
  std::set<std::string> known = {manifest_name};
  for (const Manifest::File& file : manifest.files) known.insert(file.name);
  for (const std::string& name : list_directory(directory))
    if (!known.contains(name))
      problems.add(static_cast<int>(manifest.files.size()), 0,
                   name + ": is not part of this checkpoint");
}

}  // namespace

std::vector<std::string> verify_step(const std::string& directory, const Manifest& manifest,
                                     int threads,
                                     const std::function<void(Index, Index)>& progress) {
  require(threads >= 1, "a checkpoint is verified by at least one thread, not ", threads);
  Problems problems;
  std::vector<BlockRun> runs;
  Index total = 0, done = 0;
  for (int i = 0; i < static_cast<int>(manifest.files.size()); ++i) {
    const Manifest::File& file = manifest.files[static_cast<std::size_t>(i)];
    const std::string problem = size_problem(directory, file);
    if (!problem.empty()) {
      problems.add(i, -1, file.name + ": " + problem);
      continue;
    }
    total += file.bytes;
    for (const BlockRun& run : runs_of(file, i)) runs.push_back(run);
  }
  find_extra_files(directory, manifest, problems);

  std::atomic<std::size_t> next{0};
  std::mutex report;
  const auto check_runs = [&](Index, Index) {
    BlockReader reader(directory, manifest);
    for (std::size_t i; (i = next++) < runs.size();) {
      const BlockRun& run = runs[i];
      const Manifest::File& file = manifest.files[static_cast<std::size_t>(run.file)];
      const BlockReader::Result blocks = reader.read(run);
      if (!blocks.problem.empty())
        problems.add(run.file, run.first, file.name + ": " + blocks.problem);
      for (const Index block : blocks.damaged)
        problems.add(run.file, block, file.name + ": " + damage(manifest, run.file, block));
      const std::lock_guard lock(report);
      done += std::min(run.count * block_bytes, file.bytes - run.first * block_bytes);
      if (progress) progress(done, total);
    }
  };
  ThreadPool pool(threads);
  pool.parallel_for(threads, 1, check_runs);
  return problems.lines();
}

}  // namespace trireme
