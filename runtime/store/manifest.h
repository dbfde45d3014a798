// Manifest: the content of a committed step, and all that is needed to read it. manifest.json is
// two lines: one JSON object, then {"xxh3_128":"<checksum of the first line with its newline>"}.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trireme/core/key_values.h"

#include "runtime/store/checksum.h"
#include "runtime/store/file_layout.h"

namespace trireme {

struct Manifest {
  static constexpr int format = 1;

  Index step = 0;
  std::string run;      // id of the job that wrote it
  std::string created;  // UTC, "2026-11-21T04:12:28Z"
  std::string layout;   // mesh and sharding that wrote it, for people
  /// What found the state free of silent corruption before it was saved: "replicas"; empty: nothing
  /// did.
  std::string verified;
  /// The newest step, this one or one before it, whose bits were the same when it was computed
  /// twice; -1: none was. Steps after it may hold what the next such step finds wrong.
  Index verified_step = -1;
  KeyValues identity;   // what a resumed run must have in common: model, data, seed, optimizer
  KeyValues options;    // the effective configuration
  KeyValues versions;   // trireme, HDF5, compiler, instruction set
  KeyValues positions;  // per source of the sample stream: samples read, for people

  struct File {
    std::string name;
    Index bytes = 0;
    std::vector<Checksum>
        blocks;  // one per block_bytes of the file: every byte lies under exactly one
  };
  std::vector<File> files;  // shards by rank, then checkpoint.h5; not the manifest itself

  struct Stored {
    int file = 0;  // in `files`
    Index offset = 0;
    Box box;
  };
  struct Tensor {
    std::string name;
    DType dtype = DType::f32;
    Shape global;
    std::vector<Stored> pieces;  // cover the tensor, each element once
  };
  std::vector<Tensor> tensors;  // by name

  const Tensor* find(const std::string& name) const;  // null: none
  const std::string* identity_of(const std::string& name) const;
};

inline constexpr const char* manifest_name = "manifest.json";
/// Names of facts of Manifest::identity about the data begin with it.
inline constexpr const char* data_facts = "data/";

/// The file as text, both lines.
std::string to_text(const Manifest& manifest);
/// Checks everything that can be checked without the other files: the checksum, the types, that
/// pieces lie inside their files and cover their tensors exactly once, that file names have no '/'.
/// Bounded memory for any input. Throws: Error.
Manifest parse_manifest(const std::string& text);

}  // namespace trireme

namespace trireme::store {

// What every manifest must satisfy, before it is written and after it is read.

/// No count of a manifest (bytes, elements, a step) is larger, so that sums and products of two do
/// not overflow unnoticed.
inline constexpr Index largest_count = Index{1} << 60;

/// Files have plain, different names and one checksum for each block; tensors have different names,
/// in order; their pieces lie inside their files, share no byte, and cover each element once.
/// Throws: Error that names file or tensor.
void check(const Manifest& manifest);

}  // namespace trireme::store
