// Profiles in files: what the program has, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/cost/profile.h"
#include "tests/support/message_of.h"

namespace trireme::cost {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Profiles, OfDataSheetsArePartOfTheProgram) {
  EXPECT_THAT(known_profiles(),
              ElementsAre("A100-40GB", "A100-80GB", "B200", "GB200", "H100-PCIe", "H100-SXM",
                          "H200", "L40S", "MI300X", "RTX-4090", "RTX-5090"));
  for (const std::string& name : known_profiles()) {
    const Profile profile = known_profile(name);
    EXPECT_EQ(profile.grade, Grade::data_sheet) << name;
    EXPECT_EQ(profile.cannot_run.empty(), name != "MI300X") << name;
    if (profile.cannot_run.empty()) {
      EXPECT_EQ(profile.device, gpu_traits(name)) << name;
    }
    EXPECT_GT(profile.watts, 300) << name;
    const bool compared = name.starts_with("A100") || name == "H100-SXM";
    EXPECT_EQ(profile.compared_runs > 0, compared) << name;
    EXPECT_GT(profile.peak_bf16, profile.peak_f32) << name;
    EXPECT_TRUE(profile.queues) << name;
  }
}

TEST(Profiles, AreFoundByWhatPeopleCallThem) {
  const std::pair<const char*, const char*> names[] = {{"h100", "H100-SXM"},
                                                       {"H100 SXM", "H100-SXM"},
                                                       {"H100-80", "H100-SXM"},
                                                       {"h100-sxm5-80gb", "H100-SXM"},
                                                       {"h100sxm", "H100-SXM"},
                                                       {"NVIDIA H100 80GB HBM3", "H100-SXM"},
                                                       {"H100 PCIe", "H100-PCIe"},
                                                       {"nvidia h100 pcie", "H100-PCIe"},
                                                       {"A100-80", "A100-80GB"},
                                                       {"a100 40gb", "A100-40GB"},
                                                       {"A100-SXM4-80GB", "A100-80GB"},
                                                       {"4090", "RTX-4090"},
                                                       {"rtx4090", "RTX-4090"},
                                                       {"NVIDIA GeForce RTX 5090", "RTX-5090"},
                                                       {"b200", "B200"},
                                                       {"GB200 NVL72", "GB200"},
                                                       {"mi300x", "MI300X"},
                                                       {"AMD Instinct MI300X", "MI300X"},
                                                       {"h200-141", "H200"},
                                                       {"l40s", "L40S"}};
  for (const auto& [typed, name] : names) EXPECT_EQ(known_profile(typed).name, name) << typed;
}

TEST(Profiles, AreNeverGuessed) {
  const std::pair<const char*, const char*> several[] = {{"A100", "A100-40GB, A100-80GB"},
                                                         {"a100 sxm", "A100-40GB, A100-80GB"},
                                                         {"RTX", "RTX-4090, RTX-5090"}};
  for (const auto& [typed, names] : several)
    EXPECT_EQ(message_of([&, name = typed] { known_profile(name); }),
              str("the GPU '", typed, "' is not one GPU but several: expected one of ", names));
  for (const char* typed :
       {"A100-8", "A100 PCIe", "H100 NVL", "L40", "MI300", "4090 D", "100", "x"})
    EXPECT_THAT(
        message_of([&] { known_profile(typed); }),
        HasSubstr(str("'", typed, "' is not known: expected one of A100-40GB, A100-80GB, ")));
  EXPECT_THAT(message_of([] { known_profile("H1000"); }), HasSubstr("'H1000' is not known"));
  EXPECT_THAT(message_of([] { known_profile(""); }), HasSubstr("'' is not known"));
}

// Who plans for another GPU, because a few letters of its name differ, plans wrongly.
TEST(Profiles, ThatAreMissingAreAnsweredWithTheirFamily) {
  const std::pair<const char*, const char*> families[] = {
      {"rtx5080", "RTX-4090, RTX-5090"},
      {"GeForce RTX 3090", "RTX-4090, RTX-5090"},
      {"h10", "H100-PCIe, H100-SXM, H200"},
      {"H800", "H100-PCIe, H100-SXM, H200"},
      {"B100", "B200"},
      {"GB300", "GB200"},
      {"L40", "L40S"},
      {"NVIDIA A100-PCIe", "A100-40GB, A100-80GB"},
      {"AMD Instinct MI250X", "MI300X"}};
  for (const auto& [typed, names] : families)
    EXPECT_THAT(message_of([&, name = typed] { known_profile(name); }),
                testing::EndsWith(str("; of its family there are ", names)));
  for (const char* typed : {"V100", "T4", "4090 D", "5080", "gh200", "x"})
    EXPECT_THAT(message_of([&] { known_profile(typed); }),
                testing::EndsWith("RTX-5090, or the file of a profile"));
}

