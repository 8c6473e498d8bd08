#!/usr/bin/env python3
"""Makes tests/fixtures/tokenizers: small BPE tokenizers of every supported kind, trained on text in many scripts, and
what HF's `tokenizers` (PyPI, tried with 0.23) makes of hard strings. Run it again only to add cases."""
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).parents[1] / 'fixtures/tokenizers'

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace('{1,3}', '')

TEXT = """
The quick brown fox jumps over the lazy dog; it's not what they'd've said, I'll bet. She's 24 and we're done!
In 1969, 3,476 km away, 12345678901234567890 people didn't look. "Quoted" (brackets) [lists] {braces} <tags/>.
Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë au-delà des îles, près du mälström.
Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Straße, Maße, Füße.
Съешь же ещё этих мягких французских булок, да выпей чаю. Широкая электрификация южных губерний.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Το γρήγορο καφέ αλεπού πηδά πάνω από το σκυλί.
صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت. نص حكيم له سر قاطع وذو شأن عظيم ١٢٣٤٥
דג סקרן שט בים מאוכזב ולפתע מצא חברה. עטלף אבק נס דרך מזגן שהתפוצץ כי חם
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णुवतार भगवान श्रीराम १२३
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน
いろはにほへと ちりぬるを わかよたれそ つねならむ。カタカナとがぎぐげご、漢字もある。
天地玄黃，宇宙洪荒。日月盈昃，辰宿列張。我能吞下玻璃而不伤身体。
키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.
def f(x):\n    return x**2 + 1  # comment\n\n\tif (a && b) { printf("%d\\n", i++); }\r\n
👍🏽 👩‍👩‍👧 ☺️ 🇫🇷 😀😀😀 → ∑ ½ Ⅷ ª ① ﬁ
"""

HARD = [
    '', ' ', '  ', '\n', '\r\n', '\t \n ', 'a', 'a ', ' a', '  a  b   ', 'a\n\n\nb', 'line\r\nline\r\n\r\n', 'x \n y', 'tab\tx\t\t',
    "I'll we're THEY'VE it'S 'S 'll' '' d'd ’s", "don't'", "'ſ 'S", 'hello world', 'Hello, World! (again)...',
    '1', '12', '123', '1234', '12345678901234567890', '3.14159', '1,234,567', 'a1b22c333', '１２３４', '١٢٣٤', '½Ⅷ①²',
    'é', 'e\u0301', 'e\u0301\u0301x', '\u0301', 'a\u0301\u0323', 'a\u0323\u0301', 'Å\u212b\u00c5', '\u1100\u1161\u11a8', '한국어 조선말',
    'ﬁ ﬀ ſt', 'ǆ ǅ Ǆ', 'ﷺ', 'ß STRASSE straße', 'İ i\u0307 ı', 'か\u3099 が', 'क्षि श्री', 'ก็ค่ะ', 'שָׁלוֹם עולם', 'مرحبا بالعالم \u200f12',
    '👍🏽👍', '👩\u200d👩\u200d👧\u200d👦', '☺\ufe0f☺', '🇫🇷🇩🇪', '\u200b\u200c\u200d\u2060', '\ufeffBOM', '\u00a0\u2003\u3000\u1680x', '\u180ex\u180e',
    '\u0085x\u0085\u0085', '\u2028x\u2029', '\x00', 'a\x00b\x00\x00', '\x01\x1f\x7f', '\ufffd\uffff\ufffe', '\U0010ffff\U000e0001', '\U00020000𠀀𪚥',
    '𝒜𝓑𝔠 𐍈', '!!!???', '...\n...', ' !\n', 'a!\r\nb', '#$%^&*()_+-=', 'snake_case CamelCase kebab-case', 'http://a.b/c?d=e&f=g#h',
    '<|endoftext|>', 'a<|endoftext|>b', '<|endoftext|><|endoftext|>', '<|endoftext', '<|endoftext|', ' <|endoftext|> ', '<|long|><|', '<|long|>x',
    'foo', 'food', 'a foo b', 'foo_', '(foo)', 'foo\u0301', '１foo', 'x <strip> y', 'x\n <strip>\t\n y', '<strip><strip>', '  <strip>  <strip>  ',
    'caf\u00e9 cafe\u0301', '<left> a <left>', 'a <left>', '<s></s><unk>', '▁a ▁', 'the the the   the', '   leading', 'trailing   ', '\n\n  \n',
]


