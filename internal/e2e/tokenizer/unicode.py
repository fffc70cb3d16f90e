"""Asks the Rust tokenizers what they know of Unicode, and writes it as text.

    python unicode.py > unicode.txt

Every line is a fact about code points, in hexadecimal:

    class NAME  LO-HI ...      members of a regexp class (Oniguruma), or of a Rust predicate
    ccc CLASS  LO-HI ...       combining classes, as far as their order shows
    nfd CP  CP ...             full canonical decomposition
    nfkd CP  CP ...            full compatibility decomposition, where it differs
    comp CP CP  CP             primary composites
    lower CP  CP ...           lower case

Nothing here comes from a Unicode file: the Rust crates carry several versions of the
standard, and what counts is what they do. Needs the PyPI package tokenizers.
"""
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
ALL = "".join(map(chr, CODES))

CATEGORIES = (
    "L Lu Ll Lt Lm Lo LC M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So "
    "Z Zs Zl Zp C Cc Cf Cn Co Cs"
).split()
POSIX = "Alnum Alpha Blank Cntrl Digit Graph Lower Print Punct Space Upper XDigit Word ASCII".split()
PROPERTIES = "Alphabetic White_Space Uppercase Lowercase Emoji Emoji_Presentation Extended_Pictographic Ideographic".split()
SCRIPTS = (
    "Arabic Armenian Bengali Bopomofo Braille Cherokee Common Coptic Cyrillic Devanagari Ethiopic "
    "Georgian Greek Gujarati Gurmukhi Han Hangul Hebrew Hiragana Inherited Kannada Katakana Khmer Lao "
    "Latin Malayalam Mongolian Myanmar Oriya Sinhala Syriac Tamil Telugu Thaana Thai Tibetan Yi"
).split()


def ranges(codes):
    out, lo, hi = [], None, None
    for c in codes:
        if hi is not None and (c == hi + 1 or (hi == 0xD7FF and c == 0xE000)):
            hi = c
            continue
        if lo is not None:
            out.append((lo, hi))
        lo = hi = c
    if lo is not None:
        out.append((lo, hi))
    return " ".join(f"{a:X}-{b:X}" for a, b in out)


def members(pre):
    """Code points inside the pieces of a pre-tokenizer that keeps only its matches."""
    out = []
    for _, (a, b) in pre.pre_tokenize_str(ALL):
        out.extend(CODES[a:b])
    return out


def outside(pre):
    """Code points that a pre-tokenizer removes."""
    inside = set(members(pre))
    return [c for c in CODES if c not in inside]


def regex_class(name, pattern):
    pre = pre_tokenizers.Split(Regex(pattern + "+"), "removed", invert=True)
    print(f"class {name}  {ranges(members(pre))}")


def classes():
    for name in CATEGORIES + PROPERTIES + SCRIPTS:
        try:
            regex_class(name, f"\\p{{{name}}}")
        except Exception as e:  # a name that the engine doesn't know
            print(f"no class {name}: {e}", file=sys.stderr)
    for name in POSIX:
        regex_class("posix:" + name.lower(), f"[[:{name.lower()}:]]")
        regex_class("p:" + name.lower(), f"\\p{{{name}}}")
    for letter in "dhsw":
        regex_class("\\" + letter, "\\" + letter)
    regex_class(".", ".")
    for letter in "abcdefghijklmnopqrstuvwxyz":
        regex_class("(?i)" + letter, f"(?i:{letter})")
        regex_class("(?i)[" + letter + "]", f"(?i:[{letter}])")
    # Predicates of the Rust code: each splits the string of all code points in its own way.
    print(f"class rust:whitespace  {ranges(outside(pre_tokenizers.WhitespaceSplit()))}")
    print(f"class rust:numeric  {ranges(outside_by_one(pre_tokenizers.Digits(individual_digits=True)))}")
    print(f"class rust:punctuation  {ranges(outside(pre_tokenizers.Punctuation('removed')))}")
    words, spaces = [], []
    pre = pre_tokenizers.Whitespace()
    for c in CODES:
        pieces = pre.pre_tokenize_str("a" + chr(c))
        if len(pieces) == 1:
            (words if pieces[0][1][1] == 2 else spaces).append(c)
    print(f"class regex:word  {ranges(words)}")
    print(f"class regex:space  {ranges(spaces)}")
    strip = normalizers.Strip()
    print(f"class rust:strip  {ranges(c for c in CODES if not strip.normalize_str(chr(c)))}")
    accents = normalizers.StripAccents()
    print(f"class rust:mark  {ranges(c for c in CODES if not accents.normalize_str(chr(c)))}")
    bert = pre_tokenizers.BertPreTokenizer()
    found = []
    for c in CODES:
        p = bert.pre_tokenize_str("a" + chr(c) + "b")
        if len(p) == 3:
            found.append(c)
    print(f"class rust:bertpunct  {ranges(found)}")
    nmt = normalizers.Nmt()
    print(f"class nmt:removed  {ranges(c for c in CODES if not nmt.normalize_str(chr(c)))}")
    print(f"class nmt:space  {ranges(c for c in CODES if c != 32 and nmt.normalize_str(chr(c)) == ' ')}")


def outside_by_one(pre):
    """Code points that a pre-tokenizer isolates between two letters."""
    return [c for c in CODES if len(pre.pre_tokenize_str("a" + chr(c) + "a")) == 3]


def hexes(s):
    return " ".join(f"{ord(c):X}" for c in s)


def normal():
    nfd, nfkd, nfc = normalizers.NFD(), normalizers.NFKD(), normalizers.NFC()
    hangul = range(0xAC00, 0xAC00 + 11172)
    canonical = {}
    for c in CODES:
        s = chr(c)
        d = nfd.normalize_str(s)
        k = nfkd.normalize_str(s)
        if c in hangul:
            continue
        if d != s:
            canonical[c] = d
            print(f"nfd {c:X}  {hexes(d)}")
        if k != d:
            print(f"nfkd {c:X}  {hexes(k)}")

    def swapped(a, b):
        return a != b and nfd.normalize_str("x" + a + b) == "x" + b + a

    # One mark of each combining class: the oldest there is, and one that Rust knows.
    marks = {}
    for ucd in unicodedata.ucd_3_2_0, unicodedata:
        for c in CODES:
            k = ucd.combining(chr(c))
            known = k == 240 or swapped("\u0345", chr(c))
            if k and k not in marks and c not in canonical and known:
                marks[k] = chr(c)
    order = sorted(marks)

    found = {}
    for c in CODES:
        s = chr(c)
        if c in canonical or c in hangul:
            continue
        if s != marks[order[0]] and not swapped(marks[order[-1]], s) and not swapped(s, marks[order[0]]):
            continue
        equal = [k for k in order if not swapped(marks[k], s) and not swapped(s, marks[k])]
        if len(equal) != 1:
            raise SystemExit(f"U+{c:04X}: combining class unclear: {equal}")
        found.setdefault(equal[0], []).append(c)
    for k in sorted(found):
        print(f"ccc {k:X}  {ranges(found[k])}")
    for c in sorted(canonical):
        step = unicodedata.decomposition(chr(c)).split()
        if len(step) == 2 and nfc.normalize_str("".join(chr(int(h, 16)) for h in step)) == chr(c):
            print(f"comp {step[0]} {step[1]}  {c:X}")
    lower = normalizers.Lowercase()
    for c in CODES:
        s = lower.normalize_str(chr(c))
        if s != chr(c):
            print(f"lower {c:X}  {hexes(s)}")


classes()
normal()
