// Long documents: their batches, their limits, and what is said where memory is short.
#include "runtime/data/prepare/text_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/tokenizer/bpe.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"
#include "tests/data/text_support.h"
#include "tests/data/tokenizer/small_tokenizer.h"
#include "tests/support/scratch_directory.h"

namespace trireme::data {
namespace {

using testing::ElementsAre;

class LongDocuments : public testing::Test {
 protected:
  TextReader reader(const std::string& name, const std::string& text) const {
    return {{folder_.write(name, text)}, TextFormat::automatic, false, none_, limits_};
  }
  std::vector<std::string> texts(const std::string& name, const std::string& text) const {
    TextReader all = reader(name, text);
    std::vector<std::string> found;
    while (const std::optional<TextBatch> batch = all.next()) found.push_back(batch->text);
    return found;
  }
  std::string refusal(const std::string& name, const std::string& text) const {
    return message_of(folder_, [&] { texts(name, text); });
  }

  const ScratchDirectory folder_;
  const Interruption none_{-1};
  TextReader::Limits limits_{10, 35, "the longest document"};
};

TEST_F(LongDocuments, ALongLineIsABatchOfItsOwn) {
  EXPECT_THAT(texts("a.jsonl", "{}\n{123456789012}\n{}\n{}\n{2}\n{3}\n"),
              ElementsAre("{}\n", "{123456789012}\n", "{}\n{}\n{2}\n", "{3}\n"));
}

TEST_F(LongDocuments, AreRefusedByTheirLine) {
  const std::string longest(35, 'x'), longer(46, 'x');
  EXPECT_THAT(texts("a", longest), ElementsAre(longest));
  EXPECT_EQ(refusal("a", longer),
            "a: is longer than 35 B, the longest document; make several files of it, or several "
            "JSON lines");
  EXPECT_EQ(refusal("a.jsonl", "{}\n{}\n{" + longer + "}\n"),
            "a.jsonl: line 3 is longer than 35 B, the longest document; make several lines of it");
}

TEST_F(LongDocuments, HaveTheFreeMemoryAsALimit) {
  EXPECT_EQ(limits_of_memory(most_document_bytes * 7, 7).document, most_document_bytes);
  limits_ = limits_of_memory(280, 7);
  limits_.batch = 10;
  EXPECT_EQ(limits_.document, 40);
  EXPECT_EQ(refusal("a.jsonl", "{}\n" + std::string(60, 'x')),
            "a.jsonl: line 2 is longer than 40 B, as 280 B of memory are free and a document takes "
            "7 times its bytes; make several lines of it");
}

TEST(LongPieces, AreRefusedWhereMemoryIsShort) {
  const ScratchDirectory folder;
  const Bpe bpe(read_tokenizer(folder.write("tokenizer.json", SmallTokenizer().json())));
  const std::string piece(2'000'000, 'x');
  Bpe::Memory memory;
  memory.free_memory = [] { return Index{64'000'000}; };
  EXPECT_EQ(bpe.encode(piece, memory).size(), piece.size());
  EXPECT_EQ(memory.before.capacity(), 0u);  // nothing of it is kept
  memory.free_memory = [] { return Index{63'999'999}; };
  EXPECT_EQ(message_of([&] { bpe.encode(piece, memory); }),
            "a piece of 2000000 symbols that the tokenizer does not cut takes 61.0 MiB of memory, "
            "and 61.0 MiB are free");
}

}  // namespace
}  // namespace trireme::data
