"""The tokenizers of the model families that people use, as changes of those of kinds.py (JSON merge
patches): their normalizers, pre-tokenizers, models and decoders as their tokenizer.json has them;
and the other steps of the package that a tokenizer.json may have. And lines that tell them apart.
"""
import random

import kinds
from steps import before_bytes, metaspace, more

CL100K = kinds.LLAMA3
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace("{1,3}", "")
HAN = "[\\p{Han}]+|" + O200K.replace(r"\p{Lo}\p{M}]", r"\p{Lo}\p{M}&&[^\p{Han}]]")
DEEPSEEK_V3 = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
               r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?"
               r"[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
DEEPSEEK_V2 = ["[\r\n]", "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf"
               "\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386"
               "\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
               "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u1e00-\u1f15\u1f18-\u1f1d\u2c00-\u2c7b"
               "\ua640-\ua66d\ua722-\ua76f\uff21-\uff3a\U00010400-\U0001044f"
               "\U0001e900-\U0001e943]+",
               "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$",
               "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"\s+$",
         "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
NO_BYTE_LEVEL = dict.fromkeys(["add_prefix_space", "trim_offsets", "use_regex"])
NO_SEQUENCE = {"normalizers": None}


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def byte_level(use_regex=True):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
            "use_regex": use_regex}


def sequence(*steps):
    return {**NO_BYTE_LEVEL, "type": "Sequence", "pretokenizers": list(steps)}


def splits(*regexes, behavior="Isolated", invert=False, digits=None, normalizer=None):
    """Byte level with these patterns, as a patch of the kind gpt2."""
    steps = [split(regex, behavior, invert) for regex in regexes]
    if digits is not None:
        steps.append({"type": "Digits", "individual_digits": digits})
    return {"normalizer": normalizer, "pre_tokenizer": before_bytes(*steps)}


