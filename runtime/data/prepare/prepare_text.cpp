#include "runtime/data/prepare/prepare_text.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "trireme/core/error.h"

#include "runtime/core/json/json_texts.h"
#include "runtime/core/output/output_file.h"
#include "runtime/core/process/this_machine.h"
#include "runtime/core/text/exception_text.h"
#include "runtime/core/text/one_line.h"
#include "runtime/data/prepare/ordered_work.h"
#include "runtime/data/prepare/sidecar.h"
#include "runtime/data/prepare/text_reader.h"
#include "runtime/data/token_layout.h"

namespace trireme::data {
namespace {

/// What becomes of a batch.
struct EncodedBatch {
  std::vector<std::int32_t> tokens;
  std::vector<Index> documents;  // tokens of each that ends here
  Index text_bytes = 0, empty_documents = 0;
  Index position = 0;  // as TextBatch::position
};

/// Appends all to the first, with newlines between them; where all are empty there is no text.
void join(std::vector<std::string>& texts) {
  if (std::all_of(texts.begin(), texts.end(), [](auto& text) { return text.empty(); })) return;
  for (std::size_t i = 1; i < texts.size(); ++i) {
    texts[0] += '\n';
    texts[0] += std::exchange(texts[i], std::string());
  }
}

/// Returns what helps with a line whose texts cannot be read, as a clause; "": nothing is known.
std::string remedy_for(std::string_view line, const std::vector<std::string>& keys) {
  if (line.substr(line.find_first_not_of(" \t\r")).starts_with('['))
    return "; `jq -c '.[]'` makes lines of an array";
  if (line.find_first_not_of(" \t\r{") == std::string_view::npos)
    return "; an object on several lines? `jq -c .` makes lines";
  const std::vector<std::string> names = names_of_members(line);
  const auto has = [&](const std::string& key) {
    return std::find(names.begin(), names.end(), key) != names.end();
  };
  if (names.empty() || std::all_of(keys.begin(), keys.end(), has)) return "";
  if (has("messages") || has("conversations"))
    return "; chats are not supported yet: write them as text (docs/reference/what_is_missing.md)";
  constexpr std::size_t most = 80, most_of_a_name = 40;
  std::string listed;
  for (const std::string& name : names)
    if (listed.size() < most) listed += str(" '", one_line(name, most_of_a_name), "'");
  return str("; its members are", listed, "; --json-keys names those with the text");
}

/// Memory of a document, in bytes for each of its text: measured (docs/how-to/text.md). Pieces that
/// a tokenizer does not cut take more, which Bpe compares with what is free.
constexpr Index memory_of_a_byte = 7;

/// The work of one thread.
class BatchEncoder {
 public:
  /// All are borrowed. What is encoded ends with an Error when it is interrupted.
  BatchEncoder(const PrepareOptions& options, const TextEncoder& encoder,
               const Interruption& interruption)
      : options_(options), encoder_(encoder), worker_(encoder.worker()) {
    worker_->while_encoding([&interruption] { interruption.check(); });
  }

  EncodedBatch encode(TextBatch& batch) {
    EncodedBatch out;
    out.position = batch.position;
    if (batch.json) {
      add_lines(batch, out);
      return out;
    }
    try {
      add_text(batch, out);
    } catch (...) {  // of memory, too
      throw Error(str(batch.name, ": ", current_exception_text()));
    }
    return out;
  }

 private:
  void add_text(const TextBatch& batch, EncodedBatch& out) {
    if (!encoder_.of_bytes()) return add_document(batch.text, out);
    worker_->encode(batch.text, out.tokens);  // it may be a part of a document
    out.text_bytes += static_cast<Index>(batch.text.size());
    if (batch.ends_document) out.documents.push_back(static_cast<Index>(out.tokens.size()));
  }

  /// Leaves nothing of the batch.
  void add_lines(TextBatch& batch, EncodedBatch& out) {
    std::string_view rest = batch.text;
    for (Index line = batch.first_line; !rest.empty(); ++line) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view text = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      try {
        read_line(text);
        if (rest.empty()) std::string().swap(batch.text);  // a long one is in memory once
        join(texts_);
        add_document(texts_.front(), out);
        texts_.clear();
      } catch (...) {
        throw Error(str(batch.name, ": line ", line, ": ", current_exception_text()));
      }
    }
  }

  void read_line(std::string_view line) {
    try {
      read_texts(line, options_.json_keys, texts_);
    } catch (const Error& error) {
      throw Error(str(error.what(), remedy_for(line, options_.json_keys)));
    }
  }

  void add_document(std::string_view text, EncodedBatch& out) {
    if (text.empty()) {
      ++out.empty_documents;
      return;
    }
    const std::size_t before = out.tokens.size();
    if (options_.prepend_bos) out.tokens.push_back(static_cast<std::int32_t>(*encoder_.bos()));
    worker_->encode(text, out.tokens);
    if (options_.append_eod) out.tokens.push_back(static_cast<std::int32_t>(*encoder_.eod()));
    out.documents.push_back(static_cast<Index>(out.tokens.size() - before));
    out.text_bytes += static_cast<Index>(text.size());
  }

  const PrepareOptions& options_;
  const TextEncoder& encoder_;
  std::unique_ptr<TextEncoder::Worker> worker_;
  std::vector<std::string> texts_;
};

/// Writes batches in order; counts what the sidecar says.
class CorpusWriter {
 public:
  CorpusWriter(const PrepareOptions& options, const TextEncoder& encoder)
      : writer_(options.prefix, token_type_for(encoder.vocabulary())) {
    sidecar_.tokenizer = encoder.hash();
    sidecar_.vocabulary = encoder.vocabulary();
    sidecar_.bos = encoder.bos();
    sidecar_.eod = encoder.eod();
    sidecar_.prepend_bos = options.prepend_bos;
    sidecar_.append_eod = options.append_eod;
    sidecar_.json_keys = options.json_keys;
  }

