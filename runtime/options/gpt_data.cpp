// Implements GptData and settle_gpt_options (trireme/options/gpt_options.h).
// The data of --data-path and --split as sources of samples.
#include <algorithm>
#include <filesystem>

#include "trireme/data/sidecar.h"
#include "trireme/data/token_source.h"
#include "trireme/data/token_sweep.h"
#include "trireme/options/gpt_options.h"

#include "runtime/options/inference/gpt_tokenizer.h"

namespace trireme {

namespace {

/// 1285624 -> "1 285 624"
std::string in_thousands(Index count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ' ');
  return digits;
}

/// "1 285 624 tokens of 3 documents, 10 043 samples"
std::string describe(const TokenPart::Content& part) {
  const Index documents = part.last_document - part.first_document + 1;
  std::string of = documents == 1 ? "1 document" : in_thousands(documents) + " documents";
  if (documents < part.documents_of_file)
    of = documents == 1 ? str("document ", part.first_document, " only")
                        : str("documents ", part.first_document, " to ", part.last_document);
  return str(in_thousands(part.tokens), " tokens of ", of, ", ", in_thousands(part.samples),
             part.samples == 1 ? " sample" : " samples");
}

/// A line for each file. Of a blend, weights say how much of each is read, not its samples.
std::vector<std::string> describe(const std::vector<WeightedPath>& paths, const TokenPart& train,
                                  const TokenPart* valid, Index global_batch_size) {
  std::vector<std::string> lines;
  const bool blend = train.contents.size() > 1;
  for (std::size_t i = 0; i < train.contents.size(); ++i) {
    const TokenPart::Content& part = train.contents[i];
    const Index steps = part.samples / global_batch_size;
    std::string line = blend
                           ? str("data of ", part.prefix, ", weight ", paths[i].weight, ": train ")
                           : std::string("data: train ");
    line += describe(part);
    if (!blend)
      line += steps == 0   ? ", less than one step an epoch"
              : steps == 1 ? ", 1 step an epoch"
                           : ", " + in_thousands(steps) + " steps an epoch";
    if (valid != nullptr) line += "; validation " + describe(valid->contents[i]);
    lines.push_back(line);
  }
  return lines;
}

/// The number of distinct tokens of a type; 0: more than a vocabulary has.
Index distinct_tokens(TokenType type) {
  const Index bits = 8 * size_bytes(type);
  if (bits > 16) return 0;
  const bool has_sign = type == TokenType::i8 || type == TokenType::i16;
  return Index{1} << (has_sign ? bits - 1 : bits);
}

/// A vocabulary far above what the files can hold costs memory and time for nothing.
void warn_of_vocabulary(Index vocabulary, const TokenPart& train,
                        std::vector<std::string>& warnings) {
  Index most = 0;
  for (const TokenPart::Content& part : train.contents) {
    const Index distinct = distinct_tokens(part.type);
    if (distinct == 0) return;
    most = std::max(most, distinct);
  }
  if (most > 0 && vocabulary > 2 * most)
    warnings.push_back(str("--vocab-size ", vocabulary, ": the data has ",
                           name(train.contents.front().type), " tokens, for which --vocab-size ",
                           most, " is enough"));
}

/// A line for each file that is evaluated as a whole.
std::vector<std::string> describe(const std::vector<SweptPart>& parts, const std::string& split) {
  std::vector<std::string> lines;
  for (const SweptPart& part : parts)
    lines.push_back(str("evaluation of ", part.path.prefix, ", its validation part by --split ",
                        split, ": ", describe(part.content)));
  return lines;
}

/// For --skip-train.
void open_sweep(const std::vector<WeightedPath>& paths, const Split& split,
                const TokenOptions& tokens, const std::string& given, GptData& data,
                Problems& problems) {
  if (split.weights[static_cast<std::size_t>(Part::valid)] == 0)
    return problems.add("--split ", given,
                        ": no validation data for --skip-train; --split 0,1 takes all data");
  data.swept = open_swept_parts(paths, split, Part::valid, tokens);
  data.description = describe(data.swept, given);
}

/// Samples that an evaluation reads twice say nothing new.
void warn_of_repetition(const Options& options, const TokenPart& valid,
                        std::vector<std::string>& warnings) {
  if (valid.contents.size() != 1) return;
  const Index samples = valid.contents.front().samples;
  const Index all = (samples + options.global_batch_size - 1) / options.global_batch_size;
  if (options.eval_iters > all)
    warnings.push_back(str("--eval-iters ", options.eval_iters, ": the ", samples,
                           " validation samples are read more than once; --eval-iters ", all,
                           " reads each"));
}

/// Continues a `problem` of a path without any file: how to make these. Otherwise "".
std::string how_to_make(const std::string& problem, const std::vector<WeightedPath>& paths) {
  for (const WeightedPath& path : paths) {
    if (!problem.starts_with(path.prefix + ".")) continue;
    const auto exists = [&](const char* extension) {
      std::error_code ignored;  // what cannot be looked at is not known to be missing
      return std::filesystem::exists(path.prefix + extension, ignored) || ignored;
    };
    if (exists(".bin") || exists(".idx")) continue;
    if (!exists(""))
      return "; make it from text: trireme data prepare --input FILE... --output " + path.prefix;
    std::error_code ignored;
    if (std::filesystem::is_directory(path.prefix, ignored))
      return str("; ", path.prefix, " is a directory: add how the names of its files begin");
    if (std::filesystem::is_regular_file(path.prefix, ignored))
      return str("; ", path.prefix,
                 " is a file, not a PREFIX; if it is text: trireme data prepare ", "--input ",
                 path.prefix, " --output ",
                 std::filesystem::path(path.prefix).replace_extension("").string());
  }
  return "";
}

/// The vocabulary that the sidecars of the data name. What is wrong with the data is reported where
/// it is opened.
std::optional<Index> vocabulary_of_data(const std::vector<std::string>& data_path) {
  std::optional<Index> vocabulary;
  Problems reported_later;
  reported_later.collect([&] {
    std::vector<std::string> prefixes;
    for (const WeightedPath& path : parse_data_path(data_path)) prefixes.push_back(path.prefix);
    vocabulary = common_vocabulary(prefixes);
  });
  return vocabulary;
}

/// The data of GptData. `tokenizer`: whose tokens it has where no sidecar says so; "": not known.
GptData open_data(const Options& options, const GptOptions& gpt, const std::string& tokenizer,
                  Problems& problems) {
  GptData data;
  if (options.plan_only) return data;
  const bool trains = options.train_iters > 0 || !options.checkpoint.save.empty();
  const bool loads = !options.checkpoint.load.empty() || !options.checkpoint.load_hf.empty();
  const bool only_evaluates =
      !trains && options.eval_interval > 0 && loads && !gpt.data_path.empty();
  const bool sweeps = gpt.skip_train && (gpt.generate == 0 || !gpt.data_path.empty());
  if (!trains && !only_evaluates && !sweeps) return data;
  Split split;
  problems.collect([&] { split = parse_split(gpt.split); });
  if (gpt.data_path.empty()) {
    problems.add(
        "--data-path is missing: PREFIX of PREFIX.bin and PREFIX.idx, which 'trireme data prepare "
        "--input FILE... --output PREFIX' makes from text; for example: trireme data prepare "
        "--input book.txt "
        "--output book && train_gpt --data-path book --train-iters 200 --generate 200");
    return data;
  }
  std::vector<WeightedPath> paths;
  try {
    paths = parse_data_path(gpt.data_path);
  } catch (const Error& error) {
    std::string given;
    for (const std::string& word : gpt.data_path) given += " " + word;
    problems.add(error.what(), "; given:", given);
    return data;
  }
  try {
    const TokenOptions tokens{gpt.model.seq_length, gpt.model.vocab_size,
                              static_cast<std::uint64_t>(options.seed), tokenizer};
    if (sweeps) {
      open_sweep(paths, split, tokens, gpt.split, data, problems);
      return data;
    }
    auto parts = open_token_parts(paths, split, tokens);
    TokenPart& train = parts[static_cast<std::size_t>(Part::train)];
    TokenPart& valid = parts[static_cast<std::size_t>(Part::valid)];
    if (!train.source && trains)
      problems.add("--split ", gpt.split, ": no training data: ", train.absent);
    if (!valid.source && options.eval_interval > 0)
      problems.add("--eval-interval ", options.eval_interval, " with --split ", gpt.split,
                   ": no validation data: ", valid.absent);
    if (train.source) {
      const bool evaluates = valid.source && options.eval_interval > 0;
      data.description =
          describe(paths, train, evaluates ? &valid : nullptr, options.global_batch_size);
      if (evaluates) warn_of_repetition(options, valid, data.warnings);
      warn_of_vocabulary(gpt.model.vocab_size, train, data.warnings);
    }
    if (trains) data.train = std::move(train.source);
    if (options.eval_interval > 0) data.valid = std::move(valid.source);
  } catch (const Error& error) {
    problems.add("--data-path: ", error.what(), how_to_make(error.what(), paths));
  }
  return data;
}

}  // namespace

