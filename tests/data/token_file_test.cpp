// Token files: their bytes, every element type, and damage.
#include "trireme/data/token_file.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "trireme/core/error.h"

#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using Document = std::vector<std::int64_t>;

void write_documents(const std::string& prefix, TokenType type,
                     const std::vector<Document>& documents) {
  TokenFileWriter writer(prefix, type);
  for (const Document& document : documents) {
    writer.add(document);
    writer.end_document();
  }
  writer.finish();
}

TEST(TokenFile, GivesBackWhatWasWrittenInEveryType) {
  const ScratchDirectory folder;
  for (const TokenType type : {TokenType::u8, TokenType::i8, TokenType::i16, TokenType::i32,
                               TokenType::i64, TokenType::u16}) {
    SCOPED_TRACE(name(type));
    write_documents(folder / "a", type, {{1, 2, 3}, {}, {127, 0}, {5}});
    const TokenFile file(folder / "a");
    EXPECT_EQ(file.type(), type);
    EXPECT_EQ(file.tokens(), 6);
    EXPECT_EQ(file.sequences(), 4);
    EXPECT_EQ(file.documents(), 4);
    std::vector<Index> begins;
    for (Index d = 0; d <= 4; ++d) begins.push_back(file.document_begin(d));
    EXPECT_EQ(begins, (std::vector<Index>{0, 3, 3, 5, 6}));
    std::vector<std::int32_t> tokens(4);
    file.read(1, tokens, 128);
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{2, 3, 127, 0}));
  }
}

TEST(TokenFile, KeepsTheExtremesOfEachType) {
  const ScratchDirectory folder;
  const auto round_trip = [&](TokenType type, std::int64_t low, std::int64_t high) {
    write_documents(folder / "a", type, {{low, high}});
    std::vector<std::int64_t> tokens(2);
    TokenFile(folder / "a").read(0, tokens);
    EXPECT_EQ(tokens, (std::vector<std::int64_t>{low, high})) << name(type);
  };
  round_trip(TokenType::u8, 0, 255);
  round_trip(TokenType::i8, -128, 127);
  round_trip(TokenType::i16, -32768, 32767);
  round_trip(TokenType::u16, 0, 65535);
  round_trip(TokenType::i32, INT32_MIN, INT32_MAX);
  round_trip(TokenType::i64, INT64_MIN, INT64_MAX);
}

// The bytes that Megatron's IndexedDatasetBuilder makes of the documents (7, 300) and (65535),
// spelt out.
TEST(TokenFile, IsNoPipeThatIsWaitedFor) {
  const ScratchDirectory folder;
  folder.write("a.bin", "abc");
  ASSERT_EQ(::mkfifo((folder / "a.idx").c_str(), 0600), 0);
  EXPECT_EQ(message_of(folder, [&] { TokenFile(folder / "a"); }), "a.idx: is not a regular file");
}

TEST(TokenFile, HasTheBytesOfTheFormat) {
  const ScratchDirectory folder;
  write_documents(folder / "a", TokenType::u16, {{7, 300}, {65535}});
  const std::string bin("\x07\x00\x2c\x01\xff\xff", 6);
  const std::string index(
      "MMIDIDX\0\0"
      "\1\0\0\0\0\0\0\0"
      "\x08"
      "\2\0\0\0\0\0\0\0"
      "\3\0\0\0\0\0\0\0"
      "\2\0\0\0"
      "\1\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\4\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\1\0\0\0\0\0\0\0"
      "\2\0\0\0\0\0\0\0",
      34 + 8 + 16 + 24);
  EXPECT_EQ(folder.read("a.bin"), bin);
  EXPECT_EQ(folder.read("a.idx"), index);
}

