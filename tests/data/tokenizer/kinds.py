"""Tokenizers of the kinds that people have, trained here by the package `tokenizers`: their
patterns, normalizers and options, and vocabularies of our own, since those of others cannot be part
of this tree.
"""
import json

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
NAMES = ("gpt2", "llama3", "qwen", "llama2")


def added(contents, first, **flags):
    """Rows of added_tokens."""
    return [{"id": first + i, "content": content, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False, "special": True, **flags}
            for i, content in enumerate(contents)]


def train(tokenizer, texts, size, **options):
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, **options)
    tokenizer.train_from_iterator(texts, trainer)
    return json.loads(tokenizer.to_str())


def byte_level(pattern, texts, size):
    tokenizer = Tokenizer(models.BPE())
    if pattern is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, texts, size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def gpt2(texts, size):
    spec = byte_level(None, texts, size)
    spec["added_tokens"] = added(["<|endoftext|>"], len(spec["model"]["vocab"]))
    return spec


def llama3(texts, size):
    """Some merges are left out, so that there are words that only ignore_merges finds."""
    spec = byte_level(LLAMA3, texts, size)
    spec["model"]["ignore_merges"] = True
    merges = spec["model"]["merges"]
    spec["model"]["merges"] = [m for i, m in enumerate(merges) if i < 200 or i % 50]
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
             "<|eot_id|>"] + [f"<|reserved_special_token_{i}|>" for i in range(20)]
    spec["added_tokens"] = added(names, len(spec["model"]["vocab"]))
    return spec


def qwen(texts, size):
    spec = byte_level(QWEN, texts, size)
    spec["normalizer"] = {"type": "NFC"}
    first = len(spec["model"]["vocab"])
    spec["added_tokens"] = added(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], first)
    spec["added_tokens"] += added(["<tool_call>", "</tool_call>"], first + 3, special=False)
    return spec


def llama2(texts, size):
    """Trained on words, used on whole texts, as it is made of a SentencePiece model."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    ends = ["<unk>", "<s>", "</s>"]
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    spec = train(tokenizer, texts, size, special_tokens=ends + bytes_, limit_alphabet=400)
    prepare = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    tokenizer.normalizer = normalizers.Sequence(prepare)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    parts = json.loads(tokenizer.to_str())
    spec.update(pre_tokenizer=None, normalizer=parts["normalizer"], decoder=parts["decoder"])
    spec["model"].update(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    spec["added_tokens"] = added(ends, 0)
    return spec


def make(name, texts, size):
    """The tokenizer.json of a kind."""
    return {"gpt2": gpt2, "llama3": llama3, "qwen": qwen, "llama2": llama2}[name](texts, size)
