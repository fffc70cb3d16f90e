package classify

import "bytes"

// topic is what a word says that a number beside it is.
type topic uint8

const (
	aboutPhone    topic = iota // this is one
	maybePhone                 // a verb of calling
	aboutSSN                   // social security
	maybeSSN                   // "social", which may be anything
	maybeSecurity              // "security", likewise
	aboutUID                   // Aadhaar
	aboutNHS                   // patients
	aboutCard                  // cards
	aboutMoney                 // a currency
	aboutThings                // orders, parcels and other things that have long numbers
	numTopics
)

// farAway is a place before the text that nothing is near to.
const farAway = -1 << 20

const (
	shortestWord, longestWord = 2, 12
	// nearBefore and nearAfter are the bytes within which a word speaks of a number.
	nearBefore, nearAfter = 48, 32
	// rightBefore is the same for words that mean little by themselves.
	rightBefore = 24
)

// wordsOf lists the words of a topic, in lower case.
func wordsOf(c topic) []string {
	switch c {
	case aboutPhone:
		return []string{
			"phone", "phones", "telephone", "tel", "mobile", "cell", "cellphone", "fax", "whatsapp", "sms", "hotline", "landline",
			"telefon", "telefono", "telefone", "celular", "movil", "handy", "mobil", "portable", "telefoon", "cellulare", "phonenumber",
		}
	case maybePhone:
		return []string{"call", "text", "ring", "dial", "contact", "reach", "phoned", "called", "viber"}
	case aboutSSN:
		return []string{"ssn", "ssns", "socialsec", "itin"}
	case maybeSSN:
		return []string{"social"}
	case maybeSecurity:
		return []string{"security"}
	case aboutUID:
		return []string{"aadhaar", "aadhar", "adhaar", "adhar", "uidai"}
	case aboutNHS:
		return []string{"nhs", "patient", "patients", "nhsnumber", "nhsno"}
	case aboutCard:
		return []string{
			"card", "cards", "visa", "mastercard", "amex", "credit", "debit", "cc", "ccn", "pan", "discover", "maestro", "diners",
			"jcb", "unionpay", "karte", "carte", "tarjeta", "cartao", "cardnumber", "creditcard", "cvv", "cvc", "expiry", "exp",
		}
	case aboutMoney:
		return []string{"usd", "eur", "gbp", "inr", "brl", "jpy", "cny", "rmb", "rs", "chf", "aud", "cad", "dollars", "euros"}
	case aboutThings:
		return []string{
			"order", "orders", "invoice", "tracking", "ticket", "ref", "reference", "sku", "serial", "parcel", "shipment", "isbn",
			"imei", "iccid", "part", "id", "ids", "txn", "transaction", "case", "po", "uuid", "guid", "ean", "gtin", "upc",
			"barcode", "batch", "lot", "orderid", "userid", "ordernumber", "orderno", "accountid", "requestid", "traceid", "model",
			"version", "build", "hash", "commit", "timestamp", "tweet", "snowflake", "issue", "bug", "doi", "item", "product",
			"article", "asset", "session", "trace", "span", "job", "run", "epoch", "waybill", "docket",
		}
	default:
		return nil
	}
}

// topicsByWord is the topic of each word.
var topicsByWord = func() map[string]topic { //nolint:gochecknoglobals // an immutable table
	m := make(map[string]topic)
	for c := range numTopics {
		for _, w := range wordsOf(c) {
			m[w] = c
		}
	}
	return m
}()

// openings has, for the first two letters of those words, the lengths that they
// have as bits. It spares most words the look at the map.
var openings = func() (t [32 * 32]uint16) { //nolint:gochecknoglobals // an immutable table
	for w := range topicsByWord {
		t[opening(w[0], w[1])] |= 1 << len(w)
	}
	return t
}()

// opening is an index made of two letters of either case.
func opening(a, b byte) int { return int(a&0x1f)<<5 | int(b&0x1f) }

// topics notes words that may say what a number after them is: text[i:j], or what
// underscores part it into.
func (s *scan) topics(i, j int) {
	from := i
	for k := i; k < j; k++ {
		if s.text[k] == '_' {
			s.topic(from, k)
			from = k + 1
		}
	}
	s.topic(from, j)
}

func (s *scan) topic(i, j int) {
	c, ok := topicOf(s.text[i:j])
	if !ok {
		return
	}
	s.last[c] = j
	if c == maybeSecurity && i-s.last[maybeSSN] <= 1 {
		s.last[aboutSSN] = j
	}
}

func topicOf(word []byte) (topic, bool) {
	if len(word) < shortestWord || len(word) > longestWord || openings[opening(word[0], word[1])]>>len(word)&1 == 0 {
		return 0, false
	}
	var lower [longestWord]byte
	for i, c := range word {
		lower[i] = c | 0x20
	}
	c, ok := topicsByWord[string(lower[:len(word)])]
	return c, ok
}

