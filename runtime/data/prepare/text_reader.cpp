#include "runtime/data/prepare/text_reader.h"

#include <algorithm>
#include <new>

#include "trireme/core/error.h"

#include "runtime/core/show_bytes.h"
#include "runtime/core/text/exception_text.h"
#include "runtime/data/prepare/other_formats.h"

namespace trireme::data {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

bool ends_with_any(const std::string& name, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](const char* ending) { return name.ends_with(ending); });
}

/// By the name, without that of a compression.
bool is_named_json(std::string name) {
  name.resize(name.size() - compressed_ending(name).size());
  return ends_with_any(name, {".jsonl", ".ndjson", ".json"});
}

/// Whether a text begins as a JSON object does that has a line of its own.
bool begins_as_json_line(std::string_view text) {
  const auto skip = [&](const char* spaces) {
    text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  };
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  skip(" \t\r\n");
  if (!text.starts_with('{')) return false;
  text.remove_prefix(1);
  skip(" \t");
  return text.starts_with('"') || text.starts_with('}');
}

/// `input`: as it was given; `begin`: of its text.
void require_text(const std::string& input, const InputFile& file, const TextStream& stream,
                  std::string_view begin) {
  const std::string& name = file.name();
  const std::string other = other_format(begin, input == "-" ? "FILE" : input);
  require(other.empty(), name, ": is ", other, "; --format text takes its bytes as they are");
  const std::string_view ending = compressed_ending(name);
  require(stream.is_compressed() || ending.empty(), name, ": is not compressed, though its name ",
          "ends in ", ending, "; --format text takes it as it is");
}

}  // namespace

void require_text(const std::string& path) {
  const Interruption none(-1);
  InputFile file(path, none);
  const std::unique_ptr<TextStream> stream = open_text(file);
  std::string begin(longest_mark, '\0');
  std::size_t bytes = 0;
  while (bytes < begin.size()) {
    const Index more = stream->read(begin.data() + bytes, static_cast<Index>(begin.size() - bytes));
    if (more == 0) break;
    bytes += static_cast<std::size_t>(more);
  }
  require_text(path, file, *stream, std::string_view(begin).substr(0, bytes));
}

TextReader::Limits limits_of_memory(Index free, Index times) {
  TextReader::Limits limits;
  if (free / times < limits.document) {
    limits.document = free / times;
    limits.why = str("as ", show_bytes(free), " of memory are free and a document takes ", times,
                     " times its bytes");
  }
  return limits;
}

TextReader::TextReader(std::vector<std::string> inputs, TextFormat format, bool may_cut,
                       const Interruption& interruption, Limits limits)
    : inputs_(std::move(inputs)),
      format_(format),
      may_cut_(may_cut),
      interruption_(interruption),
      limits_(std::move(limits)) {}

void TextReader::open() {
  file_ = std::make_unique<InputFile>(inputs_[opened_++], interruption_);
  stream_ = open_text(*file_);
  text_.clear();
  whole_ = 0;
  line_ = 1;
  ended_ = false;
  fill(limits_.batch);
  require(!text_.empty(), file_->name(), ": is empty; leave it out");
  if (format_ != TextFormat::text)
    require_text(inputs_[opened_ - 1], *file_, *stream_,
                 std::string_view(text_).substr(0, longest_mark));
  json_ = is_json();
  if (json_ && text_.starts_with(byte_order_mark)) text_.erase(0, byte_order_mark.size());
}

void TextReader::close() {
  position_before_ += file_->position();
  stream_.reset();
  file_.reset();
}

bool TextReader::is_json() const {
  if (format_ != TextFormat::automatic) return format_ == TextFormat::jsonl;
  return is_named_json(inputs_[opened_ - 1]) || begins_as_json_line(text_);
}

void TextReader::fill(Index wanted) {
  std::size_t at = text_.size();
  const auto all = static_cast<std::size_t>(wanted);
  if (ended_ || at >= all) return;
  text_.resize(all);
  while (at < all && !ended_) {
    const Index got = stream_->read(text_.data() + at, static_cast<Index>(all - at));
    at += static_cast<std::size_t>(got);
    ended_ = got == 0;
  }
  text_.resize(at);
}

void TextReader::fill_with_lines() {
  std::size_t searched = 0;
  for (Index wanted = limits_.batch;; wanted = static_cast<Index>(text_.size()) + limits_.batch) {
    fill(wanted);
    if (ended_) {
      whole_ = text_.size();
      return;
    }
    const std::string_view more = std::string_view(text_).substr(searched);
    // A long line is a batch of its own, so that its memory is free again as early as may be.
    const std::size_t end = searched == 0 ? more.rfind('\n') : more.find('\n');
    whole_ = end == std::string_view::npos ? 0 : searched + end + 1;
    if (whole_ > 0) return;
    searched = text_.size();
    require(static_cast<Index>(searched) <= limits_.document, file_->name(), ": line ", line_,
            " is longer than ", show_bytes(limits_.document), ", ", limits_.why,
            "; make several lines of it");
  }
}

void TextReader::fill_with_text() {
  for (Index wanted = limits_.batch; !ended_ && (!may_cut_ || wanted == limits_.batch);
       wanted = static_cast<Index>(text_.size()) + limits_.batch) {
    fill(wanted);
    require(may_cut_ || static_cast<Index>(text_.size()) <= limits_.document, file_->name(),
            ": is longer than ", show_bytes(limits_.document), ", ", limits_.why,
            "; make several files of it, or several JSON lines");
  }
  whole_ = text_.size();
}

std::optional<TextBatch> TextReader::next() {
  try {
    return read_next();
  } catch (const std::bad_alloc&) {
    const std::string name = file_ ? file_->name() : "a file";
    throw Error(str(name, json_ ? str(": line ", line_) : "", ": ", current_exception_text()));
  }
}

std::optional<TextBatch> TextReader::read_next() {
  if (!file_) {
    if (opened_ == inputs_.size()) return std::nullopt;
    open();
  }
  json_ ? fill_with_lines() : fill_with_text();
  std::string rest = text_.substr(whole_);
  text_.resize(whole_);
  TextBatch batch{
      file_->name(), json_, line_, ended_, std::move(text_), position_before_ + file_->position()};
  if (json_) line_ += std::count(batch.text.begin(), batch.text.end(), '\n');
  text_ = std::move(rest);
  if (ended_) close();
  return batch;
}

}  // namespace trireme::data
