// Manifests: what is written comes back exactly; each way of being wrong is refused, and the
// message says where.
#include "runtime/store/manifest.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

Manifest::File file(const std::string& name, Index bytes) {
  Manifest::File made{name, bytes, {}};
  for (Index block = 0; block < blocks_of(bytes); ++block)
    made.blocks.push_back({static_cast<std::uint64_t>(block), ~std::uint64_t{0}});
  return made;
}

/// A matrix over two shards (rows 0-2; rows 3-7, in halves), and a scalar.
Manifest sample() {
  Manifest manifest;
  manifest.step = 120;
  manifest.run = "run-1";
  manifest.created = "2026-11-21T04:12:28Z";
  manifest.layout = "data 2";
  manifest.identity = {{"zebra", "1"}, {"model \"quoted\"", "ä\n\\"}};
  manifest.options = {{"--lr", "0.1"}};
  manifest.versions = {{"trireme", "0.1"}};
  manifest.positions = {{"train", "960"}};
  manifest.files = {file("shard-00000.h5", 3 * block_bytes), file("shard-00001.h5", 5000),
                    file("checkpoint.h5", 0)};
  manifest.tensors = {{"parameters/wte",
                       DType::f32,
                       {8, 6},
                       {{0, 2 * block_bytes, {{0, 0}, {3, 6}}},
                        {1, 512, {{3, 0}, {5, 2}}},
                        {1, 1024, {{3, 2}, {5, 4}}}}},
                      {"state/step", DType::i64, {}, {{0, 4096, {}}}}};
  return manifest;
}

TEST(Manifest, ComesBackExactly) {
  const Manifest manifest = sample();
  const std::string text = to_text(manifest);
  const Manifest back = parse_manifest(text);
  EXPECT_EQ(back.step, 120);
  EXPECT_EQ(back.identity, manifest.identity);
  EXPECT_EQ(back.files[0].blocks, manifest.files[0].blocks);
  EXPECT_EQ(back.tensors[0].pieces[2].box, manifest.tensors[0].pieces[2].box);
  EXPECT_EQ(back.tensors[1].global, Shape());
  EXPECT_EQ(to_text(back), text);
}

TEST(Manifest, FindsTensorsAndFactsByName) {
  const Manifest manifest = sample();
  EXPECT_EQ(manifest.find("state/step"), &manifest.tensors[1]);
  EXPECT_EQ(manifest.find("state/ste"), nullptr);
  EXPECT_EQ(*manifest.identity_of("zebra"), "1");
  EXPECT_EQ(manifest.identity_of("--lr"), nullptr);
}

TEST(Manifest, IsRefusedCutShortOrChangedAtAnyByte) {
  const std::string text = to_text(sample());
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_THROW(parse_manifest(text.substr(0, i)), Error) << "cut at " << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_THROW(parse_manifest(damaged), Error) << "byte " << i << ", bit " << bit;
    }
  }
  EXPECT_THROW(parse_manifest(text + "\n"), Error);
  EXPECT_THROW(parse_manifest(text + text), Error);
}

TEST(Manifest, ThatMakesNoSenseIsNotWritten) {
  const auto refused = [](const std::function<void(Manifest&)>& spoil) {
    Manifest manifest = sample();
    spoil(manifest);
    return message_of([&] { to_text(manifest); });
  };
  const auto piece = [](Manifest& m, std::size_t i) -> Manifest::Stored& {
    return m.tensors[0].pieces[i];
  };
  EXPECT_THAT(refused([](Manifest& m) { m.files[1].name = "../shard"; }),
              HasSubstr("\"../shard\" cannot be the name"));
  EXPECT_THAT(refused([](Manifest& m) { m.files[1].name = manifest_name; }),
              HasSubstr("cannot be the name"));
  EXPECT_THAT(refused([](Manifest& m) { m.files[1].name = m.files[0].name; }),
              HasSubstr("two files are called shard-00000.h5"));
  EXPECT_THAT(refused([](Manifest& m) { m.files[0].blocks.pop_back(); }),
              HasSubstr("shard-00000.h5 has 2 checksums for 3145728 bytes, should have 3"));
  EXPECT_THAT(refused([](Manifest& m) { std::swap(m.tensors[0], m.tensors[1]); }),
              HasSubstr("not in the order of their names: state/step, then parameters/wte"));
  EXPECT_THAT(refused([](Manifest& m) { m.tensors[0].pieces.pop_back(); }),
              HasSubstr("the pieces of parameters/wte hold 28 of its 48 elements"));
  EXPECT_THAT(refused([&](Manifest& m) { piece(m, 2).box.begin[1] = 1; }),
              HasSubstr("two pieces of parameters/wte overlap"));
  EXPECT_THAT(refused([&](Manifest& m) { piece(m, 2).box.begin[1] = 3; }),
              HasSubstr("does not lie in (8, 6)"));
  EXPECT_THAT(refused([&](Manifest& m) { piece(m, 1).box.size = {5}; }),
              HasSubstr("has other dims than the tensor (8, 6)"));
  EXPECT_THAT(refused([&](Manifest& m) { piece(m, 1).offset = 5000 - 39; }),
              HasSubstr("does not lie in shard-00001.h5 of 5000 bytes"));
  EXPECT_THAT(refused([&](Manifest& m) { piece(m, 1).offset = 1000; }),
              HasSubstr("share bytes of shard-00001.h5 at offset 1024"));
  EXPECT_THAT(refused([](Manifest& m) {
                m.tensors[0].global = {Index{1} << 40, Index{1} << 40};
              }),
              HasSubstr("too large"));
}

