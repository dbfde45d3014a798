#include "tests/layering/made_files.h"

#include <algorithm>
#include <regex>

#include "tests/layering/literals.h"

namespace trireme::layering {

std::vector<MadeFile> made_files_of(const std::string& text) {
  static const std::regex call(
      R"((\b(std::ofstream|std::fstream|fopen|O_CREAT|mkostemp|mkstemp|mkdtemp|H5Fcreate|mkfifo)"
      R"(|File::create|write_whole|append_line|create_directory|create_directories|make_directory)"
      R"(|copy_file|fs::copy|filesystem::copy|shm_open|rename_path))"
      R"(|::mkdir|::rename|::renameat2)\b)");
  std::vector<MadeFile> found;
  const std::string code = code_of(text);
  for (std::sregex_iterator at(code.begin(), code.end(), call), end; at != end; ++at)
    found.push_back(
        {static_cast<int>(std::count(code.begin(), code.begin() + at->position(), '\n')) + 1,
         at->str()});
  return found;
}

const std::map<std::string, std::string>& makers_of_files() {
  static const std::map<std::string, std::string> makers = {
      // What all others call, for paths that a user gives.
      {"runtime/core/output/output_file.cpp", "text that is appended, pipes, devices"},
      {"runtime/store/write/held_path.cpp", "temporary names, held by a lock"},
      {"runtime/store/write/unfinished.cpp", "whole files and directories"},
      {"runtime/core/process/child.cpp", "what a program prints, where the caller says"},
      {"runtime/core/process/private_directory.cpp", "directories in /tmp and /dev/shm"},
      {"runtime/store/file.h", "the calls of the operating system"},
      {"runtime/store/file.cpp", "the calls of the operating system"},
      {"runtime/data/token_writer.cpp", "PREFIX.bin, .idx, .json: check_token_outputs()"},
      // In a directory of --save, which belongs to the run.
      {"runtime/checkpoint/checkpointer.cpp", "the directory, checked by the options"},
      {"runtime/checkpoint/tiers/saver.cpp", "steps"},
      {"runtime/interop/import.cpp", "steps"},
      {"runtime/interop/model_files.cpp", "RUN/hf: check_kept_place()"},
      {"runtime/store/lease/lease.cpp", "the directory of a lock"},
      {"runtime/store/lease/lock_file.cpp", "locks, named by 128 random bits"},
      {"runtime/store/retention.cpp", "steps that are deleted"},
      {"runtime/store/steps.cpp", "steps"},
      {"runtime/store/tiers/time_line.cpp", "RUN/time-line.json, by the holder of the lock"},
      {"runtime/store/write/snapshot.cpp", "files of steps"},
      {"runtime/train/numerics/replica_checks.cpp", "RUN/replicas.jsonl"},
      {"runtime/observe/gpu_health/health_monitor.cpp", "RUN/supervisor"},
      {"launch/supervisor/machine/post_mortem.cpp", "RUN/supervisor"},
      {"launch/chaos/faults.cpp", "RUN/supervisor"},
      {"launch/supervisor/machine/machine.cpp", "RUN/supervisor"},
      {"launch/supervisor/machine/output.cpp", "RUN/supervisor"},
      {"launch/supervisor/machine/run_directory.cpp", "RUN/supervisor"},
      {"launch/supervisor/records/ledger.cpp", "RUN/supervisor"},
      // In private directories, or in those that a process has just made.
      {"runtime/observe/page_mapping.cpp", "pages, in a private directory"},
      {"runtime/store/tiers/slots.cpp", "snapshots, in a private directory"},
      {"runtime/checkpoint/tiers/local_copies.cpp", "snapshots, in a private directory"},
      {"runtime/comm/node/shared_memory.cpp", "drawn names in /dev/shm"},
      {"runtime/store/hdf5/layout.cpp", "a scratch file"},
      {"runtime/store/safetensors/writer.cpp", "in an Unfinished"},
      {"runtime/interop/export.cpp", "in an Unfinished"},
      {"launch/preflight/node_checks.cpp", "in a HeldPath"},
      {"launch/verify/program_words.cpp", "in a TemporaryDirectory"},
      {"launch/verify/verify.cpp", "in a TemporaryDirectory"},
      {"launch/chaos/signs.cpp", "--save-chaos, which has to be new or empty"},
      // Directories of caches, in which each file has a drawn name before its own.
      {"runtime/job/gemm_peak.cpp", "--gemm-cache, and directories of the cache of the user"},
      {"kernels/cuda/gemm_cache.cpp", "--gemm-cache"},
  };
  return makers;
}

}  // namespace trireme::layering