void settle_gpt_options(const CommandLine& command, Options& options, GptOptions& gpt) {
  const CheckpointOptions& checkpoint = options.checkpoint;
  if (!command.given("--vocab-size") && !checkpoint.use_checkpoint_args &&
      checkpoint.load_hf.empty())
    gpt.model.vocab_size = vocabulary_of_data(gpt.data_path).value_or(gpt.model.vocab_size);
  const bool loads = !checkpoint.load.empty() || !checkpoint.load_hf.empty();
  if (gpt.generate > 0 && loads && !command.given("--train-iters") && !command.given("--data-path"))
    options.train_iters = 0;
  if (gpt.skip_train) options.train_iters = 0;
  const bool asks = loads && (gpt.generate > 0 || options.eval_interval > 0);
  options.forward_only =
      gpt.skip_train ||
      (asks && options.train_iters == 0 && checkpoint.save.empty() && options.dump_tensors.empty());
}

GptData open_gpt_data(const Options& options, const GptOptions& gpt, Problems& problems) {
  const std::shared_ptr<const data::TextEncoder> encoder =
      options::open_encoder(options, gpt, problems);
  const bool given = encoder && !gpt.tokenizer.empty();
  GptData data = open_data(options, gpt, given ? encoder->hash() : "", problems);
  data.encoder = encoder;
  const DataSource* source = data.train           ? data.train.get()
                             : data.swept.empty() ? data.valid.get()
                                                  : data.swept.front().source.get();
  options::settle_tokenizer(options, gpt, source ? tokenizer_of(*source) : UsedTokenizer{}, data,
                            problems);
  return data;
}

void describe_gpt(const Log& log, const GptOptions& gpt, const GptData& data) {
  log.info(gpt.model.describe());
  for (const std::string& line : data.description) log.info(line);
  if (log.rank() != 0) return;
  for (const auto* warnings : {&gpt.warnings, &data.warnings})
    for (const std::string& warning : *warnings) log.warning(warning);
}

}  // namespace trireme
