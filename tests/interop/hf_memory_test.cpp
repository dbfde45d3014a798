// What import and export take of memory does not depend on the model.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/interop/export.h"
#include "runtime/interop/import.h"
#include "runtime/store/inspect/inspect.h"
#include "tests/interop/toy_model.h"

namespace trireme::interop {
namespace {

constexpr Index mebibyte = Index{1} << 20;

/// The most memory that a process of its own has at a time while it does `work`.
template <class Work>
Index peak_of(Work&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 0;
    try {
      work();
    } catch (...) {
      status = 1;
    }
    ::_exit(status);
  }
  rusage used{};
  int status = -1;
  EXPECT_EQ(::wait4(child, &status, 0, &used), child);
  EXPECT_EQ(status, 0);
  return Index{used.ru_maxrss} << 10;
}

struct Peaks {
  Index of_import, of_export;
  Index model_bytes;  // in fp32
};

/// A model of `layers` layers of 4 MiB each in fp32, into a run and out of it as bf16.
Peaks through_a_run(int layers) {
  const ScratchDirectory folder, from;
  const std::string run = folder / "run";
  const Index parameters = test::write_hollow_model(
      from, fmt::format(R"({{"model_type":"llama","vocab_size":64,"hidden_size":256,)"
                        R"("num_hidden_layers":{},"num_attention_heads":4,)"
                        R"("intermediate_size":1024,"max_position_embeddings":64,)"
                        R"("rms_norm_eps":1e-5,"rope_theta":10000.0}})",
                        layers));
  Peaks peaks{};
  peaks.model_bytes = 4 * parameters;
  peaks.of_import = peak_of([&] {
    Manifest head;
    head.run = "test";
    head.created = "2026-01-01T00:00:00Z";
    ImportOptions options;
    options.shard_bytes = 4 * mebibyte;
    import_model(open_model(from.path()), run, head, options);
  });
  peaks.of_export = peak_of([&] {
    ExportOptions options;
    options.files.element = safetensors::Element::bf16;
    export_model(open_step(run + "/step-000000"), run, open_model(from.path()).config.model,
                 folder / "out", options);
  });
  EXPECT_EQ(safetensors::open_directory(folder / "out").bytes(), 2 * parameters);
  return peaks;
}

TEST(HfMemory, OfImportAndExportIsThatOfPiecesWhateverTheModel) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer keeps memory that was freed";
#endif
  const Peaks few = through_a_run(2), many = through_a_run(22);
  const Index more = many.model_bytes - few.model_bytes;
  ASSERT_GT(more, 75 * mebibyte);
  EXPECT_LT(many.of_import - few.of_import, more / 3);
  EXPECT_LT(many.of_export - few.of_export, more / 3);
}

}  // namespace
}  // namespace trireme::interop
