#include "runtime/data/tokenizer/pretokenizer_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "trireme/core/error.h"

#include "runtime/data/unicode/unicode_tables.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using CompiledCode = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>>;

template <class T>
T made(T object) {
  require(object != nullptr, "PCRE2 finds no memory");
  return object;
}

std::string message_of(int error) {
  PCRE2_UCHAR text[256] = {};  // stays empty where PCRE2 does not know the error
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

PCRE2_SPTR as_units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

const char* const gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Pattern::Code {
  CompiledCode code;
  bool jit = false, sees_categories = false;
};
void Pattern::Delete::operator()(Code* code) const { delete code; }

Pattern::Pattern(const std::string& text) : code_(new Code), text_(text) {
  constexpr std::size_t longest = 10'000;
  require(text.size() <= longest, "has ", text.size(), " bytes, more than ", longest);
  const PatternText there = pattern_of_pcre2(text);
  std::string stand_in;
  require(!there.sees_categories || with_known_characters(text, stand_in) == text,
          "a character of it is newer than Unicode 14");
  code_->sees_categories = there.sees_categories;
  const CompileContext context(made(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code.reset(pcre2_compile(as_units(there.text), there.text.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                                  context.get()));
  require(code_->code != nullptr, message_of(error), ", at byte ", at);
  // Where code cannot be made at run time, the interpreter finds the same matches, more slowly.
  code_->jit = pcre2_jit_compile(code_->code.get(), PCRE2_JIT_COMPLETE) == 0;
}

struct Pattern::Search::State {
  MatchContext context;
  JitStack stack;
  MatchData data;
};
void Pattern::Search::Delete::operator()(State* state) const { delete state; }

Pattern::Search::Search(const Pattern& pattern) : pattern_(&pattern), state_(new State) {
  state_->context.reset(made(pcre2_match_context_create(nullptr)));
  state_->data.reset(
      made(pcre2_match_data_create_from_pattern(pattern.code_->code.get(), nullptr)));
  if (!pattern.code_->jit) return;
  state_->stack.reset(made(pcre2_jit_stack_create(32 << 10, 1 << 20, nullptr)));
  pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

void Pattern::Search::start(std::string_view text) {
  text_ = pattern_->code_->sees_categories ? with_known_characters(text, stand_in_) : text;
  from_ = last_end_ = 0;
  matched_ = false;
}

bool Pattern::Search::next(Match& match) {
  while (from_ <= text_.size() && search_from(from_, match)) {
    if (match.begin == match.end && matched_ && match.end == last_end_) {
      from_ += from_ < text_.size() ? character_bytes(text_[from_]) : 1;
      continue;
    }
    from_ = last_end_ = match.end;
    return matched_ = true;
  }
  return false;
}

bool Pattern::Search::search_from(std::size_t offset, Match& match) {
  const pcre2_code* code = pattern_->code_->code.get();
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (pattern_->code_->jit)
    result = pcre2_jit_match(code, as_units(text_), text_.size(), offset, 0, state_->data.get(),
                             state_->context.get());
  if (result == PCRE2_ERROR_JIT_STACKLIMIT)
    result =
        pcre2_match(code, as_units(text_), text_.size(), offset, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                    state_->data.get(), state_->context.get());
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0)  // require() would make the message for every match
    throw Error(str("the pattern \"", pattern_->text_, "\" cannot split this text at byte ", offset,
                    ": ", message_of(result)));
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(state_->data.get());
  match = {ends[0], ends[1]};
  return true;
}

}  // namespace trireme::data
