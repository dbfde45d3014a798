#include "launch/supervisor/machine/run_directory.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/version.h"
#include "trireme/options/problems.h"

#include "launch/supervisor/machine/progress.h"
#include "runtime/core/files/plain_file.h"
#include "runtime/core/output/output_file.h"
#include "runtime/core/process/private_directory.h"
#include "runtime/core/require_call.h"
#include "runtime/store/file.h"
#include "runtime/store/inspect/inspect.h"
#include "runtime/store/lease/lease.h"
#include "runtime/store/lease/lock_file.h"
#include "runtime/store/steps.h"
#include "runtime/store/tiers/time_line.h"
#include "runtime/store/write/unfinished.h"

namespace trireme::supervisor {
namespace {

namespace fs = std::filesystem;
using store::LeaseHolder;

constexpr Index kept_logs = 10;
const std::string attempt_prefix = "attempt-", private_prefix = "trireme-";

std::optional<LeaseHolder> holder_of(const Paths& paths) {
  const auto seen = store::look_at_lock(paths.lock);
  return seen ? store::parse_lease_holder(seen->text) : std::nullopt;
}

std::vector<fs::path> entries_of(const std::string& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, missing))
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  return found;
}

std::string scratch_root() {
  const char* path = std::getenv("TMPDIR");
  return path == nullptr || *path == '\0' ? "/tmp" : path;
}
std::string shared_root() { return fs::is_directory("/dev/shm") ? "/dev/shm" : scratch_root(); }

/// The beginning of a name below scratch_root() or shared_root(); random letters follow.
std::string private_name(const std::string& key, Index attempt) {
  return fmt::format("{}{}-a{}", private_prefix, key, attempt);
}
std::string shared_name(const std::string& key, Index attempt) {
  return private_name(key, attempt) + (scratch_root() == shared_root() ? "-shared" : "");
}

/// Where a run was when it was first supervised, and the inode of its folder: a directory that is
/// renamed keeps that, a copy has another one.
struct Place {
  std::string inode, path;  // empty: not known
};

std::string inode_of(const Paths& paths) {
  struct stat folder {};
  return ::stat(paths.folder.c_str(), &folder) == 0 ? std::to_string(folder.st_ino) : "";
}

/// "INODE PATH"; of older versions the path alone.
Place noted_place(const Paths& paths) {
  try {
    constexpr Index longest_inode = 32;
    const std::string text = read_whole(paths.place, PATH_MAX + longest_inode);
    const std::size_t path = std::min(text.find('/'), text.size());
    return {text.substr(0, path == 0 ? 0 : path - 1), text.substr(path)};
  } catch (const Error&) {
    return {};
  }
}

/// The place that the key is made from. A copy has one of its own: its folder is another one, or a
/// run of this id is where it was first.
std::string place_of(const Paths& paths, const std::string& run_id) {
  const Place place = noted_place(paths);
  if (place.path.empty() || place.path == paths.run) return paths.run;
  const bool is_copy = (!place.inode.empty() && place.inode != inode_of(paths)) ||
                       read_history(Paths(place.path)).run == run_id;
  return is_copy ? paths.run : place.path;
}

/// --train-iters of the newest checkpoint; -1: unknown.
Index iterations_of(const std::string& run) {
  const std::vector<CommittedStep> steps = list_steps(run);
  if (steps.empty()) return -1;
  for (const auto& [name, value] : open_step(steps.front().path).manifest.options)
    if (name == "--train-iters") return std::atoll(value.c_str());
  return -1;
}

/// Returns false where a job deleted a step between the listing and the reading: all that was
/// listed may then be gone, though the run has newer steps.
bool find_durable_steps(const std::string& run, std::size_t most, Index newest,
                        std::vector<Index>& steps) {
  steps.clear();
  bool pruned = false;
  for (const CommittedStep& step : list_steps(run)) {
    if (steps.size() == most) return true;
    if (step.step > newest) continue;
    try {
      read_manifest(step.path);
      steps.push_back(step.step);
    } catch (const Error&) {  // damaged, or just deleted
      pruned |= ::access(step.path.c_str(), F_OK) != 0;
    }
  }
  return !pruned || steps.size() == most;
}

/// Also before it exists. A name that cannot be looked at stays as it is: who makes it says why.
std::string whole_path(const std::string& directory) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(directory, failed);
  if (failed) return directory;
  const fs::path whole = fs::weakly_canonical(absolute, failed);
  return failed ? absolute.string() : whole.string();
}

}  // namespace

