//go:build cgo

package hftok_test

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// texts draws the same texts for the same seed: in many scripts, with spaces,
// combining marks, special tokens and any characters at all in between, as long as
// both tokenizers must take them.
type texts struct{ r *rand.Rand }

func newTexts(seed uint64) *texts { return &texts{rand.New(rand.NewPCG(seed, 0))} }

// pieces are what texts are put together from, by kind.
var pieces = [][]string{
	strings.Fields("the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you were her all their there been if more when will would who so no"),
	strings.Fields("tokenization unbelievable routers HTTP2 x86_64 camelCaseName don't we'll I'M they'RE it'ſ naïve café Ångström ﬁnal"),
	{"这是一个关于路由器的长句子", "模型", "缓存", "請求", "日本語のテキスト", "カタカナ", "한국어 문장", "조합", "Привет", "мир", "Καλημέρα", "שלום", "مرحبا بالعالم", "हिन्दी", "ภาษาไทย", "தமிழ்", "ქართული", "አማርኛ", "བོད"},
	{" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "\ufeff", "\v", "\f", "          "},
	{"1", "12", "123", "1234", "3.14159", "1,000,000", "٣٤٥", "²", "Ⅷ", "½", "２０２６"},
	{".", ",", "!", "?", "...", "'", "\"", "(", ")", "{}", "[]", "=>", "//", "/*", "#", "@", "-", "--", "—", "_", "\\n", "`", "```", "。", "，", "！"},
	{"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<|eot_id|>", "<|begin_of_text|>", "<bos>", "<unk>", "<pad>", "<think>", "<|im_start", "im_end|>", "<0x0A>", "▁", "▁▁", "Ġ"},
	{"😀", "👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "❤️", "e\u0301", "a\u0323\u0302", "\u0301", "각", "\u1100\u1161\u11a8", "Å", "\u212b", "ñ", "n\u0303", "क\u093c", "\U0001d400", "\U00020000", "\U00010041\u0323", "\ufffd", "\ue000", "\U0010ffff", "\u0378"},
	{"func main() {\n\tfmt.Println(\"hi\")\n}\n", "def f(x):\n    return x ** 2\n", "SELECT * FROM t WHERE a = 'b';", "{\"a\": [1, 2.5e-3, null]}", "https://example.com/a?b=c#d", "<div class=\"x\">y</div>", "\\frac{a}{b}", "$HOME/.cache"},
}

// next returns a text of up to so many pieces.
func (g *texts) next(most int) string {
	var b strings.Builder
	kind := g.r.IntN(len(pieces))
	for range g.r.IntN(most) + 1 {
		switch g.r.IntN(12) {
		case 0:
			kind = g.r.IntN(len(pieces))
		case 1:
			b.WriteRune(g.char())
			continue
		case 2:
			b.WriteString(strings.Repeat(string(g.char()), g.r.IntN(20)))
			continue
		default:
		}
		from := pieces[kind]
		if kind < 2 && b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(from[g.r.IntN(len(from))])
	}
	return b.String()
}

// char is any character but NUL: ASCII as often as one of the basic plane, that as
// often as one beyond.
func (g *texts) char() rune {
	for {
		r := rune(1 + g.r.IntN([...]int{0x7f, 0xffff, utf8.MaxRune}[g.r.IntN(3)]))
		if utf8.ValidRune(r) {
			return r
		}
	}
}

// prose returns at least so many bytes that read like sentences of a language:
// words by their frequency, names and numbers now and then, in paragraphs.
func (g *texts) prose(chinese bool, size int) string {
	var b strings.Builder
	b.Grow(size + size/16)
	words, space, comma, stop := englishWords, " ", ", ", ". "
	if chinese {
		words, space, comma, stop = chineseWords, "", "，", "。"
	}
	for b.Len() < size {
		for n := 4 + g.r.IntN(14); n > 0; n-- {
			// Zipf's law, near enough: a few words make up half of a text.
			i := int(float64(len(words)) * g.r.Float64() * g.r.Float64() * g.r.Float64())
			b.WriteString(words[i])
			switch {
			case n == 1:
			case g.r.IntN(12) == 0:
				b.WriteString(comma)
			default:
				b.WriteString(space)
			}
		}
		b.WriteString(stop)
		switch g.r.IntN(24) {
		case 0:
			b.WriteString("\n\n")
		case 1:
			b.WriteString(string(rune('A'+g.r.IntN(26))) + "-" + string(rune('0'+g.r.IntN(10))) + space)
		default:
		}
	}
	return b.String()
}

// englishWords is put together from stems and endings, so that there are some
// thousands of words without a list of them.
var englishWords = func() []string {
	all := strings.Fields("the of and to a in is that it for was on are as with his they be at one have this from or had by hot word but what some we can out other were all there when up use your how said an each she")
	stems := strings.Fields("act add allow answer appear ask begin believe bring build buy call carry catch change claim close come connect consider continue cost cover create cut decide depend design draw drive end enter expect explain express fall feel fill find follow force form gain gather give grow guess hand happen hear help hold hope include increase join jump keep know land laugh learn leave lift listen live look lose love make mark matter mean measure meet mind move need notice number offer open order own part pass pay pick place plan play point press prove pull push question raise reach read remember report rest return rise run save see seem sell send serve settle show sign sit sort sound speak spend stand start stay step stop study suggest supply support take talk teach tell test think touch train travel treat trust try turn understand visit wait walk want watch wear win wish wonder work worry write")
	for _, end := range []string{"", "s", "ing", "ed", "er", "ers", "able", "ment", "ful", "less", "ness", "ation", "ist", "ism", "ward"} {
		for _, s := range stems {
			all = append(all, s+end)
		}
	}
	return all
}()

// chineseWords likewise, from characters in frequent use.
var chineseWords = func() []string {
	all := strings.Split("的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里", "")
	chars := strings.Split("用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运", "")
	for i := range chars {
		for _, step := range []int{1, 7, 31} {
			all = append(all, chars[i]+chars[(i*step+step)%len(chars)])
		}
	}
	return all
}()
