// Text becomes token files: files of text and of JSON lines, compressed or not, and what is
// refused.
#include "runtime/data/prepare/prepare_text.h"

#include <fstream>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/data/prepare/text_reader.h"
#include "tests/data/text_support.h"
#include "tests/support/scratch_directory.h"

namespace trireme::data {
namespace {

using testing::ElementsAre;

class PrepareText : public testing::Test {
 protected:
  Sidecar prepare(const std::vector<std::string>& inputs) {
    options_.inputs = inputs;
    options_.prefix = folder_ / "out";
    return prepare_text(options_, encoder_, [](Index, Index) {});
  }
  /// The message, and that nothing was written.
  std::string refusal(const std::vector<std::string>& inputs) {
    std::string text = message_of(folder_, [&] { prepare(inputs); });
    for (const char* extension : {".bin", ".idx", ".json", ".bin.tmp", ".idx.tmp", ".json.tmp"})
      EXPECT_FALSE(std::filesystem::exists(folder_ / "out" + extension)) << extension;
    return text;
  }
  /// The message, and that nothing was written, where `work` asks for the end of preparing a file
  /// by a byte to the descriptor that it gets.
  template <class Work>
  std::string message_of_stopped(Work work) {
    int pipe[2];
    require(::pipe(pipe) == 0, "pipe");
    options_.stop_file = pipe[0];
    options_.inputs = {folder_.write("a", "text")};
    options_.prefix = folder_ / "out";
    std::string message = message_of(folder_, [&] { work(pipe[1]); });
    EXPECT_EQ(folder_.files(), 1u);  // the input
    ::close(pipe[0]);
    ::close(pipe[1]);
    return message;
  }
  std::vector<std::string> documents() const {
    const TokenFile file(folder_ / "out");
    std::vector<std::string> all;
    for (Index d = 1; d <= file.documents(); ++d)
      all.push_back(
          decode_tokens(file, file.document_begin(d - 1), file.document_begin(d), encoder_));
    return all;
  }

  const ScratchDirectory folder_;
  const ShiftedBytes encoder_{};
  PrepareOptions options_;
};

TEST_F(PrepareText, AFileIsADocumentAndSoIsALineOfJson) {
  const Sidecar made = prepare(
      {folder_.write("a.txt", "one\ntwo\n"),
       folder_.write("b.jsonl", "{\"id\": 7, \"text\": \"x\\n\\u00e9\"}\n\n{\"text\":\"y\"}")});
  EXPECT_THAT(documents(), ElementsAre("one\ntwo\n", "x\n\u00e9", "y"));
  EXPECT_EQ(made.documents, 3);
  EXPECT_EQ(made.tokens, 13);
  EXPECT_EQ(made.text_bytes, 13);
  EXPECT_EQ(TokenFile(folder_ / "out").type(), TokenType::u16);
}

TEST_F(PrepareText, BytesAreADocumentWhateverTheyAreAndHoweverMany) {
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte += static_cast<char>(i);
  const std::string long_text(3'000'001, 'x'), whole(batch_bytes, 'y');  // several parts; one
  options_.inputs = {folder_.write("one", every_byte), folder_.write("two", "hello\n"),
                     folder_.write("three", long_text), folder_.write("four", whole)};
  options_.prefix = folder_ / "out";
  std::vector<Index> done;
  const Sidecar made = prepare_text(options_, *byte_encoder(), [&](Index now, Index total) {
    EXPECT_EQ(total, 3'000'263 + batch_bytes);
    done.push_back(now);
  });
  EXPECT_EQ(made.documents, 4);
  EXPECT_EQ(made.tokenizer, "bytes");
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), 3'000'263 + batch_bytes);
  EXPECT_TRUE(folder_.read("out.bin") == every_byte + "hello\n" + long_text + whole);
  const TokenFile file(folder_ / "out");
  EXPECT_EQ(file.type(), TokenType::u8);
  EXPECT_EQ(file.document_begin(2), 262);
  EXPECT_EQ(file.document_begin(3), 3'000'263);
  EXPECT_EQ(folder_.files(), 7u);  // no temporary files are left
}