def random_strings(count):
    rng = random.Random(7)
    atoms = [c for text in HARD for c in (text, text[:1], text[-1:]) if c] + list(' \n\r\t') * 6
    return [''.join(rng.choice(atoms) for _ in range(rng.randrange(2, 12))) for _ in range(count)]


ADDED = [
    AddedToken('<|endoftext|>', special=True, normalized=False),
    AddedToken('<|long|>', special=True, normalized=False),
    AddedToken('<|long|><|', special=False, normalized=False),
    AddedToken('foo', single_word=True, normalized=False),
    AddedToken('<strip>', lstrip=True, rstrip=True, normalized=False),
    AddedToken('<left>', lstrip=True, normalized=True),
    AddedToken('cafe\u0301', normalized=True),
]


def train(tokenizer, vocab_size, special=()):
    tokenizer.train_from_iterator(TEXT.splitlines(True), trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=1, show_progress=False, special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if not special else []))
    tokenizer.add_tokens([t for t in ADDED if not special])
    return tokenizer


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), 'isolated'),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level(pre_tokenizer, normalizer=None, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer, tokenizer.normalizer, tokenizer.decoder = pre_tokenizer, normalizer, decoders.ByteLevel()
    return train(tokenizer, 700)


def gpt2():
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))


def llama3():
    tokenizer = byte_level(split(LLAMA3), ignore_merges=True)
    bos = tokenizer.token_to_id('<|long|>')
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single='<|long|> $A', pair='<|long|> $A <|long|> $B', special_tokens=[('<|long|>', bos)])])
    return tokenizer


def qwen3():
    return byte_level(split(QWEN2), normalizer=normalizers.NFC())


def llama2():
    """Characters with byte fallback, spaces as U+2581."""
    tokenizer = Tokenizer(models.BPE(unk_token='<unk>', fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')])
    tokenizer.decoder = decoders.Sequence([decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(' ', 1, 0)])
    names = ['<unk>', '<s>', '</s>']
    train(tokenizer, 900, names + [f'<0x{i:02X}>' for i in range(256)])
    file = json.loads(tokenizer.to_str())
    file['added_tokens'] = file['added_tokens'][:len(names)]  # the bytes are ordinary entries
    return Tokenizer.from_str(json.dumps(file))


def mixed():
    """The parts that the families above do not use."""
    return byte_level(
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Split(' ', 'merged_with_next'),
                                 pre_tokenizers.Split(Regex(r'\p{Han}+|[^\S\n]+'), 'merged_with_previous', invert=True),
                                 pre_tokenizers.ByteLevel(add_prefix_space=True)]),
        normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(' {3,}'), '  ')]))


def write(name, tokenizer, cases, old_merges):
    file = json.loads(tokenizer.to_str())
    if old_merges:
        file['model']['merges'] = [' '.join(pair) for pair in file['model']['merges']]
    text = json.dumps(file, ensure_ascii=False, separators=(',', ':'))
    assert Tokenizer.from_str(text).encode(TEXT).ids == tokenizer.encode(TEXT).ids
    (OUT / f'{name}.json').write_text(text)
    return [[tokenizer.encode(case, add_special_tokens=special).ids for case in cases] for special in (False, True)]


OUT.mkdir(parents=True, exist_ok=True)
cases = HARD + random_strings(60)
golden = {'cases': cases, 'ids': {}, 'ids_with_special_tokens': {}}
for make in (gpt2, llama3, qwen3, llama2, mixed):
    plain, special = write(make.__name__, make(), cases, old_merges=make is gpt2)
    golden['ids'][make.__name__] = plain
    if special != plain:
        golden['ids_with_special_tokens'][make.__name__] = special

# Bytes that are not UTF-8, as Python decodes them.
broken = ['80', '61ff62', 'c0af', 'c3', 'e282', 'e28261', 'eda080', 'f09f98', 'f0808080', 'f4908080', 'e0809f', 'fefe6162', 'c3a9c3', 'f09f9880f09f']
golden['broken'] = broken
golden['broken_ids'] = [gpt2().encode(bytes.fromhex(b).decode(errors='replace')).ids for b in broken]
(OUT / 'golden.json').write_text(json.dumps(golden, separators=(',', ':')))
