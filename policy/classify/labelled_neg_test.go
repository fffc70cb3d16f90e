package classify

import (
	"fmt"
	"strconv"
	"strings"
)

// articleDigit completes the number of a barcode.
func articleDigit(s string) string {
	odd, even := 0, 0
	for i := range s {
		if i%2 == 0 {
			odd += int(s[i] - '0')
		} else {
			even += int(s[i] - '0')
		}
	}
	return s + strconv.Itoa((10-(odd+3*even)%10)%10)
}

func (g *gen) uuid() string {
	return group(g.of(hexes, 32), "-", 8, 4, 4, 4, 12)
}

// numbersOfThings are long numbers that are nobody's.
func (g *gen) numbersOfThings() {
	g.add("order number", g.about(g.pick("order", "Order number", "invoice", "ticket"), g.of("123456789", 1)+g.of(digits, 7+g.IntN(10))))
	g.add("order number", "#"+g.of("123456789", 1)+g.of(digits, 5+g.IntN(14)))
	g.add("uuid", g.say(g.uuid()))
	g.add("uuid of digits", g.say(group(g.of(digits, 32), "-", 8, 4, 4, 4, 12)))
	g.add("version", g.say(fmt.Sprintf("%d.%d.%d-rc.%d+build.%s", g.IntN(20), g.IntN(50), g.IntN(999), g.IntN(9), g.of(digits, 8))))
	g.add("price", g.say(g.pick("$", "€", "£", "USD ", "R$ ")+fmt.Sprintf("%d,%03d,%03d.%02d", 1+g.IntN(9), g.IntN(1000), g.IntN(1000), g.IntN(100))))
	g.add("phone-like price", g.say(g.pick("$", "€ ", "USD ")+group(g.of("123456789", 1)+g.of(digits, 9), g.pick(" ", "."), 3, 3, 4)))
	g.add("tracking", g.about("tracking", g.pick("1Z"+g.of(upper+digits, 16), "9400"+g.of(digits, 18), g.of(digits, 12), "RR"+g.of(digits, 9)+"CN")))
	g.add("tracking in groups", g.say("9400 "+group(g.of(digits, 18), " ", 4, 4, 4, 4, 2)))
	g.add("timestamp", g.say(strconv.Itoa(1700000000+g.IntN(99999999))+g.pick("", g.of(digits, 3), g.of(digits, 6), g.of(digits, 9))))
	g.add("timestamp", g.say(fmt.Sprintf("20%02d%02d%02d%02d%02d%02d", g.IntN(40), 1+g.IntN(12), 1+g.IntN(28), g.IntN(24), g.IntN(60), g.IntN(60))))
	g.add("timestamp", g.say(fmt.Sprintf("20%02d-%02d-%02dT%02d:%02d:%02d.%sZ", g.IntN(40), 1+g.IntN(12), 1+g.IntN(28), g.IntN(24), g.IntN(60), g.IntN(60), g.of(digits, 6))))
	g.add("digest", g.say(g.of(hexes, []int{32, 40, 64}[g.IntN(3)])))
	g.add("digest with a number", g.say(g.of("abcdef", 4)+g.card()+g.of("abcdef", 12)))
	isbn := "978" + g.of(digits, 10)
	g.add("isbn", "ISBN "+g.pick(isbn, group(isbn, "-", 3, 1, 2, 6, 1)))
	g.add("barcode", g.say(articleDigit("40"+g.of(digits, 10))))
	g.add("address of a network", g.say(fmt.Sprintf("%d.%d.%d.%d:%d", 1+g.IntN(255), g.IntN(256), g.IntN(256), g.IntN(256), 1024+g.IntN(60000))))
	g.add("fraction", g.say("0."+g.card()))
	g.add("coordinates", g.say(fmt.Sprintf("%d.%s, -%d.%s", g.IntN(90), g.of(digits, 8), g.IntN(180), g.of(digits, 8))))
	g.add("longer number", g.say(g.card()+g.of(digits, 5)))
	g.add("longer number", g.say(g.of("123456789", 6)+g.cnid()[:17]+g.of(digits, 3)))
	g.add("table", strings.Join([]string{g.of(digits, 4), g.of(digits, 4), g.of(digits, 4), g.of(digits, 4), g.of(digits, 4), g.of(digits, 4)}, " "))
	g.add("path", "GET /v1/orders/"+g.card()+"/items HTTP/1.1")
	g.add("imei", g.about("IMEI", luhnDigit("35"+g.of(digits, 12))))
	g.add("counter", "requests_total "+g.of("123456789", 1)+g.of(digits, 9+g.IntN(3)))
}

// other returns s with its last digit replaced.
func (g *gen) other(s string) string {
	last := s[len(s)-1]
	for {
		if c := digits[g.IntN(10)]; c != last {
			return s[:len(s)-1] + string(c)
		}
	}
}