TEST(TokenFile, ReadsDocumentsOfSeveralSequences) {
  const ScratchDirectory folder;
  write_documents(folder / "a", TokenType::u8, {{1, 2}, {3}, {4, 5, 6}});
  std::string index = folder.read("a.idx");
  // Join the first two sequences into one document: boundaries 0, 2, 3 instead of 0, 1, 2, 3.
  const std::int64_t entries = 3, boundaries[] = {0, 2, 3};
  std::memcpy(index.data() + 26, &entries, 8);
  index.resize(34 + 12 * 3);
  index.append(reinterpret_cast<const char*>(boundaries), sizeof boundaries);
  folder.write("a.idx", index);
  const TokenFile file(folder / "a");
  EXPECT_EQ(file.documents(), 2);
  EXPECT_EQ(file.document_begin(1), 3);
  EXPECT_EQ(file.document_begin(2), 6);
}

// Files are read in pieces of 16 KiB, and indices in pieces of 1024 sequences.
TEST(TokenFile, ReadsFilesOfManyPieces) {
  const ScratchDirectory folder;
  std::vector<Document> documents(5000);
  std::vector<std::int64_t> all;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    documents[d].resize(d % 23);
    std::iota(documents[d].begin(), documents[d].end(), d);
    all.insert(all.end(), documents[d].begin(), documents[d].end());
  }
  write_documents(folder / "a", TokenType::u16, documents);
  const TokenFile file(folder / "a");
  EXPECT_EQ(file.sequences(), 5000);
  for (const std::size_t first : {0, 1, 8191, 8192, 20000}) {
    std::vector<std::int64_t> tokens(all.size() - first);
    file.read(static_cast<Index>(first), tokens);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), all.begin() + static_cast<long>(first)));
  }
  Index begin = 0;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    ASSERT_EQ(file.document_begin(static_cast<Index>(d)), begin);
    begin += static_cast<Index>(documents[d].size());
  }
}

TEST(TokenFile, FilesThatAreCutWhileTheyAreReadAreNamed) {
  const ScratchDirectory folder;
  write_documents(folder / "a", TokenType::u16, {Document(30000, 7), Document(30000, 8)});
  const TokenFile file(folder / "a");
  std::vector<std::int32_t> tokens(20000);
  const auto read = [&](Index first) { file.read(first, tokens, 256); };
  std::filesystem::resize_file(folder / "a.bin", 80001);
  EXPECT_EQ(message_of(folder, [&] { read(20000); }), "");
  EXPECT_EQ(message_of(folder, [&] { read(20001); }),
            "a.bin: the data changed or its file system went away: byte 80001 of 120000 is not "
            "there any more");
  std::filesystem::resize_file(folder / "a.bin", 0);
  EXPECT_NE(message_of(folder, [&] { read(0); }), "");
  std::filesystem::resize_file(folder / "a.idx", 40);
  EXPECT_EQ(message_of(folder, [&] { file.document_begin(1); }).substr(0, 50),
            "a.idx: the data changed or its file system went aw");
}

TEST(TokenFile, TokensOutsideTheVocabularyAreNamed) {
  const ScratchDirectory folder;
  write_documents(folder / "a", TokenType::i32, {{1, 2, 300, -4}});
  const TokenFile file(folder / "a");
  std::vector<std::int32_t> tokens(2);
  const auto read = [&](Index first) { file.read(first, tokens, 256); };
  EXPECT_EQ(message_of(folder, [&] { read(0); }), "");
  const std::string of =
      " is outside the vocabulary of 256; 'trireme data inspect a' shows the smallest and the "
      "largest";
  EXPECT_EQ(message_of(folder, [&] { read(1); }), "a.bin: token 300 at position 2" + of);
  tokens.resize(1);
  EXPECT_EQ(message_of(folder, [&] { read(3); }), "a.bin: token -4 at position 3" + of);
  EXPECT_EQ(message_of(folder, [&] { read(4); }), "a: tokens [4, 5) of 4");
}