TEST(Profiles, AreFoundForAGpuInUse) {
  constexpr Index gib = Index{1} << 30;
  for (const std::string& name : known_profiles()) {
    const Profile profile = known_profile(name);
    EXPECT_EQ(known_profile(profile.device, profile.memory - gib).name, name);
  }
  EXPECT_THAT(message_of([] { known_profile(gpu_traits(90, 115, 232448), gib); }),
              HasSubstr("there is no profile of this GPU of compute capability 9.0, 115 "));
  EXPECT_THAT(message_of([] { known_profile(gpu_traits("L40S"), 100 * gib); }),
              HasSubstr("with 100.00 GiB free; the profiles are those of A100-40GB, "));
}

const std::string calibrated = R"({"format": 1,
  "device": {"name": "mine", "capability": 90, "sms": 132, "shared_bytes": 232448,
             "memory": 84e9, "peak": {"bf16": 9e14, "f32": 6e13}},
  "ranks_per_node": 8, "when": "2026-01-01",
  "product_model": {"efficiency": 0.7, "half_k": 100},
  "products": [[4096, 8192, 1024, "NT", "bf16", 600]],
  "attention": {"forward": 0.5, "backward": 0.4},
  "bytes_per_s": 3e12, "op_us": 2.5,
  "links": [{"group": "node", "op": "any", "alpha_us": 3, "beta_gbs": 350},
            {"group": "network", "size": 16, "op": "all_reduce", "alpha_us": 9, "beta_gbs": 40}],
  "port_efficiency": 0.9, "collective_us": 12, "contention": 0.2,
  "context_bytes": 500, "nccl_bytes": 300, "spread": 0.05})";

std::string with(std::string text, const std::string& old, const std::string& now) {
  return text.replace(text.find(old), old.size(), now);
}

TEST(Profiles, ReadWhatACalibrationMeasured) {
  const Profile profile = parse_profile(with(calibrated, "84e9", "84000000000"), "file");
  EXPECT_EQ(profile.name, "mine");
  EXPECT_EQ(profile.grade, Grade::calibrated);
  EXPECT_EQ(profile.device.multiprocessors, 132);
  ASSERT_EQ(profile.products.size(), 1u);
  EXPECT_EQ(profile.products[0].n, 8192);
  EXPECT_EQ(profile.products[0].dtype, DType::bf16);
  EXPECT_DOUBLE_EQ(profile.products[0].flops_per_s, 6e14);
  EXPECT_DOUBLE_EQ(profile.op_seconds, 2.5e-6);
  EXPECT_DOUBLE_EQ(profile.node.bytes_per_s, 3.5e11);
  ASSERT_EQ(profile.collectives.size(), 1u);
  EXPECT_TRUE(profile.collectives[0].across);
  EXPECT_EQ(profile.collectives[0].ranks, 16);
  EXPECT_DOUBLE_EQ(profile.collectives[0].link.latency, 9e-6);
}

TEST(Profiles, AreReadAsTheyWereWritten) {
  Profile profile = parse_profile(with(calibrated, "84e9", "84000000000"), "file");
  profile.products.push_back({64, 256, 512, DType::f32, 3e10, "TN"});
  profile.attentions = {{1024, 64, false, DType::bf16, 2e14}, {1024, 128, true, DType::f32, 1e13}};
  profile.loops = {{"norm", false, 2e12}, {"norm", true, 1e12}};
  profile.across = {5e-6, 4e10};
  profile.grade = Grade::shapes;
  const std::string text = text_of(profile, "2026-01-02");
  const Profile read = parse_profile(text, "written");
  EXPECT_EQ(text_of(read, "2026-01-02"), text);
  EXPECT_EQ(read.device, profile.device);
  EXPECT_EQ(read.ranks_per_node, 8);
  EXPECT_EQ(read.products[1].kind, "TN");
  EXPECT_DOUBLE_EQ(read.attentions[1].flops_per_s, 1e13);
  EXPECT_TRUE(read.attentions[1].backward);
  EXPECT_DOUBLE_EQ(read.loop_rate("norm", true), 1e12);
  EXPECT_DOUBLE_EQ(read.loop_rate("gelu", true), read.bytes_per_s);
  EXPECT_DOUBLE_EQ(read.across.bytes_per_s, 4e10);
}