  void add(const EncodedBatch& batch) {
    std::span<const std::int32_t> rest(batch.tokens);
    for (const Index document : batch.documents) {
      writer_.add(rest.first(static_cast<std::size_t>(document)));
      writer_.end_document();
      rest = rest.subspan(static_cast<std::size_t>(document));
    }
    writer_.add(rest);  // the beginning of a document that a later batch ends
    sidecar_.documents += static_cast<Index>(batch.documents.size());
    sidecar_.tokens += static_cast<Index>(batch.tokens.size());
    sidecar_.text_bytes += batch.text_bytes;
    sidecar_.empty_documents += batch.empty_documents;
  }

  Sidecar finish() {
    require(sidecar_.documents > 0, "there is no document with text");
    writer_.finish(text_of(sidecar_));
    return sidecar_;
  }

 private:
  TokenFileWriter writer_;
  Sidecar sidecar_;
};

void check_tokenizer(const TokenFile& file, const TextEncoder& encoder) {
  const std::optional<Sidecar> sidecar = read_sidecar(file);
  require(!sidecar || sidecar->tokenizer == encoder.hash(), sidecar_path(file.prefix()),
          ": has tokens of tokenizer ", sidecar ? sidecar->tokenizer : "", ", and --tokenizer is ",
          encoder.hash(), "; give the one that made them");
}

/// The bytes of all; 0 where there is a pipe. Throws: Error.
Index check_inputs(const std::vector<std::string>& inputs) {
  Index total = 0;
  bool has_pipe = false;
  for (const std::string& input : inputs) try {
      const Index bytes = check_input(input);
      has_pipe = has_pipe || bytes == 0;
      total += bytes;
    } catch (const Error& error) {
      throw Error(str("--input: ", error.what()));
    }
  return has_pipe ? 0 : total;
}

/// Whether the names of the files can be taken.
void check_place(const PrepareOptions& options) {
  const std::string &prefix = options.prefix, field = str("--output ", prefix);
  const std::string wrong = why_no_prefix(prefix);
  require(wrong.empty(), field, ' ', wrong);
  for (const char* ending : {".bin", ".idx"})
    require(!prefix.ends_with(ending), field, ": give the names without ", ending,
            ", which is added");
  try {
    check_token_outputs(prefix, true);
  } catch (const Error& error) {
    throw Error(str(field, ": ", error.what()));
  }
}

}  // namespace

Index check(const PrepareOptions& options, const TextEncoder& encoder) {
  require(!options.append_eod || encoder.eod(),
          "--append-eod: the tokenizer has no token for the end of a document");
  require(!options.prepend_bos || encoder.bos(),
          "--prepend-bos: the tokenizer has no token for the beginning of a text");
  require(std::count(options.inputs.begin(), options.inputs.end(), "-") <= 1,
          "--input names standard input, -, more than once");
  const std::vector<std::string>& keys = options.json_keys;
  require(!keys.empty(), "--json-keys is empty; expected a member's name");
  for (const std::string& key : keys)
    require(std::count(keys.begin(), keys.end(), key) == 1, "--json-keys names ", key,
            " more than once");
  check_place(options);
  const Index total = check_inputs(options.inputs);
  std::error_code unknown;
  for (const std::string& input : options.inputs)  // at the beginning of a pipe its reader looks
    if (options.format != TextFormat::text && std::filesystem::is_regular_file(input, unknown))
      require_text(input);
  return total;
}

Sidecar prepare_text(const PrepareOptions& options, const TextEncoder& encoder,
                     FunctionRef<void(Index done, Index total)> progress) {
  require(!options.inputs.empty(), "no input files");
  const Index total = check(options, encoder);
  Interruption interruption(options.stop_file);
  TextReader reader(options.inputs, options.format, encoder.of_bytes(), interruption,
                    limits_of_memory(free_memory(), memory_of_a_byte));
  CorpusWriter writer(options, encoder);
  using Work = OrderedWork<TextBatch, EncodedBatch>;
  Work work({[&] { return reader.next(); },
             [&] {
               auto one = std::make_shared<BatchEncoder>(options, encoder, interruption);
               return [one](TextBatch& batch) { return one->encode(batch); };
             },
             [&](const EncodedBatch& batch) {
               interruption.check();
               writer.add(batch);
               progress(batch.position, total);
             },
             [&] { interruption.interrupt(); },
             [](const TextBatch& batch) { return static_cast<Index>(batch.text.size()); }},
            (4 * options.workers + 16) * batch_bytes);
  work.run(options.workers);
  interruption.check();
  return writer.finish();
}

std::string decode_tokens(const TokenFile& file, Index begin, Index end,
                          const TextEncoder& encoder) {
  check_tokenizer(file, encoder);
  require(0 <= begin && begin <= end && end <= file.tokens(), file.prefix(), ": tokens ", begin,
          " to ", end, " of ", file.tokens());
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(end - begin));
  file.read(begin, tokens, encoder.vocabulary());
  return encoder.decode(tokens);
}

std::string decode_document(const TokenFile& file, Index document, const TextEncoder& encoder) {
  require(1 <= document && document <= file.documents(), file.prefix(), ": document ", document,
          " of ", file.documents());
  const std::optional<Sidecar> sidecar = read_sidecar(file);
  Index begin = file.document_begin(document - 1), end = file.document_begin(document);
  if (sidecar && sidecar->prepend_bos && begin < end) ++begin;
  if (sidecar && sidecar->append_eod && begin < end) --end;
  return decode_tokens(file, begin, end, encoder);
}

}  // namespace trireme::data