TEST(TokenFile, EveryTruncationOfEitherFileIsAnError) {
  const ScratchDirectory folder;
  write_documents(folder / "a", TokenType::u16, {{7, 300}, {65535}, {}});
  const std::string index = folder.read("a.idx"), bin = folder.read("a.bin");
  for (std::size_t size = 0; size < index.size(); ++size) {
    folder.write("a.idx", index.substr(0, size));
    const std::string message = message_of(folder, [&] { TokenFile file(folder / "a"); });
    EXPECT_EQ(message.substr(0, 7), "a.idx: ") << size << ": " << message;
  }
  folder.write("a.idx", index);
  for (std::size_t size = 0; size < bin.size(); ++size) {
    folder.write("a.bin", bin.substr(0, size));
    const std::string message = message_of(folder, [&] { TokenFile file(folder / "a"); });
    EXPECT_EQ(message, str("a.bin: has ", size,
                           " bytes; a.idx speaks of 3 tokens of 2 bytes, which makes 6"));
  }
}

TEST(TokenFile, SurvivesEveryFlippedByteOfTheIndex) {
  const ScratchDirectory folder;
  write_documents(folder / "a", TokenType::u16, {{7, 300}, {65535}, {}});
  const std::string index = folder.read("a.idx");
  for (std::size_t at = 0; at < index.size(); ++at)
    for (const int flip : {1, 0x80, 0xff}) {
      std::string damaged = index;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      folder.write("a.idx", damaged);
      const std::string message = message_of(folder, [&] { TokenFile file(folder / "a"); });
      // Another document boundary in the middle, or i16 for u16, is a different but sound file.
      const bool sound = at == 17 || (at >= 34 + 36 + 8 && at < 34 + 36 + 24);
      EXPECT_TRUE(sound || !message.empty()) << "byte " << at;
    }
}

struct Damage {
  std::size_t at;
  std::string bytes, message;
};

TEST(TokenFile, DamageIsNamed) {
  const ScratchDirectory folder;
  write_documents(folder / "a", TokenType::u16, {{7, 300}, {65535}});
  const std::string index = folder.read("a.idx");
  const auto i64 = [](std::int64_t x) { return std::string(reinterpret_cast<const char*>(&x), 8); };
  const std::vector<Damage> damages{
      {0, "X", "a.idx: does not begin with MMIDIDX; it is not the index of a Megatron dataset"},
      {9, i64(2), "a.idx: has version 2; known is 1"},
      {17, "\x07", "a.idx: token type 7 is floating point; tokens are integers"},
      {17, "\x09",
       "a.idx: token type 9 is unknown; known are 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16"},
      {17, "\x01",
       "a.idx: sequence 1 begins at byte 4 of a.bin; the sequences before it end at byte 2"},
      {18, i64(-1),
       "a.idx: has 82 bytes, too few for 18446744073709551615 sequences and 3 document "
       "boundaries; the file is truncated or damaged"},
      {18, i64(1), "a.idx: has 12 bytes more than its 1 sequences and 3 document boundaries need"},
      {26, i64(4),
       "a.idx: has 82 bytes, too few for 2 sequences and 4 document boundaries; the file "
       "is truncated or damaged"},
      {34, std::string("\xfe\xff\xff\xff", 4), "a.idx: sequence 0 has -2 tokens"},
      {34, std::string("\3\0\0\0", 4),
       "a.idx: sequence 1 begins at byte 4 of a.bin; the sequences before it end at byte 6"},
      {38, std::string("\3\0\0\0", 4),
       "a.bin: has 6 bytes; a.idx speaks of 5 tokens of 2 bytes, which makes 10"},
      {50, i64(3),
       "a.idx: sequence 1 begins at byte 3 of a.bin; the sequences before it end at byte 4"},
      {58, i64(1), "a.idx: the first document begins at sequence 1, not 0"},
      {66, i64(3), "a.idx: document 0 ends at sequence 3; it begins at 0 and there are 2"},
      {66, i64(-1), "a.idx: document 0 ends at sequence -1; it begins at 0 and there are 2"},
      {74, i64(1), "a.idx: the last document ends at sequence 1, but there are 2"},
  };
  for (const Damage& damage : damages) {
    std::string damaged = index;
    damaged.replace(damage.at, damage.bytes.size(), damage.bytes);
    folder.write("a.idx", damaged);
    EXPECT_EQ(message_of(folder, [&] { TokenFile file(folder / "a"); }), damage.message);
  }
  folder.write("a.idx", index + "ab");
  EXPECT_EQ(message_of(folder, [&] { TokenFile file(folder / "a"); }),
            "a.idx: has a mode for each sequence: a multimodal dataset, which is not supported");
  folder.write("a.idx", index);
  folder.write("a.bin", folder.read("a.bin") + "x");
  EXPECT_EQ(message_of(folder, [&] { TokenFile file(folder / "a"); }),
            "a.bin: has 7 bytes; a.idx speaks of 3 tokens of 2 bytes, which makes 6");
  EXPECT_EQ(message_of(folder, [&] { TokenFile file(folder / "b"); }),
            "b.idx: cannot be opened: No such file or directory");
  std::filesystem::create_directory(folder / "c.idx");
  EXPECT_EQ(message_of(folder, [&] { TokenFile file(folder / "c"); }),
            "c.idx: is not a regular file");
}