TEST_F(PrepareText, WritesTheSameBytesForAnyNumberOfWorkers) {
  std::string lines, text;
  for (int i = 0; i < 60'000; ++i) {
    lines += str("{\"text\": \"line ", i, " of ",
                 std::string(static_cast<std::size_t>(i % 97), 'z'), "\"}\n");
    text += str(i, '\n');
  }
  ASSERT_GT(lines.size(), 3u << 20);  // several batches
  const std::vector<std::string> inputs{folder_.write("a.jsonl", lines), folder_.write("b", text)};
  options_.append_eod = true;
  std::vector<std::string> bins, indices, sidecars;
  for (const int workers : {1, 2, 7}) {
    options_.workers = workers;
    EXPECT_EQ(prepare(inputs).documents, 60'001);
    bins.push_back(folder_.read("out.bin"));
    indices.push_back(folder_.read("out.idx"));
    sidecars.push_back(folder_.read("out.json"));
  }
  for (const auto* each : {&bins, &indices, &sidecars})
    for (const std::string& bytes : *each) EXPECT_TRUE(bytes == each->front());
  const TokenFile file(folder_ / "out");
  EXPECT_EQ(decode_document(file, 59'999, encoder_),
            "line 59998 of " + std::string(59'998 % 97, 'z'));
  EXPECT_TRUE(decode_document(file, 60'001, encoder_) == text);
}

TEST_F(PrepareText, TheFirstMistakeIsReportedWhateverTheNumberOfWorkers) {
  std::string lines;
  for (int i = 0; i < 60'000; ++i) lines += "{\"text\": \"of a good line\"}\n";
  const std::string file = folder_.write("a.jsonl", lines + "{broken\n" + lines + "[]\n" + lines);
  for (const int workers : {1, 2, 7}) {
    options_.workers = workers;
    EXPECT_EQ(refusal({file}), "a.jsonl: line 60001: this is not JSON at byte 2");
  }
}

TEST_F(PrepareText, ReadsGzipAndZstdByTheirContent) {
  const std::string lines = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
  const std::string big(700'000, 'w');
  prepare({folder_.write("a.jsonl.gz", gzip(lines)), folder_.write("b.jsonl.zst", zstd(lines)),
           folder_.write("c", gzip("first ") + gzip("second")),
           folder_.write("d", zstd("third ") + zstd("fourth")), folder_.write("e", gzip(big)),
           folder_.write("f", zstd(big)),
           folder_.write("g", "\x5f\x2a\x4d\x18" + little_endian(4, 4) + "skip" + zstd("fifth"))});
  EXPECT_TRUE(documents() == (std::vector<std::string>{"a", "b", "a", "b", "first second",
                                                       "third fourth", big, big, "fifth"}));
}

/// Text that hardly becomes smaller.
std::string noise(std::size_t bytes) {
  std::string text;
  for (std::uint32_t x = 1; text.size() < bytes; x = x * 1664525 + 1013904223)
    text += static_cast<char>('a' + x / (1u << 24) % 26);
  return text;
}

TEST_F(PrepareText, ReadsBzip2AndXzByTheirContent) {
  const std::string lines = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", big = noise(1'500'000);
  const std::string padding(4, '\0');
  for (std::string (*const packed)(std::string_view) :
       {+[](std::string_view text) { return bzip2(text); },
        +[](std::string_view text) { return xz(text); }}) {
    prepare({folder_.write("a.jsonl.bz2", packed(lines)), folder_.write("b", packed(lines)),
             folder_.write("c.jsonl.xz", packed("{\"text\": \"c\"}")),
             folder_.write("d", packed("first ") + packed("") + packed("second") + padding),
             folder_.write("e", packed("") + packed("third")), folder_.write("f", packed(big)),
             folder_.write("g", packed(big) + packed(big))});
    EXPECT_TRUE(documents() == (std::vector<std::string>{"a", "b", "a", "b", "c", "first second",
                                                         "third", big, big + big}));
  }
}

TEST_F(PrepareText, NamesTruncatedAndDamagedBzip2AndXzFiles) {
  const std::string text = noise(600'000);
  for (const auto& [kind, packed] : {std::pair("bzip2", bzip2(text)), std::pair("xz", xz(text))}) {
    const std::size_t all = packed.size();
    for (const std::size_t cut : {std::size_t{1}, std::size_t{11}, std::size_t{300'000}, all - 12})
      EXPECT_EQ(refusal({folder_.write("a", packed.substr(0, all - cut))}),
                str("a: ", kind, " data is truncated: it ends at byte ", all - cut));
    for (const std::size_t at : {std::size_t{40}, std::size_t{9'000}, std::size_t{200'000}}) {
      std::string wrong = packed;
      wrong[at] = static_cast<char>(wrong[at] ^ 4);
      EXPECT_THAT(refusal({folder_.write("a", wrong)}),
                  testing::AllOf(testing::StartsWith(str("a: ", kind, " data is damaged before ")),
                                 testing::EndsWith(": a block or its checksum is wrong")));
    }
    const std::string more = "more of another kind";
    EXPECT_EQ(refusal({folder_.write("a", packed + more)}),
              str("a: ", kind, " data is damaged before byte ", all + more.size(),
                  ": no stream begins here"));
  }
  EXPECT_EQ(refusal({folder_.write("a.xz", xz(""))}), "a.xz: is empty; leave it out");
}

TEST_F(PrepareText, SaysHowToReadXzFilesOfLargeDictionaries) {
  EXPECT_EQ(prepare({folder_.write("a", xz("text", 1 << 27))}).text_bytes, 4);
  EXPECT_EQ(message_of(folder_, [&] { prepare({folder_.write("a", xz("text", 1 << 28))}); }),
            "a: needs a dictionary over 128 MiB; give its text through a pipe: xz -dc FILE with "
            "--input -");
}

TEST_F(PrepareText, ZeroBytesBehindAMemberOfGzipArePadding) {
  const std::string few(3, '\0'), many(600'000, '\0');  // several reads
  prepare({folder_.write("a", gzip("one") + few), folder_.write("b", gzip("two") + many),
           folder_.write("c", gzip("three ") + few + gzip("four") + many)});
  EXPECT_THAT(documents(), ElementsAre("one", "two", "three four"));
  EXPECT_EQ(message_of(folder_, [&] { prepare({folder_.write("a", gzip("one") + few + "more")}); }),
            "a: gzip data is damaged before byte 33: incorrect header check");
}

TEST_F(PrepareText, NamesTruncatedAndDamagedCompressedFiles) {
  const std::string text(300'000, 'x'), of_gzip = gzip(text), of_zstd = zstd(text);
  for (const std::size_t cut : {std::size_t{5}, std::size_t{11}, std::size_t{100'000}}) {
    EXPECT_EQ(refusal({folder_.write("a.gz", of_gzip.substr(0, of_gzip.size() - cut))}),
              str("a.gz: gzip data is truncated: it ends at byte ", of_gzip.size() - cut));
    EXPECT_EQ(refusal({folder_.write("a.zst", of_zstd.substr(0, of_zstd.size() - cut))}),
              str("a.zst: zstd data is truncated: it ends at byte ", of_zstd.size() - cut));
  }
  std::string wrong = of_gzip;
  wrong[100] = 'y';
  EXPECT_THAT(refusal({folder_.write("a.gz", wrong)}),
              testing::HasSubstr("gzip data is damaged before byte 300"));
  EXPECT_THAT(refusal({folder_.write("a.gz", of_gzip + "more")}),
              testing::HasSubstr("incorrect header check"));
  EXPECT_THAT(refusal({folder_.write("a.zst", of_zstd + "more")}),
              testing::HasSubstr("a.zst: zstd data before byte 300"));
  EXPECT_EQ(refusal({folder_.write("a.gz", gzip(""))}), "a.gz: is empty; leave it out");
}

TEST_F(PrepareText, TheFormatIsThatOfTheNameOrOfTheBeginning) {
  const std::string line = "{\"text\": \"a\"}";
  const auto made_of = [&](const std::string& name, const std::string& text) {
    prepare({folder_.write(name, text)});
    return documents();
  };
  EXPECT_THAT(made_of("a", line), ElementsAre("a"));
  EXPECT_THAT(made_of("a", "\xef\xbb\xbf \n { " + line.substr(1)), ElementsAre("a"));
  EXPECT_THAT(made_of("a", "{\n" + line.substr(1)), ElementsAre("{\n" + line.substr(1)));
  EXPECT_THAT(made_of("a.json", "\t" + line), ElementsAre("a"));
  options_.format = TextFormat::text;
  EXPECT_THAT(made_of("a.jsonl", line), ElementsAre(line));
  options_.format = TextFormat::jsonl;
  EXPECT_EQ(message_of(folder_, [&] { prepare({folder_.write("b", "plain")}); }),
            "b: line 1: this is not JSON at byte 1");
}

TEST_F(PrepareText, JoinsTheTextsOfSeveralKeysInTheirOrder) {
  options_.json_keys = {"title", "text"};
  prepare({folder_.write("a", "{\"text\": \"body\", \"title\": \"T\"}")});
  EXPECT_THAT(documents(), ElementsAre("T\nbody"));
}

TEST_F(PrepareText, RefusesKeysThatAreNoneOrThereTwice) {
  options_.json_keys = {"title", "text", "title"};
  EXPECT_EQ(message_of([&] { check(options_, encoder_); }),
            "--json-keys names title more than once");
  options_.json_keys.clear();
  EXPECT_EQ(message_of([&] { check(options_, encoder_); }),
            "--json-keys is empty; expected a member's name");
}

TEST_F(PrepareText, AddsWhatIsAskedForAndLeavesDocumentsWithoutTextOut) {
  options_.append_eod = options_.prepend_bos = true;
  const Sidecar made =
      prepare({folder_.write("a.jsonl", "{\"text\":\"\"}\n{\"text\":\"a\"}\n{\"text\":\"\"}\n")});
  EXPECT_THAT(documents(), ElementsAre("<bos>a<eod>"));
  EXPECT_EQ(decode_document(TokenFile(folder_ / "out"), 1, encoder_), "a");
  EXPECT_EQ(made.empty_documents, 2);
  EXPECT_EQ(made.text_bytes, 1);
  EXPECT_EQ(made.tokens, 3);
}

TEST_F(PrepareText, ADocumentOfSeveralKeysWithoutTextIsLeftOut) {
  options_.json_keys = {"a", "b"};
  const Sidecar made =
      prepare({folder_.write("a.jsonl", "{\"a\":\"\",\"b\":\"\"}\n{\"a\":\"\",\"b\":\"x\"}\n")});
  EXPECT_THAT(documents(), ElementsAre("\nx"));
  EXPECT_EQ(made.empty_documents, 1);
}

TEST_F(PrepareText, NamesTheLineAndTheMember) {
  const auto line = [&](const std::string& text) {
    return refusal({folder_.write("a.jsonl", "{\"text\":\"\"}\n\n" + text + "\n")});
  };
  EXPECT_EQ(line("{\"txt\": 1}"),
            "a.jsonl: line 3: there is no member 'text'; its members are 'txt'; "
            "--json-keys names those with the text");
  for (const char* member : {"messages", "conversations"})
    EXPECT_THAT(line(str("{\"", member, "\": []}")),
                testing::EndsWith("'; chats are not supported yet: write them as text "
                                  "(docs/reference/what_is_missing.md)"));
  for (const char* array : {"[", "[{\"text\": \"a\"}]"})
    EXPECT_THAT(line(array), testing::EndsWith("; `jq -c '.[]'` makes lines of an array"));
  EXPECT_EQ(line("{\"text\": null}"), "a.jsonl: line 3: member 'text' is null, not text");
  EXPECT_EQ(line("{\"text\": [\"a\"]}"), "a.jsonl: line 3: member 'text' is an array, not text");
  EXPECT_EQ(line("{\"text\": \"a\"} {}"), "a.jsonl: line 3: this is not JSON at byte 15");
  EXPECT_EQ(line("{\"text\": \"\xff\"}"),
            "a.jsonl: line 3: this is not JSON at byte 11 in member 'text': not UTF-8");
  EXPECT_EQ(
      line("{\"text\": \"a\", \"score\": NaN}"),
      "a.jsonl: line 3: this is not JSON at byte 24 in member 'score': JSON has no NaN and no "
      "Infinity");
  EXPECT_THAT(line("{\n \"text\": \"a\"\n}"),
              testing::EndsWith("an object on several lines? `jq -c .` makes lines"));
  EXPECT_EQ(line(""), "there is no document with text");
}

TEST_F(PrepareText, NamesTheTextThatATokenizerRefuses) {
  EXPECT_EQ(refusal({folder_.write("a", "good\xff")}), "a: byte 4 is wrong");
}

TEST_F(PrepareText, NamesInputsThatCannotBeUsedAndWritesNothing) {
  const std::string good = folder_.write("good", "text");
  EXPECT_EQ(refusal({}), "no input files");
  EXPECT_EQ(refusal({good, folder_ / "none"}),
            "--input: none: cannot be opened: No such file or directory");
  EXPECT_EQ(refusal({good, folder_.write("empty", "")}), "--input: empty: is empty; leave it out");
  std::filesystem::create_directory(folder_ / "sub");
  EXPECT_EQ(refusal({good, folder_ / "sub"}), "--input: sub: is neither a file nor a pipe");
  EXPECT_EQ(refusal({"-", good, "-"}), "--input names standard input, -, more than once");
  options_.prefix = folder_ / "missing/out";
  options_.inputs = {good};
  EXPECT_EQ(message_of(folder_, [&] { check(options_, encoder_); }),
            "--output missing/out: missing/out.idx: there is no directory missing");
  options_.prefix = folder_ / "out.bin";
  EXPECT_EQ(message_of(folder_, [&] { check(options_, encoder_); }),
            "--output out.bin: give the names without .bin, which is added");
}

/// RFC 8878: a frame that declares a window of 256 MiB.
TEST_F(PrepareText, SaysHowToReadZstdFilesOfLargeWindows) {
  const std::string frame = "\x28\xb5\x2f\xfd" + std::string(1, '\0') + "\x90\x01";
  EXPECT_EQ(refusal({folder_.write("a.zst", frame + std::string("\0\0", 2))}),
            "a.zst: needs a window over 128 MiB; give its text through a pipe: zstd -dc -M2048MB "
            "FILE with --input -");
}

TEST_F(PrepareText, RefusesToAddTokensThatATokenizerLacks) {
  options_.append_eod = true;
  EXPECT_THAT(message_of([&] { check(options_, *byte_encoder()); }),
              testing::StartsWith("--append-eod: "));
  options_.append_eod = false;
  options_.prepend_bos = true;
  EXPECT_THAT(message_of([&] { check(options_, *byte_encoder()); }),
              testing::StartsWith("--prepend-bos: "));
}

TEST_F(PrepareText, ReplacesAnEarlierResultButNoOtherFile) {
  prepare({folder_.write("a", "a long first text")});
  prepare({folder_.write("a", "short")});
  EXPECT_EQ(TokenFile(folder_ / "out").tokens(), 5);
  const std::string mine = "{\"text\": \"mine\"}\n";
  folder_.write("out.json", mine);
  EXPECT_THAT(message_of(folder_, [&] { prepare({folder_ / "out.json"}); }),
              testing::StartsWith("--output out: out.json: exists, and is not the sidecar"));
  EXPECT_EQ(folder_.read("out.json"), mine);
  EXPECT_EQ(TokenFile(folder_ / "out").tokens(), 5);
}

TEST_F(PrepareText, RefusesWhatIsNoTextUnlessItIsAskedFor) {
  using namespace std::string_literals;
  const std::string zip = folder_.write("a.txt", "PK\x03\x04\x14\0\0\0"s);
  EXPECT_THAT(
      refusal({zip}),
      testing::AllOf(testing::StartsWith(
                         "a.txt: is a zip archive; give its text through a pipe: unzip -p a.txt"),
                     testing::HasSubstr("--format text")));
  const std::string packed = folder_.write("b.gz", gzip("\xfd\x37zXZ\0\0\4"s));
  EXPECT_THAT(refusal({packed}), testing::StartsWith("b.gz: is xz data"));
  EXPECT_THAT(refusal({folder_.write("b.xz", xz("PAR1\x15\0"s))}),
              testing::StartsWith("b.xz: is a parquet file"));
  for (const std::string& name : {"c.jsonl.gz"s, "c.txt.bz2"s, "c.xz"s, "c.zst"s})
    EXPECT_THAT(refusal({folder_.write(name, "<html>not found</html>")}),
                testing::StartsWith(str(name, ": is not compressed, though its name ends in ",
                                        name.substr(name.rfind('.')))));
  options_.format = TextFormat::text;
  EXPECT_EQ(prepare({zip}).text_bytes, 8);
}

TEST_F(PrepareText, ReplacesNoTokensOfAnotherProgram) {
  const std::string text = folder_.write("a", "text");
  for (const auto& [name, reason] :
       {std::pair("out.bin", "exists, and has no index out.idx: it may be of another program"),
        std::pair("out.idx", "exists, and is not an index of token files"),
        std::pair("out.idx.tmp", "exists, and is not an index of token files"),
        std::pair("out.bin.tmp", "exists, and has no index out.idx.tmp"),
        std::pair("out.json.tmp", "exists, and has no index out.idx.tmp")}) {
    folder_.write(name, "of another program");
    EXPECT_THAT(message_of(folder_, [&] { prepare({text}); }),
                testing::StartsWith(str("--output out: ", name, ": ", reason)));
    EXPECT_EQ(folder_.read(name), "of another program");
    std::filesystem::remove(folder_ / name);
  }
  // What a preparation that was killed between two names has left.
  folder_.write("out.bin", "tokens");
  folder_.write("out.idx.tmp", "");
  prepare({text});
  EXPECT_EQ(TokenFile(folder_ / "out").tokens(), 4);
  std::filesystem::create_directory(folder_ / "folder");
  options_.inputs = {text};
  for (const auto& [prefix, reason] :
       {std::pair(folder_ / "folder", " is a directory: give the beginning of a name in it"),
        std::pair(std::string("/dev/full"), " is no plain file")}) {
    options_.prefix = prefix;
    EXPECT_THAT(message_of([&] { check(options_, encoder_); }), testing::HasSubstr(reason));
  }
}

TEST_F(PrepareText, ReadsAPipeWhoseWriterComesLater) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream out(pipe);  // waits for a reader
    for (int i = 0; i < 30'000; ++i) out << "{\"text\": \"line " << i << "\"}\n";
  });
  const Sidecar made = prepare({pipe});
  writer.join();
  EXPECT_EQ(made.documents, 30'000);
  EXPECT_EQ(documents().back(), "line 29999");
}

TEST_F(PrepareText, AMistakeEndsItWhileAPipeHasNothingToRead) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::promise<void> ended;
  std::thread writer([&] {
    std::ofstream out(pipe);
    out << "{\"broken\n" << std::string(static_cast<std::size_t>(batch_bytes), '\n') << std::flush;
    ended.get_future().wait();  // the pipe stays open
  });
  EXPECT_THAT(refusal({pipe}), testing::HasSubstr("pipe: line 1: this is not JSON"));
  ended.set_value();
  writer.join();
}

TEST_F(PrepareText, AnEndThatIsAskedForAfterAllIsReadLeavesNothing) {
  EXPECT_EQ(message_of_stopped([&](int stop) {
              prepare_text(options_, encoder_,
                           [&](Index, Index) { EXPECT_EQ(::write(stop, "x", 1), 1); });
            }),
            "interrupted");
}

/// A signal arrives while it encodes.
class StoppedBytes final : public ShiftedBytes {
 public:
  explicit StoppedBytes(int file) : file_(file) {}
  std::unique_ptr<Worker> worker() const override { return std::make_unique<Stopped>(file_); }

 private:
  class Stopped final : public Shift {
   public:
    explicit Stopped(int file) : file_(file) {}
    void while_encoding(std::function<void()> f) override { pause_ = std::move(f); }
    void encode(std::string_view /*text*/, std::vector<std::int32_t>& /*tokens*/) override {
      EXPECT_EQ(::write(file_, "x", 1), 1);
      pause_();
    }

   private:
    int file_;
    std::function<void()> pause_ = [] {};
  };
  int file_;
};

TEST_F(PrepareText, AnEndThatIsAskedForEndsTheEncodingOfADocument) {
  EXPECT_EQ(message_of_stopped(
                [&](int stop) { prepare_text(options_, StoppedBytes(stop), [](Index, Index) {}); }),
            "a: interrupted");
}

/// Memory ends while it encodes.
class NoMemory final : public ShiftedBytes {
 public:
  std::unique_ptr<Worker> worker() const override { return std::make_unique<Ending>(); }

 private:
  class Ending final : public Shift {
   public:
    void encode(std::string_view text, std::vector<std::int32_t>& tokens) override {
      if (text == "long") throw std::bad_alloc();
      Shift::encode(text, tokens);
    }
  };
};

TEST_F(PrepareText, NamesTheDocumentForWhichThereIsNoMemory) {
  const auto message = [&](const std::string& name, const std::string& text) {
    options_.inputs = {folder_.write(name, text)};
    options_.prefix = folder_ / "out";
    return message_of(folder_, [&] { prepare_text(options_, NoMemory(), [](Index, Index) {}); });
  };
  EXPECT_THAT(message("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"long\"}\n"),
              testing::StartsWith("a.jsonl: line 2: no memory is left, after "));
  EXPECT_THAT(message("a", "long"), testing::StartsWith("a: no memory is left, after "));
}

TEST_F(PrepareText, TextComesBackByDocumentAndByToken) {
  options_.append_eod = true;
  prepare({folder_.write("a", "first"), folder_.write("b", "second")});
  const TokenFile file(folder_ / "out");
  EXPECT_EQ(decode_document(file, 2, encoder_), "second");
  EXPECT_EQ(decode_tokens(file, 3, 8, encoder_), "st<eod>se");
  EXPECT_THAT(message_of([&] { decode_document(file, 3, encoder_); }),
              testing::HasSubstr("document 3 of 2"));
  EXPECT_THAT(message_of([&] { decode_tokens(file, 3, 14, encoder_); }),
              testing::HasSubstr("tokens 3 to 14 of 13"));
  EXPECT_EQ(message_of(folder_, [&] { decode_document(file, 1, *byte_encoder()); }),
            "out.json: has tokens of tokenizer 00000000000000ab, and --tokenizer is bytes; "
            "give the one that made them");
}

TEST(ByteEncoder, DoesNotMoveTheTokensOfABlockForEachDocument) {
  const std::unique_ptr<TextEncoder::Worker> worker = byte_encoder()->worker();
  std::vector<std::int32_t> tokens;
  int moves = 0;
  for (int document = 0; document < 10000; ++document) {
    const std::size_t before = tokens.capacity();
    worker->encode("some", tokens);
    moves += tokens.capacity() != before;
  }
  EXPECT_EQ(tokens.size(), 40000u);
  EXPECT_LT(moves, 40);
}

}  // namespace
}  // namespace trireme::data