Paths::Paths(const std::string& directory)
    : run(whole_path(directory)),
      folder(run + "/supervisor"),
      lock(folder + "/lock"),
      ledger(folder + "/attempts.jsonl"),
      nodes(folder + "/nodes.json"),
      stop(folder + "/stop"),
      preflight(folder + "/preflight.json"),
      place(folder + "/place") {}

std::string Paths::attempt(Index number) const {
  return fmt::format("{}/{}{:04}", folder, attempt_prefix, number);
}

std::unique_ptr<Lease> take_run(const Paths& paths,
                                const std::function<void(const std::string& line)>& log) {
  fs::create_directories(paths.folder);
  const auto holder = holder_of(paths);
  require(!holder || !holder->certainly_lives(), paths.run, ": ", holder ? holder->described() : "",
          " supervises this run already");
  LeaseOptions at_once;
  at_once.wait_s = 0;
  bool said = false;
  const auto waits = [&] {  // for one of another machine, whose lock changes while it runs
    if (const auto other = holder_of(paths); other && !std::exchange(said, true))
      log(str(paths.run, ": waits to see whether ", other->described(), " still runs"));
    return false;
  };
  try {
    auto lease = std::make_unique<Lease>(paths.folder, "trireme-run", at_once, waits);
    clean_leftovers(paths.folder);  // locks that supervisors which were killed had begun
    return lease;
  } catch (const Error& error) {
    const auto other = holder_of(paths);
    throw Error(str(paths.run, ": ",
                    other ? other->described() + " supervises this run already" : error.what()));
  }
}

std::optional<std::string> supervisor_of(const Paths& paths) {
  const auto holder = holder_of(paths);
  if (!holder || holder->certainly_gone()) return std::nullopt;
  return str("pid ", holder->pid, " on ", holder->host, ", since ", holder->since);
}

History read_history(const Paths& paths) {
  std::error_code missing;
  if (!fs::exists(paths.ledger, missing)) return {};
  constexpr Index most_bytes = Index{1} << 30;
  History history = replay(read_whole(paths.ledger, most_bytes));
  require(history.newer.empty(), paths.ledger, " has ", history.newer, ", but this trireme, ",
          version(), ", reads up to format ", ledger_format, ": use that one or a later one");
  if (!history.attempts.empty() && !history.attempts.back().ended) {  // its end would say it
    Attempt& last = history.attempts.back();
    last.started = started_from(paths, last.began.attempt);
  }
  return history;
}

History history_of(const Paths& paths) {
  require(::access(paths.ledger.c_str(), F_OK) == 0, paths.run,
          " is no run of `trireme run`: there is no ", paths.ledger);
  return read_history(paths);
}

void check_run(const Job& job, const History& history) {
  require(history.program.empty() || history.program == job.name(), job.run, " is a run of ",
          history.program, ", not of ", job.name(), ": give --save another directory");
  std::error_code failed;
  if (job.watched && fs::is_directory(job.run, failed)) summarize_run(job.run);
}

void make_run_directory(const Job& job, Problems& problems) {
  const std::string option = str(job.watched ? "--save " : "--run-dir ", job.run, ": ");
  std::error_code failed;
  static_cast<void>(fs::current_path(failed));
  if (failed) return problems.add("the working directory is gone: ", failed.message());
  const Paths paths(job.run);
  const bool there = fs::symlink_status(job.run, failed).type() != fs::file_type::not_found;
  const std::string wrong = there ? why_no_output_directory(job.run) : "";
  if (wrong.empty()) fs::create_directories(paths.folder, failed);
  if (!wrong.empty())
    problems.add(option, wrong);
  else if (failed)
    problems.add(option, "cannot be made: ", failed.message());
  else if (::access(paths.folder.c_str(), W_OK | X_OK) != 0)
    problems.add(option, "cannot be written to: ", std::strerror(errno));
  for (const std::string& file :
       {paths.lock, paths.ledger, paths.nodes, paths.stop, paths.preflight, paths.place})
    if (const std::string what = what_is_no_plain_file(file); !what.empty())
      problems.add(option, file, " is ", what,
                   ", but trireme run has a file there: remove it, or give another directory");
  if (::access(scratch_root().c_str(), W_OK | X_OK) != 0)
    problems.add("TMPDIR ", scratch_root(), ": cannot be written to: ", std::strerror(errno));
}

std::vector<Index> durable_steps(const std::string& run, std::size_t most, Index newest) {
  constexpr int tries = 100;
  std::vector<Index> steps;
  for (int i = 0; i < tries && !find_durable_steps(run, most, newest, steps); ++i)
    ;
  return steps;
}

