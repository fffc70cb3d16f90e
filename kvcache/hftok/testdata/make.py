"""Makes the small tokenizers of this folder and golden.json: what Hugging Face's
tokenizers, as engines use them from Python, say about some texts.

    python make.py        needs tokenizers 0.23 and sentencepiece 0.2

Each tokenizer is of a kind that kvcache/hftok exists for, or carries something
that the library would obey and must not.
"""
import json
import os
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as spm_model
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

here = os.path.dirname(os.path.abspath(__file__))

SUBJECTS = "the router|a worker|every block|the oldest prompt|one tenant|the long queue|this cache|an engine".split("|")
VERBS = "keeps|evicts|matches|waits for|hashes|prefers|returns|forgets".split("|")
OBJECTS = "its prefix|the next token|ten requests|a busy neighbour|the whole page|nothing at all|naïve guesses|40 tokens".split("|")
FOREIGN = ["路由器把请求送到有缓存的机器。", "キャッシュは前から順に使われる。", "Маршрутизатор помнит префиксы.", "Die Größe des Blocks zählt.", "캐시가 비어 있습니다."]
CORPUS = [f"{s.capitalize()} {v} {o}." for s in SUBJECTS for v in VERBS for o in OBJECTS] + FOREIGN * 20

TEXTS = [
    "", " ", "  two  spaces ", "The router keeps its prefix.", "THE ROUTER evicts, matches; waits!", "line\nline\r\n\tline",
    "naïve nai\u0308ve ﬁne ½ ①", "路由器把请求送到有缓存的机器。", "キャッシュ", "캐시가", "Größe GRÖSSE größe", "a" * 200,
    "unknown: \u16a0\u16b1 \U0001f600 \U0001f468\u200d\U0001f469", "<s>[CLS]special</s> [SEP] [MASK]", "\u200b\ufeff\u00a0\u3000x", "0123456789 1,234.5",
    "\U00010041\u0323 \U0001d400", "e\u0301\u0323 \u1112\u1161\u11ab", "tab\tand \u0001 control", "word " * 300,
]


def bpe():
    """Byte level, with all that must be ignored: truncation, padding."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<s>", "</s>"])
    t.train_from_iterator(CORPUS, trainer)
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    return t


def wordpiece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=300, show_progress=False, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    t.train_from_iterator(CORPUS, trainer)
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    return t


def unigram():
    """What T5 and its kin have: Unigram behind a normalizer compiled by SentencePiece."""
    with tempfile.TemporaryDirectory() as d:
        rules, corpus, model = (os.path.join(d, n) for n in ("rules.tsv", "corpus", "model"))
        with open(rules, "w") as f:  # a few rules of NFKC, so that the table stays small
            for a, b in [("ﬁ", "fi"), ("½", "1/2"), ("①", "1"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\u200b", "")]:
                f.write(" ".join(f"{ord(c):x}" for c in a) + "\t" + " ".join(f"{ord(c):x}" for c in b) + "\n")
        with open(corpus, "w") as f:
            f.write("\n".join(CORPUS))
        sentencepiece.SentencePieceTrainer.train(
            input=corpus, model_prefix=model, vocab_size=140, model_type="unigram", normalization_rule_tsv=rules, minloglevel=2, num_threads=1
        )
        proto = spm_model.ModelProto()
        with open(model + ".model", "rb") as f:
            proto.ParseFromString(f.read())
    t = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], proto.trainer_spec.unk_id, False))
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap), normalizers.Replace(" {2,}", " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.add_special_tokens([AddedToken("<s>"), AddedToken("</s>")])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    return t


golden = []
for make in bpe, wordpiece, unigram:
    t = make()
    name = make.__name__
    for special in False, True:
        for text in TEXTS:
            golden.append({"tokenizer": name, "text": text, "special": special, "ids": t.encode(text, add_special_tokens=special).ids})
    # Only now, so that the goldens are what an engine computes.
    if name == "bpe":
        t.enable_truncation(8)
        t.enable_padding(length=16, pad_token="</s>", pad_id=t.token_to_id("</s>"))
    with open(os.path.join(here, name + ".json"), "w") as f:
        json.dump(json.loads(t.to_str()), f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
with open(os.path.join(here, "golden.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(g, separators=(",", ":")) for g in golden) + "\n]\n")