/// The sample's text with `from` replaced, and its checksum made to hold.
std::string forged(const std::string& from, const std::string& to) {
  std::string line = to_text(sample());
  line.resize(line.find('\n') + 1);
  const std::size_t at = line.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  line.replace(at, from.size(), to);
  return line + R"({"xxh3_128":")" +
         to_text(checksum(line.data(), static_cast<Index>(line.size()))) + "\"}\n";
}

TEST(Manifest, SaysWhetherTheStateWasVerifiedAndOldOnesSayNothing) {
  EXPECT_EQ(to_text(sample()).find("verified"), std::string::npos);
  EXPECT_EQ(parse_manifest(to_text(sample())).verified, "");
  Manifest verified = sample();
  verified.verified = "replicas";
  EXPECT_EQ(parse_manifest(to_text(verified)).verified, "replicas");
  EXPECT_EQ(to_text(verified).find("verified_step"), std::string::npos);
  EXPECT_EQ(parse_manifest(to_text(verified)).verified_step, -1);
  verified.verified_step = 7;
  EXPECT_EQ(parse_manifest(to_text(verified)).verified_step, 7);
}

TEST(Manifest, OfTheWrongFormIsRefusedWithItsPlace) {
  const auto refused = [](const std::string& from, const std::string& to) {
    return message_of([&] { parse_manifest(forged(from, to)); });
  };
  EXPECT_EQ(refused("\"created\"", "\"created\""), "");
  EXPECT_EQ(refused("\"step\":120", "\"step\":-1"),
            "the manifest: step is -1; expected a whole number from 0 to 1152921504606846976");
  EXPECT_EQ(refused("\"step\":120", "\"step\":1.5"),
            "the manifest: step is 1.5; expected a whole number from 0 to 1152921504606846976");
  EXPECT_EQ(refused("\"step\":120,", ""),
            "the manifest: step is missing; expected a whole number from 0 to 1152921504606846976");
  EXPECT_EQ(refused("\"step\":120", "\"step\":99999999999999999999"),
            "the manifest: step is 1e+20; expected a whole number from 0 to 1152921504606846976");
  EXPECT_EQ(refused("\"step\":120", "\"step\":9999999999999999999"),
            "the number 9999999999999999999 is too large");
  EXPECT_EQ(refused("\"step\":120", "\"step\":120,\"step\":121"), "two members are called step");
  EXPECT_EQ(refused("\"format\":1", "\"format\":2"),
            "the manifest: format is 2, but this version of trireme reads 1");
  EXPECT_EQ(
      refused("\"offset\":512", "\"offset\":\"512\""),
      "the manifest: tensors[0].pieces[1].offset is \"512\"; expected a whole number from 0 to "
      "1152921504606846976");
  EXPECT_EQ(refused("\"file\":1", "\"file\":3"), "a piece of parameters/wte lies in file 3 of 3");
  EXPECT_EQ(
      refused("\"size\":[5,2]", "\"size\":[5,2,1,1,1,1,1]"),
      "the manifest: tensors[0].pieces[1].size is [5,2,1,1,1,1,1]; expected a list of at most 6");
  EXPECT_EQ(refused("\"f32\"", "\"f31\""),
            "the manifest: tensors[0].dtype is \"f31\"; expected a type of this version");
  EXPECT_EQ(refused("0000000000000001", "000000000000000g"),
            "the manifest: files[0].blocks[1] is \"000000000000000gffffffffffffffff\"; expected 32 "
            "hexadecimal digits");
  EXPECT_THAT(refused("\"layout\":", "\"layout\""), HasSubstr("this is not JSON at byte"));
}

TEST(Manifest, WithThousandsOfPiecesIsChecked) {
  // 40000 flat slices of a matrix that is also split by columns, as a sharded optimizer makes them.
  Manifest manifest = sample();
  auto& tensor = manifest.tensors[0];
  tensor.global = {5000, 8};
  tensor.pieces.clear();
  for (Index row = 0; row < 5000; ++row)
    for (Index column = 0; column < 8; ++column)
      tensor.pieces.push_back({0, 4104 + (row * 8 + column) * 4, {{row, column}, {1, 1}}});
  const Manifest back = parse_manifest(to_text(manifest));
  EXPECT_EQ(back.tensors[0].pieces.size(), 40000u);
  std::swap(tensor.pieces[77].box.begin, tensor.pieces[78].box.begin);
  to_text(manifest);
  tensor.pieces[77].box.begin[0] = 4000;
  EXPECT_THAT(message_of([&] { to_text(manifest); }), HasSubstr("overlap"));
}

}  // namespace
}  // namespace trireme
