package yamlnode

import "strings"

// Suggest proposes the word that was probably meant, or lists what there is. It is
// empty if there is nothing.
func Suggest(word string, words []string) string {
	if best := Nearest(word, words); best != "" {
		return "did you mean " + Quote(best) + "?"
	}
	if len(words) == 0 {
		return ""
	}
	const most = 24 // in a list that somebody can read
	if len(words) > most {
		return "it has " + strings.Join(words[:most], ", ") + " and others"
	}
	return "it has " + strings.Join(words, ", ")
}

// Nearest returns the word that was probably meant, or "".
func Nearest(word string, words []string) string {
	const most = 64 // longer than any key; what is far longer is no typing error
	if len(word) > most {
		return ""
	}
	plainWord := plain(word)
	best, bestCost := "", 0
	for _, w := range words {
		if len(w) > most {
			continue
		}
		cost := distance(plainWord, plain(w))
		if best == "" || cost < bestCost {
			best, bestCost = w, cost
		}
	}
	// A third of the letters may be wrong: more is another word. Of a word of one letter
	// none is left then.
	if best != "" && 3*bestCost <= max(len(best), 3) && bestCost < len(best) {
		return best
	}
	return ""
}

// plain leaves out what people write differently: block_size, block-size,
// blockSize.
func plain(s string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(s))
}

// distance counts the letters to insert, delete, replace or swap with their
// neighbour.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
