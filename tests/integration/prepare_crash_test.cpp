// A preparation of text that dies, whose disk fails, or whose power goes, at any one call
// (tests/io_shim counts them): what is found then is the earlier result, the new one, or no index.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/data/token_file.h"

#include "runtime/data/prepare/prepare_text.h"
#include "tests/crash/power_cut.h"
#include "tests/io_shim/run_with_shim.h"
#include "tests/support/scratch_directory.h"

namespace trireme::test {
namespace {

using testing::AnyOf;

/// The documents of both texts differ, but not how many there are, nor their bytes together.
class PrepareCrash : public testing::TestWithParam<bool> {
 protected:
  PrepareCrash() {
    std::filesystem::create_directory(template_);
    if (GetParam()) {
      EXPECT_EQ(prepare("a", old_lines_, template_, {template_, 0, ""}).code, 0);
    }
    start();
    before_ = found(root_);
    EXPECT_EQ(before_, GetParam() ? "a: one, twofour" : "no index");
  }
  void start() const {
    std::filesystem::remove_all(root_);
    std::filesystem::copy(template_, root_);
  }
  ShimRun prepare(const std::string& key, const std::string& lines, const std::string& root,
                  const Fault& fault) const {
    return run_with_shim(quoted(TRIREME_BIN_DIR "/trireme") + " data prepare --workers 1" +
                             " --json-keys " + key + " --input " + quoted(lines) + " --output " +
                             quoted(root + "/out"),
                         fault, folder_ / "log");
  }
  ShimRun prepare_new(long call = 0, const std::string& fault = "") const {
    return prepare("b", new_lines_, root_, {.root = root_, .call = call, .what = fault});
  }
  /// Throws: Error where the index or the sidecar is of other data.
  static std::string found(const std::string& root) {
    if (!std::filesystem::exists(root + "/out.idx")) return "no index";
    const TokenFile file(root + "/out");
    const std::optional<Sidecar> sidecar = read_sidecar(file);
    std::string text = sidecar ? sidecar->json_keys.at(0) + ": " : "no sidecar: ";
    const auto encoder = data::byte_encoder();
    for (Index d = 1; d <= file.documents(); ++d)
      text += (d > 1 ? ", " : "") + data::decode_document(file, d, *encoder);
    return text;
  }
  auto is_a_result() const { return AnyOf(before_, after_, "no index"); }

  const ScratchDirectory folder_{ScratchDirectory::in_memory()};
  const std::string template_ = folder_ / "template", root_ = folder_ / "run";
  const std::string old_lines_ =
      folder_.write("old.jsonl", "{\"a\": \"one\"}\n{\"a\": \"twofour\"}\n");
  const std::string new_lines_ =
      folder_.write("new.jsonl", "{\"b\": \"three\"}\n{\"b\": \"four+\"}\n");
  std::string before_;
  const std::string after_ = "b: three, four+";
};

TEST_P(PrepareCrash, AtAnyCallLeavesTheEarlierResultTheNewOrNoIndex) {
  const ShimRun whole = prepare_new();
  ASSERT_EQ(whole.code, 0) << whole.output;
  ASSERT_GE(whole.calls, 15);
  for (const char* fault : {"die_before", "die_half", "die_after"})
    for (long call = 1; call <= whole.calls; ++call) {
      SCOPED_TRACE(str(fault, " call ", call, " of ", whole.calls));
      start();
      ASSERT_EQ(prepare_new(call, fault).code, died);
      EXPECT_THAT(found(root_), is_a_result());
      ASSERT_EQ(prepare_new().code, 0);
      EXPECT_EQ(found(root_), after_);
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root_), {}), 3);
    }
}

TEST_P(PrepareCrash, AnErrorAtAnyCallLeavesTheSameAndNoTemporaryFile) {
  const long calls = prepare_new().calls;
  int failures = 0;
  for (const char* fault : {"ENOSPC", "EIO", "EINTR", "short"})
    for (long call = 1; call <= calls; ++call) {
      SCOPED_TRACE(str(fault, " at call ", call, " of ", calls));
      start();
      const ShimRun run = prepare_new(call, fault);
      EXPECT_THAT(found(root_), is_a_result());
      if (run.code == 0) {
        EXPECT_EQ(found(root_), after_);
      }
      failures += run.code != 0;
      for (const auto& file : std::filesystem::directory_iterator(root_))
        EXPECT_NE(file.path().extension(), ".tmp") << file.path();
    }
  EXPECT_GT(failures, 10);
}

TEST_P(PrepareCrash, ADirectoryThatNoFileSystemSyncsIsLeftAsItIs) {
  const std::string trace = folder_ / "trace";
  ::setenv("TRIREME_SHIM_TRACE", trace.c_str(), 1);
  const long calls = prepare_new().calls;
  ::unsetenv("TRIREME_SHIM_TRACE");
  std::ifstream lines(trace);
  int syncs = 0;
  std::string rank, name, path;
  for (long call; lines >> rank >> call >> name >> path;) {
    if (name != "fsync" || path != root_) continue;
    ++syncs;
    start();
    EXPECT_EQ(prepare_new(call, "EINVAL").code, 0) << call << " of " << calls;
    EXPECT_EQ(found(root_), after_);
  }
  EXPECT_EQ(syncs, 3);
}

TEST_P(PrepareCrash, APowerCutAtAnyMomentLeavesTheSameAndWhatWasReportedDurable) {
  const std::string record = folder_ / "record", cut = folder_ / "cut";
  const Fault recorded = {.root = root_, .call = 0, .what = "", .record = record};
  ASSERT_EQ(prepare("b", new_lines_, root_, recorded).code, 0);
  Disk disk(read_tree(template_));
  const std::vector<RecordedCall> calls = read_record(record, root_);
  ASSERT_GE(calls.size(), 10u);
  const auto check = [&](const auto& matcher) {
    constexpr int random_disks = 25;  // besides the systematic ones
    for (const Tree& tree : disk.after_cut(random_disks)) {
      write_tree(tree, cut);
      EXPECT_THAT(found(cut), matcher);
    }
  };
  for (std::size_t done = 0; done < calls.size(); ++done) {
    SCOPED_TRACE(str("cut before call ", done, ", ", calls[done].name, " of ", calls[done].path));
    check(is_a_result());
    disk.apply(calls[done]);
  }
  check(testing::Eq(after_));
}

INSTANTIATE_TEST_SUITE_P(Over, PrepareCrash, testing::Values(false, true), [](const auto& earlier) {
  return std::string(earlier.param ? "AnEarlierResult" : "Nothing");
});

}  // namespace
}  // namespace trireme::test
