// Reports that a preflight is compared with: what does not fit is one line each.
#include "launch/preflight/baseline.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/scratch_directory.h"

namespace trireme::preflight::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Node node(const std::string& host, const std::string& kind = "CPU x",
          const std::string& version = "1.0") {
  Node made;
  made.host = host;
  made.kind = kind;
  made.facts["version"] = version;
  made.figures["gemm_gflops"] = 400;
  return made;
}

std::vector<std::string> texts(const std::vector<Finding>& findings) {
  std::vector<std::string> all;
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.bad);
    all.push_back(finding.host + ": " + finding.text);
  }
  return all;
}

std::string refusal(const std::string& text, const std::vector<std::string>& hosts = {"n1"}) {
  const ::trireme::ScratchDirectory folder;
  const std::string path = folder.write("report.json", text);
  try {
    read_baseline(path, hosts);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string text_of(const std::vector<Node>& nodes) { return to_text(to_json(Report{nodes})); }

TEST(PreflightBaseline, IsRefusedWhereItIsNoReport) {
  EXPECT_THAT(refusal(""), testing::Not(IsEmpty()));
  EXPECT_THAT(refusal("[1]"), HasSubstr("this is [1]; expected an object"));
  EXPECT_THAT(refusal("{\"nodes\":{},\"pairs\":[]}"), HasSubstr("nodes is {}; expected a list"));
  EXPECT_THAT(
      refusal("{\"format\":2,\"nodes\":[],\"pairs\":[]}"),
      HasSubstr("format is 2; expected a format that this version of trireme reads, 0 or 1"));
  EXPECT_THAT(refusal(text_of({node("n1")})), IsEmpty());
  for (const char* path : {"/nowhere/report.json", "/"})
    EXPECT_THROW(read_baseline(path, {"n1"}), Error) << path;
}

TEST(PreflightBaseline, OfOtherHostsIsRefusedWithBothNames) {
  EXPECT_THAT(refusal(text_of({node("a"), node("b"), node("c"), node("d")}), {"n1", "n2"}),
              HasSubstr("it is a report of a, b, c and 1 more, not of n1, n2"));
  EXPECT_THAT(refusal(text_of({})), HasSubstr("it is a report of no host, not of n1"));
}

TEST(PreflightBaseline, WithoutGpusOfAnOlderProgramIsRead) {
  EXPECT_THAT(refusal("{\"nodes\":[{\"host\":\"n1\",\"kind\":\"x\",\"facts\":{},\"figures\":{},"
                      "\"faults\":[],\"warnings\":[]}],\"pairs\":[]}"),
              IsEmpty());
}

TEST(PreflightBaseline, OfTheSameMachinesIsComparedWithoutAWord) {
  const Report now{{node("n1"), node("n2")}};
  Report before = now;
  EXPECT_THAT(keep_comparable(now, before, "old.json"), IsEmpty());
  EXPECT_EQ(before.nodes.size(), 2U);
}

TEST(PreflightBaseline, OfAnotherMachineWithTheSameNameIsNotCompared) {
  const Report now{{node("n1", "CPU y"), node("n2")}, {{"n1", "n2", 2, 5}}};
  Report before{{node("n1"), node("n2")}, {{"n1", "n2", 2, 10}}};
  before.nodes[0].figures["gemm_gflops"] = 4000;
  EXPECT_THAT(texts(keep_comparable(now, before, "old.json")),
              ElementsAre("n1: is not the machine of old.json, which is 'CPU x' there: not "
                          "compared"));
  EXPECT_THAT(judge(now, &before), IsEmpty());
}

TEST(PreflightBaseline, SaysWhichHostsItLacks) {
  const Report now{{node("n1"), node("n2")}};
  Report before{{node("n1")}};
  EXPECT_THAT(texts(keep_comparable(now, before, "old.json")),
              ElementsAre("n2: is not in old.json: not compared"));
}

TEST(PreflightBaseline, OfAnotherVersionIsComparedWithAWarning) {
  const Report now{{node("n1")}};
  Report before{{node("n1", "CPU x", "0.9")}};
  before.nodes[0].figures["gemm_gflops"] = 4000;
  EXPECT_THAT(texts(keep_comparable(now, before, "old.json")),
              ElementsAre("old.json: is of trireme 0.9, and this is trireme 1.0: figures may "
                          "differ for that"));
  EXPECT_EQ(judge(now, &before).size(), 1U);
}

}  // namespace
}  // namespace trireme::preflight::test
