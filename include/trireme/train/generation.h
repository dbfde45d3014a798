// Generated texts, as --generate asks for them.
#pragma once

#include <vector>

#include "trireme/options/prompts.h"
#include "trireme/train/trainer.h"

namespace trireme {

/// Collective. Continues each prompt by up to --generate tokens: the same ones on every layout, and
/// others for each prompt, whatever the prompts before it. A text ends before the token of
/// `encoder` that ends a document. Prints them, or writes a line of JSON for each to --output,
/// which it replaces; what is not UTF-8 in them, such as a part of a character at the end, as
/// U+FFFD. Throws: as Trainer::generate; ConfigurationError on all ranks when these have other
/// prompts or another tokenizer; JobError when --output cannot be written.
void generate_texts(Context& context, Trainer& trainer, const GptOptions& gpt,
                    const data::TextEncoder& encoder, const std::vector<Prompt>& prompts);

}  // namespace trireme