bool has_saved_since(const std::string& run, Index date) {
  for (const CommittedStep& step : list_steps(run)) try {
      return date_of(read_manifest(step.path).created) >= date;
    } catch (const Error&) {  // damaged: as in durable_steps()
    }
  return false;
}

Started started_from(const Paths& paths, Index attempt) {
  try {
    const auto line = store::read_time_line(paths.run);
    if (line && line->start().attempt == attempt) return {line->start().step, line->start().tier};
  } catch (const Error&) {  // damaged: the job warns of it
  }
  return {};
}

Index iterations_of(const Job& job) {
  try {
    return job.iterations.empty() ? iterations_of(job.run) : std::atoll(job.iterations.c_str());
  } catch (const Error&) {  // no manifest that can be read
    return -1;
  }
}

bool training_is_finished(const Job& job) {
  const Index iterations = iterations_of(job);
  if (iterations < 0) return false;
  const std::vector<Index> durable = durable_steps(job.run, 1);
  return last_step_in(job.metrics) >= iterations ||
         (!durable.empty() && durable.front() >= iterations) || iterations == 0;
}

void forget_attempts(const Paths& paths, Index newest) {
  for (const fs::path& entry : entries_of(paths.folder, attempt_prefix)) {
    const std::string number = entry.filename().string().substr(attempt_prefix.size());
    std::error_code ignored;
    if (std::atoll(number.c_str()) <= newest - kept_logs) fs::remove_all(entry, ignored);
  }
}

std::string key_of(const Paths& paths, const std::string& run_id) {
  return fmt::format("{:016x}", std::hash<std::string>()(run_id + '\n' + place_of(paths, run_id)));
}

void keep_place(const Paths& paths, const std::string& run_id) {
  const Place noted = noted_place(paths), now{inode_of(paths), place_of(paths, run_id)};
  if (noted.inode != now.inode || noted.path != now.path)
    replace_file(paths.place, now.inode + ' ' + now.path);
}

PrivateDirectories make_private_directories(const std::string& key, Index attempt) {
  return {make_new_private_directory(scratch_root() + "/" + private_name(key, attempt)),
          make_new_private_directory(shared_root() + "/" + shared_name(key, attempt))};
}

PrivateDirectories find_private_directories(const Paths& paths, const std::string& key,
                                            Index attempt) {
  struct stat run {};  // its user may be another than the one who asks
  require_call(::stat(paths.folder.c_str(), &run) == 0, paths.folder);
  const auto find = [&](const std::string& root, const std::string& name) {
    const std::string prefix = root + "/" + name + "-";
    const std::vector<std::string> found = private_directories(prefix, run.st_uid);
    return found.empty() ? prefix + "gone" : found.front();
  };
  return {find(scratch_root(), private_name(key, attempt)),
          find(shared_root(), shared_name(key, attempt))};
}

void remove_private_directories(const std::string& key) {
  for (const std::string& root : {scratch_root(), shared_root()})
    for (const std::string& directory :
         private_directories(root + "/" + private_prefix + key + "-a")) {
      std::error_code ignored;
      fs::remove_all(directory, ignored);
    }
}

std::string new_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", random());
  return token;
}

std::vector<Index> JobFiles::durable_steps() const {
  return job_.watched ? supervisor::durable_steps(paths_.run, 2) : std::vector<Index>();
}

Index JobFiles::newest_durable_up_to(Index step) const {
  if (!job_.watched) return -1;
  const std::vector<Index> steps = supervisor::durable_steps(paths_.run, 1, step);
  return steps.empty() ? -1 : steps.front();
}

bool JobFiles::has_saved_since(Index date) const {
  return job_.watched && supervisor::has_saved_since(paths_.run, date);
}

Index JobFiles::iterations() const { return job_.watched ? iterations_of(job_) : -1; }

Started JobFiles::started_from(Index attempt) const {
  return job_.watched ? supervisor::started_from(paths_, attempt) : Started();
}

bool JobFiles::training_is_finished() const {
  return job_.watched && supervisor::training_is_finished(job_);
}

std::string JobFiles::log_of(Index attempt) const {
  return paths_.attempt(attempt) + "/output.log";
}

std::vector<std::string> JobFiles::released_hosts() const {
  std::vector<std::string> hosts;
  for (const std::string& name : list_directory(paths_.folder))
    if (name.starts_with(release_prefix) && !name.ends_with(".tmp"))
      hosts.push_back(name.substr(std::strlen(release_prefix)));
  return hosts;
}

void JobFiles::forget_release(const std::string& host) {
  remove_file(paths_.folder + "/" + release_prefix + host);
}

}  // namespace trireme::supervisor
