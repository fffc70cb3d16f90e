package jinja

import (
	"fmt"
	"strings"
	"time"
)

// strftime formats a naive local time as Python does on Linux, in the C locale: a
// time zone prints as nothing.
func strftime(t time.Time, format string) (string, error) {
	if strings.Contains(format, "\x00") {
		return "", raise(valueError, "embedded null character")
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		d, n := readDirective(format[i+1:])
		if n == 0 {
			// A lone % at the end, or with modifiers only, stays.
			b.WriteString(format[i:])
			break
		}
		s, ok := d.format(t)
		if !ok {
			s = format[i : i+1+n]
		}
		b.WriteString(s)
		i += n
	}
	return b.String(), nil
}

// directive is one conversion: %[flags][width][E or O]letter.
type directive struct {
	letter byte
	pad    byte // '-', '_', '0' or 0 for the letter's own
	upper  bool // ^
	swap   bool // #
	width  int
}

// readDirective reads what follows a %, and returns its length, 0 if it is cut.
func readDirective(s string) (directive, int) {
	var d directive
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '-' || c == '_' || c == '0' && d.width == 0:
			d.pad = c
		case c == '^':
			d.upper = true
		case c == '#':
			d.swap = true
		case isDigit(c):
			const maxWidth = 1000
			d.width = min(d.width*10+int(c-'0'), maxWidth)
		case (c == 'E' || c == 'O') && i+1 < len(s):
		default:
			d.letter = c
			return d, i + 1
		}
	}
	return d, 0
}

// format returns the text of the directive; ok is false if there is no such.
func (d directive) format(t time.Time) (text string, ok bool) {
	switch d.letter {
	case 'a', 'A', 'b', 'h', 'B', 'p', 'P', 'Z', 'z':
		return d.finish(d.name(t), ' '), true
	case 'n':
		return d.finish("\n", ' '), true
	case 't':
		return d.finish("\t", ' '), true
	case '%':
		return d.finish("%", ' '), true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'c', 'x', 'X', 'D', 'F', 'T', 'R', 'r', '+':
		composite := map[byte]string{
			'c': "%a %b %e %H:%M:%S %Y", 'x': "%m/%d/%y", 'X': "%H:%M:%S", 'D': "%m/%d/%y", 'F': "%Y-%m-%d",
			'T': "%H:%M:%S", 'R': "%H:%M", 'r': "%I:%M:%S %p", '+': "%a %b %e %H:%M:%S  %Y",
		}[d.letter]
		s, err := strftime(t, composite)
		return d.finish(s, ' '), err == nil
	}
	n, width, pad, ok := d.number(t)
	if !ok {
		return "", false
	}
	switch d.pad {
	case '-':
		return d.finish(fmt.Sprint(n), '0'), true
	case '_':
		pad = ' '
	case '0':
		pad = '0'
	}
	if d.width > 0 {
		width = d.width
		d.width = 0
	}
	s := fmt.Sprint(n)
	for len(s) < width {
		s = string(pad) + s
	}
	return s, true
}

// finish applies case and width.
func (d directive) finish(s string, pad byte) string {
	if d.upper {
		s = strings.ToUpper(s)
	}
	if d.pad == '0' {
		pad = '0'
	}
	if d.pad == '-' {
		return s
	}
	for len(s) < d.width {
		s = string(pad) + s
	}
	return s
}

func (d directive) name(t time.Time) string {
	hour := "AM"
	if t.Hour() >= 12 {
		hour = "PM"
	}
	const short = 3
	var s string
	switch d.letter {
	case 'a':
		s = t.Weekday().String()[:short]
	case 'A':
		s = t.Weekday().String()
	case 'b', 'h':
		s = t.Month().String()[:short]
	case 'B':
		s = t.Month().String()
	case 'p':
		if d.swap {
			return strings.ToLower(hour)
		}
		return hour
	case 'P':
		return strings.ToLower(hour)
	}
	if d.swap {
		s = strings.ToUpper(s)
	}
	return s
}

// number returns the value of a numeric directive, its width and its padding.
func (d directive) number(t time.Time) (n, width int, pad byte, ok bool) {
	isoYear, isoWeek := t.ISOWeek()
	hour12 := (t.Hour()+11)%12 + 1
	weekday := int(t.Weekday())
	switch d.letter {
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