TEST(TokenFileWriter, LeavesNothingBehindUnlessItFinishes) {
  const ScratchDirectory folder;
  {
    TokenFileWriter writer(folder / "a", TokenType::u8);
    writer.add(Document{1, 2});
    EXPECT_EQ(message_of(folder, [&] { writer.finish(); }), "a: the last document has not ended");
    EXPECT_EQ(message_of(folder, [&] { writer.add(Document{256}); }),
              "a: token 256 of document 0 does not fit u8");
  }
  EXPECT_EQ(folder.files(), 0u);
  EXPECT_EQ(message_of(folder, [&] { TokenFileWriter writer(folder / "no/a", TokenType::u8); }),
            "no/a.idx: there is no directory no");
}

TEST(TokenFileWriter, SaysThatThereIsNoSpace) {
  const ScratchDirectory folder;
  TokenFileWriter writer(folder / "a", TokenType::u8);
  writer.add(Document{1});
  writer.end_document();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{0, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const std::string message = message_of(folder, [&] { writer.finish(); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "a.bin.tmp: cannot be written: File too large");
}

TEST(TokenFileWriter, IsTheOnlyOneOfItsPrefix) {
  const ScratchDirectory folder;
  {
    TokenFileWriter first(folder / "a", TokenType::u8);
    first.add(Document{1, 2});
    EXPECT_EQ(message_of(folder, [&] { TokenFileWriter(folder / "a", TokenType::u8); }),
              "a.idx.tmp: another process writes it");
    first.end_document();
    first.finish();
  }
  EXPECT_EQ(TokenFile(folder / "a").tokens(), 2);
  folder.write("a.idx.tmp", "MMIDI");  // of a process that was killed
  folder.write("a.bin.tmp", "\1\2");
  TokenFileWriter second(folder / "a", TokenType::u8);
  second.add(Document{1, 2, 3});
  second.end_document();
  second.finish();
  EXPECT_EQ(TokenFile(folder / "a").tokens(), 3);
}

TEST(TokenFileWriter, WritesNothingWhereALinkOrAPipeLeadsElsewhere) {
  const ScratchDirectory folder;
  folder.write("thesis", "three years of work");
  std::filesystem::create_symlink(folder / "thesis", folder / "a.bin.tmp");
  EXPECT_EQ(message_of(folder, [&] { TokenFileWriter(folder / "a", TokenType::u8); }),
            "a.bin.tmp: exists, and has no index a.idx.tmp: it may be of another program; remove "
            "it, or give another name");
  folder.write("a.idx.tmp", "");  // as if a process that was killed had left both
  EXPECT_EQ(message_of(folder, [&] { TokenFileWriter(folder / "a", TokenType::u8); }),
            "a.bin.tmp: cannot be written: Too many levels of symbolic links");
  EXPECT_EQ(folder.read("thesis"), "three years of work");
  ASSERT_EQ(::mkfifo((folder / "b.idx.tmp").c_str(), 0600), 0);
  EXPECT_EQ(message_of(folder, [&] { TokenFileWriter(folder / "b", TokenType::u8); }),
            "b.idx.tmp: is a pipe or a device; a file name is needed");
}

}  // namespace
}  // namespace trireme