def models(specs):
    """Rows (name, kind, patch)."""
    gpt, llama = specs["gpt2"], specs["llama2"]
    digits = {"type": "Digits", "individual_digits": True}
    merges = gpt["model"]["merges"]
    spaces = (["  ", "    ", "        "], {"normalized": True, "special": False})
    phi3 = (["<|end|>", "<|user|>"], {"rstrip": True})
    runs = [run for run in ("\n\n", "\n\n\n", "\t\t") if run not in llama["model"]["vocab"]]
    gemma = {"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581",
                            **NO_SEQUENCE},
             "pre_tokenizer": {"type": "Split", "pattern": {"String": " "},
                               "behavior": "MergedWithPrevious", "invert": False},
             "added_tokens": more(llama, (runs + ["<start_of_turn>"], {"special": False})),
             "decoder": {"type": "Sequence", "decoders": [
                 {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                 {"type": "ByteFallback"}, {"type": "Fuse"}]}}
    return [
        ("Llama 4, gpt-oss", "gpt2", splits(O200K)),
        ("Phi 4, OLMo 2", "gpt2", splits(CL100K, behavior="Removed", invert=True)),
        ("StableLM 2", "gpt2", splits(CL100K, behavior="Removed", invert=True,
                                      normalizer={"type": "NFC"})),
        ("Phi 4 mini", "gpt2", splits(O200K, behavior="Removed", invert=True)),
        ("Phi 3", "llama2", {"added_tokens": more(llama, phi3)}),
        ("Mistral Nemo", "gpt2", splits(TEKKEN)),
        ("GLM 4", "gpt2", splits(CL100K)),
        ("Kimi K2", "gpt2", splits(HAN)),
        ("DeepSeek V3", "gpt2", splits(*DEEPSEEK_V3, normalizer={"type": "Sequence",
                                                                  "normalizers": []})),
        ("DeepSeek V2", "gpt2", splits(*DEEPSEEK_V2, digits=True)),
        ("DeepSeek Coder", "gpt2", splits(*CODER, digits=True)),
        ("BLOOM", "gpt2", splits(BLOOM)),
        ("Falcon", "gpt2", {"pre_tokenizer": sequence(
            {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(),
            {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]"))}),
        ("Gemma", "llama2", gemma),
        ("GPT-NeoX, OLMo", "gpt2", {"normalizer": {"type": "NFC"},
                                    "added_tokens": more(gpt, spaces)}),
        ("SmolLM, a merge twice", "gpt2", {"pre_tokenizer": before_bytes(digits, use_regex=True),
                                           "model": {"merges": merges + merges[:60]}}),
        ("Command R", "gpt2", {"normalizer": {"type": "NFC"},
                               "pre_tokenizer": before_bytes(digits, use_regex=True)}),
        ("ByteLevel as a normalizer", "gpt2",
         {"normalizer": {"type": "ByteLevel"},
          "pre_tokenizer": {**NO_BYTE_LEVEL, **split(kinds.QWEN)}}),
    ]


def others(specs):
    """Rows (name, kind, patch) of each step that the package has."""
    gpt, llama = specs["gpt2"], specs["llama2"]
    rows = []
    for behavior in ("Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            rows.append((f"Split {behavior}, invert {invert}", "gpt2",
                         splits(r"\p{L}|\s", behavior=behavior, invert=invert)))
        rows.append((f"Punctuation {behavior}", "gpt2", {
            "pre_tokenizer": before_bytes({"type": "Punctuation", "behavior": behavior})}))
    rows.append(("Split of a string", "gpt2", {"pre_tokenizer": before_bytes(
        {"type": "Split", "pattern": {"String": "th"}, "behavior": "MergedWithNext",
         "invert": False})}))
    for step in ({"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "BertPreTokenizer"},
                 {"type": "CharDelimiterSplit", "delimiter": "e"},
                 {"type": "FixedLength", "length": 3}):
        rows.append((step["type"], "gpt2", {"pre_tokenizer": before_bytes(step)}))
    for name in ("NFD", "NFKC", "NFKD", "StripAccents", "Lowercase"):
        rows.append((name, "gpt2", {"normalizer": {"type": name}}))
    for left, right in ((True, True), (True, False), (False, True)):
        rows.append((f"Strip {left} {right}", "gpt2", {"normalizer": {
            "type": "Strip", "strip_left": left, "strip_right": right}}))
    for regex, content in ((r"\s+", " "), (r"(?<=\p{L})\p{M}*", "-"), ("[0-9]", "")):
        rows.append((f"Replace {regex}", "gpt2", {"normalizer": {
            "type": "Replace", "pattern": {"Regex": regex}, "content": content}}))
    for regex in (r"^\s+", r"\s+$", r"\b", r"\B\w", r"\w+", r"\W+", r"[^\w\s]+", r"[\w&&[^\d_]]+",
                  r"[a-f[x-z]&&[^b]]+", r"[^a-c[\s]]+", r"[^\p{L}&&[^\p{Lu}]]", r"\h+", r"\H+",
                  r"(?m:e.)", r"a{,2}b?", r"\u0065|\x41", r"[[a-c]-]+", r"\p{Hiragana}+",
                  r"[^\P{Katakana}]", r"\P{Hangul}+", r"\A.|.\z|\v", r"[\W\d]+"):
        rows.append((f"regex {regex}", "gpt2", splits(regex)))
    rows.append(("two ByteLevels", "gpt2", {"pre_tokenizer": sequence(byte_level(), byte_level())}))
    rows.append(("ByteLevel and Metaspace", "gpt2", {
        "model": {"unk_token": "!"},
        "pre_tokenizer": sequence(byte_level(), metaspace(prepend_scheme="always", split=True))}))
    lacking = {"Q": None, "\u00e2": None, "\u00e3": None}
    for fuse in (True, False):
        rows.append((f"unknown bytes, fused {fuse}", "gpt2", {
            "model": {"unk_token": "!", "fuse_unk": fuse, "merges": gpt["model"]["merges"][:1],
                      "vocab": lacking},
            "added_tokens": []}))
        rows.append((f"unknown characters, fused {fuse}", "llama2", {
            "model": {"unk_token": "<unk>", "fuse_unk": fuse, "byte_fallback": False}}))
    rows.append(("Metaspace first after Strip", "llama2", {
        "normalizer": {"type": "Strip", "strip_left": True, "strip_right": True, **NO_SEQUENCE},
        "pre_tokenizer": metaspace(prepend_scheme="first", split=False)}))
    rows.append(("Metaspace first after Removed", "llama2", {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"}, metaspace(prepend_scheme="first", split=True)]}}))
    rows.append(("Metaspace first after Replace", "llama2", {
        "normalizer": {"type": "Replace", "pattern": {"Regex": r"^\s+"}, "content": "",
                       **NO_SEQUENCE},
        "pre_tokenizer": metaspace(prepend_scheme="first", split=False)}))
    return rows


def variations(specs):
    return models(specs) + others(specs)


PIECES = ["def f(x):\n", "    return x[10:20] + 0x1F\n", "// Done.\r\n", "\r\n", "\n\n\n", "\t\t",
          "   ", " ", " ", "1234567", "3.14", "\u0661\u0662", "\u00bd", "\u00b2", "\u2167", "it's",
          "WE'LL", "the", "The", " file", " and", "HTTPServer", "snake_case",
          "\u6f22\u5b57\u4eee\u540d", "\u304b\u306a", "\u30ab\u30bf", "\ud55c\uad6d\uc5b4",
          "\u1112\u1161\u11ab", "\u0627\u0644\u0633\u0644\u0627\u0645",
          "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0e44\u0e17\u0e22", "\u0434\u043e\u043c",
          "\u00e9t\u00e9", "e\u0301", "a\u0323\u0302", "\u0301", "\u212b", "\ufb01", "\u2460",
          "\uff21\uff22", "\U0001f600", "\U0001f469\u200d\U0001f4bb", "\U0001f1e9\U0001f1ea",
          "\U00020000", "\ufeff", "\u200b", "\u00a0", "\u3000", "\u2028", "\u0085", "\u3002",
          "\uff0c", "\u0964", "\u060c", "\u2026", "--", "...", "!?", "<|end|>", "<s>", "\u2581",
          "\u0130", "\u03a3\u03c2", "Q", "\u01c5", "\u2c00", "\ua7cb", "\u1c89", "\u24b6",
          "\U00031350", "_", "x", "-", "b", "ab", "\\", "/", "\u0e01\u0e33"]


def lines(count, seed=7):
    """Lines that mix code, numbers, scripts, emoji, marks and whitespace; the first have all."""
    rng = random.Random(seed)
    all_pieces = ["".join(PIECES[i:i + 12]) for i in range(0, len(PIECES), 12)]
    return all_pieces + ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 24)))
                         for _ in range(count - len(all_pieces))]
