"""Text of any kind for comparisons of tokenizers: files of this machine, and random Unicode."""
import gettext
import gzip
import os
import random
import unicodedata

FOLDERS = ("/usr/share/locale", "/usr/share/doc", "/usr/share/man", "/usr/lib/python3",
           "/usr/lib/python3.11", "/usr/include", "/usr/share/perl", "/usr/share")


def text_of(path):
    """None when it is no text."""
    try:
        if path.endswith(".mo"):
            with open(path, "rb") as file:
                catalog = gettext.GNUTranslations(file)._catalog
            return "\n".join(str(value) for value in catalog.values())
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            text = file.read(2_000_000).decode()
    except (OSError, EOFError, ValueError, LookupError, AttributeError):
        return None
    return None if "\0" in text else text


def files(seed=1):
    """Texts of files below FOLDERS, each once, in an order that the seed decides."""
    paths = set()
    for folder in FOLDERS:
        for directory, _, names in os.walk(folder):
            paths.update(os.path.realpath(os.path.join(directory, name)) for name in names)
    paths = sorted(path for path in paths if os.path.isfile(path))
    random.Random(seed).shuffle(paths)
    for path in paths:
        text = text_of(path)
        if text:
            yield text


def some(size, seed=1):
    """Texts of about `size` bytes together."""
    left = size
    for text in files(seed):
        yield text
        left -= len(text.encode())
        if left <= 0:
            return


# What patterns, normalizers and added tokens look for.
SPECIAL = ("'s 'T 'll 'RE 'ſ 'K <|endoftext|> <|eot_id|> <s> </s> <unk> <tool_call> ▁ ▁▁ \u180e "
           "\u0085 \u00a0 \u2028 \u200b \u3000 é e\u0301 \u1100\u1161\u11a8 \uac00\u11a8 \u2126 "
           "<0x41> <|im_start|> don't 1234567 \U0001f600\u200d \U000e0041").split(" ")
SPACES = [" ", "  ", "\n", "\r\n", "\n\n", "\t", " \n ", "   ", "\u00a0", "\u2003"]


def random_text(rng, characters):
    """A text of some kinds of characters, from all planes, mixed or in runs."""
    lowest = [0x20, 0x80, 0x300, 0x400, 0x900, 0x1100, 0x1E00, 0x2000, 0x3000, 0x4E00, 0xA640,
              0xAC00, 0xF900, 0x10000, 0x11000, 0x16000, 0x1D000, 0x1E000, 0x1F000, 0x20000,
              0xE0000]
    here = rng.sample(lowest, rng.randint(1, 6)) + [0x20]
    parts = []
    for _ in range(characters):
        kind = rng.random()
        if kind < 0.12:
            parts.append(rng.choice(SPACES))
        elif kind < 0.2:
            parts.append(rng.choice(SPECIAL))
        elif kind < 0.25:
            parts.append(chr(rng.choice(MARKS)))
        elif kind < 0.27:
            parts.append(chr(rng.randrange(1, 0xD800)))
        elif kind < 0.29:
            parts.append(chr(rng.randrange(0xE000, 0x110000)))
        else:
            first = rng.choice(here)
            parts.append(chr(first + rng.randrange(0x60 if first == 0x20 else 0x200)))
    return "".join(parts)


MARKS = [c for c in range(0x30000) if unicodedata.combining(chr(c))]


def random_texts(size, seed=1):
    """Random texts of about `size` bytes together."""
    rng = random.Random(seed)
    left = size
    while left > 0:
        text = random_text(rng, rng.choice((1, 5, 50, 500)))
        yield text
        left -= len(text.encode())
