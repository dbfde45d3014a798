"""Changes of the tokenizers of kinds.py (JSON merge patches, RFC 7396), so that every step which a
tokenizer.json may have is in one of them; and texts that tell these steps apart.
"""
import copy
import random

from kinds import added

# Numerals of Unicode 17, which `Digits` of the package knows alone
# (docs/reference/tokenizers.md).
LATER_NUMERALS = dict.fromkeys([*range(0x11de0, 0x11dea), *range(0x16ff4, 0x16ff7)])
# Of these, at random, texts are made.
PIECES = ["<s>", "</s>", "<m>", "<l>", "<r>", "[INST]", " ", "  ", "\u2581", "a", "b", "the",
          "The file", "\u00e9", "e\u0301", "\u0301", "\u65e5", "\n", "1", "23", "\u0663", "\u00bd",
          " x", "\u00a0", "<", "\U0001f600", "'s", "(?)", "a b", "."]
TEXTS = ["Hello world", " Hello", "  two  spaces ", "a<s>", "<s> a <s>", "\u2581a", "a\u2581",
         "x <m> y", "\n<l>\n", "<r> \u00a0\u2003<l>", "  ", " ", "\n", "a1b22 333 \u0661\u0662",
         "x (?) y(?)", "a b a  b", "xe\u0301<n>y \u00e9<n>", "e\u0301<raw> \u00e9<raw>", "<m>x"]


def texts(count=40, seed=3):
    rng = random.Random(seed)
    return TEXTS + ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 10)))
                    for _ in range(count)]


def merge_patch(target, patch):
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def more(spec, *groups, model=None):
    """added_tokens with more of them: (contents, flags) each. `model`: what its vocabulary gets."""
    tokens = copy.deepcopy(spec["added_tokens"])
    vocab = {**spec["model"]["vocab"], **(model or {}).get("vocab", {})}
    for contents, flags in groups:
        used = [token["id"] for token in tokens] + list(vocab.values())
        tokens += added(contents, max(used) + 1, **flags)
    return tokens


def metaspace(**options):
    return {"type": "Metaspace", "replacement": "\u2581", **options}


def decoder(step):
    return {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, step]}


def before_bytes(*steps, **options):
    """These steps and then ByteLevel, in place of ByteLevel alone."""
    last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
            "use_regex": False, **options}
    return {**dict.fromkeys(last), "type": "Sequence", "pretokenizers": [*steps, last]}


def split(text):
    return {"type": "Split", "pattern": {"String": text}, "behavior": "Isolated", "invert": False}


def across_marks(spec):
    """A model with tokens that have a mark behind another character."""
    pairs = [["a", "\u2581"], ["a\u2581", "b"], ["\u2581", "\u2581"]]
    first = len(spec["model"]["vocab"])
    ends = [token["id"] for token in spec["added_tokens"]]
    assert first > max(ends)
    return {"vocab": {"".join(pair): first + i for i, pair in enumerate(pairs)},
            "merges": pairs + spec["model"]["merges"]}


def variations(specs):
    """Rows (name, kind, patch). `specs`: the tokenizer.json of each kind."""
    llama, gpt, qwen = specs["llama2"], specs["gpt2"], specs["qwen"]
    stripping = ((["<l>"], {"lstrip": True}), (["<r>"], {"rstrip": True}),
                 (["<m>"], {"lstrip": True, "rstrip": True}))
    rows = [("mistral v0.3", "llama2",
             {"normalizer": None, "added_tokens": more(llama, (["[INST]", "[/INST]"], {})),
              "pre_tokenizer": metaspace(prepend_scheme="first", split=False)})]
    for scheme, cut in (("always", True), ("always", False), ("first", True), ("never", False)):
        options = {"prepend_scheme": scheme, "split": cut}
        model = across_marks(llama) if scheme == "always" else {}
        patch = {"normalizer": None, "model": model,
                 "added_tokens": more(llama, *stripping, model=model),
                 "pre_tokenizer": metaspace(**options)}
        if cut or not model:  # the package leaves out all marks of the first token, trireme one
            patch["decoder"] = decoder(metaspace(**options))
        rows.append((f"Metaspace {scheme}, split {cut}", "llama2", patch))
    legacy = metaspace(str_rep="\u2581", add_prefix_space=True)
    rows.append(("Metaspace of old files", "llama2",
                 {"normalizer": None, "pre_tokenizer": legacy, "decoder": decoder(legacy)}))
    for each in (True, False):
        digits = {"type": "Digits", "individual_digits": each}
        rows.append((f"Digits, individual {each}", "gpt2",
                     {"pre_tokenizer": before_bytes(digits, use_regex=True)}))
    rows.append(("a space before each piece", "gpt2",
                 {"pre_tokenizer": {"add_prefix_space": True},
                  "added_tokens": more(gpt, (["<m>"], {}))}))
    rows.append(("a space before each run of digits", "gpt2",
                 {"pre_tokenizer": before_bytes({"type": "Digits", "individual_digits": False},
                                                use_regex=True, add_prefix_space=True)}))
    for text in ("a b", "(?)", ".", "1"):
        rows.append((f"split at {text}", "gpt2", {"pre_tokenizer": before_bytes(split(text))}))
    for kind in ("gpt2", "llama2"):
        merges = [" ".join(pair) for pair in specs[kind]["model"]["merges"]]
        rows.append((f"merges of {kind} as texts", kind, {"model": {"merges": merges}}))
    normalized = {"normalized": True, "special": False}
    rows.append(("tokens in normalized text", "qwen",
                 {"added_tokens": more(qwen, (["e\u0301<n>", "  ", " x"], normalized),
                                       (["e\u0301<raw>"], {}))}))
    rows.append(("tokens in text with marks", "llama2",
                 {"added_tokens": more(llama, ([" <m>", "<l>"], normalized),
                                       (["<r>"], {**normalized, "rstrip": True}))}))
    rows.append(("several normalizers", "qwen",
                 {"normalizer": {"type": "Sequence", "normalizers": [
                     {"type": "NFC"}, {"type": "Prepend", "prepend": "a"},
                     {"type": "Replace", "pattern": {"String": " "}, "content": "  "}]},
                  "added_tokens": more(qwen, (["<m>"], normalized))}))
    return rows
