// Processes that write one corpus at the same time. For integration tests, which know where the
// programs are.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/data/sidecar.h"
#include "trireme/data/token_file.h"

#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {

/// Each of `writers` processes writes a corpus of its own letter, all to one name, at the same
/// time: what is there then is that of one of them, and each says that it wrote or was refused.
inline void race_for_a_corpus(int writers, int trials) {
  const ScratchDirectory folder{ScratchDirectory::in_memory()};
  std::string start;
  for (int w = 0; w < writers; ++w) {
    const std::string input =
        folder.write(str(w), std::string(100'000 + 1000 * w, static_cast<char>('a' + w)));
    start += str(TRIREME_BIN_DIR "/trireme data prepare --workers 1 --input ", input, " --output ",
                 folder / "out", " & ");
  }
  for (int trial = 0; trial < trials; ++trial) {
    for (const char* suffix : {".bin", ".idx", ".json"})
      std::filesystem::remove(folder / "out" + suffix);
    const Outcome outcome = run_shell(start + "wait", folder / "log");
    const TokenFile file(folder / "out");
    const std::string bytes = read_text(folder / "out.bin");
    EXPECT_EQ(bytes.find_first_not_of(bytes[0]), std::string::npos) << "of several inputs";
    EXPECT_EQ(file.tokens(), 100'000 + 1000 * (bytes[0] - 'a'));
    const std::optional<Sidecar> sidecar = read_sidecar(file);
    EXPECT_EQ(sidecar ? sidecar->tokens : 0, file.tokens());
    const int written = count(outcome.output, "1 document, ");
    const int refused = count(outcome.output, "another process writes it");
    EXPECT_EQ(written + refused, writers) << outcome.output;
    EXPECT_GE(written, 1);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      EXPECT_FALSE(entry.path().string().ends_with(".tmp")) << entry.path();
  }
}

}  // namespace trireme::test