// wrongChecks are numbers that have the form and not the check.
func (g *gen) wrongChecks() {
	g.add("wrong card", g.about("card", g.other(g.card())))
	g.add("wrong card printed", g.about("card", printed(g.other(g.card()), " ")))
	g.add("wrong issuer", g.say(luhnDigit(g.of("179", 1)+"0"+g.of(digits, 13))))
	g.add("wrong iban", "IBAN "+g.pick(g.other(g.iban()), fours(g.other(g.iban()))))
	g.add("iban of no country", "IBAN "+ibanOf("ZZ", g.of(digits, 18)))
	c := g.cnid()
	g.add("cn id of no date", g.say(c[:10]+"13"+c[12:]))
	g.add("wrong cn id", g.say(g.other(c[:17] + "0")[:17]+map[bool]string{true: "5", false: "6"}[c[17] == '6']))
	g.add("wrong aadhaar", g.about("aadhaar", group(g.other(g.aadhaar()), " ", 4, 4, 4)))
	p := g.other(g.cpf())
	g.add("wrong cpf", g.about("CPF", group(p[:9], ".", 3, 3, 3)+"-"+p[9:]))
	g.add("wrong nhs", g.about("NHS number", group(g.other(g.nhs()), " ", 3, 3, 4)))
	g.add("wrong ssn", g.about("SSN", group(g.pick("000", "666", "9"+g.of(digits, 2))+g.of("123456789", 6), "-", 3, 2, 4)))
	g.add("wrong ssn", g.about("SSN", group(g.of("12345", 3)+"00"+g.of("123456789", 4), "-", 3, 2, 4)))
	g.add("phone of no country", g.say("+"+g.pick("0", "21400", "999")+g.of(digits, 9)))
}

// lookalikes are texts that look like addresses and secrets.
func (g *gen) lookalikes() {
	g.add("package", g.say(g.of(lower, 6)+"@"+fmt.Sprintf("%d.%d.%d", g.IntN(9), g.IntN(30), g.IntN(99))))
	g.add("scoped package", "npm i @"+g.of(lower, 5)+"/"+g.of(lower, 6)+"@^"+fmt.Sprintf("%d.0.1", g.IntN(9)))
	g.add("retina image", g.say(g.of(lower, 6)+"@2x.png"))
	g.add("handle", "ask @"+g.of(lower, 7)+" about it")
	g.add("decorator", "@app."+g.of(lower, 5)+"('/x')")
	g.add("repository", "git clone git@github.com:"+g.of(lower, 5)+"/"+g.of(lower, 6)+".git")
	g.add("host", g.of(lower, 5)+"@"+g.of(lower, 6)+":/var/log$ ls")
	g.add("unit", "systemctl status getty@tty"+g.of(digits, 1)+".service "+g.of(lower, 3))
	g.add("placeholder", "export OPENAI_API_KEY=sk-"+strings.Repeat(g.pick("x", "X", "*", "0"), 32+g.IntN(20)))
	g.add("placeholder", "ghp_"+strings.Repeat(g.pick("x", "X", "a", "0"), 36)+" "+g.of(lower, 3))
	g.add("placeholder", "AKIA"+strings.Repeat(g.pick("X", "A", "Z"), 16)+" "+g.of(lower, 3))
	g.add("too short", "ghp_"+g.of(alnum, 12)+" "+"sk-"+g.of(alnum, 10))
	g.add("css", ".sk-"+g.of(lower, 6)+"-"+g.of(lower, 7)+"-container-"+g.of(lower, 9)+" { margin: 0 }")
	g.add("word", "task-"+g.of(lower, 40)+" eyJ"+g.of(lower, 3))
	g.add("public key", "-----BEGIN "+g.pick("PUBLIC KEY", "CERTIFICATE", "RSA PUBLIC KEY")+"-----\n"+g.of(alnum, 40))
	g.add("integrity", "sha512-"+g.of(alnum+"+/", 86)+"==")
	g.add("url", "https://"+g.of(lower, 8)+".example/a/b?x="+g.of(digits, 6)+"&y="+g.of(lower, 4))
	g.add("placeholder url", "postgres://user:${PASSWORD}@db:5432/"+g.of(lower, 4))
	g.add("arithmetic", fmt.Sprintf("%d+%d=%d", g.IntN(1e6), g.IntN(1e6), g.IntN(1e6)))
	g.add("diff", "+"+g.of("123456789", 1)+g.of(digits, 5)+" lines, -"+g.of(digits, 4))
	g.add("call", "call the function with "+g.of(digits, 8)+" iterations")
	g.add("date", "call me on "+fmt.Sprintf("20%02d-%02d-%02d", g.IntN(40), 1+g.IntN(12), 1+g.IntN(28)))
	g.add("model", "phone model "+g.of(upper, 2)+"-"+g.of(digits, 4))
	g.add("clean", g.pick("Write a poem about ", "Explain ", "Translate to French: ", "Summarise ")+g.of(lower, 9)+" in "+strconv.Itoa(100+g.IntN(900))+" words")
}