TEST(Profiles, OfCpusKeepTheirVectorCode) {
  Profile profile = parse_profile(with(calibrated, "84e9", "84000000000"), "file");
  profile.device = DeviceTraits();
  profile.device.threads = 3;
  profile.device.instruction_set = InstructionSet::avx512;
  profile.device.native_bf16 = true;
  const Profile read = parse_profile(text_of(profile, ""), "written");
  EXPECT_EQ(read.device, profile.device);
  EXPECT_TRUE(read.is_cpu());
  EXPECT_FALSE(read.queues);
  EXPECT_EQ(
      message_of([&] { parse_profile(with(text_of(profile, ""), "avx512", "avx7"), "file"); }),
      "file: device.instruction_set is \"avx7\"; expected portable, avx2 or avx512");
}

TEST(Profiles, OfOneRankHaveNoLinks) {
  Profile profile = parse_profile(with(calibrated, "84e9", "84000000000"), "file");
  profile.node = profile.across = {};
  profile.collectives.clear();
  EXPECT_EQ(message_of([&] { parse_profile(text_of(profile, ""), "file"); }),
            "file: links lacks the entry with group 'node' and op 'any'");
  profile.ranks_per_node = 1;
  EXPECT_EQ(parse_profile(text_of(profile, ""), "file").node.bytes_per_s, 0);
}

TEST(Profiles, SayWhatIsWrongWithAFile) {
  const std::string good = with(calibrated, "84e9", "84000000000");
  const auto refusal = [&](const std::string& old, const std::string& now) {
    return message_of([&] { parse_profile(with(good, old, now), "file"); });
  };
  EXPECT_EQ(refusal("\"format\": 1", "\"format\": 2"),
            "file: format is 2, but this version of trireme reads 1");
  EXPECT_EQ(refusal("\"spread\"", "\"sprad\""),
            "file: spread is missing; expected a number from 0 to 1e+30");
  EXPECT_EQ(refusal("\"spread\": 0.05", "\"spread\": 0.05, \"x\": 1"), "file: x is not understood");
  EXPECT_EQ(refusal("84000000000", "8.4"),
            "file: device.memory is 8.4; expected a whole number from 1 to 1125899906842624");
  EXPECT_EQ(refusal("9e14", "-1"),
            "file: device.peak.bf16 is -1; expected a number from 1e-30 to 1e+30");
  EXPECT_EQ(refusal("\"NT\", \"bf16\"", "\"NT\", \"f16\""),
            "file: products[0][4] is \"f16\"; expected bf16 or f32");
  EXPECT_THAT(refusal("4096, 8192", "4096, 0"),
              HasSubstr("products[0][1] is 0; expected a whole number from 1 on"));
  const std::string spread = "\"spread\": 0.05";
  EXPECT_EQ(refusal(spread, spread + ", \"loops\": [[\"norm\", \"both\", 1]]"),
            "file: loops[0][1] is \"both\"; expected forward or backward");
  EXPECT_EQ(refusal(spread, spread + ", \"attentions\": [[1, 64, \"forward\", \"f32\"]]"),
            "file: attentions[0] is [1,64,\"forward\",\"f32\"]; expected a list of 5 values");
  EXPECT_EQ(refusal("\"op\": \"any\"", "\"op\": \"broadcast\""),
            "file: links: op 'broadcast' is not 'any', 'all_reduce', 'reduce_scatter' or "
            "'all_gather'");
  EXPECT_EQ(refusal("\"sms\": 132", "\"sms\": true"),
            "file: device.sms is true; expected a whole number from 1 to 2147483647");
  EXPECT_EQ(refusal("\"sms\": 132", "\"sms\": 4294967297"),
            "file: device.sms is 4294967297; expected a whole number from 1 to 2147483647");
  EXPECT_THAT(refusal("9e14", "1e300"), HasSubstr("expected a number from 1e-30 to 1e+30"));
  EXPECT_THAT(refusal("9e14", "1e-300"), HasSubstr("expected a number from 1e-30 to 1e+30"));
  EXPECT_THAT(
      refusal("84000000000", "9223372036854775807"),
      HasSubstr("device.memory is 9223372036854775807; expected a whole number from 1 to 1125"));
  EXPECT_THAT(message_of([] { parse_profile("{", "file"); }), HasSubstr("file: "));
  EXPECT_EQ(message_of([] { parse_profile("[]", "file"); }),
            "file: this is []; expected an object");
}

}  // namespace
}  // namespace trireme::cost
