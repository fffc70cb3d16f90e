package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// strftime formats a naive local time as Python does with the GNU C library, in
// the C locale: a time zone prints as nothing. Conversions with a width, with E or
// O or with several flags depend on the library's version, so they are refused.
func strftime(t time.Time, format string) (string, error) {
	if strings.Contains(format, "\x00") {
		return "", raise(valueError, "embedded null character")
	}
	if !utf8.ValidString(format) {
		return "", errSurrogate()
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		if i++; i >= len(format) {
			b.WriteByte('%') // a lone % at the end stays
			break
		}
		var flag byte
		if strings.IndexByte("-_0^#", format[i]) >= 0 {
			flag = format[i]
			if i++; i >= len(format) {
				return "", unsupported("strftime format")
			}
		}
		s, ok := strftimeOne(t, format[i], flag)
		if !ok {
			return "", unsupported("strftime format")
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// strftimeOne is one conversion; ok is false if it is not known exactly.
func strftimeOne(t time.Time, letter, flag byte) (text string, ok bool) {
	switch letter {
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/int(time.Microsecond)), flag == 0
	case 'Z', 'z':
		return "", flag == 0
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case '%':
		return "%", true
	case 'a', 'A', 'b', 'h', 'B', 'p':
		return strftimeName(t, letter, flag), true
	case 'P':
		return strings.ToLower(strftimeName(t, 'p', 0)), flag != '^'
	case 'c', 'x', 'X', 'D', 'F', 'T', 'R', 'r':
		layouts := map[byte]string{
			'c': "%a %b %e %H:%M:%S %Y", 'x': "%m/%d/%y", 'X': "%H:%M:%S", 'D': "%m/%d/%y", 'F': "%Y-%m-%d",
			'T': "%H:%M:%S", 'R': "%H:%M", 'r': "%I:%M:%S %p",
		}
		s, err := strftime(t, layouts[letter])
		if flag == '^' {
			s = strings.ToUpper(s)
		}
		return s, err == nil
	}
	n, width, pad, ok := strftimeNumber(t, letter)
	if !ok {
		known := flag == 0 && letter != '+' && letter != 'E' && letter != 'O' && !isDigit(letter) && letter < utf8.RuneSelf
		return "%" + string(letter), known // no conversion: stays as it is
	}
	switch flag {
	case '-':
		width = 1
	case '_':
		pad = ' '
	case '0':
		pad = '0'
	}
	s := strconv.Itoa(n)
	return strings.Repeat(string(pad), max(0, width-len(s))) + s, true
}

func strftimeName(t time.Time, letter, flag byte) string {
	const short = 3
	var s string
	switch letter {
	case 'a':
		s = t.Weekday().String()[:short]
	case 'A':
		s = t.Weekday().String()
	case 'b', 'h':
		s = t.Month().String()[:short]
	case 'B':
		s = t.Month().String()
	default:
		s = "AM"
		if t.Hour() >= 12 {
			s = "PM"
		}
		if flag == '#' {
			return strings.ToLower(s)
		}
	}
	if flag == '^' || flag == '#' {
		return strings.ToUpper(s)
	}
	return s
}

// strftimeNumber returns the value of a numeric conversion, its width and its
// padding.
func strftimeNumber(t time.Time, letter byte) (n, width int, pad byte, ok bool) {
	isoYear, isoWeek := t.ISOWeek()
	hour12 := (t.Hour()+11)%12 + 1
	weekday := int(t.Weekday())
	switch letter {
	case 'd':
		return t.Day(), 2, '0', true
	case 'e':
		return t.Day(), 2, ' ', true
	case 'm':
		return int(t.Month()), 2, '0', true
	case 'y':
		return t.Year() % 100, 2, '0', true
	case 'Y':
		return t.Year(), 1, '0', true
	case 'C':
		return t.Year() / 100, 2, '0', true
	case 'G':
		return isoYear, 1, '0', true
	case 'g':
		return isoYear % 100, 2, '0', true
	case 'V':
		return isoWeek, 2, '0', true
	case 'H':
		return t.Hour(), 2, '0', true
	case 'k':
		return t.Hour(), 2, ' ', true
	case 'I':
		return hour12, 2, '0', true
	case 'l':
		return hour12, 2, ' ', true
	case 'M':
		return t.Minute(), 2, '0', true
	case 'S':
		return t.Second(), 2, '0', true
	case 'j':
		return t.YearDay(), 3, '0', true
	case 'u':
		return (weekday+6)%7 + 1, 1, '0', true
	case 'w':
		return weekday, 1, '0', true
	case 'U':
		return (t.YearDay() + 6 - weekday) / 7, 2, '0', true
	case 'W':
		return (t.YearDay() + 6 - (weekday+6)%7) / 7, 2, '0', true
	case 's':
		return int(t.Unix()), 1, '0', true
	default:
		return 0, 0, 0, false
	}
}