// before reports whether a word of the topic stands at most limit bytes before i.
func (s *scan) before(c topic, i, limit int) bool { return i-s.last[c] <= limit }

// socially reports whether the number at i is a social security number by the words
// around it.
func (s *scan) socially(start, end int) bool {
	if s.about(aboutSSN, start, end) {
		return true
	}
	const closer = 8 // "social is"
	from := s.last[maybeSSN]
	return start-from <= closer && s.linked(from, start, true)
}

// about reports whether a word of the topic stands shortly before or after.
func (s *scan) about(c topic, start, end int) bool {
	if s.before(c, start, nearBefore) {
		return true
	}
	stop := min(end+nearAfter, len(s.text))
	s.steps += stop - end
	for i := end; i < stop; i++ {
		if !s.is(i, isLetter) {
			continue
		}
		from := i
		for i < stop && s.is(i, isLetter) {
			i++
		}
		if found, ok := topicOf(s.text[from:i]); ok && found == c {
			return true
		}
	}
	return false
}

// numbered reports whether the number at i is, by the words right before it, that
// of a thing: "order no. 4111...".
func (s *scan) numbered(i int) bool {
	return s.numberedAfter(i, max(s.last[aboutCard], s.last[aboutPhone], s.last[aboutSSN], s.last[aboutUID], s.last[aboutNHS]))
}

// numberedAfter is numbered where what stands at other says otherwise, unless the
// thing is named after it.
func (s *scan) numberedAfter(i, other int) bool {
	from := s.last[aboutThings]
	if s.at(i-1) == '#' {
		return true
	}
	if i-from > rightBefore || other > from {
		return false
	}
	s.steps += i - from
	for k, c := range s.text[from:i] {
		switch c {
		case ',', ';', '\n', '!', '?', '|', '&':
			return false
		case '.':
			if s.stop(from + k) {
				return false
			}
		default:
		}
	}
	return true
}

// priced reports whether the number at i is an amount of money.
func (s *scan) priced(i int) bool {
	const symbols = "$\xc2\xa3\xc2\xa5\xe2\x82\xac\xe2\x82\xb9" // $ £ ¥ € ₹
	window := bytes.TrimRight(s.text[max(0, i-4):i], " ")
	s.steps += len(symbols)
	switch {
	case len(window) == 0:
		return false
	case window[len(window)-1] == '$':
		return true
	case window[len(window)-1] >= 0x80:
		for _, symbol := range [...]string{"£", "¥", "€", "₹"} {
			if bytes.HasSuffix(window, []byte(symbol)) {
				return true
			}
		}
		return false
	default:
		return s.before(aboutMoney, i, len(": "))
	}
}

// foreign lists words for telephones in scripts that have no spaces or no ASCII.
func foreign() [16]string {
	return [...]string{
		"电话", "電話", "手机", "手機", "联系方式", "號碼", "号码", "携帯", "전화", "휴대폰", "연락처", "елефон", "обильн", "هاتف", "फोन", "मोबाइल",
	}
}

// phoned returns where the word stands that says that the number at i is that of a
// telephone, farAway if there is none.
func (s *scan) phoned(i int, formatted bool) int {
	if from := s.last[aboutPhone]; i-from <= nearBefore && s.linked(from, i, false) {
		return from
	}
	if from := s.last[maybePhone]; formatted && i-from <= rightBefore && s.linked(from, i, true) {
		return from
	}
	from := max(0, i-nearBefore)
	window := s.text[from:i]
	s.steps += len(window)
	for k := len(window) - 1; k >= 0 && (window[k] < '0' || window[k] > '9'); k-- {
		if window[k] >= 0x80 {
			for _, word := range foreign() {
				if at := bytes.LastIndex(window, []byte(word)); at >= 0 {
					return from + at
				}
			}
			break
		}
	}
	return farAway
}

// stop reports whether the dot at i ends a sentence: it does not in "no. 5" and "nr. 5".
func (s *scan) stop(i int) bool { return s.at(i+1) == ' ' && s.at(i-2)|0x20 != 'n' }

// linked reports whether a word that ends at from still speaks of the number at i:
// there is no other number and no end of a sentence in between. Weak words must
// stand closer still.
func (s *scan) linked(from, i int, weak bool) bool {
	s.steps += i - from
	for k := from; k < i; k++ {
		switch c := s.text[k]; c {
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '!', '?':
			return false
		case '.':
			if s.stop(k) && (weak || k > from) { // the first may be that of "Tel."
				return false
			}
		case ';', '\n', '{', '=', '"':
			if weak {
				return false
			}
		default:
		}
	}
	return true
}
