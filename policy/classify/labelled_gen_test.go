package classify

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
)

// gen makes labelled cases from a seed. It computes check digits in ways of its
// own, so that a mistake in the scanner's is not made twice.
type gen struct {
	*rand.Rand

	cases []labelledCase
	seen  map[string]bool
}

const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
	hexes   = "0123456789abcdef"
	alnum   = upper + lower + digits
	urlSafe = alnum + "-_"
)

func generateLabelled() []labelledCase {
	g := &gen{Rand: rand.New(rand.NewPCG(2026, 6)), seen: map[string]bool{}}
	for range 40 {
		g.cards()
		g.identities()
	}
	for range 30 {
		g.contacts()
	}
	for range 20 {
		g.secrets()
	}
	for range 25 {
		g.numbersOfThings()
		g.wrongChecks()
	}
	for range 12 {
		g.lookalikes()
	}
	return g.cases
}

func (g *gen) add(why, text string, kinds ...Kind) {
	if g.seen[text] {
		return
	}
	g.seen[text] = true
	g.cases = append(g.cases, labelledCase{Text: text, Kinds: append([]Kind{}, kinds...), Why: why})
}

func (g *gen) of(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[g.IntN(len(alphabet))]
	}
	return string(b)
}

func (g *gen) pick(from ...string) string { return from[g.IntN(len(from))] }

// say puts something into a sentence that does not tell what it is.
func (g *gen) say(what string) string {
	return fmt.Sprintf(g.pick(
		"%s", "Please use %s for this.", "I think it was %s, but check.", "He wrote: %s\nand nothing else", "(%s)", "value=%s;",
		`{"value":"%s"}`, "Here you go - %s", "<td>%s</td>", "The following was left at the desk: %s. Thanks!", "a,b,%s,d",
	), what)
}

// about puts something into a sentence that tells.
func (g *gen) about(word, what string) string {
	return fmt.Sprintf(g.pick("%s: %s", "My %s is %s, is that right?", "%s %s", "Update the %s on file to %s please", `{"%s": "%s"}`, "%s no. %s"), word, what)
}

// luhnDigit completes a number by trying.
func luhnDigit(s string) string {
	for d := range 10 {
		total := 0
		full := s + strconv.Itoa(d)
		for i := range len(full) {
			v := int(full[len(full)-1-i] - '0')
			total += []int{v, []int{0, 2, 4, 6, 8, 1, 3, 5, 7, 9}[v]}[i%2]
		}
		if total%10 == 0 {
			return full
		}
	}
	panic("no digit")
}

func (g *gen) card() string {
	prefix, n := "4", 16
	switch g.IntN(9) {
	case 0:
		prefix = strconv.Itoa(51 + g.IntN(5))
	case 1:
		prefix = strconv.Itoa(2221 + g.IntN(500))
	case 2:
		prefix, n = g.pick("34", "37"), 15
	case 3:
		prefix = g.pick("6011", "644", "649", "65")
	case 4:
		prefix, n = g.pick("300", "305", "36", "38"), 14
	case 5:
		prefix = strconv.Itoa(3528 + g.IntN(62))
	case 6:
		prefix = "62"
	default:
	}
	return luhnDigit(prefix + g.of(digits, n-1-len(prefix)))
}

// group parts a number as it is printed.
func group(s, sep string, sizes ...int) string {
	var parts []string
	for _, n := range sizes {
		parts = append(parts, s[:n])
		s = s[n:]
	}
	return strings.Join(parts, sep)
}

func printed(card, sep string) string {
	switch len(card) {
	case 15:
		return group(card, sep, 4, 6, 5)
	case 14:
		return group(card, sep, 4, 6, 4)
	default:
		return group(card, sep, 4, 4, 4, 4)
	}
}

// wide writes digits in another script.
func wide(s string, zero rune) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return zero + r - '0'
		}
		return r
	}, s)
}

func (g *gen) cards() {
	g.add("card", g.say(g.card()), KindCard)
	g.add("card printed", g.say(printed(g.card(), g.pick(" ", "-"))), KindCard)
	switch g.IntN(6) {
	case 0:
		g.add("card full width", g.say(wide(g.card(), '０')), KindCard)
	case 1:
		g.add("card arabic-indic", g.say(wide(printed(g.card(), " "), '٠')), KindCard)
	case 2:
		g.add("card no-break spaces", g.say(printed(g.card(), "\u00a0")), KindCard)
	case 3:
		c := g.card()
		g.add("card with zero width space", g.say(c[:7]+"\u200b"+c[7:]), KindCard)
	case 4:
		g.add("card among Chinese", "请从卡"+g.card()+"扣款", KindCard)
	default:
		g.add("card with expiry", g.about("card", printed(g.card(), " ")+" 09/27 "+g.of(digits, 3)), KindCard)
	}
}

func ibanOf(country, bban string) string {
	number := ""
	for _, c := range bban + country + "00" {
		if c >= 'A' {
			number += strconv.Itoa(int(c - 'A' + 10))
		} else {
			number += string(c)
		}
	}
	n, _ := new(big.Int).SetString(number, 10)
	return fmt.Sprintf("%s%02d%s", country, 98-new(big.Int).Mod(n, big.NewInt(97)).Int64(), bban)
}

func (g *gen) iban() string {
	switch g.IntN(6) {
	case 0:
		return ibanOf("DE", g.of(digits, 18))
	case 1:
		return ibanOf("GB", g.of(upper, 4)+g.of(digits, 14))
	case 2:
		return ibanOf("FR", g.of(digits, 10)+g.of(upper+digits, 11)+g.of(digits, 2))
	case 3:
		return ibanOf("NL", g.of(upper, 4)+g.of(digits, 10))
	case 4:
		return ibanOf("ES", g.of(digits, 20))
	default:
		return ibanOf("NO", g.of(digits, 11))
	}
}

