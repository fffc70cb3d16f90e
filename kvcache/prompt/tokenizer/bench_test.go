package tokenizer

import (
	"fmt"
	"strings"
	"testing"
)

// English and Chinese prose, varied enough that few words repeat within a paragraph.
const (
	englishText = `The committee that was appointed last spring has finally published its report on the river's
changing course. Nobody had expected the survey to take eleven months, but the autumn floods
washed away half of the markers, and the engineers (there were only four of them) had to begin
again from the old mill. "We could've stopped in October," said Margaret Oyelaran, who led the
work, "and we'd have been wrong by thirty metres." Her figures, given in Table 3, show that the
bank retreated 2.75 metres between 1987 and 2023; the model predicted barely 1.9. It isn't the
average that worries farmers, though: it's the 14 places where the loss is sudden, unpredictable,
and — as anyone who keeps sheep there will tell you — dangerous after dark.
`
	chineseText = `委员会去年春天成立，如今终于公布了关于河流改道的报告。没有人料到勘测会花上十一个月，但秋季的洪水冲走了一半的标记，
工程师们只好从旧磨坊重新开始。负责这项工作的奥耶拉兰说：“我们本可以在十月停下来，那样误差就会有三十米。”表三的数字显示，
一九八七年至二〇二三年间，河岸后退了2.75米，而模型只预测了1.9米。令农民担心的并不是平均值，而是那十四处突然塌陷的地方；
凡是在那里放过羊的人都会告诉你，天黑以后非常危险。报告建议修建两道低矮的石坝，并在每年汛期之前重新测量一次。
`
)

// paragraphs repeats a text with numbers in it, so that its words are warm but no stretch
// of it is the same twice.
func paragraphs(text string, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%d. %s", i, text)
	}
	return b.String()
}

// benchmarkEncode encodes without the cache of segments, which would find the whole text.
func benchmarkEncode(b *testing.B, text string, o Options) {
	b.Helper()
	for _, name := range families {
		b.Run(name, func(b *testing.B) {
			t := realTokenizer(b, name, o)
			t.segments = nil
			ids, err := t.Encode(nil, text, false)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if ids, err = t.Encode(ids[:0], text, false); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(text))/float64(len(ids)), "B/token")
		})
	}
}

func BenchmarkEncodeEnglish(b *testing.B) {
	benchmarkEncode(b, paragraphs(englishText, 100_000), Options{})
}

func BenchmarkEncodeChinese(b *testing.B) {
	benchmarkEncode(b, paragraphs(chineseText, 100_000), Options{})
}

// Every word is new: what the first text of its kind costs.
func BenchmarkUncachedEnglish(b *testing.B) {
	benchmarkEncode(b, paragraphs(englishText, 100_000), Options{CacheBytes: -1})
}

func BenchmarkUncachedChinese(b *testing.B) {
	benchmarkEncode(b, paragraphs(chineseText, 100_000), Options{CacheBytes: -1})
}