func fours(s string) string {
	var parts []string
	for len(s) > 4 {
		parts, s = append(parts, s[:4]), s[4:]
	}
	return strings.Join(append(parts, s), " ")
}

func (g *gen) cnid() string {
	base := g.pick("110105", "310104", "440305", "510107", "330106", "420111") +
		fmt.Sprintf("%04d%02d%02d", 1940+g.IntN(70), 1+g.IntN(12), 1+g.IntN(28)) + g.of(digits, 3)
	total := 0
	for i, w := range []int{7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2} {
		total += w * int(base[i]-'0')
	}
	return base + "10X98765432"[total%11:total%11+1]
}

func (g *gen) ssn() string {
	area := 1 + g.IntN(898)
	if area == 666 {
		area++
	}
	return fmt.Sprintf("%03d%02d%04d", area, 1+g.IntN(99), 1+g.IntN(9999))
}

// verhoeffDigit completes a number with the tables as they are usually printed.
func verhoeffDigit(s string) string {
	d := []string{
		"0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
		"5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
	}
	p := []string{
		"0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
	}
	for digit := range 10 {
		full := s + strconv.Itoa(digit)
		c := byte('0')
		for i := range len(full) {
			c = d[c-'0'][p[i%8][full[len(full)-1-i]-'0']-'0']
		}
		if c == '0' {
			return full
		}
	}
	panic("no digit")
}

func (g *gen) aadhaar() string { return verhoeffDigit(g.of("23456789", 1) + g.of(digits, 10)) }

func (g *gen) cpf() string {
	s := g.of(digits, 9)
	for range 2 {
		total := 0
		for i := range len(s) {
			total += int(s[i]-'0') * (len(s) + 1 - i)
		}
		check := 11 - total%11
		if check > 9 {
			check = 0
		}
		s += strconv.Itoa(check)
	}
	return s
}

func (g *gen) nhs() string {
	for {
		s := g.of("4679", 1) + g.of(digits, 8)
		total := 0
		for i := range 9 {
			total += int(s[i]-'0') * (10 - i)
		}
		if check := 11 - total%11; check == 11 {
			return s + "0"
		} else if check < 10 {
			return s + strconv.Itoa(check)
		}
	}
}

func (g *gen) identities() {
	iban := g.iban()
	if g.IntN(2) == 0 {
		iban = fours(iban)
	}
	g.add("iban", g.say(iban), KindIBAN)
	g.add("cn id", g.say(g.cnid()), KindCNID)
	g.add("ssn", g.say(group(g.ssn(), "-", 3, 2, 4)), KindSSN)
	g.add("ssn with word", g.about(g.pick("SSN", "social security number", "ssn"), g.pick(g.ssn(), group(g.ssn(), " ", 3, 2, 4))), KindSSN)
	g.add("aadhaar printed", g.say(group(g.aadhaar(), " ", 4, 4, 4)), KindAadhaar)
	g.add("aadhaar with word", g.about(g.pick("Aadhaar", "aadhaar number", "UIDAI"), g.aadhaar()), KindAadhaar)
	c := g.cpf()
	g.add("cpf printed", g.say(group(c[:9], ".", 3, 3, 3)+"-"+c[9:]), KindCPF)
	g.add("cpf", g.about(g.pick("CPF", "taxpayer", "document"), g.cpf()), KindCPF)
	g.add("nhs printed", g.say(group(g.nhs(), " ", 3, 3, 4)), KindNHS)
	g.add("nhs with word", g.about(g.pick("NHS number", "NHS", "patient"), g.pick(g.nhs(), group(g.nhs(), "-", 3, 3, 4))), KindNHS)
}

func (g *gen) contacts() {
	name := g.pick("jan", "mei", "ravi", "ola", "tess") + g.pick("", ".", "_", "+") + g.of(lower, 4)
	g.add("email", g.say(name+"@"+g.of(lower, 6)+"."+g.pick("com", "org", "co.uk", "de", "io", "com.br", "museum")), KindEmail)
	nanp := fmt.Sprintf("%d%02d555%04d", 2+g.IntN(8), g.IntN(100), g.IntN(10000))
	g.add("phone of America", g.say(g.pick("("+nanp[:3]+") "+nanp[3:6]+"-"+nanp[6:], group(nanp, "-", 3, 3, 4), "+1 "+group(nanp, " ", 3, 3, 4))), KindPhone)
	g.add("phone with country", g.say(g.pick(
		"+44 20 7946 0"+g.of(digits, 3), "+49 30 2312"+g.of(digits, 4), "+33 1 99 00 "+g.of(digits, 2)+" "+g.of(digits, 2),
		"+86 139 1234 "+g.of(digits, 4), "+91 98765 "+g.of(digits, 5), "+4479460"+g.of(digits, 5), "+55 (11) 91234-"+g.of(digits, 4),
	)), KindPhone)
	g.add("phone with word", g.about(g.pick("phone", "mobile number", "Tel", "fax", "WhatsApp"), g.pick(
		"07700 900"+g.of(digits, 3), "020 7946 0"+g.of(digits, 3), "01 99 00 "+g.of(digits, 2)+" "+g.of(digits, 2), "030 2312"+g.of(digits, 4),
		"1391234"+g.of(digits, 4), "555-"+g.of(digits, 4),
	)), KindPhone)
}
